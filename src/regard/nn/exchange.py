"""Rows that go to other processes and come back, with gradients.

Every process of the default group takes part in each call, in the same order, also one that has no rows.

Shapes: t rows, d width, p processes, e experts of one process.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

Work = Callable[[Tensor, list[int]], Tensor]  # rows sorted by expert, and how many each expert gets


def abroad(work: Work, x: Tensor, counts: list[int], processes: int) -> Tensor:
    """(t, d), sorted by the experts of all processes -> (t, d): each row is worked on where its expert is."""
    sent = torch.tensor(counts, device=x.device).view(processes, -1)
    found = torch.empty_like(sent)  # (p, e): what each process sends to each expert here
    dist.all_to_all_single(found, sent)
    away, here = sent.sum(1).tolist(), found.sum(1).tolist()
    rows = swapped(exchanged(x, away, here), found)
    y = swapped(work(rows, found.sum(0).tolist()), found.T)
    return exchanged(y, here, away)


def swapped(x: Tensor, counts: Tensor) -> Tensor:
    """(t, d), pieces of the sizes (a, b) in rows -> the same pieces in columns"""
    pieces = x.split(counts.flatten().tolist())
    across = counts.shape[1]
    return torch.cat([piece for column in range(across) for piece in pieces[column::across]])


def exchanged(x: Tensor, sent: list[int], received: list[int]) -> Tensor:
    """(t, d), so many rows for each process -> so many rows of each process"""
    return Exchange.apply(x, sent, received)  # type: ignore[no-untyped-call]


def total(x: Tensor) -> Tensor:
    """Over all processes."""
    return Total.apply(x)  # type: ignore[no-untyped-call]


class Exchange(torch.autograd.Function):
    """The gradient goes the way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, sent: list[int], received: list[int]) -> Tensor:
        ctx.sent, ctx.received = sent, received
        return moved(x, sent, received)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None, None]:
        return moved(slope, ctx.received, ctx.sent), None, None


def moved(x: Tensor, sent: list[int], received: list[int]) -> Tensor:
    y = x.new_empty(sum(received), x.shape[1])
    dist.all_to_all_single(y, x.contiguous(), received, sent)
    return y


class Total(torch.autograd.Function):
    """The loss is the sum of what all processes make of it, so the gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return summed(x)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Tensor:
        return summed(slope)


def summed(x: Tensor) -> Tensor:
    y = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(y)
    return y
