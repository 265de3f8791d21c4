"""What if: a token that nobody sees, a head that is silent, a softmax that is warmer. The net answers as it would then.

Each is a listener at a tap, so that it serves every model, and every attention that has weights A:
    token        A'_ij = A_ij / (1 - A_ic) and A'_ic = 0          exactly as if key c were masked
    head         y'_h = factor * y_h, before the last projection
    temperature  A'_ij = A_ij^(1/T) / sum over j of A_ij^(1/T)    which is softmax(s / T) if A is softmax(s)
What mixes without weights (a Fourier transform, an MLP over positions) cannot be changed so, and is refused.

Shapes: b batch, h heads, q rows, k columns, f width of a head's values.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from torch import Tensor, nn

from regard.errors import InputError
from regard.nn.axis import Axis
from regard.nn.tap import Hear, listen

from .leaving import looking_at, unlooked
from .maps import matching, place


@dataclass(frozen=True)
class Token:
    """Crossed out: whatever looks along this axis looks past this position."""

    axis: str  # as the model names it: "tokens", "source", "target", "patches" ...
    position: int


@dataclass(frozen=True)
class Head:
    """What a head brings, times a factor: 0 is silence."""

    site: str  # the name of its attention, such as "blocks.0.mixer"
    head: int
    factor: float = 0.0


@dataclass(frozen=True)
class Temperature:
    """Above 1 a head looks at more, below at less; of one attention or, by a pattern, of several."""

    value: float
    site: str = "*"


Change = Token | Head | Temperature


@contextmanager
def changed(
    net: nn.Module, changes: Sequence[Change], table: Mapping[str, tuple[str, str]], axes: Mapping[str, Axis]
) -> Iterator[set[str]]:
    """Within, the net runs with these changes; ``table`` is the model file's AXES, and ``axes`` are those of what it
    sees, as far as they are known: where they are cut into windows, a token is one of the whole grid.

    -> the attentions whose weights are changed, which leave the fast path
    """
    reweighted: set[str] = set()
    with ExitStack() as listening:
        for change in changes:
            for site in touched(net, change, table):
                if isinstance(change, Head):
                    listening.enter_context(listen(net, f"{site}.mixed", scaled(change)))
                else:
                    hear = without(change, axes) if isinstance(change, Token) else warmed(change.value)
                    listening.enter_context(listen(net, f"{site}.weights", hear))
                    reweighted.add(site)
        yield reweighted


def touched(net: nn.Module, change: Change, table: Mapping[str, tuple[str, str]]) -> list[str]:
    """The attentions that a change is about; at least one."""
    if isinstance(change, Token):
        if change.position < 0:
            raise InputError("positions count from 0", got=str(change.position))
        return looking_at(net, change.axis, table)
    if isinstance(change, Temperature) and not 0 < change.value < math.inf:
        raise InputError("a temperature is a number above 0", got=str(change.value))
    taps = matching(net, change.site)
    if odd := [place(tap) for tap, kind in taps.items() if kind != "weights"]:
        raise InputError("what mixes without weights cannot be changed so", got=", ".join(odd[:3]))
    return [place(tap) for tap in taps]


def without(change: Token, axes: Mapping[str, Axis]) -> Hear:
    """While a decoder has not come so far, nothing changes.  (b, h, q, k)"""
    cut = axes[change.axis].cut if change.axis in axes else None
    if cut is None:
        return lambda name, weights: unlooked(weights, [change.position], place(name))
    if change.position >= cut.grid[0] * cut.grid[1]:
        raise InputError("there is no such position", got=str(change.position), expected=f"below {math.prod(cut.grid)}")
    window, inside = cut.where(change.position)

    def hear(name: str, weights: Tensor) -> Tensor:
        """(b*w, h, n, n)"""
        every = weights.unflatten(0, (-1, cut.count)).clone()
        every[:, window] = unlooked(every[:, window], [inside], place(name))
        return every.flatten(0, 1)

    return hear


def warmed(temperature: float) -> Hear:
    def hear(name: str, weights: Tensor) -> Tensor:
        if bool((weights < 0).any()):
            raise InputError("weights below 0 have no temperature", where=name)
        powers = weights.pow(1 / temperature)
        total = powers.sum(-1, keepdim=True)
        return powers * (weights.sum(-1, keepdim=True) / total.where(total > 0, 1.0))

    return hear


def scaled(change: Head) -> Hear:
    def hear(name: str, mixed: Tensor) -> Tensor:
        """(b, h, q, f)"""
        heads = mixed.shape[-3]
        if not 0 <= change.head < heads:
            raise InputError(
                "there is no such head", where=change.site, got=str(change.head), expected=f"0 to {heads - 1}"
            )
        found = mixed.clone()
        found[..., change.head, :, :] *= change.factor
        return found

    return hear
