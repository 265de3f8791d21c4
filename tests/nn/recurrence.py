"""Recurrent layers of ours and of PyTorch, with the same weights."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from regard.nn.recurrent import (
    CELLS,
    Recurrent,
    State,
)
from regard.nn.tap import capture

THEIRS = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


NAMES = {"rnn": ("h",), "gru": ("h",), "gru_before": ("h",), "lstm": ("h", "c")}


PATHS = ("fused", "walk")


close = partial(torch.testing.assert_close, rtol=1e-10, atol=1e-10)


def build(name: str, depth: int = 1, *, bidirectional: bool = False, dropout: float = 0.0) -> Recurrent:
    return Recurrent(CELLS[name], 3, 4, depth, bidirectional=bidirectional, dropout=dropout)


def on(path: str, net: Recurrent) -> AbstractContextManager[object]:
    """Whoever listens inside a cell makes the layer walk step by step."""
    return capture(net, "*.h") if path == "walk" else nullcontext()


@contextmanager
def forbidden(what: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recurrent, what, lambda *_: pytest.fail(f"Recurrent.{what} was called"))
        yield


def padded(rows: list[Tensor], side: str) -> tuple[Tensor, Tensor]:
    """Sequences (n_i, d) of unequal lengths -> (b, n, d) with junk at padding, and keys."""
    n = max(len(row) for row in rows)
    x, keys = torch.full((len(rows), n, rows[0].shape[-1]), 1e3), torch.zeros(len(rows), n, dtype=torch.bool)
    for i, row in enumerate(rows):
        here = slice(0, len(row)) if side == "right" else slice(n - len(row), n)
        x[i, here], keys[i, here] = row, True
    return x, keys


def random_state(name: str, b: int, depth: int, width: int) -> State:
    return {part: torch.randn(b, depth, width) for part in NAMES[name]}


def score(outputs: list[Tensor], finals: list[Tensor]) -> Tensor:
    """One number that depends on everything, each place with its own weight."""
    flat = torch.cat([y.flatten() for y in (*outputs, *finals)])
    return (flat * torch.linspace(-1, 2, flat.numel()).cos()).sum()
