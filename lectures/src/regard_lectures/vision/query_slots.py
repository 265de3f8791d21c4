"""5.12d: where each query looks for things: the centres of all boxes that it predicts, over many scenes.

Carion et al. (2020), figure 7 (Fig. 23 of the lecture): after training each query has places and sizes of its own. Here
for the ten queries of the recipe's model, over scenes that it has not seen: each dot is the centre of one predicted
box, whatever the query says of its class; small boxes, and large ones.
How much a query specialises is the share of the boxes' spread that the query explains: 0 if all looked everywhere.
"""

from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard_lectures.figure import Check, Numbers, above, plain
from regard_lectures.vision.scenes import finder, prepared, said, unseen

TITLE = "Every query has its place"
DECKS = ("003",)
CLAIM = "After training, each query predicts boxes in a region of its own: queries explain most of where boxes are."
EXPECTED = (
    "After training each query has a region of its own: queries explain over half of the spread of the boxes' centres."
)
FOUND = (
    "Queries explain 57.6 % of the spread, 175 times as much as dealt at random, and 81 % of that of boxes that hold "
    "something; 9 of 10 are in use."
)
COST = 340.0
SEED = 0

SCENES = 200
LARGE = 0.3  # of the image's side: boxes from here on are large
SURE = 0.5


def compute() -> Numbers:
    model = finder()
    told = said(model, prepared(model, unseen(SCENES)))
    boxes, chances = told.boxes, told.logits.softmax(-1)  # (n, q, 4), (n, q, c + 1)
    objects = (1 - chances[..., -1]) > SURE
    return {
        "boxes": ["".join(map(packed, own)) for own in boxes.transpose(0, 1).tolist()],
        "used": plain(objects.double().mean(0), 3),
        "explained": explained(boxes[..., :2]),
        "shuffled": explained(mixed(boxes[..., :2])),
        "explained by objects": within(boxes[..., :2], objects),
    }


def packed(box: Sequence[float]) -> str:
    """Two letters each for the centre, in steps of 1/255, and one for the size."""
    x, y, width, height = box
    return f"{round(255 * x):02x}{round(255 * y):02x}{min(int(8 * (width + height)), 15):x}"


def unpacked(text: str) -> list[tuple[float, float, float]]:
    """Centre and size."""
    every = [text[i : i + 5] for i in range(0, len(text), 5)]
    return [(int(one[:2], 16) / 255, int(one[2:4], 16) / 255, (int(one[4], 16) + 0.5) / 16) for one in every]


def explained(centres: Tensor) -> float:
    """The share of the variance of all centres that lies between queries.  (n, q, 2)"""
    means = centres.mean(0)  # (q, 2)
    return float(means.var(0, correction=0).sum() / centres.flatten(0, 1).var(0, correction=0).sum())


def within(centres: Tensor, kept: Tensor) -> float:
    """The same of those boxes alone that are said to hold something."""
    every = centres[kept]
    spread = sum(
        float(((own := centres[:, i][kept[:, i]]) - own.mean(0)).square().sum())
        for i in range(centres.shape[1])
        if kept[:, i].any()
    )
    return 1 - spread / float((every - every.mean(0)).square().sum())


def mixed(centres: Tensor) -> Tensor:
    """The boxes of each scene dealt to the queries at random, to compare with."""
    order = torch.rand(centres.shape[:2], generator=torch.Generator().manual_seed(SEED)).argsort(1)
    return centres.gather(1, order[..., None].expand_as(centres))


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Centres of the boxes that each of ten queries predicts in {SCENES} unseen scenes: small boxes"
        f" (teal), large ones (vermilion).\nQueries explain {style.percent(numbers['explained'])} of the spread of the"
        f" centres; dealt out at random they would explain {style.percent(numbers['shuffled'], 1)}."
    )
    figure = style.page(TITLE, note, height=5.8)
    panels = figure.subplots(2, 5).flatten()
    for i, axes in enumerate(panels):
        x, y, sizes = zip(*unpacked(numbers["boxes"][i]), strict=True)
        tints = [style.QUERY if size > LARGE else style.KEY for size in sizes]
        axes.scatter(x, y, s=7, c=tints, alpha=0.55, lw=0)
        axes.set(xlim=(0, 1), ylim=(1, 0), xticks=[], yticks=[], aspect="equal")
        axes.spines[:].set_visible(True)
        axes.spines[:].set_color(style.LINE)
        used = style.percent(numbers["used"][i])
        axes.set_title(f"query {i + 1}", size=11, pad=4)
        axes.set_xlabel(f"finds something in {used}", size=9.5)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    busy = [x for x in numbers["used"] if x > 0.05]
    return [
        above("share of the centres' variance that queries explain", numbers["explained"], 0.5),
        above("the same over that of boxes dealt at random", numbers["explained"] / max(numbers["shuffled"], 1e-9), 10),
        above("the same of boxes that hold something", numbers["explained by objects"], 0.3),
        above("queries that find something in one of twenty scenes", len(busy), 4),
    ]
