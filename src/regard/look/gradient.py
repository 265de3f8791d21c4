"""Gradient x attention: which weights an answer rests on, to first order.

Generic Attention-model Explainability for Interpreting Bi-Modal and Encoder-Decoder Transformers (Chefer, Gur and Wolf,
2021), https://arxiv.org/abs/2103.15679, equation 5
    relevance = mean over heads of (A * dy/dA)+
with y any number that is read from the output: a logit, a log-probability, a loss. A weight alone says what was looked
at; times its slope, what that did to this answer, and for which answer. ``signed`` is the product before its negative
part is cut off, head by head. Where y is linear in a row of A, that row's products sum to what the row gave to y.

It does not tell what a larger change would do: the slope is that of the answer as it stands, where a softmax that is
sure of itself hardly moves. That rows sum to 1 is not kept: a weight is moved alone.

Differs from the paper: relevance is that of each layer for itself. It is not carried on from layer to layer (equations
6 to 11), which the product of all layers' maps is for (``look.rollout``).

Of windows (Swin) each has a map of its own, as it has weights, and ``joined_map`` makes them one of the image.

Shapes: b batch (of windows, all of an image after each other), h heads, q rows, k columns.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.nn.axis import Axis
from regard.nn.tap import listen

from . import windows
from .maps import Map, attention_name, map_of_records, matching_taps

T = TypeVar("T")

EQUATION = "E = mean_h (A ⊙ ∂y/∂A)⁺"
OF_ONE = "E_h = A_h ⊙ ∂y/∂A_h"  # with its sign
LIMIT = "It does not show the effect of larger changes: it is the local slope, for one weight at a time."


@dataclass(frozen=True, eq=False)
class Graded:
    """An attention map and the gradient of the answer with respect to its weights."""

    found: Map
    slope: Tensor  # (b, h, q, k): dy/dA

    @property
    def signed(self) -> Tensor:
        """Weight times gradient, (b, h, q, k): below 0 where the weight lowers the answer's score."""
        return self.found.weights * self.slope

    @property
    def relevance(self) -> Tensor:
        """Mean over heads of the positive part of weight times gradient, (b, q, k)."""
        return self.signed.clamp(min=0).mean(1)


def joined_gradient(one: Graded) -> Graded:
    """Join the maps of windows into one map of the whole image; weights and gradients across windows are 0."""
    slope = windows.joined_map(replace(one.found, weights=one.slope))
    return Graded(windows.joined_map(one.found), slope.weights)


def graded(
    net: nn.Module,
    pattern: str,
    run: Callable[[], T],
    read: Callable[[T], Tensor],
    *,
    table: Mapping[str, tuple[str, str]],
    axes: Mapping[str, Axis],
) -> dict[str, list[Graded]]:
    """Weights and gradients of every attention that matches the pattern and has weights, each call in order. The
    gradient is that of the number that ``read`` takes from the output of ``run``, one per row of a batch. Frozen
    parameters are allowed; dropout must be off (``net.eval()``).
    """
    taps = [tap for tap, kind in matching_taps(net, pattern).items() if kind == "weights"]
    if not taps:
        raise InputError("the gradient needs attention weights, which this mixer does not have", got=pattern)
    found = {}
    for tap, passed in sloped(net, taps, lambda: read(run())).at.items():
        weights, slopes = (
            map_of_records(attention_name(tap), records, "weights", table=table, axes=axes)
            for records in ([one.value for one in passed], [one.slope for one in passed])
        )
        found[attention_name(tap)] = [Graded(one, slope.weights) for one, slope in zip(weights, slopes, strict=True)]
    return found


# Slopes at any taps -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Passed:
    """What passed a tap in one call, and the slope of the answer by it, of the same shape."""

    value: Tensor
    slope: Tensor


@dataclass(frozen=True, eq=False)
class Sloped:
    answer: Tensor
    at: dict[str, list[Passed]]  # by tap, in the order in which they were passed


def sloped(net: nn.Module, taps: Sequence[str], run: Callable[[], Tensor]) -> Sloped:
    """The slopes of what ``run`` returns, summed up, by all that passes the taps."""
    seen: dict[str, list[Tensor]] = {}

    def keep(tap: str, x: Tensor) -> None:
        seen.setdefault(tap, []).append(x if x.requires_grad else x.requires_grad_())

    with torch.inference_mode(False), torch.enable_grad(), ExitStack() as listening:
        for tap in taps:
            listening.enter_context(listen(net, tap, keep, records=True))
        answer = run()
        total = answer.sum()
    if not seen or not total.requires_grad:
        names = ", ".join(attention_name(tap) for tap in taps)
        raise InputError("the value read from the output does not depend on any of these attentions", got=names)
    heard = [x for records in seen.values() for x in records]
    slopes = iter(torch.autograd.grad(total, heard, allow_unused=True, materialize_grads=True))
    at = {tap: [Passed(x.detach(), next(slopes)) for x in records] for tap, records in seen.items()}
    return Sloped(answer.detach(), at)
