"""One step: what it is drawn from, and what it did."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor


@dataclass
class Update:
    """What one step did: sums over the whole batch, by term; norms of gradients."""

    step: int
    totals: dict[str, float]
    stop: bool

    def __post_init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.counts: dict[str, float] = {}  # that the sums are divided by: twice a batch's where a term came twice
        self.terms: dict[str, tuple[str, float]] = {}
        self.norms: dict[str, float] = {}

    def means(self) -> dict[str, float]:
        return {name: value / max(self.counts[name], 1.0) for name, value in self.sums.items()}

    def loss(self) -> float:
        """All terms together, by their weights."""
        return sum(self.terms[name][1] * value for name, value in self.means().items())


def gather(window: Mapping[str, float], update: Update) -> dict[str, float]:
    """The sums and counts since the last line of metrics, with one more step; norms are summed over steps."""
    found = dict(window)
    counted = {name: (value, update.counts[name]) for name, value in update.sums.items()}
    normed = {name: (norm, 1.0) for name, norm in update.norms.items()}
    if not any(
        name.rpartition(".")[2] == "loss" for name in update.sums
    ):  # a task of terms alone, none of them the loss
        normed["loss"] = (update.loss(), 1.0)
    for name, (value, count) in {**counted, **normed}.items():
        found[f"sum {name}"] = found.get(f"sum {name}", 0.0) + value
        found[f"count {name}"] = found.get(f"count {name}", 0.0) + count
    return found


def means(window: Mapping[str, float]) -> dict[str, float]:
    sums = {key.removeprefix("sum "): value for key, value in window.items() if key.startswith("sum ")}
    return {name: value / count for name, value in sums.items() if (count := window[f"count {name}"])}


def seed_step(seed: int, step: int, rank: int, *use: int) -> None:
    """All random numbers of a step are a function of these three, and of what they are for, where that is told."""
    numbers = np.random.SeedSequence([seed, step, rank, *use]).generate_state(3, np.uint64)
    # torch.manual_seed writes down its callers for every kind of device that is not here: up to a millisecond a step
    seed_torch = torch.manual_seed if torch.accelerator.is_available() else torch.default_generator.manual_seed
    seed_torch(int(numbers[0]) >> 1)
    random.seed(int(numbers[1]))
    np.random.seed(int(numbers[2]) & 0xFFFFFFFF)


def move_batch(batch: Any, device: torch.device) -> Any:
    """A dataclass of tensors on a device."""
    if isinstance(batch, Tensor):
        return batch.to(device)
    if is_dataclass(batch) and not isinstance(batch, type):
        return replace(batch, **{x.name: move_batch(getattr(batch, x.name), device) for x in fields(batch)})
    return batch
