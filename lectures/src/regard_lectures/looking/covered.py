"""11.4: which part of a picture an answer rests on, found by covering it (Zeiler and Fergus, 2014).

The ViT of 11.3 names a digit among scraps. A blank square slides over the picture, and where the right answer becomes
less likely, there it was seen. The map is compared with rollout, which only knows what was looked at; and patches are
taken away, those of most worth first, until the answer is gone. Needs mnist below REGARD_DATA.
"""

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from regard import style
from regard.look.occlusion import deletion_curve, grey_image, label_logit, occlusion_map
from regard_lectures.figure import Check, Numbers, above, aside, below, plain, seeded
from regard_lectures.labelled_images import pixels_of, said, shades
from regard_lectures.looking.clutter import IMAGE, SIZES, inked, learned, looked_through, paper, scenes
from regard_lectures.looking.rolled import edges

TITLE = "Cover it, and see what is missed"
DECKS = ("003",)
CLAIM = "Covering finds the digit; its map agrees with rollout, and what it values is missed sooner than chance would."
EXPECTED = (
    "Ranks of covering and of rollout correlate above 0, and what covering values most is missed sooner than what "
    "chance takes away."
)
FOUND = (
    "In one start ranks correlate by 0.28 in the mean of 40 pictures; the mean of the curve is 0.32 of chance's if "
    "covering chooses, and 0.39 if rollout does."
)
COST = 80.0
SEED = 0

TESTS, SHOWN, SQUARE, STRIDE = 40, 3, 16, 4  # pictures that are named rightly; pixels
PAPER = grey_image(0.0)  # of the pictures, whose paper is 0


def compute() -> Numbers:
    net = learned(SEED)
    with seeded(SEED + 2000):
        drawn = scenes(4 * TESTS, "test")
        chance = torch.rand(TESTS, *SIZES.grid)
    good = (said(net, drawn.images) == drawn.labels).nonzero()[:TESTS, 0]
    images, labels, boxes = drawn.images[good], drawn.labels[good].tolist(), drawn.boxes[good]
    looked = looked_through(net, images)
    maps = torch.stack(
        [
            occlusion_map(net, image, label, patch=SQUARE, stride=STRIDE, cover=PAPER, read=label_logit)
            for image, label in zip(images, labels, strict=True)
        ]
    )
    cells = maps.unflatten(1, (SIZES.grid[0], -1)).unflatten(3, (SIZES.grid[1], -1)).mean((2, 4))  # (n, 8, 8)
    dark = images[:, 0].unflatten(1, (SIZES.grid[0], -1)).unflatten(3, (SIZES.grid[1], -1)).sum((2, 4)) > 0
    curves = {
        name: torch.stack(
            [
                deletion_curve(net, image, label, worth, cover=PAPER)
                for image, label, worth in zip(images, labels, order, strict=True)
            ]
        ).mean(0)
        for name, order in (("covering", cells), ("rollout", looked), ("chance", chance))
    }
    most = maps[:SHOWN].abs().max()  # of 15 shades the middle one is 0
    return {
        "pictures": [inked(image[0]) for image in images[:SHOWN]],
        "boxes": [edges(box) for box in boxes[:SHOWN]],
        "maps": [shades((one[::2, ::2] / most + 1) * 7 / 15) for one in maps[:SHOWN]],
        "looked": plain(looked[:SHOWN], 2),
        "tested": len(labels),
        "ranks": [round(ranks(one, two), 4) for one, two in zip(cells, looked, strict=True)],
        "ranks of ink": [
            round(ranks(one[ink], two[ink]), 4) for one, two, ink in zip(cells, looked, dark, strict=True)
        ],
        "inside": float(positive(maps, boxes).mean()),
        "area": float(boxes.double().mean()),
        "curves": {name: plain(curve, 4) for name, curve in curves.items()},
    }


def ranks(one: Tensor, two: Tensor) -> float:
    """Spearman's rank correlation."""
    places = torch.stack([x.flatten().argsort().argsort().double() for x in (one, two)])
    return float(torch.corrcoef(places)[0, 1])


def positive(maps: Tensor, boxes: Tensor) -> Tensor:
    """The share of what covering took from the answer that was taken within the digit's box."""
    taken = maps.clamp(min=0)
    return (taken * boxes).sum((1, 2)) / taken.sum((1, 2))


def draw(numbers: Numbers) -> Figure:
    mean = sum(numbers["ranks"]) / len(numbers["ranks"])
    note = (
        f"{numbers['tested']} unseen pictures that are named rightly; a blank square of {SQUARE} x {SQUARE} slides "
        "over them, grey over what is missed most.\nBlue, the answer’s logit falls if covered; red, it rises. The rank "
        f"correlation with rollout, patch by patch, is {mean:.2f} in the\nmean. Right, the answer’s probability as "
        "patches are taken away, those of most worth first."
    )
    figure = style.page(TITLE, note, height=6.0)
    grid = figure.add_gridspec(1, 2, width_ratios=(1.35, 1))
    left, right = figure.add_subfigure(grid[0]), figure.add_subfigure(grid[1])
    panels = left.subplots(3, SHOWN)
    for column, image, covered, looked, box in zip(
        panels.T, numbers["pictures"], numbers["maps"], numbers["looked"], numbers["boxes"], strict=True
    ):
        column[0].imshow(paper(image), cmap="gray_r", vmin=0, vmax=15)
        column[0].add_patch(
            Rectangle(missed(torch.tensor(pixels_of(covered))), SQUARE, SQUARE, color=style.EDGE, alpha=0.45, lw=0)
        )
        full = (-0.5, IMAGE - 0.5, IMAGE - 0.5, -0.5)
        column[1].imshow(pixels_of(covered), cmap=style.SIGNED, vmin=0, vmax=14, extent=full)
        column[2].imshow(looked, cmap=style.WEIGHTS, vmin=0, extent=full)
        for axes in column:
            framed(axes, box)
    for axes, name in zip(panels[:, 0], ("picture", "covering", "rollout"), strict=True):
        axes.set_ylabel(name, color=style.INK)
    fallen(right.subplots(), numbers["curves"])
    return figure


def missed(covered: Tensor) -> tuple[float, float]:
    """The left upper corner of the square that holds most of what is missed; of the map, a number for two pixels."""
    held = F.avg_pool2d(covered[None].double(), SQUARE // 2, STRIDE // 2)[0]
    row, column = divmod(int(held.argmax()), held.shape[1])
    return STRIDE * column - 0.5, STRIDE * row - 0.5


def framed(axes: Axes, box: list[int]) -> None:
    """The digit's box on a picture or a map of it."""
    left, top, width, height = box
    style.frame(axes, left - 0.5, top - 0.5, width, height, style.INK, line=1.2)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(True)
    axes.spines[:].set_color(style.LINE)


TINTS = {"covering": style.WEIGHT, "rollout": style.KEY, "chance": style.SECOND}


def fallen(axes: Axes, curves: dict[str, list[float]]) -> None:
    for i, (name, tint) in enumerate(TINTS.items()):
        axes.plot(curves[name], color=tint)
        axes.text(
            0.97, 0.95 - 0.075 * i, name, color=tint, weight="bold", ha="right", va="top", transform=axes.transAxes
        )
    axes.set(ylim=(0, 1), xlim=(0, len(curves["chance"]) - 1))
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])
    axes.set_xlabel("patches taken away, of 64")
    axes.set_title("probability of the answer")
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)


def checks(numbers: Numbers) -> list[Check]:
    mean = {name: sum(curve) / len(curve) for name, curve in numbers["curves"].items()}
    found = sum(numbers["ranks"]) / len(numbers["ranks"])
    dark = sum(numbers["ranks of ink"]) / len(numbers["ranks of ink"])
    return [
        above("rank correlation of covering and rollout, mean", found, 0),
        aside(above("the same among patches with ink", dark, 0)),
        aside(above("what covering takes, in the digit's box over its area", numbers["inside"] / numbers["area"], 2)),
        below("mean of the curve: covering over chance", mean["covering"] / mean["chance"], 0.8),
        below("mean of the curve: rollout over chance", mean["rollout"] / mean["chance"], 1.0),
    ]
