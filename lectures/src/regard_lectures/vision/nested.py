"""5.1: what one unit of a convolutional net sees: from layer to layer one pixel more on every side.

Shaded is by how much each number of a layer below moves one unit three layers up, found by differentiation, with
kernels of equal positive weights and no activations, so that nothing cancels out. Where it is not zero is the field,
and the formula r_l = r_(l-1) + (k_l - 1) d_l j_(l-1), j_l = j_(l-1) s_l tells its side.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.models.resnet import PRESETS, Backbone
from regard.nn.convolution import LayerWindow, receptive_field
from regard_lectures.figure import Check, Numbers, equal, plain

TITLE = "What one unit sees"
DECKS = ("003", "004")
CLAIM = "Each layer of 3 x 3 adds one pixel on every side; strides and dilations widen it as the formula says."
EXPECTED = (
    "L layers of 3 x 3 see 2 L + 1 pixels in a row; with strides and dilations the field is as wide as the formula "
    "says."
)
FOUND = "1 to 8 layers see 3 to 17 pixels in a row, and four other nets 9, 15, 15 and 23, all as the formula says."
COST = 1.0
SEED = 0

LAYERS, SIDE, MOST = 3, 9, 8
NETS: dict[str, list[LayerWindow]] = {
    "3 x 3, stride 2, 3 x 3": [LayerWindow(3), LayerWindow(3, 2), LayerWindow(3)],
    "three of 3 x 3, dilated by 1, 2, 4": [LayerWindow(3, 1, 1), LayerWindow(3, 1, 2), LayerWindow(3, 1, 4)],
    "7 x 7 with stride 2, two of 3 x 3": [LayerWindow(7, 2), LayerWindow(3), LayerWindow(3)],
}


def moving(windows: Sequence[LayerWindow], side: int) -> list[Tensor]:
    """By how much each number of each layer, the image first, moves the middle unit of the last.  -> (r, c) of each"""
    x = torch.zeros(1, 1, side, side, dtype=torch.float64, requires_grad=True)
    layers = [x]
    for window in windows:
        kernel = torch.full((1, 1, window.kernel, window.kernel), window.kernel**-2.0, dtype=torch.float64)
        reach = (window.kernel - 1) * window.dilation // 2
        layers.append(F.conv2d(layers[-1], kernel, None, window.stride, reach, window.dilation))
    last = layers[-1]
    middle = last.shape[-1] // 2
    slopes = torch.autograd.grad(last[0, 0, middle, middle], layers)
    return [slope[0, 0] for slope in slopes]


def side_of(slope: Tensor) -> int:
    """Rows from the first to the last that matter."""
    rows = slope.abs().sum(1).nonzero()[:, 0]
    return int(rows[-1] - rows[0]) + 1


def compute() -> Numbers:
    small = Backbone(PRESETS["cnn-small"]).windows()
    nets = NETS | {"the library’s cnn-small": small}
    return {
        "layers": [plain(slope, 4) for slope in moving([LayerWindow(3)] * LAYERS, SIDE)],
        "measured": [side_of(moving([LayerWindow(3)] * layers, 33)[0]) for layers in range(1, MOST + 1)],
        "nets": {
            name: [side_of(moving(windows, 129)[0]), receptive_field(windows).size] for name, windows in nets.items()
        },
    }


def draw(numbers: Numbers) -> Figure:
    note = (
        f"{LAYERS} layers of 3 x 3. Shaded: by how much each number moves one unit of layer {LAYERS}, in percent, "
        "found by differentiation.\nFramed: the field by the formula. Below, sides of fields, measured and by "
        "formula."
    )
    figure = style.page(TITLE, note, height=6.3)
    axes = style.stage(figure)
    cell = 0.235
    for i, slope in enumerate(reversed(numbers["layers"])):
        layer = LAYERS - i
        grid(axes, 0.35 + 2.38 * i, 4.5, cell, slope, 1 + 2 * i)
        name = "image" if layer == 0 else f"layer {layer}"
        style.write(axes, 0.35 + 2.38 * i + cell * SIDE / 2, 4.68, name, size=12)
        side = 1 + 2 * i
        style.write(axes, 0.35 + 2.38 * i + cell * SIDE / 2, 2.2, f"{side} × {side}", size=10.5, color=style.SOFT)
    table(axes, numbers)
    return figure


def grid(axes: Axes, x: float, y: float, cell: float, slope: list[list[float]], side: int) -> None:
    """Its upper left corner at (x, y)."""
    shown = [[100 * value for value in row] for row in slope]
    style.cells(axes, x, y, shown, cell)
    for i, row in enumerate(shown):
        for j, value in enumerate(row):
            if value:
                ink = "white" if value > 0.4 * max(map(max, shown)) else style.INK
                place = x + (j + 0.5) * cell, y - (i + 0.5) * cell
                style.write(axes, *place, f"{value:.0f}" if value >= 1 else "·", size=7, color=ink)
    edge = (SIDE - side) / 2 * cell
    style.frame(axes, x + edge, y - SIDE * cell + edge, side * cell, side * cell, style.QUERY)


def table(axes: Axes, numbers: Numbers) -> None:
    style.write(axes, 0.35, 1.72, "layers of 3 × 3", ha="left", size=11)
    style.write(axes, 0.35, 1.42, "side, measured", ha="left", size=11, color=style.SOFT)
    style.write(axes, 0.35, 1.12, "2 L + 1", ha="left", size=11, color=style.SOFT)
    for i, side in enumerate(numbers["measured"]):
        x = 2.2 + 0.38 * i
        style.write(axes, x, 1.72, str(i + 1), size=11)
        style.write(axes, x, 1.42, str(side), size=11, weight="bold", color=style.WEIGHT)
        style.write(axes, x, 1.12, str(2 * i + 3), size=11, color=style.SOFT)
    style.write(axes, 5.55, 1.72, "other nets: measured, formula", ha="left", size=11)
    for i, (name, (measured, formula)) in enumerate(numbers["nets"].items()):
        y = 1.42 - 0.3 * i
        style.write(axes, 5.55, y, name, ha="left", size=10.5, color=style.SOFT)
        style.write(axes, 9.0, y, str(measured), size=11, weight="bold", color=style.WEIGHT)
        style.write(axes, 9.45, y, str(formula), size=11, color=style.SOFT)


def checks(numbers: Numbers) -> list[Check]:
    sides = [side_of(torch.tensor(slope)) for slope in numbers["layers"]]
    return [
        equal("sides of what is seen, image to layer 3", str(sides), str([7, 5, 3, 1])),
        equal(
            "1 to 8 layers of 3 x 3: sides measured",
            str(numbers["measured"]),
            str([2 * layers + 1 for layers in range(1, MOST + 1)]),
        ),
        *(equal(f"{name}: side measured", measured, formula) for name, (measured, formula) in numbers["nets"].items()),
    ]
