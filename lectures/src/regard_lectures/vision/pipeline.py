"""5.12: DETR from an image to a set of boxes, drawn from the numbers of a real model.

Carion et al. (2020), figure 2: convolutions make a small map of the image; an encoder lets its places look at each
other; a decoder asks the map with learned queries, and each of them says a box with a class, or "nothing". The model is
the recipe's, 2 + 2 layers and 10 queries, on a generated scene that it has not seen; of the
map the size of the numbers is shown, of the encoder what the place in the middle of the largest shape looks at.
"""

from collections.abc import Sequence
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard import style
from regard.modalities.boxes.drawing import class_colour
from regard.modalities.boxes.shapes import SHAPE_NAMES
from regard_lectures.figure import Check, Numbers, above, aside, equal, plain
from regard_lectures.vision.scenes import finder, frame, precision, prepared, scene, show, unseen

TITLE = "From pixels to a set of boxes"
DECKS = ("003", "004")
CLAIM = "Convolutions, an encoder, and ten queries: a set of boxes comes out, without anchors or later suppression."
EXPECTED = (
    "Without anchors or later suppression ten queries give a set of boxes, with an AP50 above 0.8 on unseen scenes."
)
FOUND = "AP50 is 0.961 on 300 unseen scenes."
COST = 330.0
SEED = 0

SCENES = 300
SURE = 0.5
HEIGHT = 5.9


def compute() -> Numbers:
    model, rows = finder(), unseen(SCENES)
    number = next(i for i, x in enumerate(rows) if len(x.classes) >= 3 and len(set(x.classes.tolist())) >= 2)
    one = rows[number]
    batch = prepared(model, [one])
    net: Any = model.net
    with torch.no_grad():
        maps = net.backbone(batch.images)  # (1, d, h, w)
        looked = model(batch.images, look=f"encoder.{model.config.depth - 1}.mixer")
    told, (seen,) = looked.output, looked.maps.values()
    largest = one.boxes[one.boxes[:, 2].argmax()]
    row, column = (int(largest[i] * maps.shape[3 - i]) for i in (1, 0))
    weights = seen.weights[0].mean(0)[row * maps.shape[3] + column]
    chances, kinds = told.logits[0].softmax(-1).max(-1)
    found = precision(model, rows)
    return {
        "scene": number,
        "channels": maps.shape[1],
        "map": plain(maps[0].norm(dim=0), 3),
        "seen": plain(weights.unflatten(0, maps.shape[2:]), 3),
        "place": [row, column],
        "queries": {"kinds": kinds.tolist(), "chances": plain(chances, 3), "boxes": plain(told.boxes[0], 4)},
        "config": {name: getattr(model.config, name) for name in ("dim", "depth", "queries", "stride")},
        "AP": found.all,
        "AP50": found.at(0.5),
    }


def draw(numbers: Numbers) -> Figure:
    config, queries = numbers["config"], numbers["queries"]
    side = len(numbers["map"])
    note = (
        f"A trained DETR of {config['depth']} + {config['depth']} layers on a scene that it has not seen. AP50 over"
        f" {SCENES} such scenes: {style.percent(numbers['AP50'])}.\nPositions are added to what is compared, in every"
        " layer, and never to what is told."
    )
    figure = style.page(TITLE, note, height=HEIGHT)
    axes = style.stage(figure)
    top, low = 3.9, 1.35
    picture(figure, numbers, (0.35, 2.35, 1.75, 1.75), found=False)
    style.write(axes, 1.22, 2.15, "image, 64 x 64", size=10, color=style.SOFT)
    grid(axes, numbers["map"], 2.75, top, style.SECOND)
    style.write(axes, 3.35, 4.15, "convolutions", size=11, weight="bold")
    words = f"{side} x {side} places\nof {numbers['channels']} numbers"
    style.write(axes, 3.35, 2.45, words, size=9.5, color=style.SOFT)
    grid(axes, numbers["seen"], 4.75, top, style.KEY)
    row, column = numbers["place"]
    style.frame(axes, 4.75 + column * 1.2 / side, top - (row + 1) * 1.2 / side, 1.2 / side, 1.2 / side, style.QUERY)
    style.write(axes, 5.35, 4.15, "encoder", size=11, weight="bold")
    style.write(axes, 5.35, 2.45, "what one place (framed)\nlooks at", size=9.5, color=style.SOFT)
    style.box(axes, 6.6, 2.72, 0.95, 1.2, "decoder", edge=style.WEIGHT, fill=style.WEIGHT_WASH, weight="bold")
    style.write(axes, 7.07, 4.15, "asks the map", size=9.5, color=style.SOFT)
    for i in range(config["queries"]):
        x = 5.02 + 0.41 * i
        style.box(axes, x, low - 0.16, 0.33, 0.32, str(i + 1), edge=style.QUERY, fill=style.QUERY_WASH, size=9)
    style.write(axes, 4.9, low, f"{config['queries']} learned queries", size=10, color=style.QUERY, ha="right")
    style.arrow(axes, (7.07, low + 0.22), (7.07, 2.66), color=style.QUERY)
    for start, end in ((2.18, 2.68), (4.02, 4.68), (6.02, 6.53), (7.62, 8.02)):
        style.arrow(axes, (start, 3.3), (end, 3.3))
    picture(figure, numbers, (8.1, 2.35, 1.75, 1.75), found=True)
    style.write(axes, 8.97, 2.15, "boxes and classes", size=10, color=style.SOFT)
    for i, (kind, chance) in enumerate(zip(queries["kinds"], queries["chances"], strict=True)):
        nothing = kind == len(SHAPE_NAMES)
        words = "nothing" if nothing else f"{SHAPE_NAMES[kind]} {style.percent(chance)}"
        shade = style.EDGE if nothing else class_colour(kind)
        style.write(axes, 5.185 + 0.41 * i, low - 0.26, words, size=9, color=shade, va="top", rotation=90)
    return figure


def grid(axes: Axes, values: Sequence[Sequence[float]], x: float, y: float, shade: str) -> None:
    least = min(map(min, values))
    style.cells(axes, x, y, [[v - least for v in row] for row in values], 1.2 / len(values), tint=shade)


def picture(figure: Figure, numbers: Numbers, place: tuple[float, float, float, float], *, found: bool) -> None:
    x, y, wide, high = place
    axes = figure.add_axes((x / style.WIDTH, y / HEIGHT, wide / style.WIDTH, high / HEIGHT))
    show(axes, scene(numbers["scene"]))
    queries = numbers["queries"]
    for box, kind in zip(queries["boxes"], queries["kinds"], strict=True):
        if found and kind < len(SHAPE_NAMES):
            frame(axes, box, kind, line=2.2)


def checks(numbers: Numbers) -> list[Check]:
    config, queries = numbers["config"], numbers["queries"]
    told = sum(kind < len(SHAPE_NAMES) for kind in queries["kinds"])
    return [
        aside(equal("rows of the map, by the stride", len(numbers["map"]), 64 // config["stride"])),
        aside(equal("answers", len(queries["kinds"]), config["queries"])),
        aside(above("things found in the scene", told, 1)),
        above("AP50 on unseen scenes", numbers["AP50"], 0.8),
    ]
