"""5.12e: what the decoder looks at for each object that it finds, in the colour of the object's class.

Carion et al. (2020), figure 6 (Fig. 24 of the lecture): the queries' attention to the image in the last layer,
averaged over its heads, of those queries that found something. In the paper it goes to the extremities of objects,
such as heads and legs. Here the map has 8 x 8 places, so only this is asked: how much of it falls into the
found box and the ring of one place around it, against the share of the image that these take. A place is where its
convolutions are centred: strides and padding put the first one at the first pixel.
"""

import torch
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.modalities.boxes.drawing import class_colour
from regard.modalities.boxes.shapes import SHAPE_NAMES
from regard.models.detr import DETROutput
from regard.nn.boxes import corners
from regard_lectures.figure import Check, Numbers, above, aside, below, equal, plain
from regard_lectures.vision.scenes import finder, frame, prepared, scene, show, tag, unseen

TITLE = "Each object is looked at"
DECKS = ("003",)
CLAIM = "For each thing that it finds, the decoder looks at that thing and its edges, and hardly anywhere else."
EXPECTED = (
    "For each thing that it finds the decoder looks at the thing and the ring around it, over twice their share of "
    "the image, and hardly anywhere else."
)
FOUND = (
    "78 % of the weight is on the thing and its ring, which are 28 % of the image: 2.8 times their share; 22 % is "
    "elsewhere."
)
COST = 330.0
SEED = 0

SCENES = 100
SHOWN = 3
SURE = 0.7


def compute() -> Numbers:
    model, rows = finder(), unseen(SCENES)
    batch = prepared(model, rows)
    last = max(int(name.split(".")[1]) for name, _ in model.named_modules() if name.startswith("decoder."))
    with torch.no_grad():
        looked = model(batch.images, look=f"decoder.{last}.cross")
    (own,) = looked.maps.values()
    maps = own.weights.mean(1)  # over heads: (n, queries, places)
    rows_, columns = own.columns.grid
    told: DETROutput = looked.output
    chances, kinds = told.logits.softmax(-1)[..., :-1].max(-1)
    first = 0.5 / model.config.stride  # of a place: how far its middle is from the corner
    near = around(told.boxes, rows_, columns, first)  # (n, queries, places)
    sure = chances > SURE
    on, share = (maps * near).sum(-1)[sure], near.double().mean(-1)[sure]
    picked = [i for i in range(SCENES) if int(sure[i].sum()) >= 3][:SHOWN]
    return {
        "found": int(sure.sum()),
        "on": float(on.mean()),
        "share": float(share.mean()),
        "more": float((on > share).double().mean()),
        "grid": [rows_, columns],
        "first": first,
        "rows": float(maps.sum(-1).sub(1).abs().max()),
        "scenes": [
            {
                "scene": i,
                "kinds": kinds[i][sure[i]].tolist(),
                "boxes": plain(told.boxes[i][sure[i]], 4),
                "chances": plain(chances[i][sure[i]], 3),
                "maps": plain(maps[i][sure[i]], 2),
            }
            for i in picked
        ],
    }


def around(boxes: Tensor, rows: int, columns: int, first: float) -> Tensor:
    """The places of the map whose middle is in the box or within one place of it.  (..., 4) -> (..., places)"""
    left, top, right, bottom = corners(boxes)[..., None].unbind(-2)
    middles = [(torch.arange(count) + first) / count for count in (rows, columns)]
    y, x = torch.meshgrid(*middles, indexing="ij")
    x, y = x.flatten(), y.flatten()
    across = (x > left - 1 / columns) & (x < right + 1 / columns)
    return across & (y > top - 1 / rows) & (y < bottom + 1 / rows)


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Attention of the decoder’s last layer to the {numbers['grid'][0]} x {numbers['grid'][1]} places of the image,"
        " mean of its heads, one colour a class.\n"
        f"Over all things found in {SCENES} scenes, {style.percent(numbers['on'])} of it falls on the thing and one"
        f" place around it, which are {style.percent(numbers['share'])} of the image.\nA place is drawn around the "
        "pixels that its convolutions are centred on, so the last ones end before the edge."
    )
    figure = style.page(TITLE, note, height=7.4)
    panels = figure.subplots(2, SHOWN)
    for (upper, lower), one in zip(panels.T, numbers["scenes"], strict=True):
        show(upper, scene(one["scene"]))
        for box, kind, chance in zip(one["boxes"], one["kinds"], one["chances"], strict=True):
            frame(upper, box, kind)
            tag(upper, box, kind, f"{SHAPE_NAMES[kind]} {style.percent(chance)}")
        lower.imshow(coloured(one, numbers["grid"]), extent=covered(numbers), interpolation="bilinear")
        for box, kind in zip(one["boxes"], one["kinds"], strict=True):
            frame(lower, box, kind, line=1.2, dashed=True)
        lower.set(xticks=[], yticks=[], xlim=(0, 1), ylim=(1, 0))
        lower.spines[:].set_visible(True)
        lower.spines[:].set_color(style.LINE)
    panels[0, 0].set_ylabel("found", size=11)
    panels[1, 0].set_ylabel("looked at", size=11)
    return figure


def covered(numbers: Numbers) -> tuple[float, float, float, float]:
    """Left, right, bottom and top of all places, as shares of the image."""
    (down, across), corner = numbers["grid"], numbers["first"] - 0.5
    return corner / across, 1 + corner / across, 1 + corner / down, corner / down


def coloured(one: Numbers, grid: list[int]) -> list[list[list[float]]]:
    """White where nobody looks; each object's attention takes its colour's complement away."""
    image = torch.ones(grid[0] * grid[1], 3)
    for kind, weights in zip(one["kinds"], one["maps"], strict=True):
        strength = torch.tensor(weights) / max(weights)
        image = image * (1 - 0.9 * strength[:, None] * (1 - torch.tensor(to_rgb(class_colour(kind)))))
    found: list[list[list[float]]] = image.unflatten(0, grid).tolist()
    return found


def checks(numbers: Numbers) -> list[Check]:
    return [
        aside(above("things found in the scenes", numbers["found"], SCENES)),
        above("attention on the thing and around it, over its share of the image", numbers["on"] / numbers["share"], 2),
        above("things that are looked at more than their share", numbers["more"], 0.9),
        below("attention anywhere else: hardly any", 1 - numbers["on"], 0.1),
        aside(below("the sum of each query's attention, from 1", numbers["rows"], 1e-4)),
        aside(equal("scenes shown", len(numbers["scenes"]), SHOWN)),
    ]
