"""A task measured on all of some data."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from regard.data.rows import Data
from regard.tasks.task import Task

from .distribution import World
from .update import move_batch


@torch.no_grad()
def assessment(
    task: Task, data: Data, world: World, precision: Callable[[], AbstractContextManager[object]]
) -> tuple[dict[str, float], str]:
    """Batches are dealt to the processes. -> metrics, and a few examples"""
    sums: dict[str, Tensor] = {}
    shown = ""
    for part in task.parts.values():
        part.eval()
    for i in range(math.ceil(len(data) / world.size)):
        index = i * world.size + world.rank
        real = index < len(data)
        index = index if real else 0  # every process does the same work; what was not its own is not counted
        batch = move_batch(data.collate([int(row) for row in data.rows(index)], index), world.device)
        with precision():
            for name, value in task.evaluate(batch).items():
                sums[name] = sums.get(name, torch.zeros_like(value, dtype=torch.float64)) + value.double() * real
            shown = shown or task.show(batch)
    totals = {name: world.sum(sums[name]).cpu() for name in sorted(sums)}
    return task.metrics(totals), shown
