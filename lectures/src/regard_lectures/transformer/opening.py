"""3.7d: "Let's build a transformer" (Fig. 11 of deck 003, shown in steps): a box that translates, opened three times.

What is inside each box was read off the module tree of transformer-base while it ran.
"""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard import style
from regard.models.transformer import PRESETS
from regard_lectures.figure import Check, Numbers, equal
from regard_lectures.transformer.anatomy import ATTENTION, dissect
from regard_lectures.transformer.diagram import label

TITLE = "Let’s build a Transformer"
DECKS = ("003", "000")
CLAIM = "A box that translates is an encoder and a decoder, six layers each; a layer is attention and a feed-forward."
EXPECTED = (
    "Opened, the box is an encoder and a decoder of six layers each; all decoder layers look at the encoder’s last"
    " output."
)
FOUND = "6 and 6 layers, 6 of which look at the encoder, with 2 attentions in a decoder layer."
COST = 2.0
SEED = 0

SOURCE, TARGET = "walking along the river bank", "am Flussufer entlang gehen"


def compute() -> Numbers:
    return {"anatomy": dissect(PRESETS["transformer-base"])}


def draw(numbers: Numbers) -> Figure:
    note = "The same box, opened three times; the last two come from the module tree of transformer-base."
    figure = style.page(TITLE, note, height=7.3)
    axes = style.stage(figure)
    found = numbers["anatomy"]
    panels = [("1   a box that translates", box_alone), ("2   one part reads, one writes", two)]
    panels += [(f"3   {found['encoder']['depth']} layers each", stacks), ("4   what a layer is made of", layers)]
    for i, (title, paint) in enumerate(panels):
        x, y = 0.35 + 4.85 * (i % 2), 3.3 - 3.15 * (i // 2)
        style.write(axes, x, y + 2.72, title, ha="left", va="baseline", size=12.5, weight="bold")
        paint(axes, x, y, found)
    return figure


def words(axes: Axes, left: tuple[float, float], right: tuple[float, float]) -> None:
    style.write(axes, *left, SOURCE, family=style.SERIF, size=13)
    style.write(axes, *right, TARGET, family=style.SERIF, size=13)


def box_alone(axes: Axes, x: float, y: float, found: Numbers) -> None:
    style.box(axes, x + 0.8, y + 0.9, 2.8, 0.9, "Transformer", fill=style.SUNK, size=15)
    words(axes, (x + 2.2, y + 0.4), (x + 2.2, y + 2.3))
    style.arrow(axes, (x + 2.2, y + 0.57), (x + 2.2, y + 0.88))
    style.arrow(axes, (x + 2.2, y + 1.82), (x + 2.2, y + 2.13))


def two(axes: Axes, x: float, y: float, found: Numbers) -> None:
    for place, name in ((x + 1.05, "encoder"), (x + 3.35, "decoder")):
        style.box(axes, place - 0.85, y + 0.9, 1.7, 0.9, name, fill=style.SUNK, size=14)
    words(axes, (x + 1.05, y + 0.4), (x + 3.35, y + 2.3))
    style.arrow(axes, (x + 1.05, y + 0.57), (x + 1.05, y + 0.88))
    style.arrow(axes, (x + 1.92, y + 1.35), (x + 2.48, y + 1.35))
    style.arrow(axes, (x + 3.35, y + 1.82), (x + 3.35, y + 2.13))


def stacks(axes: Axes, x: float, y: float, found: Numbers) -> None:
    step, tall = 0.295, 0.22
    low = y + 0.5
    tops = {}
    for place, name in ((x + 1.05, "encoder"), (x + 3.35, "decoder")):
        depth = found[name]["depth"]
        for i in range(depth):
            style.box(axes, place - 0.85, low + step * i, 1.7, tall, f"{name} {i + 1}", fill=style.SUNK, size=9.5)
            if i:
                style.arrow(axes, (place, low + step * i - step + tall), (place, low + step * i), head=6, line=1.2)
        tops[name] = low + step * (depth - 1) + tall
    words(axes, (x + 1.05, y + 0.05), (x + 3.35, tops["decoder"] + 0.38))
    style.arrow(axes, (x + 1.05, y + 0.22), (x + 1.05, low), head=7)
    style.arrow(axes, (x + 3.35, tops["decoder"]), (x + 3.35, tops["decoder"] + 0.22), head=7)
    over, middle = tops["encoder"] + 0.14, x + 2.2
    bottom = low + tall / 2
    style.route(
        axes, [(x + 1.05, tops["encoder"]), (x + 1.05, over), (middle, over), (middle, bottom)], color=style.KEY, head=0
    )
    for i in range(found["memory"]):  # as many decoder layers as were given the encoder's output
        height = low + step * i + tall / 2
        style.arrow(axes, (middle, height), (x + 2.48, height), color=style.KEY, head=7, line=1.3)


def layers(axes: Axes, x: float, y: float, found: Numbers) -> None:
    for place, name in ((x + 1.05, "encoder"), (x + 3.35, "decoder")):
        parts = found[name]["parts"]
        frame = 0.12 + 0.56 * len(parts)
        style.box(axes, place - 1.02, y + 0.35, 2.04, frame, fill=style.SUNK, edge=style.LINE)
        style.write(
            axes, place - 1.0, y + 0.45 + frame, f"one layer of the {name}", ha="left", size=10, color=style.SOFT
        )
        for i, part in enumerate(parts):
            low = y + 0.5 + 0.56 * i
            tint = style.WEIGHT if part["kind"] == ATTENTION else style.SOFT
            style.box(axes, place - 0.92, low, 1.84, 0.38, label(part), edge=tint, fill=style.mix(tint, 0.12), size=9.8)
            style.arrow(axes, (place, low - (0.36 if i == 0 else 0.18)), (place, low), head=7)
            if part["cross"]:
                between, start = place - 1.15, y + 2.0
                points = [(between - 0.12, start), (between, start), (between, low + 0.19), (place - 0.92, low + 0.19)]
                style.route(axes, points, color=style.KEY, head=7)
                said = f"from encoder {found['encoder']['depth']}, the last"
                style.write(axes, between - 0.17, start, said, ha="right", size=10, color=style.KEY)


def checks(numbers: Numbers) -> list[Check]:
    found = numbers["anatomy"]
    return [
        equal("layers of the encoder", found["encoder"]["depth"], 6),
        equal("layers of the decoder", found["decoder"]["depth"], 6),
        equal("decoder layers that are given the encoder’s last output", found["memory"], 6),
        equal("attentions in a decoder layer", sum(part["kind"] == ATTENTION for part in found["decoder"]["parts"]), 2),
    ]
