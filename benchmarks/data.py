"""How soon a large file is ready, and in how much memory: python -m benchmarks.data [--rows 1000000] [--width 50]

Each measurement has its own process. A step in the middle of the epoch must come about as soon as the first one, and
memory must not grow with the width of the rows: only a few numbers for each row are held. On a busy machine trust the
time of the processor.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

BUDGET = 8192
STEPS = 100


def memory() -> float:
    """The most that this process ever held, in MB."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def write(path: Path, rows: int, width: int) -> None:
    """Two columns of about as many bytes each, of every length up to twice the width."""
    chance = random.Random(1)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyzäöüß", k=chance.randint(1, 9))) for _ in range(5000)]
    text = " ".join(chance.choices(words, k=1_000_000))
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(rows):
            size, start = chance.randint(2, 2 * width), chance.randrange(len(text) - 5 * width)
            other = max(2, size + chance.randint(-width // 4, width // 4))
            file.write(f"x{text[start : start + size]}\tx{text[start : start + other]}\n")


@dataclass(frozen=True)
class Row:
    ids: list[list[int]]


def measure(path: Path, share: float, workers: int) -> dict[str, float]:
    """Open the file, check all of it, and give the batch that comes after this share of an epoch."""
    begin = time.perf_counter()
    from tokenizers import Tokenizer, models, pre_tokenizers

    from regard.data.faults import check_fault_share
    from regard.data.loader import Loader
    from regard.data.order import Order
    from regard.data.tables import open_tsv

    class Data:
        def __init__(self) -> None:
            self.table = open_tsv(path, [1, 2])
            check_fault_share(self.table.faults, len(self.table) + len(self.table.faults))
            self.opened = time.perf_counter()
            self.order = Order(len(self.table), self.table.lengths, budget=BUDGET, seed=1)
            self.tokenizer = Tokenizer(models.BPE({chr(i): i for i in range(512)}, []))
            self.tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()

        def __len__(self) -> int:
            return len(self.order)

        def rows(self, step: int) -> Sequence[int]:
            return self.order.rows(step).tolist()

        def collate(self, rows: Sequence[int], step: int) -> Row:
            texts = [text for row in rows for text in self.table[row]]
            return Row([encoding.ids for encoding in self.tokenizer.encode_batch(texts)])

    imported, bare = time.perf_counter(), memory()
    data = Data()
    ordered = time.perf_counter()
    first = int(share * len(data))
    loading = iter(Loader(data, range(first, first + STEPS), workers=workers))
    next(loading)
    ready, used = time.perf_counter(), time.process_time()
    for _ in loading:
        pass
    return {
        "import s": imported - begin,
        "open and check s": data.opened - imported,
        "order s": ordered - data.opened,
        "first batch s": ready - ordered,
        "all s": ready - begin,
        "all, processor s": used,
        "batch ms": 1000 * (time.perf_counter() - ready) / (STEPS - 1),
        "padding": data.order.waste(),
        "import MB": bare,
        "most MB": memory(),
        "bytes a row": (memory() - bare) * 2**20 / len(data.table),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.data", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=50, help="bytes of a column, on average")
    parser.add_argument("--measure", nargs=3, metavar=("FILE", "SHARE", "WORKERS"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        path, share, workers = chosen.measure
        print(json.dumps(measure(Path(path), float(share), int(workers))))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.tsv"
        write(path, chosen.rows, chosen.width)
        print(f"{chosen.rows} rows, {path.stat().st_size / 1e6:.0f} MB")
        for share, workers in ((0.0, 0), (0.9, 0), (0.9, 2)):
            command = [sys.executable, "-m", "benchmarks.data", "--measure", str(path), str(share), str(workers)]
            found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
            print(f"  from row {int(share * chosen.rows):,}, {workers} workers")
            print("\n".join(f"    {name:<18}{value:10.2f}" for name, value in found.items()), flush=True)


if __name__ == "__main__":
    main()
