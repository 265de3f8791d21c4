"""5.11: LeViT's pyramid (Graham et al., 2021, figure 4), from LeViT-128S as it ran on the meta device.

Four convolutions make 14 x 14 tokens; between stages every other row and column looks at all, and the grid shrinks.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard import style
from regard.models.levit import PRESETS, LeViT
from regard.nn.tap import capture
from regard.zoo import count_parameters
from regard_lectures.figure import Check, Numbers, close, equal

TITLE = "Convolutions, then a pyramid"
DECKS = ("004",)
CLAIM = "LeViT shrinks 224 x 224 pixels to 14 x 14 tokens by four convolutions, then to 7 x 7 and 4 x 4 by attention."
EXPECTED = (
    "LeViT-128S shrinks 224 x 224 pixels to 14 x 14 tokens by four convolutions, then to 7 x 7 and 4 x 4, with 7.8 "
    "million weights."
)
FOUND = "Maps of 112, 56, 28 and 14, grids of 14, 7 and 4, and 7.78 million weights."
COST = 1.0
SEED = 0

IMAGE = 224


def compute() -> Numbers:
    config = PRESETS["levit-128s"]
    maps: list[list[int]] = []
    with torch.device("meta"):
        net = LeViT(config).eval()
        hooks = [part.register_forward_hook(lambda _, __, out: maps.append(list(out.shape[1:]))) for part in net.stem]
        with capture(net, "*") as seen:
            net(torch.zeros(1, 3, IMAGE, IMAGE))
    for hook in hooks:
        hook.remove()
    stages = []
    for i, depth in enumerate(config.depth):
        rows, columns, width = seen[f"stages.{i}.blocks.0.stream"][0].shape[1:]
        heads = seen[f"stages.{i}.blocks.0.mixer.attention.queries"][0].shape[1]
        stages.append({"grid": [rows, columns], "width": width, "blocks": depth, "heads": heads})
    shrinks = []
    for i in range(1, len(config.depth)):
        q, k, v = (seen[f"stages.{i}.shrink.look.attention.{name}"][0] for name in ("queries", "keys", "values"))
        shrinks.append(
            {"asking": q.shape[2], "looked": k.shape[2], "heads": q.shape[1], "value": v.shape[-1] // q.shape[-1]}
        )
    values = seen["stages.0.blocks.0.mixer.attention.values"][0].shape[-1]
    keys = seen["stages.0.blocks.0.mixer.attention.keys"][0].shape[-1]
    return {
        "stem": maps,
        "stages": stages,
        "shrinks": shrinks,
        "value": values // keys,
        "weights": count_parameters(net),
    }


def draw(numbers: Numbers) -> Figure:
    note = (
        "LeViT-128S. Slabs are as high as the root of their maps’ sides; below, sides and features. Ochre, "
        "convolutions with stride 2;\nindigo, blocks of attention and an MLP; vermilion, attention in which every "
        "other row and column asks."
    )
    figure = style.page(TITLE, note, height=4.9)
    axes = style.stage(figure)
    x, y = 0.4, 2.0
    slab(axes, x, y, IMAGE, "image", [f"{IMAGE}²×3"], style.EDGE)
    x += 0.75
    for features, rows, _ in numbers["stem"]:
        slab(axes, x, y, rows, "conv", [f"{rows}²×{features}"], style.SECOND)
        x += 0.78
    for i, stage in enumerate(numbers["stages"]):
        if i:
            shrink = numbers["shrinks"][i - 1]
            says = [f"{shrink['asking']} ask", f"{shrink['looked']} keys"]
            slab(axes, x, y, stage["grid"][0], "shrink", says, style.QUERY)
            x += 0.78
        for block in range(stage["blocks"]):
            lines = [f"{stage['grid'][0]}²×{stage['width']}", f"{stage['heads']} heads"] if block == 0 else []
            slab(axes, x, y, stage["grid"][0], f"{stage['blocks']} blocks" if block == 0 else "", lines, style.WEIGHT)
            x += 0.24
        x += 0.5
    style.write(axes, x + 0.05, y, "mean,\nheads", size=10.5, color=style.SOFT)
    return figure


def slab(axes: Axes, x: float, y: float, rows: int, name: str, lines: list[str], tint: str) -> None:
    tall = 0.17 * rows**0.5
    style.box(axes, x, y - tall / 2, 0.16, tall, edge=tint, fill=style.mix(tint, 0.25), corner=0.03)
    style.write(axes, x + 0.08, y + tall / 2 + 0.16, name, size=9.5)
    for i, line in enumerate(lines):
        style.write(axes, x + 0.08, y - tall / 2 - 0.2 - 0.23 * i, line, size=8.5, color=style.SOFT)


def checks(numbers: Numbers) -> list[Check]:
    stages, shrinks = numbers["stages"], numbers["shrinks"]
    return [
        equal("maps of the convolutions", str([row[1] for row in numbers["stem"]]), str([112, 56, 28, 14])),
        equal("grids of the stages", str([stage["grid"][0] for stage in stages]), str([14, 7, 4])),
        equal("widths", str([stage["width"] for stage in stages]), str([128, 256, 384])),
        equal("heads", str([stage["heads"] for stage in stages]), str([4, 6, 8])),
        equal("blocks", str([stage["blocks"] for stage in stages]), str([2, 3, 4])),
        equal(
            "who asks whom where it shrinks",
            str([[s["asking"], s["looked"]] for s in shrinks]),
            str([[49, 196], [16, 49]]),
        ),
        equal(
            "width of values over keys, in blocks and where it shrinks",
            str([numbers["value"], shrinks[0]["value"]]),
            str([2, 4]),
        ),
        close("million weights, published", numbers["weights"] / 1e6, 7.8, 0.05),
    ]
