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
from regard.nn.tap import TapCallback, listen

from .exclusion import looking_at, unlooked
from .maps import attention_name, matching_taps


@dataclass(frozen=True)
class Token:
    """Mask a token: no attention over this axis attends to this position."""

    axis: str  # as the model names it: "tokens", "source", "target", "patches" ...
    position: int


@dataclass(frozen=True)
class Head:
    """Multiply the output of a head by a factor; 0 switches the head off."""

    site: str  # the name of its attention, such as "blocks.0.mixer"
    head: int
    factor: float = 0.0


@dataclass(frozen=True)
class Temperature:
    """Softmax temperature of one attention or, by a pattern, of several: above 1 flattens the weights, below 1 sharpens
    them. Computed from the weights as A^(1/T), rescaled to the same sum: a weight that underflowed to 0 stays 0."""

    value: float
    site: str = "*"


Change = Token | Head | Temperature
LARGE = 1e6  # beyond, what a head brings is no number any more


@contextmanager
def apply_changes(
    net: nn.Module, changes: Sequence[Change], table: Mapping[str, tuple[str, str]], axes: Mapping[str, Axis]
) -> Iterator[None]:
    """Within, the net runs with these changes; ``table`` is the model file's AXES, and ``axes`` are those of what it
    sees, as far as they are known: where they are cut into windows, a token is one of the whole grid. Attentions whose
    weights are changed leave the fast path."""
    with ExitStack() as listening:
        for change in (same for one in changes for same in everywhere(one, axes, table)):
            for site in touched(net, change, table):
                if isinstance(change, Head):
                    listening.enter_context(listen(net, f"{site}.mixed", scaled(change)))
                else:
                    hear = without(change, axes) if isinstance(change, Token) else warmed(change.value)
                    listening.enter_context(listen(net, f"{site}.weights", hear))
        yield


def everywhere(change: Change, axes: Mapping[str, Axis], table: Mapping[str, tuple[str, str]]) -> Sequence[Change]:
    """A patch may stand on several axes, after a class token on one of them: crossed out on one it is on all."""
    own = axes.get(change.axis) if isinstance(change, Token) else None
    if not isinstance(change, Token) or own is None or own.grid is None or own.windows is not None:
        return [change]
    if not is_integer(change.position) or not own.special <= change.position < own.size:
        return [change]
    looked_at = {columns for _, columns in table.values()}
    others = {name: axis for name, axis in axes.items() if name in looked_at and name != change.axis}
    return [
        change,
        *(
            Token(name, change.position - own.special + axis.special)
            for name, axis in others.items()
            if (axis.kind, axis.grid, axis.windows) == (own.kind, own.grid, None)
        ),
    ]


def touched(net: nn.Module, change: Change, table: Mapping[str, tuple[str, str]]) -> list[str]:
    """The attentions that a change is about; at least one."""
    if not isinstance(change, Change):
        raise InputError("unknown kind of change", got=str(change)[:60], expected="a Token, a Head or a Temperature")
    if isinstance(change, Token):
        if not is_integer(change.position) or change.position < 0:
            raise InputError("the position must be an integer of at least 0", got=str(change.position)[:60])
        return looking_at(net, change.axis, table)
    if isinstance(change, Temperature) and not (number(change.value) and 0 < change.value < math.inf):
        raise InputError("the temperature must be a number above 0", got=str(change.value)[:60])
    if isinstance(change, Head) and not (
        is_integer(change.head) and number(change.factor) and abs(change.factor) < LARGE
    ):
        got = f"head {change.head}, factor {change.factor}"[:60]
        raise InputError(
            "the head must be an integer and the factor a number",
            got=got,
            expected=f"an absolute factor below {LARGE:g}",
        )
    taps = matching_taps(net, change.site)
    if odd := [attention_name(tap) for tap, kind in taps.items() if kind != "weights"]:
        raise InputError(
            "a temperature or head factor needs attention weights, which this mixer does not have",
            got=", ".join(odd[:3]),
        )
    return [attention_name(tap) for tap in taps]


def is_integer(x: object) -> bool:
    return isinstance(x, int) and not isinstance(x, bool)


def number(x: object) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool) and not math.isnan(x)


def without(change: Token, axes: Mapping[str, Axis]) -> TapCallback:
    """While a decoder has not come so far, nothing changes.  (b, h, q, k)"""
    axis = axes.get(change.axis)
    cut = None if axis is None else axis.windows
    if axis is not None and cut is None and change.axis != "target" and change.position >= axis.size:
        raise InputError("position out of range", got=str(change.position)[:60], expected=f"below {axis.size}")
    if cut is None:
        return lambda name, weights: unlooked(weights, [change.position], attention_name(name))
    if change.position >= cut.grid[0] * cut.grid[1]:
        raise InputError("position out of range", got=str(change.position), expected=f"below {math.prod(cut.grid)}")
    window, inside = cut.where(change.position)

    def hear(name: str, weights: Tensor) -> Tensor:
        """(b*w, h, n, n)"""
        every = weights.unflatten(0, (-1, cut.count)).clone()
        every[:, window] = unlooked(every[:, window], [inside], attention_name(name))
        return every.flatten(0, 1)

    return hear


def warmed(temperature: float) -> TapCallback:
    def hear(name: str, weights: Tensor) -> Tensor:
        if bool((weights < 0).any()):
            raise InputError("temperature is not defined for negative weights", where=name)
        most = weights.amax(-1, keepdim=True)
        powers = (weights / most.where(most > 0, 1.0)).pow(1 / temperature)  # the largest is 1, and none vanishes by it
        total = powers.sum(-1, keepdim=True)
        return powers * (weights.sum(-1, keepdim=True) / total.where(total > 0, 1.0))

    return hear


def scaled(change: Head) -> TapCallback:
    def hear(name: str, mixed: Tensor) -> Tensor:
        """(b, h, q, f)"""
        heads = mixed.shape[-3]
        if not 0 <= change.head < heads:
            raise InputError(
                "head index out of range", where=change.site, got=str(change.head), expected=f"0 to {heads - 1}"
            )
        found = mixed.clone()
        found[..., change.head, :, :] *= change.factor
        return found

    return hear
