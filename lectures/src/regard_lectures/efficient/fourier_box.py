"""10.10b: the encoder layer of FNet (Lee-Thorp et al., 2022): where attention stood, a Fourier transform stands.

The left column is drawn from the module tree of fnet-base while it ran. On the right, what its mixer makes of eight
tokens of width five, and how: Re(F X F) = cos X cos - sin X sin, each a matrix of the waves over tokens or features.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.models.bert import BERT, PRESETS, Config
from regard.nn.block import Block
from regard.nn.mixers.fourier import Fourier
from regard_lectures.figure import Check, Numbers, below, equal, plain, seeded, within
from regard_lectures.products import matrix, sign
from regard_lectures.transformer.anatomy import column, watch
from regard_lectures.transformer.diagram import Look, entrance, framed, label, tower

TITLE = "A Fourier transform for attention"
DECKS = ("004",)
CLAIM = "FNet's layer mixes tokens by two products with fixed waves: a linear map with nothing to learn."
EXPECTED = (
    "FNet's layer is Re(fft2(x)) = cos X cos - sin X sin, linear and without weights; fnet-base has 12 layers and 83 "
    "million parameters."
)
FOUND = (
    "The mixer equals the two products to 2e-14 and has 0 weights; fnet-base has 12 layers and 82.9 million parameters."
)
COST = 1.5
SEED = 3

TOKENS, WIDTH = 8, 5


def compute() -> Numbers:
    with torch.device("meta"):
        model = BERT(PRESETS["fnet-base"])
        words = torch.zeros(1, 5, dtype=torch.long)
        anatomy = column(watch(model, lambda: model(words)), "blocks", False)
    layer, mixer = model.blocks[0], small()
    assert isinstance(layer, Block)
    with seeded(SEED), torch.no_grad():
        x, other = torch.randn(2, 1, TOKENS, WIDTH, dtype=torch.float64)
        y, waves = mixer(x), {n: angles(n) for n in (TOKENS, WIDTH)}
        cosines, sines = ([part(waves[n]) for n in (TOKENS, WIDTH)] for part in (torch.cos, torch.sin))
        by_hand = cosines[0] @ x @ cosines[1] - sines[0] @ x @ sines[1]
        z = torch.complex(x, other)
        four = z
        for _ in range(4):
            four = whole(mixer, four) / (TOKENS * WIDTH) ** 0.5
    return {
        "anatomy": anatomy,
        "weights": {"all": count(model), "layer": count(layer), "mixer": count(layer.mixer)},
        "x": plain(x[0], 3),
        "y": plain(y[0], 3),
        "cosines": [plain(part, 3) for part in cosines],
        "sines": [plain(part, 3) for part in sines],
        "by hand": float((by_hand - y).abs().max()),
        "linear": float((mixer(2 * x - 3 * other) - 2 * y + 3 * mixer(other)).abs().max()),
        "complex": float((whole(mixer, z) - torch.fft.fft(torch.fft.fft(z, dim=-1), dim=-2)).abs().max()),
        "four times": float((four - z).abs().max()),
    }


def small() -> Fourier:
    """The mixer of a small FNet's first layer."""
    sizes = Config(vocab=11, dim=WIDTH, depth=1, heads=1, hidden=2 * WIDTH, attention_dropout=0.0, attention="fourier")
    model = BERT(sizes).double().eval()
    mixer = model.blocks[0].mixer
    assert isinstance(mixer, Fourier)
    return mixer


def angles(n: int) -> Tensor:
    """2 pi j k / n.  -> (n, n)"""
    places = torch.arange(n, dtype=torch.float64)
    return 2 * torch.pi * torch.outer(places, places) / n


def whole(mixer: Fourier, z: Tensor) -> Tensor:
    """The complex transform of complex numbers, by a mixer that gives real parts alone: Im F(z) = Re F(-iz)."""
    return torch.complex(mixer(z).real, mixer(-1j * z).real)


def count(module: torch.nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Left, drawn from the module tree of fnet-base. Right, its mixer on {TOKENS} tokens of width {WIDTH}; "
        "darker is larger, grey negative.\nWaves over the tokens stand to the left of $X$, waves over the features to "
        "its right."
    )
    figure = style.page(TITLE, note, height=7.2)
    axes = style.stage(figure)
    encoder(axes, 1.95, numbers)
    axes.plot([4.12, 4.12], [0.35, 5.85], color=style.LINE, lw=1.2)
    products(axes, 4.62, numbers)
    return figure


def encoder(axes: Axes, x: float, numbers: Numbers) -> None:
    look = Look(unit=1.0)
    low = entrance(axes, x, 0.2, "words", look, side=-1)
    end = tower(axes, x, low, numbers["anatomy"]["parts"], look, side=-1)
    framed(axes, x, low, end.top + 0.12, numbers["anatomy"]["depth"], look, side=1)
    style.arrow(axes, (x, end.top), (x, end.top + 0.45))
    style.write(axes, x, end.top + 0.6, "states", family=style.SERIF, size=15)
    weights = numbers["weights"]
    says = f"weights of the Fourier box: {weights['mixer']}\nof the whole layer: {weights['layer'] / 1e6:.1f} M"
    style.write(axes, 0.6, 5.5, says, ha="left", size=10.5, color=style.SOFT)


def products(axes: Axes, left: float, numbers: Numbers) -> None:
    cell = 0.16
    for y, name, before in ((4.98, "cosines", ""), (3.03, "sines", "−")):
        over = name[:3]
        style.write(axes, left - 0.1, y, before, size=18, color=style.SOFT)
        x = matrix(axes, left + 0.1, y, numbers[name][0], f"{over} over tokens", style.WEIGHT, cell=cell, limit=1)
        x = matrix(axes, sign(axes, x, y, "×", room=0.6), y, numbers["x"], "$X$", style.INK, cell=cell)
        matrix(
            axes,
            sign(axes, x, y, "×", room=0.6),
            y,
            numbers[name][1],
            f"{over} over features",
            style.WEIGHT,
            cell=cell,
            limit=1,
        )
    y = 1.08
    style.write(axes, left - 0.1, y, "=", size=18, color=style.SOFT)
    x = matrix(axes, left + 0.1, y, numbers["y"], "$Y$", style.WEIGHT, cell=cell)
    rule = "$Y = \\mathrm{Re}(F_{tokens}\\; X\\; F_{features})$"
    says = f"{rule}\n\nThe first number of $Y$ is the sum\nof $X$: there the waves are all 1."
    style.write(axes, x + 0.5, y, says, ha="left", size=11.5)


def checks(numbers: Numbers) -> list[Check]:
    parts, weights = numbers["anatomy"]["parts"], numbers["weights"]
    total = sum(map(sum, numbers["x"]))
    return [
        equal("parts of a layer", ", ".join(label(part) for part in parts), "Fourier, feed-forward"),
        equal("norms stand", " ".join(part["norm"] for part in parts), "after after"),
        equal("layers", numbers["anatomy"]["depth"], 12),
        equal("weights of the Fourier box", weights["mixer"], 0),
        within("weights of fnet-base in millions, printed as 83", weights["all"] / 1e6, 82.5, 83.5),
        below("the mixer against cos X cos - sin X sin", numbers["by hand"], 1e-12),
        below("of a sum of two inputs, the sum of two outputs", numbers["linear"], 1e-12),
        below("its first number minus the sum of X", abs(numbers["y"][0][0] - total), 0.05),
        below("complex transform, made of real parts, against two one after the other", numbers["complex"], 1e-12),
        below("four times, divided by the root of the size: back again", numbers["four times"], 1e-12),
    ]
