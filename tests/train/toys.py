"""Small tasks that exercise the whole engine in milliseconds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.order import Order
from regard.modalities.text.tasks.language import Language, NextTokenBatch, next_tokens
from regard.models.gpt import GPT, Config
from regard.tasks.task import Loss, Task, Term
from regard.train.distribution import ALONE, World
from regard.train.engine import Engine
from regard.train.optimizers import Adam, AdamW
from regard.train.progress import SilentReporter
from regard.train.schedules import ConstantSchedule, CosineSchedule
from regard.train.settings import Train

VOCAB = 17


class Counting:
    """Ragged rows of numbers that count up from a random one: what comes next can be learned."""

    def __init__(self, count: int = 64, *, budget: int = 60, seed: int = 0, poison: int | None = None) -> None:
        numbers = np.random.default_rng(5)
        self.lengths = numbers.integers(3, 9, count)
        self.firsts = numbers.integers(0, VOCAB, count)
        self.order = Order(count, self.lengths, budget=budget, seed=seed)
        self.poison = poison

    def __len__(self) -> int:
        return len(self.order)

    def rows(self, step: int) -> Any:
        return self.order.rows(step)

    def collate(self, rows: Sequence[int], step: int) -> NextTokenBatch:
        return next_tokens([[(self.firsts[i] + j) % VOCAB for j in range(self.lengths[i])] for i in rows])

    def where(self, rows: Sequence[int]) -> str:
        return f"rows {list(rows)[:3]}"


def tiny_gpt(dropout: float = 0.0, seed: int = 3) -> GPT:
    torch.manual_seed(seed)
    sizes = {"vocab": VOCAB, "length": 16, "dim": 16, "depth": 2, "heads": 2, "hidden": 32}
    return GPT(Config(**sizes, dropout=dropout, attention_dropout=dropout, embedding_dropout=dropout))


@dataclass(frozen=True, eq=False)
class Points:
    real: Tensor  # (b, 2)
    noise: Tensor  # (b, 2)


class Ring:
    """Points on a circle, and noise to make them of."""

    def __len__(self) -> int:
        return 8

    def rows(self, step: int) -> Sequence[int]:
        return [step * 32 + i for i in range(32)]

    def collate(self, rows: Sequence[int], step: int) -> Points:
        angles = torch.tensor([float(row) * 2.399963 for row in rows])
        generator = torch.Generator().manual_seed(int(rows[0]))
        noise = torch.randn(len(rows), 2, generator=generator)
        return Points(torch.stack((angles.cos(), angles.sin()), -1), noise)

    def where(self, rows: Sequence[int]) -> str:
        return f"points {rows[0]} to {rows[-1]}"


class Adversaries(Task):
    """A GAN of two tiny nets: the discriminator steps before the generator's loss is made."""

    goal = "-spread"

    def __init__(self) -> None:
        torch.manual_seed(1)
        made = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
        judged = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
        self.parts = {"generator": made, "discriminator": judged}
        self.seen: list[tuple[str, float]] = []

    def counts(self, batch: Points) -> Mapping[str, float]:
        return {"points": float(len(batch.real))}

    def losses(self, batch: Points, step: int) -> Iterator[Loss]:
        generator, discriminator = self.parts["generator"], self.parts["discriminator"]
        self.seen.append(("discriminator", float(discriminator[0].weight.detach().sum())))
        fake = generator(batch.noise)  # not detached: the engine keeps its gradient from the generator
        judged = F.softplus(-discriminator(batch.real)).sum() + F.softplus(discriminator(fake)).sum()
        yield Loss("discriminator", {"loss": Term(judged, "points")})
        self.seen.append(("generator", float(discriminator[0].weight.detach().sum())))
        fooled = F.softplus(-discriminator(generator(batch.noise))).sum()
        yield Loss("generator", {"loss": Term(fooled, "points")})

    def evaluate(self, batch: Points) -> Mapping[str, Tensor]:
        return {
            "norm": self.parts["generator"](batch.noise).norm(dim=-1).sum(),
            "points": torch.tensor(len(batch.real)),
        }

    def metrics(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        return {"spread": float(sums["norm"] / sums["points"])}


def engine(
    folder: Path,
    task: Task | None = None,
    data: Any = None,
    *,
    world: World = ALONE,
    dropout: float = 0.0,
    evaluated: bool = True,
    seed: int = 0,
    moving: float | None = None,
    **changes: Any,
) -> Engine:
    folder.mkdir(parents=True, exist_ok=True)
    task = task or Language(tiny_gpt(dropout))
    settings = Train(**{"steps": 20, "log": 3, "evaluate": 7, "save": 5, "moving": moving, **changes})
    chosen = {name: AdamW(rate=3e-3) if name == "net" else Adam(rate=1e-2) for name in task.parts}
    data = data or Counting(seed=seed)
    held_out = (Ring() if isinstance(data, Ring) else Counting(24, budget=100)) if evaluated else None
    return Engine(
        task,
        data,
        held_out,
        settings=settings,
        optimizer=chosen,
        schedule={name: CosineSchedule(warmup=3) if name == "net" else ConstantSchedule() for name in task.parts},
        seed=seed,
        folder=folder,
        world=world,
        reporter=SilentReporter(),
    )
