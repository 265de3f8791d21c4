"""5.3d: deck 001's remark that encoder and decoder may be of different kinds: a ViT sees a drawing, a Transformer's
decoder says what is on it, and looks at the patches while it does.

The captioner is that of the recipe scenes, whose images code draws; here are some that it has not seen, of two shapes
each. Its encoder has one layer. With two, taught for 500 steps, it was about as good, but looked at the shape that it
named hardly more than at the other: a deeper encoder may gather what it saw in any patch, and there the decoder reads
it. Where a deep net looks need not be where things are.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor

from regard import style
from regard.look.maps import Map
from regard.modalities.captions.runners import ImageDescription
from regard.modalities.captions.scenes import RELATIONS, SCENE_SIDE, draw_scene
from regard.model import Model
from regard_lectures.figure import Check, Numbers, above, below, plain
from regard_lectures.runs import by_recipe

TITLE = "From patches to words"
DECKS = ("001",)
CLAIM = "A decoder that looks at a ViT's patches says what is in an image, and looks at a shape when it names it."
EXPECTED = (
    "A decoder that looks at a ViT's patches describes over 90 % of unseen images without a fault, and looks at a "
    "shape when it names it, over 3 times its share."
)
FOUND = (
    "100 % of 200 captions are without a fault; 3.95 times its share of the look is on the shape that is named, 17.9 "
    "times as much as on the other."
)
COST = 150.0
SEED = 99  # of the scenes: none of the recipe's

TESTS, SHOWN = 200, 3
LEFT = f" {next(iter(RELATIONS))} "
NAMED = 4  # words of a shape: a large red circle
PALE = 60  # of 765: what is darker than the paper by more is ink


@dataclass(frozen=True, eq=False)
class Pair:
    """A scene of two shapes."""

    number: int
    image: Image.Image
    caption: str

    def covered(self, patch: int) -> Tensor:
        """Which patches hold either shape, the first that is named first.  -> (2, patches)"""
        ink = torch.tensor((255 - np.asarray(self.image).astype(int)).sum(-1) > PALE)
        first = torch.zeros_like(ink)
        if LEFT in self.caption:
            first[:, : SCENE_SIDE // 2] = True
        else:
            first[: SCENE_SIDE // 2] = True
        return F.max_pool2d(torch.stack((ink & first, ink & ~first))[:, None].float(), patch).flatten(1)


def pair(number: int) -> Pair | None:
    """None if the scene has one shape."""
    image, caption = draw_scene(np.random.Philox(key=np.array([SEED, number], np.uint64)))
    return Pair(number, image, caption) if caption.count("a ") > 1 else None


def pairs() -> list[Pair]:
    found: list[Pair] = []
    number = 0
    while len(found) < TESTS:
        found += [one] if (one := pair(number)) else []
        number += 1
    return found


def compute() -> Numbers:
    model, tests = by_recipe("scenes"), pairs()
    patch = model.config.patch
    told = [described(model, one) for one in tests]
    exact = [said.text == one.caption for said, one in zip(told, tests, strict=True)]
    swapped = [said.text == one.caption for said, one in zip(told, tests[1:] + tests[:1], strict=True)]
    looked = torch.stack(
        [shares(said.maps, one.covered(patch)) for said, one, good in zip(told, tests, exact, strict=True) if good]
    ).mean(0)  # on it, on the other, its share of the patches
    shown = [i for i, good in enumerate(exact) if good][:SHOWN]
    return {
        "exact": sum(exact) / TESTS,
        "another image": sum(swapped) / TESTS,
        "on its shape": float(looked[0]),
        "on the other": float(looked[1]),
        "share of a shape": float(looked[2]),
        "scenes": [tests[i].number for i in shown],
        "said": [told[i].text.split() for i in shown],
        "maps": [plain(mean_of(told[i].maps)[: len(told[i].text.split())], 2) for i in shown],
    }


def described(model: Model, one: Pair) -> ImageDescription:
    found = model.describe(one.image, look="decoder.*.cross")
    assert isinstance(found, ImageDescription)
    return found


def mean_of(maps: dict[str, Map]) -> Tensor:
    """Over layers and heads.  -> (words, patches)"""
    return torch.stack([one.weights[0] for one in maps.values()]).mean((0, 1))


def shares(maps: dict[str, Map], covered: Tensor) -> Tensor:
    """While a shape is named: the look on it, on the other, and its share of the patches.  -> (3,)"""
    weights, words = mean_of(maps), next(iter(maps.values())).rows.labels
    assert words is not None
    found = []
    for i, start in enumerate(j for j, word in enumerate(words) if word == "a"):
        naming = weights[start + NAMED - 1]  # the name itself, after size and colour
        found.append(torch.stack((naming @ covered[i], naming @ covered[1 - i], covered[i].mean())))
    return torch.stack(found).mean(0)


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Of {TESTS:,} unseen scenes {style.percent(numbers['exact'], 1)} are described without a fault. Below each "
        "word, the patches that the decoder\nlooked at while it chose it, mean of layers and heads. When a shape is "
        "named, "
        f"{style.percent(numbers['on its shape'])} of the look is on it,\n{style.percent(numbers['on the other'])} on "
        f"the other; it is in {style.percent(numbers['share of a shape'])} of the patches."
    )
    figure = style.page(TITLE, note, height=5.3)
    most = max(map(len, numbers["said"]))
    panels = figure.subplots(SHOWN, most + 1, width_ratios=(1.6, *[1] * most))
    for row, number, words, maps in zip(panels, numbers["scenes"], numbers["said"], numbers["maps"], strict=True):
        one: Any = pair(number)
        picture(row[0])
        row[0].imshow(one.image)
        for axes in row[1 + len(words) :]:
            axes.set_axis_off()
        for axes, word, weights in zip(row[1:], words, maps, strict=False):
            picture(axes)
            side = round(len(weights) ** 0.5)
            grid = torch.tensor(weights).unflatten(0, (side, side))
            axes.imshow(grid.numpy(), cmap=style.WEIGHTS, vmin=0, vmax=float(grid.max()))
            axes.set_title(word, size=10.5, loc="center", pad=4)
    return figure


def picture(axes: Axes) -> None:
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(visible=True, color=style.LINE)


def checks(numbers: Numbers) -> list[Check]:
    on, other = numbers["on its shape"], numbers["on the other"]
    return [
        above("captions without a fault, share", numbers["exact"], 0.9),
        below("captions that fit another image, share", numbers["another image"], 0.05),
        above("look on the shape that is named, over its share of patches", on / numbers["share of a shape"], 3),
        above("look on the shape that is named, over that on the other", on / other, 2),
    ]
