"""10.7c: a Perceiver (Jaegle et al., 2021, figure 1) asks its inputs again and again: some latents look at all of them,
talk among themselves, and look anew, by weights of their own for the first look and shared ones from then on.

The order of calls and all shapes were heard in the library's net of the published sizes while it ran, without memory;
the numbers of scores are those of its maps.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import nn

from regard import style
from regard.models.perceiver import PRESETS, Config, Perceiver
from regard.nn.block import Block
from regard.nn.latents import LatentBlock
from regard.zoo import count_parameters
from regard_lectures.figure import Check, Numbers, below, equal, within

TITLE = "Perceiver: a few latents ask again and again"
DECKS = ("004",)
CLAIM = "Latents look at all inputs eight times, and talk among themselves between: no score is of two inputs."
EXPECTED = (
    "512 latents look at 50,176 inputs of 261 numbers 8 times, with 6 layers among themselves after each; the net has "
    "about 45 million weights."
)
FOUND = (
    "The calls are as drawn, 56 of them, with 44.9 million weights; all scores of the net are 0.12 of those of one "
    "head that compares all pixels."
)
COST = 2.0
SEED = 0

LARGE = PRESETS["perceiver-imagenet"]
SHOWN, MIDDLE = 3, 2.65  # looks that are drawn, and the height of the line that they stand in


def compute() -> Numbers:
    with torch.device("meta"):
        net = Perceiver(LARGE).eval()
        calls: list[str] = []
        for name, part in net.named_modules():
            if isinstance(part, LatentBlock | Block):
                listen(part, "look" if isinstance(part, LatentBlock) else "block", name, calls)
        image = torch.zeros(1, LARGE.channels, LARGE.image, LARGE.image)
        inputs = net.inputs(image)
        latents = net.latents(inputs)
    return {
        "calls": calls,
        "inputs": list(inputs.shape[1:]),
        "latents": list(latents.shape[1:]),
        "weights": count_parameters(net),
        "looks": LARGE.looks,
        "depth": LARGE.depth,
        "scores": scores(LARGE, inputs.shape[1]),
        "pairs": inputs.shape[1] ** 2,
    }


def listen(part: nn.Module, kind: str, name: str, calls: list[str]) -> None:
    part.register_forward_hook(lambda *_: calls.append(f"{kind} {name}"))


def scores(config: Config, inputs: int) -> int:
    """Of all looks of one head each, and of all blocks, each of its heads."""
    looks = config.looks * config.cross_heads * config.latents * inputs
    return looks + config.repeats * config.depth * config.heads * config.latents**2


def draw(numbers: Numbers) -> Figure:
    (n, c), (m, d) = numbers["inputs"], numbers["latents"]
    note = (
        f"The published net for images: {n:,} pixels, each with {c} numbers, of which 258 are sines and cosines of its"
        f" place; {m} latents\nof width {d:,}; {numbers['looks']} looks, {numbers['depth']} layers after each,"
        f" {numbers['weights'] / 1e6:.1f} million weights. The first look has its own, all others share theirs."
    )
    figure = style.page(TITLE, note, height=5.3)
    axes = style.stage(figure)
    style.box(axes, 0.3, 0.4, 9.35, 0.52, f"inputs  {n:,} × {c}", fill=style.SUNK, size=12.5)
    style.box(axes, 0.3, MIDDLE - 0.31, 0.98, 0.62, f"latents\n{m} × {d:,}", edge=style.QUERY, size=10, line=1.6)
    x = 1.28
    for i in range(SHOWN):
        x = round_of(axes, x, i, numbers)
    style.write(axes, x + 0.22, MIDDLE, "…", size=17)
    style.arrow(axes, (x + 0.4, MIDDLE), (x + 0.62, MIDDLE))
    style.box(axes, x + 0.65, MIDDLE - 0.31, 0.8, 0.62, "mean,\nlinear", size=10)
    style.write(axes, x + 1.05, MIDDLE + 0.55, "label", size=10, color=style.SOFT)
    told = f"All maps together: {numbers['scores'] / 1e6:,.0f} million scores. One head in which all pixels compare"
    told = f"{told} themselves: {numbers['pairs'] / 1e6:,.0f} million."
    style.write(axes, 0.3, MIDDLE + 1.05, told, ha="left", size=11)
    return figure


def round_of(axes: Axes, x: float, i: int, numbers: Numbers) -> float:
    """A look and the layers after it, from x on.  -> where it ends"""
    tint, wide, high = style.SECOND if i == 0 else style.WEIGHT, 0.82, 0.62
    style.arrow(axes, (x + 0.03, MIDDLE), (x + 0.25, MIDDLE), color=style.QUERY)
    style.box(axes, x + 0.28, MIDDLE - high / 2, wide, high, "look", edge=tint, size=12, line=1.8)
    style.arrow(axes, (x + 0.69, 0.95), (x + 0.69, MIDDLE - 0.36), color=style.KEY)
    style.write(axes, x + 0.79, 1.6, "keys,\nvalues", ha="left", size=9.5, color=style.KEY)
    style.write(axes, x + 0.69, MIDDLE + 0.55, "own weights" if i == 0 else "shared", size=10, color=tint)
    style.arrow(axes, (x + 1.13, MIDDLE), (x + 1.35, MIDDLE))
    style.box(axes, x + 1.38, MIDDLE - high / 2, wide, high, f"{numbers['depth']} layers", edge=style.WEIGHT, size=10.5)
    style.write(axes, x + 1.79, MIDDLE + 0.55, "shared", size=10, color=style.WEIGHT)
    return x + 1.38 + wide


def checks(numbers: Numbers) -> list[Check]:
    blocks = [f"block latents.blocks.{i}" for i in range(numbers["depth"])]
    first, again = ["look latents.cross", *blocks], ["look latents.again", *blocks]
    expected = [*first, *again * (numbers["looks"] - 1)]
    (n, c), (m, _) = numbers["inputs"], numbers["latents"]
    return [
        equal(
            "calls, in order, that are not as drawn",
            sum(numbers["calls"][i : i + 1] != [x] for i, x in enumerate(expected)),
            0,
        ),
        equal("calls", len(numbers["calls"]), len(expected)),
        equal("inputs: pixels", n, 224 * 224),
        equal("numbers of a pixel", c, 261),
        within("millions of weights (published: about 45)", numbers["weights"] / 1e6, 42, 48),
        below("latents over inputs", m / n, 0.02),
        below(
            "scores of the whole net over those of one head that compares all pixels",
            numbers["scores"] / numbers["pairs"],
            1,
        ),
    ]
