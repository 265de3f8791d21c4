"""5.7c: what an image costs as its side grows: windows against looks at all (Liu et al., 2021, equations 1 and 2).

    all     4 hw C^2 + 2 (hw)^2 C
    windows 4 hw C^2 + 2 M^2 hw C

One layer of the library's attention, 32 wide, in windows of 4 x 4 patches or over all patches, on one thread and in
that thread's own time; products are counted in the explicit form, where scores are matrices, and agree with the paper's
equations.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import nn

from regard import style
from regard.comparison.measure import cost_exponent, count_operations, time_fastest
from regard.models.swin import Config, Swin
from regard.nn.block import Block
from regard.nn.mixers.windows import WindowAttention
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, below, seeded, within

TITLE = "Linear in the pixels"
DECKS = ("004",)
CLAIM = "In windows the cost grows with the pixels; where all look at all, it comes to grow with their square."
EXPECTED = (
    "In windows the cost grows linearly with the pixels; where all look at all, it comes to grow with their square."
)
FOUND = (
    "The multiplications of windows grow with the power 1.00 of the pixels, but their seconds with 0.59 from 16 x 16 to"
    " 64 x 64 patches, as fixed costs still count; where all look at all, seconds grow with 1.96."
)
COST = 20.0
SEED = 0

DIM, WINDOW, SIDES, ROUNDS = 32, 4, (16, 24, 32, 48, 64), 9  # sides in patches
TINTS = {"windows": style.WEIGHT, "all look at all": style.SECOND}


def layers(side: int) -> dict[str, nn.Module]:
    """The attention of Swin's first layer, and one whose window is the whole grid."""
    found: dict[str, nn.Module] = {}
    for name, window in (("windows", WINDOW), ("all look at all", side)):
        net = Swin(Config(image=side, patch=1, classes=0, dim=DIM, depth=(1,), heads=(1,), hidden=64, window=window))
        block = net.stages[0].blocks[0]  # type: ignore[index]
        assert isinstance(block, Block)
        assert isinstance(block.mixer, WindowAttention)
        found[name] = block.mixer.attention if name != "windows" else block.mixer
    return found


def formula(name: str, side: int) -> int:
    """The paper's count of multiplications."""
    places = side**2
    seen = WINDOW**2 if name == "windows" else places
    return 4 * places * DIM**2 + 2 * seen * places * DIM


def compute() -> Numbers:
    numbers: Numbers = {name: {"seconds": [], "operations": []} for name in TINTS}
    with seeded(SEED), torch.inference_mode():
        for side in SIDES:
            x = torch.randn(1, side, side, DIM)
            works = []
            for name, layer in layers(side).items():
                given = x if name == "windows" else x.flatten(1, 2)
                works.append(lambda layer=layer, given=given: layer(given))
                with capture(layer, "*weights"):
                    numbers[name]["operations"].append(count_operations(works[-1]) // 2)
            for name, took in zip(TINTS, time_fastest(works, ROUNDS), strict=True):
                numbers[name]["seconds"].append(took)
    return numbers


def draw(numbers: Numbers) -> Figure:
    note = (
        f"One layer of attention, {DIM} wide, on one thread. Left, multiplications by the paper’s equations "
        f"(lines) and as counted in\nthe explicit form (dots); right, time. Windows have {WINDOW} x {WINDOW} "
        "patches. Dotted: as the pixels, and as their square."
    )
    figure = style.page(TITLE, note, height=5.0)
    left, right = figure.subplots(1, 2)
    pixels = [side**2 for side in SIDES]
    for name, tint in TINTS.items():
        left.plot(pixels, [formula(name, side) for side in SIDES], color=tint)
        left.plot(pixels, numbers[name]["operations"], "o", color=tint)
        style.end_label(left, pixels[-1], formula(name, SIDES[-1]), name, tint)
        right.plot(pixels, numbers[name]["seconds"], "o-", color=tint)
        style.end_label(right, pixels[-1], numbers[name]["seconds"][-1], name, tint)
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_yscale("log")
    powers(left, pixels, formula("windows", SIDES[0]))
    powers(right, pixels, numbers["windows"]["seconds"][0])
    left.set_title("multiplications")
    right.set_title("seconds")
    for axes in (left, right):
        axes.set_xticks(pixels, [f"{side}²" for side in SIDES])
        axes.minorticks_off()
        axes.set_xlim(pixels[0] / 1.2, pixels[-1] * 7)
        axes.grid(axis="y")
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("patches")
    return figure


def powers(axes: Axes, pixels: list[int], start: float) -> None:
    """How lines of exponent 1 and 2 would run."""
    for power in (1, 2):
        ends = [start / 3 * (count / pixels[0]) ** power for count in (pixels[0], pixels[-1])]
        axes.plot([pixels[0], pixels[-1]], ends, color=style.EDGE, lw=1, ls=":")


def checks(numbers: Numbers) -> list[Check]:
    pixels = [side**2 for side in SIDES]
    apart = max(
        abs(counted / formula(name, side) - 1)
        for name in TINTS
        for counted, side in zip(numbers[name]["operations"], SIDES, strict=True)
    )
    windows, whole = (numbers[name]["seconds"] for name in TINTS)
    return [
        below("multiplications counted against the equations, relative", apart, 0.01),
        within(
            "windows: exponent of the multiplications",
            cost_exponent(pixels, numbers["windows"]["operations"]),
            0.999,
            1.001,
        ),
        within("seconds, windows: exponent of the pixels", cost_exponent(pixels, windows), 0.9, 1.1),
        within("seconds, all look at all: the same from 32 x 32 on", cost_exponent(pixels[2:], whole[2:]), 1.8, 2.1),
    ]
