"""10.9b: a layer of MLP-Mixer (Tolstikhin et al., 2021, figure 1): one MLP over the patches, one over the features.

The table is turned on its side, so that the first MLP reads a feature at all patches, the same MLP for every feature;
turned back, the second reads a patch with all its features, the same for every patch. All numbers were heard in the
library's layer: nine patches, six features.
"""

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.models.mixer import Config, MLPMixer
from regard.nn.block import Block
from regard.nn.feedforward import FeedForward
from regard.nn.mixers.tokens import TokenMLP
from regard_lectures.figure import Check, Numbers, above, below, equal, plain, seeded
from regard_lectures.products import matrix, step
from regard_lectures.recurrent.drawing import sign_at

TITLE = "A layer of two MLPs"
DECKS = ("004",)
CLAIM = (
    "One MLP mixes patches, the same for each feature, another features, the same for each patch; places are weights."
)
EXPECTED = (
    "One MLP mixes patches, the same for every feature, the other features, the same for every patch; patches in "
    "another order change the output unless the weights go along, and circulant weights are a convolution by feature."
)
FOUND = (
    "No slope crosses features in the first or patches in the second; another order moves the output by 0.49, and by "
    "9e-16 with the weights along; circulant weights equal a convolution to 9e-16."
)
COST = 0.2
SEED = 2

SMALL = Config(image=6, patch=2, channels=1, classes=0, dim=6, depth=1, tokens=5, hidden=12)
PATCHES = SMALL.grid[0] * SMALL.grid[1]


def compute() -> Numbers:
    with seeded(SEED), torch.no_grad():
        block, mixer = layer()
        x = torch.randn(1, PATCHES, SMALL.dim, dtype=torch.float64)
        order = torch.randperm(PATCHES)
        normed = block.mixer_residual.norm(x)
        mixed = mixer(normed)
        u = x + mixed
        fed = block.ffn(block.ffn_residual.norm(u))
        y = block(x)
        moved = block(x[:, order])
        parts = {"x": x, "turned": normed.mT, "mixed": mixed.mT, "u": u, "normed": block.ffn_residual.norm(u)}
        parts |= {"fed": fed, "y": y}
        found: Numbers = {name: plain(part[0], 3) for name, part in parts.items()}
        found["sizes"] = {"tokens": sizes(mixer.mlp), "features": sizes(block.ffn)}
        found["by hand"] = float((y - u - fed).abs().max())
        found["order"] = float((moved.mean(1) - y.mean(1)).abs().max())
        along(mixer, order)
        found["weights along"] = float((block(x[:, order]) - y[:, order]).abs().max())
        found["other features"], found["other patches"] = crossing(mixer, block.ffn)
        found["circulant"] = circulant()
    return found


def layer() -> tuple[Block, TokenMLP]:
    block = MLPMixer(SMALL).double().eval().blocks[0]
    assert isinstance(block, Block)
    assert isinstance(block.mixer, TokenMLP)
    return block, block.mixer


def sizes(mlp: nn.Module) -> list[int]:
    assert isinstance(mlp, FeedForward)
    return [mlp.up.in_features, mlp.up.out_features, mlp.down.out_features]


def along(mixer: TokenMLP, order: Tensor) -> None:
    """Put the weights over patches into another order: columns of the first, rows (and biases) of the second."""
    mixer.mlp.up.weight.copy_(mixer.mlp.up.weight[:, order].clone())
    mixer.mlp.down.weight.copy_(mixer.mlp.down.weight[order].clone())
    mixer.mlp.down.bias.copy_(mixer.mlp.down.bias[order].clone())


def crossing(mixer: TokenMLP, ffn: nn.Module) -> tuple[float, float]:
    """The largest slope of the first MLP by another feature, and of the second by another patch."""
    found = []
    for run, axis in ((mixer, 1), (ffn, 0)):
        slopes = torch.autograd.functional.jacobian(
            lambda x, run=run: run(x[None])[0], torch.randn(PATCHES, SMALL.dim, dtype=torch.float64)
        ).abs()  # (patch, feature, patch, feature)
        slopes = slopes.amax((0, 2)) if axis else slopes.amax((1, 3))
        found.append(float(slopes.fill_diagonal_(0.0).max()))
    return found[0], found[1]


def circulant() -> float:
    """Linear, and each row of weights the one before moved by one: against a convolution of each feature by itself."""
    taps = torch.randn(3, dtype=torch.float64)
    row = torch.cat((taps[1:], torch.zeros(PATCHES - 3, dtype=torch.float64), taps[:1]))  # 0, 1 ahead, ..., 1 behind
    mixer = TokenMLP(PATCHES, PATCHES, act=lambda x: x).double()
    for bias in (mixer.mlp.up.bias, mixer.mlp.down.bias):
        bias.zero_()
    mixer.mlp.up.weight.copy_(torch.eye(PATCHES))
    mixer.mlp.down.weight.copy_(torch.stack([row.roll(i) for i in range(PATCHES)]))
    x = torch.randn(1, PATCHES, SMALL.dim, dtype=torch.float64)
    around = F.pad(x.mT, (1, 1), mode="circular")
    wanted = F.conv1d(around, taps.expand(SMALL.dim, 1, 3), groups=SMALL.dim).mT
    return float((mixer(x) - wanted).abs().max())


CELL, FIRST, SECOND = 0.155, style.WEIGHT, style.SECOND


def draw(numbers: Numbers) -> Figure:
    note = (
        f"{PATCHES} patches (rows of $X$) with {SMALL.dim} features each. Above, the table lies on its side, and the "
        "indigo MLP reads each feature at all\npatches. Below, the ochre one reads each patch with all its features. "
        "Framed: what one run reads and writes."
    )
    figure = style.page(TITLE, note, height=6.75)
    axes = style.stage(figure)
    over_patches(axes, 4.1, numbers)
    over_features(axes, 1.35, numbers)
    return figure


def over_patches(axes: Axes, y: float, numbers: Numbers) -> None:
    end = matrix(axes, 0.45, y, numbers["x"], "$X$", style.INK, cell=CELL)
    x = step(axes, end, y, "norm, turn")
    there = matrix(axes, x, y, numbers["turned"], "", FIRST, cell=CELL)
    picked(axes, x, y, SMALL.dim, PATCHES, FIRST)
    x = mlp(axes, there, y, numbers["sizes"]["tokens"], "every feature", FIRST)
    back = matrix(axes, x, y, numbers["mixed"], "", FIRST, cell=CELL)
    picked(axes, x, y, SMALL.dim, PATCHES, FIRST)
    plus = step(axes, back, y, "turn") + 0.12
    skip(axes, 0.45 + CELL * SMALL.dim / 2, plus, y)
    style.arrow(axes, (plus + 0.12, y), (plus + 0.42, y))
    matrix(axes, plus + 0.5, y, numbers["u"], "$U$", style.INK, cell=CELL)


def over_features(axes: Axes, y: float, numbers: Numbers) -> None:
    end = matrix(axes, 0.45, y, numbers["u"], "$U$", style.INK, cell=CELL)
    x = step(axes, end, y, "norm", room=1.17)
    there = matrix(axes, x, y, numbers["normed"], "", SECOND, cell=CELL)
    picked(axes, x, y, PATCHES, SMALL.dim, SECOND)
    x = mlp(axes, there, y, numbers["sizes"]["features"], "every patch", SECOND, room=0.55)
    back = matrix(axes, x, y, numbers["fed"], "", SECOND, cell=CELL)
    picked(axes, x, y, PATCHES, SMALL.dim, SECOND)
    plus = step(axes, back, y, "", room=1.17) + 0.12
    skip(axes, 0.45 + CELL * SMALL.dim / 2, plus, y)
    style.arrow(axes, (plus + 0.12, y), (plus + 0.42, y))
    matrix(axes, plus + 0.5, y, numbers["y"], "$Y$", style.INK, cell=CELL)


def picked(axes: Axes, x: float, y: float, rows: int, columns: int, tint: str) -> None:
    """The frame around the second row."""
    style.frame(axes, x, y + CELL * (rows / 2 - 2), CELL * columns, CELL, tint)


def mlp(axes: Axes, x: float, y: float, size: list[int], says: str, tint: str, *, room: float = 0.32) -> float:
    """Its box after x, between two arrows. -> where the next matrix begins"""
    left, wide = x + room, 1.1
    style.arrow(axes, (x + 0.08, y), (left - 0.02, y), color=tint)
    style.box(axes, left, y - 0.42, wide, 0.84, edge=tint, fill=style.mix(tint, 0.14), line=1.8)
    style.write(axes, left + wide / 2, y + 0.14, "MLP", size=13, color=tint, weight="bold")
    style.write(axes, left + wide / 2, y - 0.17, " → ".join(map(str, size)), size=10.5)
    style.write(axes, left + wide / 2, y - 0.7, f"the same for\n{says}", size=9.5, color=style.SOFT)
    style.arrow(axes, (left + wide, y), (left + wide + room - 0.08, y), color=tint)
    return left + wide + room


def skip(axes: Axes, start: float, plus: float, y: float) -> None:
    """What passes by, from a table's upper edge to the sum."""
    top = y + CELL * PATCHES / 2
    points = [(start + 0.3, top + 0.03), (start + 0.3, top + 0.38), (plus, top + 0.38), (plus, y + 0.12)]
    style.route(axes, points, color=style.INK)
    sign_at(axes, plus, y, "+")


def checks(numbers: Numbers) -> list[Check]:
    tokens, features = numbers["sizes"]["tokens"], numbers["sizes"]["features"]
    return [
        equal("sizes of the MLP over patches", str(tokens), str([PATCHES, SMALL.tokens, PATCHES])),
        equal("sizes of the MLP over features", str(features), str([SMALL.dim, SMALL.hidden, SMALL.dim])),
        below("the layer against its steps one by one", numbers["by hand"], 1e-12),
        equal("over patches: largest slope by another feature", numbers["other features"], 0.0),
        equal("over features: largest slope by another patch", numbers["other patches"], 0.0),
        above("patches in another order: the mean of the output moves by", numbers["order"], 0.01),
        below("weights and biases over patches put in that order, too", numbers["weights along"], 1e-12),
        below("weights that turn in a circle against a convolution by feature", numbers["circulant"], 1e-12),
    ]
