"""One look for all pictures: the colours of the page, its type, and the few shapes that pictures are made of.

Query is vermilion, key teal, weight indigo, the other side of a comparison ochre; these four never mean anything else.
Serif is for what is read (titles, words of a sentence), sans for labels, mono for arithmetic. Sizes are for a picture
1,200 pixels wide (10 inches at 120 dots).
"""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Literal, cast

import matplotlib
import numpy
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, ListedColormap, PowerNorm, to_hex
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from matplotlib.path import Path
from matplotlib.text import Text
from numpy.typing import ArrayLike

WIDTH = 10.0  # inches
SERIF, SANS, MONO = "STIXGeneral", "DejaVu Sans", "DejaVu Sans Mono"  # all three come with matplotlib
METADATA: dict[str, dict[str, Any]] = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}

Oklch = tuple[float, float, float]  # lightness, chroma, hue in degrees, as in the page's stylesheet


def rgb(lightness: float, a: float, b: float) -> tuple[float, float, float]:
    """OKLab to sRGB, each 0 to 1."""
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.707614701 * short,
    )
    clipped = (min(1.0, max(0.0, part)) for part in linear)
    red, green, blue = (12.92 * x if x <= 0.0031308 else 1.055 * x ** (1 / 2.4) - 0.055 for x in clipped)
    return red, green, blue


def lab(colour: Oklch) -> tuple[float, float, float]:
    lightness, chroma, hue = colour
    return lightness, chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue))


def colour(lightness: float, chroma: float, hue: float) -> str:
    return to_hex(rgb(*lab((lightness, chroma, hue))))


def ramp(stops: Sequence[Oklch], steps: int = 256) -> Colormap:
    """Mixed in OKLab, so that equal steps in weight look like equal steps in lightness."""
    points, mixed = [lab(stop) for stop in stops], []
    for step in range(steps):
        place = step / (steps - 1) * (len(points) - 1)
        left = min(int(place), len(points) - 2)
        part = place - left
        mixed.append(rgb(*(x * (1 - part) + y * part for x, y in zip(points[left], points[left + 1], strict=True))))
    return ListedColormap(mixed)


INK, SOFT, LINE, EDGE = (
    colour(0.26, 0.02, 275),
    colour(0.47, 0.018, 275),
    colour(0.905, 0.006, 95),
    colour(0.63, 0.012, 275),
)
QUERY, KEY, WEIGHT, SECOND = (
    colour(0.53, 0.185, 32),
    colour(0.46, 0.085, 195),
    colour(0.44, 0.16, 275),
    colour(0.6, 0.12, 70),
)
QUERY_WASH, KEY_WASH = colour(0.955, 0.03, 40), colour(0.95, 0.03, 190)
WEIGHT_WASH, SECOND_WASH = colour(0.955, 0.022, 275), colour(0.955, 0.035, 85)
VALUE, VALUE_WASH = (
    INK,
    colour(0.95, 0.004, 95),
)  # a value is what is carried, not who looks: it has no colour of its own
SUNK = colour(0.962, 0.005, 95)
GROUPS = tuple(colour(0.83, 0.095, hue) for hue in (0, 85, 145, 235))  # pale: kinds without an order, such as buckets
WEIGHTS = ramp([(0.968, 0.006, 275), (0.86, 0.06, 265), (0.66, 0.13, 268), (0.44, 0.17, 275), (0.25, 0.1, 280)])
DIFFERENCE = ramp([(0.48, 0.11, 65), (0.8, 0.11, 80), (0.968, 0.004, 95), (0.76, 0.1, 268), (0.4, 0.17, 275)])
SIGNED = ramp(
    [(0.45, 0.17, 29), (0.74, 0.13, 35), (0.975, 0.004, 95), (0.72, 0.12, 255), (0.42, 0.15, 262)]
)  # red, blue


@contextmanager
def font_family() -> Iterator[None]:
    """Within, matplotlib draws and saves as one family; outside nothing changes. Letters that its fonts lack are boxes,
    of which nothing is said: the words may be anyone's."""
    settings: dict[str, Any] = {
        "font.family": SANS,
        "font.size": 11,
        "mathtext.fontset": "stix",
        "text.color": INK,
        "figure.dpi": 120,
        "savefig.dpi": 120,
        "figure.facecolor": "white",
        "savefig.facecolor": "white",
        "svg.hashsalt": "regard",
        "axes.edgecolor": EDGE,
        "axes.labelcolor": SOFT,
        "axes.labelsize": 11,
        "axes.titlesize": 12,
        "axes.titlecolor": INK,
        "axes.titlelocation": "left",
        "axes.titlepad": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid.axis": "y",
        "axes.axisbelow": True,
        "grid.color": LINE,
        "grid.linewidth": 0.8,
        "xtick.color": SOFT,
        "ytick.color": SOFT,
        "xtick.major.size": 0,
        "ytick.major.size": 0,
        "xtick.minor.size": 0,
        "ytick.minor.size": 0,
        "lines.linewidth": 2.2,
        "lines.markersize": 5.5,
        "legend.frameon": False,
        "legend.fontsize": 10.5,
        "hatch.linewidth": 0.6,
    }
    with matplotlib.rc_context(cast(Any, settings)), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        yield


# Words that others wrote -------------------------------------------------------------------------


def literal(text: str) -> str:
    """What is drawn as it stands: between two dollar signs matplotlib would read mathematics."""
    return text.replace("$", r"\$")


def breadth(text: str, size: float, family: str = SANS) -> float:
    """In inches, as it is drawn on one line."""
    return sum(advance(letter, family) for letter in text) * size / 72


@lru_cache(4096)
def advance(letter: str, family: str) -> float:
    """From a letter to the next, where the type's size is 1. What both fonts lack is a wide box."""
    for name in (family, SANS):
        font = get_font(findfont(FontProperties(family=name)))
        if ord(letter) in font.get_charmap():
            font.set_size(100, 72)
            return font.load_char(ord(letter)).linearHoriAdvance / 65536 / 100
    return 1.25


def cut(text: str, inches: float, size: float, family: str = SANS) -> str:
    """Its beginning and "…", if the whole is too long for a line."""
    if breadth(text, size, family) <= inches:
        return text
    return fitting(text, inches - breadth("…", size, family), size, family).rstrip() + "…"


def fitting(text: str, inches: float, size: float, family: str) -> str:
    """As many of its first letters as a line holds."""
    for i, letter in enumerate(text):
        inches -= breadth(letter, size, family)
        if inches < 0:
            return text[:i]
    return text


def wrapped(text: str, inches: float, size: float, family: str = SANS) -> str:
    """On lines of this length, between words, or within one that no line can hold."""
    lines = [""]
    for word in text.split():
        if lines[-1] and breadth(f"{lines[-1]} {word}", size, family) <= inches:
            lines[-1] += f" {word}"
            continue
        while breadth(word, size, family) > inches:
            part = fitting(word, inches, size, family) or word[0]
            lines.append(part)
            word = word[len(part) :]
        lines.append(word)
    return "\n".join(line for line in lines if line)


# Pages -------------------------------------------------------------------------------------------


def page(title: str, note: str = "", *, height: float = 5.0, width: float = WIDTH) -> Figure:
    """An empty figure under a title and a line or more of explanation; charts lay themselves out below."""
    figure = Figure((width, height), layout="constrained")
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.set(rect=(0.018, 0.01, 0.964, 1 - head(note) / height - 0.01), w_pad=0.1, h_pad=0.08)  # type: ignore[call-arg]
    figure.text(0.3 / width, 1 - 0.46 / height, title, family=[SERIF, SANS], size=20, va="baseline")
    figure.text(0.3 / width, 1 - (head(note) - 0.22) / height, note, size=11, color=SOFT, va="baseline")
    return figure


def head(note: str) -> float:
    """The height in inches that the title and the explanation take."""
    return 1.02 + 0.21 * note.count("\n") if note else 0.7


def stage(figure: Figure) -> Axes:
    """One bare area below the title whose coordinates are inches, for diagrams; y grows upwards."""
    width, height = figure.get_size_inches()
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.axis("off")
    return axes


def write(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    *,
    size: float = 11,
    color: str = INK,
    ha: Literal["left", "center", "right"] = "center",
    va: Literal["bottom", "baseline", "center", "top"] = "center",
    family: str = SANS,
    weight: str = "normal",
    rotation: float = 0,
    zorder: float = 4,
) -> Text:
    """Text centred on a point, unless it is told to begin or to end there."""
    place: dict[str, Any] = {"ha": ha, "va": va, "rotation": rotation, "zorder": zorder, "linespacing": 1.5}
    return axes.text(x, y, text, size=size, color=color, family=family, weight=weight, **place)


# Shapes of diagrams ------------------------------------------------------------------------------


def box(
    axes: Axes,
    x: float,
    y: float,
    width: float,
    height: float,
    text: str = "",
    *,
    edge: str = EDGE,
    fill: str = "white",
    line: float = 1.3,
    corner: float = 0.06,
    size: float = 11,
    color: str = INK,
    family: str = SANS,
    weight: str = "normal",
) -> None:
    """A rounded box whose lower left corner is (x, y), with text in its middle."""
    shape = f"round,pad=0,rounding_size={corner}" if corner else "square,pad=0"
    axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=shape, ec=edge, fc=fill, lw=line, zorder=2))
    if text:
        write(axes, x + width / 2, y + height / 2, text, size=size, color=color, family=family, weight=weight)


def arrow(
    axes: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    *,
    color: str = SOFT,
    line: float = 1.5,
    curve: float = 0.0,
    alpha: float = 1.0,
    head: float = 9.0,
    zorder: float = 3,
) -> None:
    """From one point to another; ``curve`` bends it to the left (positive) or right."""
    style = "-|>" if head else "-"
    axes.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle=style,
            mutation_scale=head or 1,
            connectionstyle=f"arc3,rad={curve}",
            color=color,
            lw=line,
            alpha=alpha,
            shrinkA=0,
            shrinkB=0,
            zorder=zorder,
            capstyle="round" if not head else None,
            joinstyle="miter",
        )
    )


def route(
    axes: Axes,
    points: Sequence[tuple[float, float]],
    *,
    color: str = SOFT,
    line: float = 1.5,
    head: float = 9.0,
    corner: float = 0.08,
    zorder: float = 3,
) -> None:
    """An arrow that turns at every point but the first and the last, with round corners; no head if it is 0."""
    places, codes = [points[0]], [Path.MOVETO]
    for before, here, after in zip(points, points[1:], points[2:], strict=False):
        places += [toward(here, before, corner), here, toward(here, after, corner)]
        codes += [Path.LINETO, Path.CURVE3, Path.CURVE3]
    path = Path([*places, points[-1]], [*codes, Path.LINETO])
    shape: dict[str, Any] = {
        "arrowstyle": "-|>" if head else "-",
        "mutation_scale": head or 1,
        "fc": color if head else "none",
    }
    axes.add_patch(FancyArrowPatch(path=path, ec=color, lw=line, zorder=zorder, joinstyle="miter", **shape))


def toward(start: tuple[float, float], end: tuple[float, float], far: float) -> tuple[float, float]:
    """The point so far from one on the way to another."""
    part = far / (math.dist(start, end) or 1.0)
    return start[0] + part * (end[0] - start[0]), start[1] + part * (end[1] - start[1])


def cells(
    axes: Axes,
    x: float,
    y: float,
    values: Sequence[Sequence[float]],
    cell: float | tuple[float, float],
    *,
    tint: str = WEIGHT,
    limit: float | None = None,
    digits: int | None = None,
    size: float = 9.5,
) -> None:
    """A small matrix whose upper left corner is (x, y): the larger a number, the stronger its tint.

    With ``digits`` the numbers are written too. Negative numbers are tinted grey.
    """
    wide, tall = (cell, cell) if isinstance(cell, (int, float)) else cell
    limit = limit or max((abs(v) for row in values for v in row), default=1) or 1
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            strength = min(abs(value) / limit, 1.0) ** 0.5
            shade = mix(tint if value >= 0 else EDGE, 0.05 + 0.8 * strength)
            corner = (x + j * wide, y - (i + 1) * tall)
            axes.add_patch(Rectangle(corner, wide, tall, fc=shade, ec="white", lw=1.2, zorder=3))
            if digits is not None:
                ink = "white" if strength > 0.72 and value > 0 else INK
                text = f"{value:.{digits}f}".replace("-", "−")
                middle = corner[0] + wide / 2, corner[1] + tall / 2 - 0.005
                write(axes, *middle, text, size=size, color=ink, family=MONO)


def block(axes: Axes, x: float, y: float, width: float, height: float, tint: str) -> None:
    """A full rectangle, lower left corner (x, y)."""
    axes.add_patch(Rectangle((x, y), width, height, color=tint, lw=0, zorder=2))


def frame(axes: Axes, x: float, y: float, width: float, height: float, tint: str, line: float = 1.8) -> None:
    """An empty rectangle around something, lower left corner (x, y)."""
    axes.add_patch(Rectangle((x, y), width, height, fill=False, ec=tint, lw=line, zorder=6, clip_on=False))


def mix(tint: str, part: float) -> str:
    """So much of a colour on white."""
    red, green, blue = matplotlib.colors.to_rgb(tint)
    return to_hex((1 - part + part * red, 1 - part + part * green, 1 - part + part * blue))


# Charts ------------------------------------------------------------------------------------------


def heatmap(
    axes: Axes,
    weights: ArrayLike,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    *,
    numbers: bool = False,
    mark: tuple[int, int] | None = None,
    size: float = 11,
    slant: float = 0,
) -> None:
    """Attention weights, a row for each query, always on the same scale: 0 to 1, by its square root.

    ``mark`` frames one query's row and one key's column; ``numbers`` writes percentages into the cells.
    """
    table = numpy.asarray(weights)
    rows, columns = table.shape
    small = rows * columns <= 1024
    edge = {"edgecolors": "white", "linewidth": 1.6} if small else {"rasterized": True}
    axes.pcolormesh(table, cmap=WEIGHTS, norm=PowerNorm(0.5, 0, 1), **edge)
    axes.set(xlim=(0, columns), ylim=(rows, 0), aspect="equal")
    axes.spines[:].set_visible(False)
    axes.tick_params(axis="x", top=True, labeltop=True, labelbottom=False, pad=3)
    axes.set_xticks([i + 0.5 for i in range(columns)] if keys else [], keys or [])
    axes.set_yticks([i + 0.5 for i in range(rows)] if queries else [], queries or [])
    across = {"rotation": slant, "ha": "left", "rotation_mode": "anchor"} if slant else {}
    for text in axes.get_xticklabels():
        text.set(family=[SERIF, SANS], size=size + 2, color=INK, **across)
    for text in axes.get_yticklabels():
        text.set(family=[SERIF, SANS], size=size + 2, color=INK)
    if numbers:
        for i in range(rows):
            for j in range(columns):
                percent = 100 * float(table[i, j])
                shade = "white" if percent > 30 else SOFT if percent < 0.5 else INK
                write(axes, j + 0.5, i + 0.52, f"{percent:.0f}", size=size - 1, color=shade)
    if mark is not None:
        query, key = mark
        frame(axes, 0, query, columns, 1, QUERY)
        frame(axes, key, 0, 1, rows, KEY)
        if queries:
            axes.get_yticklabels()[query].set(color=QUERY, weight="bold")
        if keys:
            axes.get_xticklabels()[key].set(color=KEY, weight="bold")


def scale(
    figure: Figure,
    axes: Axes | Sequence[Axes],
    *,
    label: str = "weight",
    shrink: float = 0.5,
    within: Axes | None = None,
) -> None:
    """The legend of the maps: what a shade means, in percent; below them, or ``within`` a place of its own."""
    mappable = matplotlib.cm.ScalarMappable(PowerNorm(0.5, 0, 1), WEIGHTS)
    bar = figure.colorbar(mappable, cax=within, ax=axes, orientation="horizontal", shrink=shrink, aspect=36, pad=0.03)
    bar.set_ticks([0, 0.05, 0.2, 0.5, 1], labels=["0", "5", "20", "50", "100 %"])
    bar.set_label(label, size=10)
    bar.ax.tick_params(labelsize=9.5)
    bar.outline.set_visible(False)


def percent(share: float, digits: int = 0) -> str:
    """0.42 as 42 %, with a narrow space."""
    return f"{100 * share:.{digits}f}\u202f%"


def bars(
    axes: Axes,
    labels: Sequence[str],
    heights: Sequence[float],
    *,
    color: str | Sequence[str] = WEIGHT,
    form: Callable[[float], str] = "{:.3f}".format,
    top: float | None = None,
    width: float = 0.62,
) -> None:
    """Bars with their numbers on top and no axis: the numbers are the axis."""
    container = axes.bar(labels, heights, color=color, width=width)
    axes.bar_label(container, [form(x).replace("-", "−") for x in heights], padding=3, size=11, color=INK)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.axhline(0, color=EDGE, lw=1)
    axes.set_yticks([])
    axes.margins(y=0.14)
    if top is not None:
        axes.set_ylim(min(0.0, *heights) * 1.15, top)
    for text in axes.get_xticklabels():
        text.set(size=11.5, color=INK)


UNITS = {"seconds": {1e-6: "1 µs", 1e-3: "1 ms", 1.0: "1 s"}, "bytes": {1e3: "1 kB", 1e6: "1 MB", 1e9: "1 GB"}}


def logarithmic(axes: Axes, sizes: Sequence[int], name: str, measure: str) -> None:
    """Sizes across and seconds or bytes up, both by ratio, with units that a person reads."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    lowest, highest = axes.get_ylim()
    steps = {
        factor * unit: text.replace("1 ", f"{factor} ")
        for unit, text in UNITS[measure].items()
        for factor in (1, 10, 100)
    }
    inside = {place: text for place, text in steps.items() if lowest * 0.6 <= place <= highest * 1.6}
    axes.set_yticks(list(inside), list(inside.values()))
    axes.set_ylim(lowest, highest)
    axes.minorticks_off()
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(f"${name}$")


def end_label(
    axes: Axes, x: float, y: float, text: str, color: str, *, dx: float = 8, dy: float = 0, size: float = 11
) -> None:
    """The name of a curve beside its end, in its colour, instead of a legend."""
    place: dict[str, Any] = {"xytext": (dx, dy), "textcoords": "offset points", "va": "center", "ha": "left"}
    axes.annotate(text, (x, y), color=color, size=size, weight="bold", annotation_clip=False, **place)
