"""10.10: four ways to mix twelve positions, looked at alike: how much each output moves when an input does.

Attention has weights to look at; a Fourier transform, an MLP over the positions and a workspace have none, or none
between positions. The norm of dy_i/dx_j is there for all four. The layers are random, not trained: what is seen is the
mechanism. FNet's map is the same whatever comes in, since it is linear; the others' maps change with the input.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.nn.attention import Mixer
from regard.nn.influence import jacobian_norms
from regard.nn.mask import Mask
from regard.nn.mechanisms import Choice, build_mixer
from regard.nn.site import Site
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, above, below, equal, plain, seeded

TITLE = "What moves what, in four mixers"
DECKS = ("004",)
CLAIM = "A Fourier transform moves every output with every input, and by the same amounts whatever comes in."
EXPECTED = (
    "A Fourier transform moves every output with every input by |cos C - sin S|, whatever comes in, and has no "
    "weights; attention's and the MLP's influences change with the input."
)
FOUND = (
    "The transform's map is that of the closed form, its smallest influence 0.88 of the largest, and changes by 0 with "
    "the input; attention's changes by 0.91 and the MLP's by 0.19."
)
COST = 1.5
SEED = 0

POSITIONS, WIDTH = 12, 16
CHOICES: dict[str, Choice] = {
    "softmax": "softmax",
    "fourier": "fourier",
    "token-mlp": "token-mlp",
    "workspace": {"kind": "workspace", "slots": 2, "keep": 3},
}
NAMES = {
    "softmax": "attention",
    "fourier": "Fourier transform\n(FNet)",
    "token-mlp": "MLP over positions\n(MLP-Mixer)",
    "workspace": "two slots, three\nmay write to each",
}


def compute() -> Numbers:
    found = {}
    with seeded(SEED):
        one, two = torch.randn(2, 1, POSITIONS, WIDTH).double() * 2
        for name, choice in CHOICES.items():
            layer = build_mixer(choice, Site(dim=WIDTH, heads=2, length=POSITIONS)).double().eval()
            first, second = moved(layer, one), moved(layer, two)
            found[name] = {
                "map": plain(first, 4),
                "change": float(((first - second).norm() / first.norm()).detach()),
                "weights": sum(parameter.numel() for parameter in layer.parameters()),
            }
        winners = writers(one)
    waves = torch.arange(POSITIONS).double()
    angle = 2 * torch.pi * waves[:, None] * waves / POSITIONS
    return {"maps": found, "closed form": plain(closed(angle), 4), "writers": winners}


def moved(layer: Mixer, x: Tensor) -> Tensor:
    """The norm of dy_i/dx_j.  (1, n, d) -> (n, n)"""
    return jacobian_norms(lambda x, real: layer(x, mask=Mask(keys=real)), x, None)[0, 0]


def closed(angle: Tensor) -> Tensor:
    """The same for the transform, from its cosines and sines: |cos C - sin S|, over the features.  (n, n) -> (n, n)"""
    features = torch.arange(WIDTH).double()
    inner = 2 * torch.pi * features[:, None] * features / WIDTH
    c, s = inner.cos().square().sum(), inner.sin().square().sum()
    return (angle.cos().square() * c + angle.sin().square() * s).sqrt()


def writers(x: Tensor) -> int:
    """How many positions may write to a slot at all, in some head."""
    layer = build_mixer(CHOICES["workspace"], Site(dim=WIDTH, heads=2, length=POSITIONS)).double().eval()
    with capture(layer, "write.weights") as seen:
        layer(x)
    return int((seen["write.weights"][0][0] > 0).sum(-1).max())


def draw(numbers: Numbers) -> Figure:
    note = (
        "Rows are outputs, columns inputs: the darker, the more output i moves when input j does.\n"
        "Random layers of width 16; each map by its own largest number. Below: how much another input changes the map."
    )
    figure = style.page(TITLE, note, height=4.6)
    panels = figure.subplots(1, 4)
    for axes, name in zip(panels, CHOICES, strict=True):
        show(axes, numbers["maps"][name], NAMES[name])
    return figure


def show(axes: Axes, found: Numbers, title: str) -> None:
    largest = max(map(max, found["map"]))
    axes.pcolormesh(found["map"], cmap=style.WEIGHTS, vmin=0, vmax=largest, edgecolors="white", linewidth=0.8)
    axes.set(xlim=(0, POSITIONS), ylim=(POSITIONS, 0), aspect="equal", xticks=[], yticks=[], anchor="N")
    axes.spines[:].set_visible(False)
    axes.set_title(title, size=12)
    said = f"{found['weights']:,} weights" if found["weights"] else "nothing to learn"
    axes.set_xlabel(f"{said}\nchange {style.percent(found['change'])}", size=10.5)


def checks(numbers: Numbers) -> list[Check]:
    maps, wanted = numbers["maps"], numbers["closed form"]
    fourier = maps["fourier"]["map"]
    off = max(abs(a - b) for rows in zip(fourier, wanted, strict=True) for a, b in zip(*rows, strict=True))
    return [
        below("the transform: largest difference from |cos C - sin S|", off / max(map(max, wanted)), 1e-3),
        above("the transform: smallest influence over largest", min(map(min, fourier)) / max(map(max, fourier)), 0.5),
        below("the transform: change with the input", maps["fourier"]["change"], 1e-9),
        equal("the transform: weights", maps["fourier"]["weights"], 0),
        above("attention: change with the input", maps["softmax"]["change"], 0.1),
        above("the MLP: change with the input", maps["token-mlp"]["change"], 0.01),
        equal("the workspace: positions that may write to a slot in a head", numbers["writers"], 3),
    ]
