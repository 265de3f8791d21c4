"""A modality in one file, as a user could write it: points on a circle, a family of nets that make points, two goals.

``circle`` is a GAN of two parts, of which the generator is kept; ``walk`` fills its own data as it learns.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batches import Batches
from regard.data.order import Order
from regard.data.replay import Replay
from regard.modalities.inputs import ModelView
from regard.modalities.run_parts import DataKind, Goal, OpenedData, ReadingLimits, RunPlan, SplitBatches, Template
from regard.models.family import Family, no_verbs
from regard.tasks.task import Loss, Task, Term
from regard.train.optimizers import Adam
from regard.train.runfile import setting
from regard.train.schedules import ConstantSchedule
from regard.train.settings import Train

HERE = "tests.train.toymodality"


@dataclass(frozen=True, kw_only=True)
class Config:
    dim: int = 16


class Maker(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.up, self.down = nn.Linear(2, config.dim), nn.Linear(config.dim, 2)

    def forward(self, x: Tensor) -> Tensor:
        """(b, 2) -> (b, 2)"""
        return self.down(self.up(x).relu())


FAMILY = Family(
    config=Config,
    net=Maker,
    presets={"maker-tiny": Config()},
    axes={},
    paper="none",
    link="",
    takes=("points",),
    tasks=("circle", "walk"),
    verbs=no_verbs,
    example=Config,
)


class Ring:
    """Rows: points on a circle."""

    faults: Sequence[Any] = ()
    lengths = None

    def __init__(self, count: int, first: int) -> None:
        self.count, self.first = count, first

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> tuple[float, float]:
        angle = (self.first + i) * 2.399963
        return float(np.cos(angle)), float(np.sin(angle))

    def where(self, i: int) -> str:
        return f"point {i}"


@dataclass(frozen=True)
class RingData:
    """Points on a circle."""

    kind: Literal["ring"] = "ring"
    rows: int = setting(64, "how many to train on")
    batch: int = setting(16, "points of a batch")


def open_ring(plan: RunPlan) -> OpenedData:
    return OpenedData({"train": Ring(plan.data.rows, 0), "held_out": Ring(16, 1000)})


SOURCE = DataKind(RingData, ("points",), open_ring)


@dataclass(frozen=True, eq=False)
class Points:
    points: Tensor  # (b, 2)


def together(rows: Sequence[tuple[float, float]]) -> Points:
    return Points(torch.tensor(rows))


def ring_batches(plan: RunPlan, opened: OpenedData, reading: ReadingLimits) -> SplitBatches:
    splits = {}
    for split, rows in opened.splits.items():
        order = Order(len(rows), rows=plan.data.batch, seed=plan.seed, shuffle=split == "train")
        splits[split] = Batches(rows, order, together)
    return SplitBatches(splits)


@dataclass(frozen=True)
class CircleTask:
    """Make points that look like the real ones."""

    kind: Literal["circle"] = "circle"


class Adversaries(Task):
    def __init__(self, generator: nn.Module, frozen: nn.Module | None) -> None:
        judge = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
        self.parts = {"generator": generator, "discriminator": judge}
        self.frozen = frozen

    goal = "distance"

    def counts(self, batch: Points) -> Mapping[str, float]:
        return {"points": float(len(batch.points))}

    def losses(self, batch: Points, step: int) -> Iterator[Loss]:
        generator, judge = self.parts["generator"], self.parts["discriminator"]
        noise = torch.randn_like(batch.points)
        if self.frozen is not None:
            noise = self.frozen(noise).detach()
        judged = F.softplus(-judge(batch.points)).sum() + F.softplus(judge(generator(noise).detach())).sum()
        yield Loss("discriminator", {"loss": Term(judged, "points")})
        yield Loss("generator", {"loss": Term(F.softplus(-judge(generator(noise))).sum(), "points")})

    def evaluate(self, batch: Points) -> Mapping[str, Tensor]:
        made = self.parts["generator"](batch.points)
        return {"distance": (made.norm(dim=-1) - 1).abs().sum(), "points": torch.tensor(len(made))}

    def metrics(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        return {"distance": float(sums["distance"] / sums["points"])}


def adversaries(plan: RunPlan, model: ModelView, sources: SplitBatches) -> Task:
    other = plan.given.get("encoder")
    return Adversaries(model.net, None if other is None else other.net)


TRAIN = Train(steps=12, evaluate=4, save=4, log=2)
CIRCLE = Goal(
    CircleTask,
    {"ring": f"{HERE}:ring_batches"},
    adversaries,
    {"circle": Template(CircleTask(), RingData(), TRAIN, Adam(rate=1e-2), ConstantSchedule(), {"name": "maker-tiny"})},
    parts=("generator", "discriminator"),
    kept="generator",
    given=("encoder",),
)


@dataclass(frozen=True)
class WalkTask:
    """Step towards the middle, from wherever one's own steps have led."""

    kind: Literal["walk"] = "walk"


@dataclass(frozen=True, eq=False)
class Steps:
    place: Tensor  # (b, 2)
    noise: Tensor  # (b, 2)


class Walk(Task):
    def __init__(self, net: nn.Module) -> None:
        self.parts = {"net": net}
        self.place = torch.ones(2)

    def gather(self, step: int, there: int) -> Sequence[Mapping[str, Any]]:
        """Where it is goes into its memory; then it takes a step, partly by chance."""
        rows = []
        for _ in range(4):
            noise = torch.randn(2)
            rows.append({"place": self.place.numpy().copy(), "noise": noise.numpy()})
            self.place = (self.place + 0.1 * self.parts["net"](self.place) + 0.1 * noise).clamp(-3, 3)
        return rows

    def counts(self, batch: Steps) -> Mapping[str, float]:
        return {"steps": float(len(batch.place))}

    def losses(self, batch: Steps, step: int) -> Iterator[Loss]:
        moved = batch.place + self.parts["net"](batch.place)
        yield Loss("net", {"loss": Term(moved.square().sum(), "steps")})

    def evaluate(self, batch: Points) -> Mapping[str, Tensor]:
        moved = batch.points + self.parts["net"](batch.points)
        return {"sum": moved.square().sum(), "points": torch.tensor(len(moved))}

    def metrics(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        return {"loss": float(sums["sum"] / sums["points"])}

    def state(self) -> dict[str, Tensor]:
        return {"place": self.place.clone()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.place = state["place"].clone()


def steps_of(rows: Mapping[str, Any]) -> Steps:
    return Steps(torch.from_numpy(rows["place"]), torch.from_numpy(rows["noise"]))


def walk_batches(plan: RunPlan, opened: OpenedData, reading: ReadingLimits) -> SplitBatches:
    """Nothing is read to learn from: the task fills it."""
    fields = {"place": ("float32", (2,)), "noise": ("float32", (2,))}
    memory: Any = Replay(fields, steps_of, batch=plan.data.batch, room=32, seed=plan.seed)
    still = ring_batches(plan, opened, reading).splits["held_out"]
    return SplitBatches({"train": memory, "held_out": still})


WALK = Goal(
    WalkTask,
    {"ring": f"{HERE}:walk_batches"},
    lambda plan, model, sources: Walk(model.net),
    {"walk": Template(WalkTask(), RingData(), TRAIN, Adam(rate=1e-2), ConstantSchedule(), {"name": "maker-tiny"})},
)
