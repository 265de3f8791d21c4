"""Reversible layers: what went in is computed from what came out, so that no activation need be kept.

The Reversible Residual Network (Gomez et al., 2017), https://arxiv.org/abs/1707.04585; as Reformer (Kitaev et al.,
2020), https://arxiv.org/abs/2001.04451, section 3, has it:
    y1 = x1 + attention(x2),   y2 = x2 + feed-forward(y1)
    x2 = y2 - feed-forward(y1), x1 = y1 - attention(x2)
In the backward pass each block finds its own inputs again, runs once more, and gives its gradients. Dropout is replayed
from its random state, and keys fall into the buckets that they fell into: a rounding must not move them.

Shapes: b batch, n positions, d width.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.forward_ad import unpack_dual
from torch.autograd.function import once_differentiable

from .attention import Mixer
from .cache import Cache
from .mask import ALL, Mask
from .recomputation import Moment, Notes, RowPart, compute_in_parts, slopes
from .residual import Branch
from .tap import Tap, listeners_here

HIDDEN = 1 << 22  # numbers of a feed-forward's inside that may stand in memory at once


@dataclass(frozen=True, eq=False)
class Streams:
    """The two streams of a reversible network, each (b, n, d)."""

    first: Tensor
    second: Tensor


class ReversibleBlock(nn.Module):
    """One layer of two streams: attention reads one and adds to the other, the feed-forward the other way round.

    Norms stand before both. The feed-forward takes some positions at a time: ``hidden`` is how wide it is inside.
    """

    def __init__(
        self, mixer: Mixer, ffn: nn.Module, norm: Callable[[], nn.Module], branch: Callable[[], Branch], hidden: int
    ) -> None:
        super().__init__()
        self.mixer, self.mixer_norm, self.mixer_branch = mixer, norm(), branch()
        self.ffn, self.ffn_norm, self.ffn_branch = ffn, norm(), branch()
        self.hidden, self.stream = hidden, Tap()

    def attend(self, x: Tensor, mask: Mask = ALL, cache: Cache | None = None) -> Tensor:
        """(b, n, d) -> (b, n, d)"""
        return self.mixer_branch(self.mixer(self.mixer_norm(x), mask=mask, cache=cache))

    def feed(self, x: Tensor) -> Tensor:
        """(b, n, d) -> (b, n, d)"""
        size = max(HIDDEN // (len(x) * self.hidden), 1) if len(x) else x.shape[1]

        def run(x: Tensor) -> Tensor:
            return self.ffn_branch(self.ffn(self.ffn_norm(x)))

        if x.shape[1] <= size:
            return run(x)
        rows = [slice(top, min(top + size, x.shape[1])) for top in range(0, x.shape[1], size)]
        return compute_in_parts([RowPart(some, (some,), run) for some in rows], x)

    def forward(self, x: Streams, *, mask: Mask = ALL, cache: Cache | None = None) -> Streams:
        first = x.first + self.attend(x.second, mask, cache)
        return Streams(first, self.stream(x.second + self.feed(first)))

    def inverse(self, y: Streams, *, mask: Mask = ALL) -> Streams:
        second = y.second - self.feed(y.first)
        return Streams(y.first - self.attend(second, mask), second)


def run_reversible(blocks: Sequence[nn.Module], x: Streams, *, mask: Mask = ALL, cache: Cache | None = None) -> Streams:
    """Run all reversible blocks. In training only the final output is kept, unless a listener is active."""
    layers = [block for block in blocks if isinstance(block, ReversibleBlock)]
    parameters = [p for layer in layers for p in layer.parameters()]
    learning = torch.is_grad_enabled() and any(p.requires_grad for p in (*parameters, x.first, x.second))
    if not layers or not learning or cache is not None or followed(layers, x):
        for layer in layers:
            x = layer(x, mask=mask, cache=cache)
        return x
    distinct = list({id(p): p for p in parameters if p.requires_grad}.values())
    return Streams(*Reversed.apply(layers, mask, x.first, x.second, *distinct))  # type: ignore[no-untyped-call]


def followed(layers: Sequence[nn.Module], x: Streams) -> bool:
    """Whether something follows every step by itself: a compiler, a transform, a forward derivative, a listener."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return True
    if any(unpack_dual(part).tangent is not None for part in (x.first, x.second)):
        return True
    heard = listeners_here()
    return bool(heard) and any(module in heard for layer in layers for module in layer.modules())


@dataclass(frozen=True, eq=False)
class BlockState:
    """What one block needs to run again, besides its input."""

    attending: Moment
    feeding: Moment
    notes: Notes


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, layers: Sequence[ReversibleBlock], mask: Mask, first: Tensor, second: Tensor, *weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.layers, ctx.mask, ctx.weights, ctx.memories = layers, mask, weights, []
        # What stays behind gets its place before there is anything large: in the midst of what large tensors gave back
        # it would keep the allocator from using that again, layer by layer.
        states = torch.get_rng_state().repeat(2 * len(layers), 1)
        for layer, (one, two) in zip(layers, states.unflatten(0, (-1, 2)), strict=True):
            notes, attending = Notes(), at(second, one)
            with notes.written():
                first = first + layer.attend(second, mask)
            feeding = at(second, two)
            second = second + layer.feed(first)
            ctx.memories.append(BlockState(attending, feeding, notes))
        ctx.save_for_backward(first, second)
        return first, second

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_first: Tensor, of_second: Tensor) -> tuple[Any, ...]:
        first, second = ctx.saved_tensors
        found = {id(p): torch.zeros_like(p) for p in ctx.weights}
        for layer, memory in zip(reversed(ctx.layers), reversed(ctx.memories), strict=True):
            with then(memory.feeding):
                said, slope = again(layer, layer.feed, first, of_second, found)
            second, of_first = second - said, of_first + slope
            with then(memory.attending), memory.notes.again():
                said, slope = again(layer, partial(layer.attend, mask=ctx.mask), second, of_first, found)
            first, of_second = first - said, of_second + slope
            del said, slope
        return None, None, of_first, of_second, *(found[id(p)] for p in ctx.weights)


def at(x: Tensor, place: Tensor) -> Moment:
    """This moment, whose random state is kept at a given place."""
    moment = Moment(x)
    moment.random = place.copy_(moment.random)
    return moment


@contextmanager
def then(moment: Moment) -> Iterator[None]:
    """That moment again. A random state is read from the beginning of its memory, so it needs one of its own."""
    place, moment.random = moment.random, moment.random.clone()
    try:
        with moment.again():
            yield
    finally:
        moment.random = place


def again(
    layer: nn.Module, run: Callable[[Tensor], Tensor], x: Tensor, slope: Tensor, found: dict[int, Tensor]
) -> tuple[Tensor, Tensor]:
    """Run one half of a block again: its output and the gradient of its input; gradients of weights are accumulated."""
    weights = [p for p in layer.parameters() if p.requires_grad]
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        y = run(x)
    of_x, *of_weights = slopes(y, (x, *weights), slope)
    for weight, part in zip(weights, of_weights, strict=True):
        if part is not None:
            found[id(weight)] += part
    return y.detach(), torch.zeros_like(x) if of_x is None else of_x
