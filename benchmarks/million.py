"""A tsv of a million rows: seconds until the first step, and until the first step after a resume at row 900,000.

    python -m benchmarks.million [FOLDER]

The commands are those that a user types; the checkpoint at row 900,000 is written without training the steps before it.
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tokenizers import Tokenizer

ROWS = 1_000_000
RUN = """
folder = "{folder}/run"
[task]
kind = "translate"
[data]
kind = "pairs"
train = ["{folder}/pairs.tsv"]
budget = 4096
share = 0.001
[data.vocabulary]
file = "{folder}/tokenizer.json"
[model]
name = "transformer-small"
dim = 64
depth = 2
heads = 4
hidden = 128
[train]
steps = 1000000
evaluate = 1000000
save = 1000000
log = 1
threads = 1
"""


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "pairs.tsv").exists():
        write_rows(folder / "pairs.tsv")
    learn(folder)
    (folder / "run.toml").write_text(RUN.format(folder=folder))
    print("first step     ", until_first_step(["train", str(folder / "run.toml")]))
    move(folder / "run", 900_000)
    print("resumed, first ", until_first_step(["resume", str(folder / "run")]))


def write_rows(path: Path) -> None:
    chance = random.Random(0)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) for _ in range(5000)]
    with open(path, "w") as file:
        for _ in range(ROWS):
            count = chance.randint(3, 14)
            file.write(
                " ".join(chance.choices(words, k=count)) + "\t" + " ".join(chance.choices(words, k=count)) + "\n"
            )


def learn(folder: Path) -> None:
    from regard.modalities.text.vocabulary import Vocabulary

    with open(folder / "pairs.tsv") as file:
        lines = [next(file).replace("\t", " ") for _ in range(5000)]
    made: Tokenizer = Vocabulary("bpe", 4000).learn(lines).tokenizer
    made.save(str(folder / "tokenizer.json"))


def until_first_step(words: list[str]) -> str:
    """Start it as a user would, wait for the first step, and kill it."""
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "regard", *words, "--json"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        told = json.loads(line)
        if "step" in told and "loss" in told:
            took = time.monotonic() - began
            status = Path(f"/proc/{process.pid}/status").read_text()
            process.kill()
            process.wait()
            peak = int(status.partition("VmHWM:")[2].split()[0]) / 1024
            return f"{took:6.2f} s, step {told['step']}, peak {peak:.0f} MB"
    raise RuntimeError(f"it ended with {process.wait()}")


def move(folder: Path, row: int) -> None:
    """A checkpoint as it would be at this row."""
    from regard.run.training import engine_of, reopen_run
    from regard.train.distribution import ALONE
    from regard.train.progress import SilentReporter

    job = reopen_run(folder)
    engine = engine_of(job, ALONE, SilentReporter())
    data = job.sources.splits["train"]
    engine.state.step = int(len(data) * row / ROWS)
    engine.save()


if __name__ == "__main__":
    main()
