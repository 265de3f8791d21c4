"""A small translator learns, against nn.Transformer in a plain loop: python -m benchmarks.training [--rounds 9]

How the C library hands out memory is settled once for a process, so each contender has a process of its own, and they
take turns. On a busy machine trust the time of the processor. tests/parity checks that both compute the same.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from regard.cli.memory import tune

from .measure import Result, compare

VOCAB, DIM, DEPTH, HEADS, HIDDEN = 8000, 128, 4, 4, 256
SENTENCES, WORDS = 128, 16  # of the source, and as many of the target
STEPS = 3  # in one turn
BATCHES = 4  # of sentences of many lengths


@dataclass(frozen=True)
class Contender:
    name: str
    ours: bool
    kept: bool = False  # the memory: what `regard train` does to the process
    within: float = 0.1  # dropout on attention weights and in the feed-forward, as nn.Transformer has it
    ragged: bool = False  # sentences of many lengths; ours puts those of like length together


PLAIN = Contender("nn.Transformer, plain loop", ours=False)
TUNED = Contender("nn.Transformer, memory kept", ours=False, kept=True)
OURS = Contender("regard", ours=True, kept=True)
PAPER = Contender("regard, dropout only where the paper has it", ours=True, kept=True, within=0.0)
UNTUNED = Contender("regard, memory not kept", ours=True)
ALL = (PLAIN, TUNED, UNTUNED, OURS, PAPER)
RAGGED = tuple(replace(one, ragged=True) for one in (PLAIN, TUNED, OURS, PAPER))


def work(contender: Contender, threads: int) -> None:
    """What a contender's process does: some steps for every line that it reads."""
    if contender.kept:
        tune()
    import torch

    from regard.models.transformer import Config

    from .translators import even, our_step, plain_step, ragged

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    sizes = Config(
        vocab=VOCAB,
        dim=DIM,
        depth=DEPTH,
        heads=HEADS,
        hidden=HIDDEN,
        dropout=0.1,
        attention_dropout=contender.within,
        hidden_dropout=contender.within,
    )
    batches = even(SENTENCES, WORDS, VOCAB)
    if contender.ragged:
        batches = ragged(BATCHES, SENTENCES, VOCAB, by_length=contender.ours)
    step = (our_step if contender.ours else plain_step)(sizes, batches)
    for _ in batches * 2:
        step()
    print("ready", flush=True)
    for _ in sys.stdin:
        wall, processor = time.perf_counter(), time.process_time()
        words = sum(step() for _ in range(len(batches) if contender.ragged else STEPS))
        spent = {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}
        spent = {clock: 1000 * seconds / words for clock, seconds in spent.items()}
        print(json.dumps(spent | {"megabytes": resident()}), flush=True)


def resident() -> float:
    """What this process holds now, in MB."""
    return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0]) / 1024


class Process:
    def __init__(self, contender: Contender, threads: int) -> None:
        words = [sys.executable, "-m", "benchmarks.training", "--threads", str(threads)]
        words += ["--work", json.dumps(asdict(contender))]
        environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.read()

    def read(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a contender stopped with exit code {self.process.wait()}")
        return line

    def turn(self) -> dict[str, float]:
        assert self.process.stdin is not None
        print("go", file=self.process.stdin, flush=True)
        spent: dict[str, float] = json.loads(self.read())
        return spent

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def race(
    contenders: Sequence[Contender], what: str, rounds: int, threads: int
) -> tuple[list[Result], dict[str, float]]:
    """Times of a thousand words, against the plain loop and one whose memory is kept too; and who holds how much."""
    load = os.getloadavg()[0]
    processes = {contender.name: Process(contender, threads) for contender in contenders}
    turns: dict[str, list[dict[str, float]]] = {name: [] for name in processes}
    for i in range(rounds):
        for name in list(turns) if i % 2 == 0 else reversed(turns):
            turns[name].append(processes[name].turn())
    for process in processes.values():
        process.close()
    results = []
    for clock in ("processor", "wall"):
        times = {name: [turn[clock] for turn in own] for name, own in turns.items()}
        results.append(compare(f"{what}, 1000 words, {clock} time", times, load=load, threads=threads))
    same = {name: [turn["processor"] for turn in turns[name]] for name in (TUNED.name, OURS.name, PAPER.name)}
    results.append(compare("the same, memory kept on both sides, processor time", same, load=load, threads=threads))
    return results, {name: own[-1]["megabytes"] for name, own in turns.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--work", type=json.loads, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.work is not None:
        work(Contender(**chosen.work), chosen.threads)
        return
    model = f"translator {DEPTH}+{DEPTH} x {DIM}"
    found = {
        "even": race(ALL, f"{model}, {SENTENCES} x ({WORDS}+{WORDS}) words", chosen.rounds, chosen.threads),
        "ragged": race(RAGGED, f"{model}, sentences of many lengths", chosen.rounds, chosen.threads),
    }
    if chosen.json:
        told = {kind: {"results": [x.data() for x in some], "megabytes": held} for kind, (some, held) in found.items()}
        print(json.dumps(told, indent=2))
        return
    for results, megabytes in found.values():
        for result in results:
            print("\n".join(result.lines()) + "\n")
        print("held in memory: " + ", ".join(f"{name} {size:.0f} MB" for name, size in megabytes.items()) + "\n")


if __name__ == "__main__":
    main()
