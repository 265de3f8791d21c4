"""The two columns of the Transformer, drawn from what ``dissect`` found. Lengths are inches times ``Look.unit``."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy
from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyBboxPatch

from regard import style
from regard_lectures.figure import Numbers
from regard_lectures.transformer.anatomy import ATTENTION, FOURIER

BREADTH, TALL, LOW = 2.0, 0.4, 0.26  # a box; its height; the height of a norm
SIDE = 0.36  # from the edge of a box to the edge of the frame around a layer
APART = 0.75  # between the two frames


@dataclass(frozen=True)
class Look:
    """``lit``: the one kind of part that stands out, the others are grey; none of them if it is empty."""

    lit: str = ""
    unit: float = 1.0

    def line(self, kind: str, natural: str) -> str:
        return natural if not self.lit else style.WEIGHT if kind == self.lit else style.mix(style.EDGE, 0.55)

    def weight(self, kind: str, natural: float = 1.4) -> float:
        return (2.6 if kind == self.lit else natural) * max(self.unit, 0.75)


@dataclass(frozen=True)
class Tower:
    """What was drawn: its upper end, and where a cross-attention takes keys and values in."""

    top: float
    context: tuple[float, float] | None


def label(part: Numbers) -> str:
    if part["kind"] == FOURIER:
        return FOURIER
    if part["kind"] != ATTENTION:
        return "feed-forward"
    return "cross-attention" if part["cross"] else "masked self-attention" if part["causal"] else "self-attention"


def tower(axes: Axes, x: float, y: float, parts: Sequence[Numbers], look: Look, *, side: int) -> Tower:
    """One layer upwards from (x, y), part by part; residuals run along its left (side -1) or right (1)."""
    u, context = look.unit, None
    stream = look.line("stream", style.SOFT)
    for part in parts:
        start = y + 0.07 * u
        style.arrow(axes, (x, y), (x, y + 0.16 * u), color=stream, line=look.weight("stream"), head=0)
        y += 0.16 * u
        if part["norm"] == "before":
            y = norm(axes, x, y, look)
        if part["kind"] == ATTENTION:
            context = fan(axes, x, y, look, part["cross"], side) or context
            y += 0.26 * u
        else:
            style.arrow(axes, (x, y), (x, y + 0.14 * u), color=stream, line=look.weight("stream"))
            y += 0.14 * u
        box(axes, x, y, label(part), part["kind"], look)
        middle = y + (TALL + 0.24) * u
        style.arrow(axes, (x, y + TALL * u), (x, middle - 0.1 * u), color=stream, line=look.weight("stream"))
        plus(axes, x, middle, look, "residual")
        far = x + side * (BREADTH / 2 + 0.17) * u
        style.route(
            axes,
            [(x, start), (far, start), (far, middle), (x + side * 0.1 * u, middle)],
            color=look.line("residual", style.INK),
            line=look.weight("residual"),
            zorder=4 if look.lit == "residual" else 3,
        )
        y = middle + 0.1 * u
        if part["norm"] == "after":
            style.arrow(axes, (x, y), (x, y + 0.12 * u), color=stream, line=look.weight("stream"), head=0)
            y = norm(axes, x, y + 0.12 * u, look)
    return Tower(y, context)


def box(axes: Axes, x: float, y: float, text: str, kind: str, look: Look, *, tall: float = TALL) -> None:
    """A box centred at x, its lower edge at y."""
    u, accent = look.unit, style.WEIGHT if kind in (ATTENTION, FOURIER) else style.SOFT
    edge, fill = look.line(kind, accent), "white" if look.lit and look.lit != kind else style.mix(accent, 0.12)
    ink = style.INK if not look.lit or look.lit == kind else style.EDGE
    style.box(
        axes,
        x - BREADTH / 2 * u,
        y,
        BREADTH * u,
        tall * u,
        text,
        edge=edge,
        fill=fill,
        size=(12 if len(text) < 18 else 10.8) * u,  # the longest name must leave a margin too
        color=ink,
        line=look.weight(kind, 1.3),
        corner=0.06 * u,
    )


def norm(axes: Axes, x: float, y: float, look: Look) -> float:
    """A norm whose lower edge is at y; -> its upper edge"""
    u, on = look.unit, look.lit == "norm"
    style.box(
        axes,
        x - BREADTH / 2 * u,
        y,
        BREADTH * u,
        LOW * u,
        "norm",
        edge=look.line("norm", style.EDGE),
        fill=style.WEIGHT_WASH if on else "white",
        size=10.5 * u,
        color=style.WEIGHT if on else style.EDGE if look.lit else style.SOFT,
        line=look.weight("norm", 1.2),
        corner=0.06 * u,
    )
    return y + LOW * u


def fan(axes: Axes, x: float, y: float, look: Look, cross: bool, side: int) -> tuple[float, float] | None:
    """Queries, keys and values into a box above; -> where keys and values come in, if they come from elsewhere"""
    u, line = look.unit, look.weight("stream", 1.3)
    places = [x - side * 0.62 * u, x - side * 0.3 * u, x + side * 0.5 * u] if cross else [x - 0.5 * u, x, x + 0.5 * u]
    colours = [look.line("stream", tint) for tint in (style.INK, style.KEY, style.QUERY)]
    turn, top = y + 0.1 * u, y + 0.26 * u
    for place, tint in zip(places, colours, strict=True):
        if cross and place != places[2]:
            continue
        points = [(x, y), (x, turn), (place, turn), (place, top)] if place != x else [(x, y), (x, top)]
        style.route(axes, points, color=tint, line=line, head=8 * u, corner=0.05 * u)
    if not cross:
        return None
    edge = x - side * (BREADTH / 2 + SIDE) * u
    for place, tint, height in zip(places[:2], colours[:2], (turn + 0.06 * u, turn - 0.06 * u), strict=True):
        points = [(edge, height), (place, height), (place, top)]
        style.route(axes, points, color=tint, line=line, head=8 * u, corner=0.05 * u)
    return edge, turn


def plus(axes: Axes, x: float, y: float, look: Look, kind: str) -> None:
    """Where two things are added."""
    tint, u = look.line(kind, style.INK), look.unit
    axes.add_patch(Circle((x, y), 0.1 * u, fc="white", ec=tint, lw=look.weight(kind, 1.3), zorder=5))
    for dx, dy in ((0.06 * u, 0), (0, 0.06 * u)):
        axes.plot([x - dx, x + dx], [y - dy, y + dy], color=tint, lw=look.weight(kind, 1.3), zorder=6)


def wave(axes: Axes, x: float, y: float, look: Look) -> None:
    """The sign of positions: a sine in a circle."""
    tint, u = look.line("positions", style.INK), look.unit
    axes.add_patch(Circle((x, y), 0.17 * u, fc="white", ec=tint, lw=look.weight("positions", 1.3), zorder=5))
    place = numpy.linspace(-0.11, 0.11, 40)
    axes.plot(x + place * u, y + 0.08 * u * numpy.sin(place * math.tau / 0.22), color=tint, lw=1.3 * u, zorder=6)


def framed(axes: Axes, x: float, y: float, top: float, times: int, look: Look, *, side: int) -> None:
    """The frame around a layer, and how many of it there are."""
    u = look.unit
    half = (BREADTH / 2 + SIDE) * u
    shape = FancyBboxPatch((x - half, y), 2 * half, top - y, boxstyle=f"round,pad=0,rounding_size={0.12 * u}")
    shape.set(fc=style.SUNK if not look.lit else "white", ec=style.LINE, lw=1.3, zorder=1)
    axes.add_patch(shape)
    ink = style.INK if not look.lit else style.EDGE
    style.write(
        axes,
        x + side * (half + 0.1 * u),
        (y + top) / 2,
        f"{times} ×",
        family=style.SERIF,
        size=18 * u,
        color=ink,
        ha="left" if side > 0 else "right",
    )


def entrance(axes: Axes, x: float, y: float, words: str, look: Look, *, side: int) -> float:
    """Words, their embedding, their positions, from y upwards; -> where the first layer begins"""
    u, stream = look.unit, look.line("stream", style.SOFT)
    ink = style.INK if not look.lit else style.EDGE
    style.write(axes, x, y + 0.12 * u, words, family=style.SERIF, size=15 * u, color=ink)
    style.arrow(axes, (x, y + 0.28 * u), (x, y + 0.46 * u), color=stream, line=look.weight("stream"))
    box(axes, x, y + 0.46 * u, "embedding", "embedding", look, tall=0.34)
    middle = y + 1.06 * u
    style.arrow(axes, (x, y + 0.8 * u), (x, middle - 0.1 * u), color=stream, line=look.weight("stream"))
    plus(axes, x, middle, look, "positions")
    far = x + side * (BREADTH / 2 + 0.2) * u
    start, end = (far - side * 0.17 * u, middle), (x + side * 0.1 * u, middle)
    style.arrow(axes, start, end, color=look.line("positions", style.INK), line=look.weight("positions", 1.3))
    wave(axes, far, middle, look)
    style.arrow(axes, (x, middle + 0.1 * u), (x, middle + 0.26 * u), color=stream, line=look.weight("stream"), head=0)
    return middle + 0.26 * u


def transformer(axes: Axes, x: float, y: float, found: Numbers, look: Look, words: tuple[str, str, str]) -> None:
    """The whole model from its lower left corner (x, y) on; ``words``: what goes in, left and right, and comes out."""
    u = look.unit
    half = (BREADTH / 2 + SIDE) * u
    left, right = x + half, x + 3 * half + APART * u
    stream, line = look.line("stream", style.SOFT), look.weight("stream")
    low = entrance(axes, left, y, words[0], look, side=-1)
    entrance(axes, right, y, words[1], look, side=1)
    reading = tower(axes, left, low, found["encoder"]["parts"], look, side=-1)
    writing = tower(axes, right, low, found["decoder"]["parts"], look, side=1)
    framed(axes, left, low, reading.top + 0.12 * u, found["encoder"]["depth"], look, side=-1)
    framed(axes, right, low, writing.top + 0.12 * u, found["decoder"]["depth"], look, side=1)
    tops = []
    for place, end, name in ((left, reading.top, "encoder"), (right, writing.top, "decoder")):
        style.arrow(axes, (place, end), (place, end + 0.28 * u), color=stream, line=line, head=0)
        tops.append(norm(axes, place, end + 0.28 * u, look) if found[name]["final"] else end + 0.28 * u)
    assert writing.context is not None
    edge, entry = writing.context
    between, over = edge - 0.37 * u, tops[0] + 0.1 * u
    key = look.line("stream", style.KEY)
    for shift, tint in ((-0.06 * u, key), (0.06 * u, look.line("stream", style.INK))):
        # keys and values are both made of what the encoder said: one line that becomes two
        style.route(
            axes, [(between, entry + shift), (edge, entry + shift)], color=tint, line=look.weight("stream", 1.3), head=0
        )
    style.route(
        axes,
        [(left, tops[0]), (left, over), (between, over), (between, entry - 0.06 * u)],
        color=stream,
        line=line,
        head=0,
        corner=0.12 * u,
    )
    end = tops[1]
    for text, tall in (("linear", 0.34), ("softmax", 0.34)):
        style.arrow(axes, (right, end), (right, end + 0.14 * u), color=stream, line=line)
        box(axes, right, end + 0.14 * u, text, "output", look, tall=tall)
        end += (0.14 + tall) * u
    style.arrow(axes, (right, end), (right, end + 0.24 * u), color=stream, line=line)
    ink = style.INK if not look.lit else style.EDGE
    style.write(axes, right, end + 0.4 * u, words[2], family=style.SERIF, size=15 * u, color=ink)
