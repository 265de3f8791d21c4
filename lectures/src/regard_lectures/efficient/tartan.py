"""10.7: a Perceiver's latents look at an image of 48 x 48 pixels, before any training.

Beside each pixel stand the sines and cosines of its place, so a latent that prefers some of them looks at stripes, and
at two axes of stripes as a tartan. The image is a set to it: pixels in another order, their places along, give the same
numbers, and the maps are those of the same pixels.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.models.perceiver import Config, Perceiver
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, above, below, equal, plain, seeded

TITLE = "Tartans: where a Perceiver's latents look"
DECKS = ("004",)
CLAIM = "Latents see pixels by their places alone: any order of the same pixels gives the same output."
EXPECTED = (
    "A Perceiver's output does not depend on the order of its pixels if their places go along, to 1e-6; its latents' "
    "maps are tartans, woven by the waves of the two axes."
)
FOUND = (
    "In another order the latents move by 1e-15, and by 0.0017 if places are left behind; at least 99 % of each map is "
    "woven of rows and columns."
)
COST = 2.0
SEED = 3

SIDE, SHOWN = 48, 6
SMALL = Config(
    image=16, channels=1, classes=10, bands=6, latents=16, dim=32, depth=1, repeats=2, looks=2, heads=4, hidden=64,
    cross_hidden=64, pool="mean",
)  # fmt: skip
STEP = 2  # of the drawn maps: every other pixel


def compute() -> Numbers:
    with seeded(SEED):
        net = Perceiver(SMALL).double().eval()
        with torch.no_grad():
            net.latents.start.normal_()
            net.latents.cross.look.q.weight.mul_(4)  # each has made up its mind
        order = torch.randperm(SIDE * SIDE)
        images = blob()
    inputs = net.inputs(images)
    with torch.no_grad():
        with capture(net, "latents.cross.look.weights") as seen:
            straight = net.latents(inputs)
        with capture(net, "latents.cross.look.weights") as turned:
            mixed = net.latents(inputs[:, order])
        read = net.head(straight.mean(1))
        elsewhere = net(images.flatten(2)[..., order].unflatten(-1, (SIDE, SIDE)))
    weights, again = (found["latents.cross.look.weights"][0][0, 0] for found in (seen, turned))
    grids = weights.unflatten(-1, (SIDE, SIDE))
    shown = grids[:SHOWN, ::STEP, ::STEP]
    return {
        "maps": plain((100 * shown / shown.amax((-2, -1), keepdim=True)).round().long()),
        "pixels": SIDE * SIDE,
        "latents": SMALL.latents,
        "sums": float((weights.sum(-1) - 1).abs().max()),
        "output moves": float((straight - mixed).abs().max()),
        "maps move": float((weights[:, order] - again).abs().max()),
        "places left behind": float((read - elsewhere).abs().max()),
        "stripes": [stripes(grid) for grid in grids[:SHOWN]],
    }


def blob() -> Tensor:
    """A bright disc: (1, 1, side, side)"""
    y, x = torch.meshgrid(*[torch.linspace(-1, 1, SIDE).double()] * 2, indexing="ij")
    return torch.exp(-4 * (x.square() + y.square()))[None, None]


def stripes(grid: Tensor) -> float:
    """How much of a map's log is a row's number plus a column's: 1 for a tartan woven of two stripe patterns."""
    log = grid.log()
    woven = log.mean(0) + log.mean(1, keepdim=True) - log.mean()
    return float(1 - (log - woven).var() / log.var())


def draw(numbers: Numbers) -> Figure:
    share = numbers["latents"] / numbers["pixels"]
    note = (
        f"First look of six random latents at an image of {SIDE} x {SIDE}: the darker, the more. Nothing is trained;\n"
        "queries are four times as large as at the start, so that each has made up its mind. "
        f"{numbers['latents']} x {numbers['pixels']:,} scores:\n"
        f"{style.percent(share, 1)} of what pixels among themselves would have."
    )
    figure = style.page(TITLE, note, height=3.5)
    for i, (axes, grid) in enumerate(zip(figure.subplots(1, SHOWN), numbers["maps"], strict=True)):
        show(axes, grid, f"latent {i + 1}")
    return figure


def show(axes: Axes, grid: list[list[int]], title: str) -> None:
    axes.pcolormesh(grid, cmap=style.WEIGHTS, vmin=0, vmax=100)
    axes.set(xlim=(0, len(grid[0])), ylim=(len(grid), 0), aspect="equal", xticks=[], yticks=[], anchor="N")
    axes.spines[:].set_visible(False)
    axes.set_title(title, size=11)


def checks(numbers: Numbers) -> list[Check]:
    return [
        below("weights of a latent sum to 1, to within", numbers["sums"], 1e-9),
        below("pixels in another order: the latents move by", numbers["output moves"], 1e-6),
        below("pixels in another order: the maps are theirs, to within", numbers["maps move"], 1e-6),
        above("places left behind: the output moves by", numbers["places left behind"], 1e-4),
        above("share of a map that is woven of rows and columns, at least", min(numbers["stripes"]), 0.8),
        equal("scores of a look", numbers["latents"] * numbers["pixels"], 36864),
    ]
