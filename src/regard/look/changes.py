"""What if: a token that nobody sees, a head that is silent, a softmax that is warmer. The net answers as it would then.

Each is a listener at a tap, so that it serves every model, and every attention that has weights A:
    token        A'_ij = A_ij / (1 - A_ic) and A'_ic = 0          exactly as if key c were masked
    head         y'_h = factor * y_h, before the last projection
    temperature  A'_ij = A_ij^(1/T) / sum over j of A_ij^(1/T)    which is softmax(s / T) if A is softmax(s)
What mixes without weights (a Fourier transform, an MLP over positions) cannot be changed so, and is refused.

Shapes: b batch, h heads, q rows, k columns, f width of a head's values.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase

from torch import Tensor, nn

from regard.errors import InputError
from regard.nn.tap import Hear, listen

from .maps import Kind, attentions, axes_of, place


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
def changed(net: nn.Module, changes: Sequence[Change], table: Mapping[str, tuple[str, str]]) -> Iterator[set[str]]:
    """Within, the net runs with these changes; ``table`` is the model file's AXES.

    -> the attentions whose weights are changed, which leave the fast path
    """
    there = {place(tap): kind for tap, kind in attentions(net).items()}
    reweighted: set[str] = set()
    with ExitStack() as listening:
        for change in changes:
            for site in touched(change, there, table):
                if isinstance(change, Head):
                    listening.enter_context(listen(net, f"{site}.mixed", scaled(change)))
                else:
                    hear = without(change.position) if isinstance(change, Token) else warmed(change.value)
                    listening.enter_context(listen(net, f"{site}.weights", hear))
                    reweighted.add(site)
        yield reweighted


def touched(change: Change, there: Mapping[str, Kind], table: Mapping[str, tuple[str, str]]) -> list[str]:
    """The attentions that a change is about; at least one."""
    if isinstance(change, Token):
        found = [site for site in there if axes_of(site, table)[1] == change.axis]
        known = ", ".join(sorted({axes_of(site, table)[1] for site in there}))
        what = f"axis {change.axis!r}"
    else:
        found, known, what = [site for site in there if fnmatchcase(site, change.site)], ", ".join(there), change.site
    if not found:
        raise InputError(
            "nothing in this model is changed by that", got=what, expected=known or "a model with attention"
        )
    if odd := [site for site in found if there[site] != "weights"]:
        raise InputError("what mixes without weights cannot be changed so", got=", ".join(odd[:3]))
    if isinstance(change, Token) and change.position < 0:
        raise InputError("positions count from 0", got=str(change.position))
    if isinstance(change, Temperature) and not 0 < change.value < float("inf"):
        raise InputError("a temperature is a number above 0", got=str(change.value))
    return found


def without(position: int) -> Hear:
    """Weights (b, h, q, k) of which one column is 0, and rows sum to what they did; a row that has nothing else to look
    at gives zeros. While a decoder has not come so far, nothing changes."""

    def hear(name: str, weights: Tensor) -> Tensor | None:
        if position >= weights.shape[-1]:
            return None
        rest = weights.clone()
        rest[..., position] = 0.0
        before, after = weights.sum(-1, keepdim=True), rest.sum(-1, keepdim=True)
        return rest * (before / after.where(after > 0, 1.0))

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
