"""What the engine costs over a bare PyTorch loop on the same model and batches: python -m benchmarks.engine

Both train a small GPT on the same ragged rows, with the same fused AdamW and clipping, in one process, in turns.
"""

import argparse
import tempfile
from pathlib import Path

import torch
from torch import nn

from regard.data.loader import Loader
from regard.data.order import Order
from regard.modalities.text.tasks.language import Language, NextTokenBatch, next_tokens
from regard.models.gpt import GPT, Config
from regard.train.distribution import ALONE
from regard.train.engine import Engine
from regard.train.optimizers import AdamW
from regard.train.progress import Pace, SilentReporter
from regard.train.schedules import ConstantSchedule
from regard.train.settings import Train

from .measure import race

STEPS = 20


class Numbers:
    """Rows of random numbers of many lengths."""

    def __init__(self, vocab: int, budget: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.lengths = torch.randint(20, 100, (2000,), generator=generator).numpy()
        self.ids = torch.randint(vocab, (2000, 100), generator=generator).tolist()
        self.order = Order(2000, self.lengths, budget=budget)

    def __len__(self) -> int:
        return len(self.order)

    def rows(self, step: int) -> list[int]:
        return self.order.rows(step).tolist()

    def collate(self, rows: list[int], step: int) -> NextTokenBatch:
        return next_tokens([self.ids[row][: self.lengths[row]] for row in rows])

    def where(self, rows: list[int]) -> str:
        return f"rows {rows[:3]}"


def made(dim: int) -> GPT:
    torch.manual_seed(0)
    return GPT(Config(vocab=1000, length=128, dim=dim, depth=4, heads=4, hidden=4 * dim))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--budget", type=int, default=2048)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    data = Numbers(1000, chosen.budget)
    net = made(chosen.dim)
    task = Language(net, None)  # type: ignore[arg-type]
    optimizer = torch.optim.AdamW(net.parameters(), lr=5e-4, fused=True)
    place = {"bare loop": 0, "engine": 0}

    def bare() -> None:
        net.train()
        for step in range(place["bare loop"], place["bare loop"] + STEPS):
            batch = data.collate(data.rows(step), step)
            found = task.foretell(batch, 0.0)
            loss = found.sum / (batch.wanted.numel() if batch.keys is None else int(batch.keys.sum()))
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            float(loss.detach())
        place["bare loop"] += STEPS

    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(
            Language(made(chosen.dim), None),  # type: ignore[arg-type]
            data,
            None,
            settings=Train(steps=1_000_000, save=1_000_000, log=10),
            optimizer={"net": AdamW()},
            schedule=ConstantSchedule(),
            seed=0,
            folder=Path(folder),
            world=ALONE,
            reporter=SilentReporter(),
        )

        def ours() -> None:
            pace = Pace(1_000_000)
            for step, pieces in Loader(data, range(place["engine"], place["engine"] + STEPS)):
                update = engine.update(step, pieces)
                engine.state.step = step + 1
                engine.collect(update)
                pace.tick(1.0)
                if engine.state.step % 10 == 0:
                    engine.log(pace)
                engine.reporter.update(engine.status(update, pace))
            place["engine"] += STEPS

        contenders = {"bare loop": bare, "engine": ours}
        result = race(f"{STEPS} steps of a small GPT", contenders, rounds=chosen.rounds, threads=1)
        print("\n".join(result.lines()))


if __name__ == "__main__":
    main()
