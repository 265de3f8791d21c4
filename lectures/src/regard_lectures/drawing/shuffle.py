"""6.2: PixelShuffle (Shi et al., 2016): channels become pixels, each once. Beside it, the uneven overlap of a
transposed convolution whose kernel its stride does not divide (Odena et al., 2016, https://distill.pub/2016/deconv-checkerboard).

How many positions reach a pixel is counted by gradients, the same way for both. The strength of a pixel is the root of
its mean square over random weights, where the input is one everywhere.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor, nn

from regard import style
from regard.nn.growth import shuffle_pixels
from regard_lectures.figure import Check, Numbers, above, equal, plain, seeded

TITLE = "Four channels become four pixels"
DECKS = ("003",)
CLAIM = (
    "PixelShuffle makes a grid twice as large out of channels, without the uneven overlap of transposed convolutions."
)
EXPECTED = (
    "The shuffle is nn.PixelShuffle and a transposed convolution with a fixed kernel of zeros and ones, exactly; each"
    " of its pixels comes from one position. With stride 2 and kernel 3, pixels come from unequal numbers of positions:"
    " a checkerboard."
)
FOUND = (
    "Both differences are 0. Each pixel of the shuffle comes from 1 position, those of the transposed convolution from"
    " 1, 2 or 4, and the strongest is twice as strong as the weakest."
)
COST = 0.5
SEED = 0

SIDE = 3  # of the grid whose channels are shown
GRID = 4  # of the grid whose overlap is counted
CHANNELS = 4
DRAWS = 2000  # of random weights
CELL = 0.26  # inches


def compute() -> Numbers:
    places = torch.arange(CHANNELS * SIDE**2).view(1, CHANNELS, SIDE, SIDE)
    with seeded(SEED):
        x = torch.randn(2, 3 * CHANNELS, 5, 6, dtype=torch.float64)
        threes = torch.randn(DRAWS, CHANNELS, 1, 3, 3, dtype=torch.float64) / CHANNELS**0.5
        ones = torch.randn(DRAWS, CHANNELS, CHANNELS, 1, 1, dtype=torch.float64) / CHANNELS**0.5
    ours = shuffled(x)
    even = torch.ones(1, CHANNELS, GRID, GRID, dtype=torch.float64)
    return {
        "places": shuffled(places)[0, 0].tolist(),
        "shuffle differs": float((ours - nn.PixelShuffle(2)(x)).abs().max()),
        "kernel differs": float((ours - F.conv_transpose2d(x, fixed_kernel(3), stride=2)).abs().max()),
        "kernel": sorted(set(fixed_kernel(3).flatten().tolist())),
        "transposed": positions(lambda grid: transposed(grid, torch.ones_like(threes[0]))),
        "shuffle": positions(shuffled),
        "transposed strength": plain(strength([transposed(even, weight) for weight in threes]), 3),
        "shuffle strength": plain(strength([shuffled(F.conv2d(even, weight)) for weight in ones]), 3),
    }


def shuffled(x: Tensor) -> Tensor:
    """(b, 4c, h, w) -> (b, c, 2h, 2w)"""
    return shuffle_pixels(x.movedim(1, -1)).movedim(-1, 1)


def fixed_kernel(out: int) -> Tensor:
    """Of every four channels, each is put at a corner of its own.  -> (4 out, out, 2, 2)"""
    corners = torch.eye(4, dtype=torch.float64).view(4, 2, 2)
    kernel = torch.zeros(4 * out, out, 2, 2, dtype=torch.float64)
    for c in range(out):
        kernel[4 * c : 4 * c + 4, c] = corners
    return kernel


def transposed(x: Tensor, weight: Tensor) -> Tensor:
    """Stride 2, kernel 3, to twice the sides.  (1, c, h, w), (c, 1, 3, 3) -> (1, 1, 2h, 2w)"""
    return F.conv_transpose2d(x, weight, stride=2, padding=1, output_padding=1)


def positions(grow: Callable[[Tensor], Tensor]) -> list[list[int]]:
    """From how many positions each pixel comes, which any of their channels may reach."""
    grid = torch.zeros(1, CHANNELS, GRID, GRID, dtype=torch.float64)
    slopes = torch.autograd.functional.jacobian(grow, grid)[0, 0, :, :, 0]  # (2h, 2w, c, h, w)
    found: list[list[int]] = slopes.any(2).sum((2, 3)).tolist()
    return found


def strength(images: list[Tensor]) -> Tensor:
    return torch.cat(images)[:, 0].square().mean(0).sqrt()


def inner(counts: list[list[int]]) -> list[int]:
    """Without the rim, where a kernel reaches beyond the image."""
    return [count for row in counts[1:-1] for count in row[1:-1]]


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Above: {CHANNELS} channels of {SIDE} × {SIDE} positions interleave into one of {2 * SIDE} × {2 * SIDE}"
        f" pixels. Below: from how many positions each pixel\ncomes, and how strong it is where the input is one"
        f" everywhere (root mean square over {DRAWS:,} draws of the weights)."
    )
    figure = style.page(TITLE, note, height=7.5)
    axes = style.stage(figure)
    for channel in range(CHANNELS):
        x = 0.4 + 1.42 * channel
        style.write(axes, x + 0.6, 5.64, f"channel {channel + 1}", size=11, color=style.SOFT)
        for place in range(SIDE**2):
            row, column = divmod(place, SIDE)
            tile(axes, x + 0.4 * column, 5.45 - 0.4 * (row + 1), channel * SIDE**2 + place)
    style.arrow(axes, (6.1, 4.85), (6.95, 4.85))
    for i, line in enumerate(numbers["places"]):
        for j, place in enumerate(line):
            tile(axes, 7.2 + 0.4 * j, 6.05 - 0.4 * (i + 1), place)
    most = max(max(row) for name in ("transposed", "shuffle") for row in numbers[f"{name} strength"])
    panels = (
        ("transposed", "Transposed convolution, stride 2, kernel 3"),
        ("shuffle", "PixelShuffle after a 1 × 1 convolution"),
    )
    for x, (name, title) in zip((0.4, 5.2), panels, strict=True):
        style.write(axes, x, 3.05, title, ha="left", va="baseline", size=12.5)
        style.cells(axes, x, 2.85, numbers[name], CELL, limit=4, digits=0, size=9.5)
        strengths(axes, x + 2.3, 2.85, numbers[f"{name} strength"], most)
        for middle, label in ((x + 4 * CELL, "positions per pixel"), (x + 2.3 + 4 * CELL, "strength")):
            style.write(axes, middle, 0.5, label, size=10.5, color=style.SOFT)
    return figure


def strengths(axes: Axes, x: float, y: float, values: list[list[float]], most: float) -> None:
    """Upper left corner (x, y)."""
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            corner = x + CELL * j, y - CELL * (i + 1)
            shade = style.mix(style.SECOND, (value / most) ** 2)
            ink = "white" if value > 0.9 * most else style.INK
            axes.add_patch(Rectangle(corner, CELL, CELL, fc=shade, ec="white", lw=1.2, zorder=3))
            style.write(axes, corner[0] + CELL / 2, corner[1] + CELL / 2 - 0.005, f"{value:.1f}", size=8, color=ink)


def tile(axes: Axes, x: float, y: float, place: int) -> None:
    """A position of a channel, by its colour and number; lower left corner (x, y)."""
    channel, position = divmod(place, SIDE**2)
    axes.add_patch(Rectangle((x, y), 0.4, 0.4, fc=style.GROUPS[channel], ec="white", lw=1.5, zorder=3))
    style.write(axes, x + 0.2, y + 0.195, str(position + 1), size=11)


def checks(numbers: Numbers) -> list[Check]:
    unequal, alike = inner(numbers["transposed"]), [count for row in numbers["shuffle"] for count in row]
    return [
        equal("difference from nn.PixelShuffle", numbers["shuffle differs"], 0.0),
        equal("difference from a fixed transposed convolution", numbers["kernel differs"], 0.0),
        equal("numbers in its kernel", str(numbers["kernel"]), "[0.0, 1.0]"),
        equal("positions that a shuffled pixel comes from", str(sorted(set(alike))), "[1]"),
        above("kernel 3, stride 2: most positions by fewest", max(unequal) / max(min(unequal), 1), 1.0),
    ]
