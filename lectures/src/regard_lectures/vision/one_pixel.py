"""5.2: the non-local block (Wang et al., 2018), and where one pixel of an image looks in it.

The Gaussian form compares pixels as they are, so it looks at what is alike before anything has been learned: exp(x_i .
x_j), over its sum. The image is made of three colours, each centred on their mean; the library's block hears it.
A norm whose factor is 0 ends the block, so what comes out at first is what went in.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.nn.mixers.non_local import NonLocal
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, above, aside, below, equal, plain, seeded
from regard_lectures.recurrent.drawing import sign_at

TITLE = "Every pixel may look at all"
DECKS = ("004",)
CLAIM = "In a non-local block a pixel hears all that are like it, however far; at first the block changes nothing."
EXPECTED = "In a non-local block a pixel hears what is like it however far away; a new block changes nothing."
FOUND = (
    "A pixel gives 7.1 times their share to pixels of its colour, 40 % of its weight to the far corner, and a new "
    "block changes 0."
)
COST = 0.3
SEED = 0

SIDE, CONTRAST, ASKED = 12, 2.6, (2, 2)  # pixels; how far apart colours are; row and column
COLOURS = {".": (0.90, 0.90, 0.88), "r": (0.80, 0.30, 0.20), "b": (0.25, 0.35, 0.65)}
PICTURE = (
    "............",
    ".rrr....bb..",
    ".rrr....bb..",
    ".rrr........",
    "............",
    "....bbb.....",
    "....bbb.....",
    "............",
    ".........rr.",
    ".bb.....rrr.",
    ".bb.....rrr.",
    "............",
)


def image() -> Tensor:
    """-> (1, 3, side, side), each colour less its mean, times the contrast"""
    pixels = torch.tensor([[COLOURS[letter] for letter in row] for row in PICTURE], dtype=torch.float64)
    pixels = pixels.permute(2, 0, 1)[None]
    return CONTRAST * (pixels - pixels.mean((2, 3), keepdim=True))


def compute() -> Numbers:
    x = image()
    with seeded(SEED):
        block = NonLocal(3, "gaussian").double().eval()
        other = NonLocal(8).double().eval()
    with torch.no_grad(), capture(block, "attention.weights") as seen:
        fresh = block(x)
    weights = seen["attention.weights"][0][0, 0]  # (pixels, pixels)
    flat = x.flatten(2)[0].T
    by_hand = (flat @ flat.T).softmax(-1)
    row = weights[ASKED[0] * SIDE + ASKED[1]]
    kinds = "".join(PICTURE)
    return {
        "row": plain(row, 4),
        "by hand": float((weights - by_hand).abs().max()),
        "changed": float((fresh - x).abs().max()),
        "alike": float(row[[kind == "r" for kind in kinds]].sum()),
        "share": kinds.count("r") / len(kinds),
        "far": float(row.view(SIDE, SIDE)[8:, 8:].sum()),
        "widths": [other.attention.q.in_features, other.attention.q.out_features, other.attention.out.out_features],
    }


def draw(numbers: Numbers) -> Figure:
    note = (
        "Left, the block on a map of $c$ channels and $n = h w$ pixels. Right, where the framed pixel of an image "
        f"looks in its\nGaussian form: {style.percent(numbers['alike'])} of its weight is on the "
        f"{style.percent(numbers['share'])} of pixels that have its colour. Arrows: the 16 largest of its weights."
    )
    figure = style.page(TITLE, note, height=6.1)
    axes = style.stage(figure)
    diagram(axes)
    arrows(axes, 5.55, 4.75, numbers)
    return figure


def diagram(axes: Axes) -> None:
    wide, tall = 1.0, 0.42
    places = {"θ": (0.55, style.QUERY), "φ": (1.95, style.KEY), "g": (3.35, style.INK)}
    style.box(axes, 1.95, 0.35, wide, tall, "x", size=14, family=style.SERIF)
    style.write(axes, 3.1, 0.55, "n × c", ha="left", size=10, color=style.SOFT)
    for name, (x, tint) in places.items():
        style.box(axes, x, 1.3, wide, tall, f"{name}:  1 × 1", edge=tint, fill=style.mix(tint, 0.1), size=11.5)
        style.arrow(axes, (2.45, 0.77), (x + wide / 2, 1.28))
        side = -0.62 if name == "θ" else 0.07
        style.write(axes, x + wide / 2 + side, 1.9, "n × c/2", ha="left", size=9, color=style.SOFT)
    style.box(axes, 0.9, 2.35, 1.7, tall, "softmax of products", edge=style.WEIGHT, fill=style.WEIGHT_WASH, size=9.5)
    style.arrow(axes, (1.05, 1.72), (1.55, 2.33), color=style.QUERY)
    style.arrow(axes, (2.45, 1.72), (1.95, 2.33), color=style.KEY)
    style.write(axes, 1.82, 2.95, "n × n", ha="left", size=9, color=style.SOFT)
    sign_at(axes, 2.9, 3.2, "×")
    style.route(axes, [(1.75, 2.77), (1.75, 3.2), (2.78, 3.2)], color=style.WEIGHT)
    style.route(axes, [(3.85, 1.72), (3.85, 3.2), (3.02, 3.2)], color=style.INK)
    style.box(axes, 1.95, 3.62, 1.9, tall, "W:  1 × 1, norm from 0", size=10.5)
    style.arrow(axes, (2.9, 3.32), (2.9, 3.6))
    sign_at(axes, 2.9, 4.4, "+")
    style.arrow(axes, (2.9, 4.06), (2.9, 4.28))
    style.route(axes, [(1.95, 0.56), (0.25, 0.56), (0.25, 4.4), (2.78, 4.4)], color=style.INK)
    style.arrow(axes, (2.9, 4.52), (2.9, 4.76))
    style.write(axes, 3.02, 4.66, "z", ha="left", size=14, family=style.SERIF)


def arrows(axes: Axes, x: float, y: float, numbers: Numbers) -> None:
    cell = 0.34
    row = numbers["row"]

    def middle(i: int, j: int) -> tuple[float, float]:
        return x + (j + 0.5) * cell, y - (i + 0.5) * cell

    for i, line in enumerate(PICTURE):
        for j, letter in enumerate(line):
            red, green, blue = COLOURS[letter]
            tint = f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"
            style.block(axes, x + j * cell, y - (i + 1) * cell, cell, cell, style.mix(tint, 0.75))
    largest = sorted(range(len(row)), key=lambda place: -row[place])[:17]
    for place in largest:
        target = divmod(place, SIDE)
        if target != ASKED:
            line = 0.4 + 2.2 * row[place] / max(row)
            style.arrow(axes, middle(*ASKED), middle(*target), color=style.WEIGHT, line=line, curve=-0.18, head=6)
    style.frame(axes, x + ASKED[1] * cell, y - (ASKED[0] + 1) * cell, cell, cell, style.QUERY, 2.4)


def checks(numbers: Numbers) -> list[Check]:
    return [
        below("weights against exp(x_i . x_j) over its sum", numbers["by hand"], 1e-12),
        equal("what a new block changes", numbers["changed"], 0.0),
        above("weight on pixels of the same colour over their share", numbers["alike"] / numbers["share"], 3.0),
        above("weight on the far corner of the same colour", numbers["far"], 0.2),
        aside(equal("channels in, compared, out", str(numbers["widths"]), str([8, 4, 8]))),
        aside(below("the weights of the pixel: how far from 1", abs(sum(numbers["row"]) - 1), 0.01)),
    ]
