"""3.7: the architecture of the Transformer (Fig. 15 of deck 003, full_transformer of 001), drawn from the module tree.

What stands in the picture was read off a run of transformer-base: which parts a layer has, in which order they are
called, where the norms stand, which attention hides the future and which looks at the encoder.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard import style
from regard.models.transformer import PRESETS, Config, Transformer
from regard_lectures.figure import Check, Numbers, below, equal, seeded, within
from regard_lectures.transformer.anatomy import dissect
from regard_lectures.transformer.diagram import Look, label, transformer

TITLE = "The Transformer"
DECKS = ("003", "001", "002", "004", "000")
CLAIM = "Six layers read, six write and look at what was read; each part is a residual, and a norm follows it."
EXPECTED = (
    "The built Transformer has the parts of the picture, six layers each side, sees no future, and has 65 and 213"
    " million weights, to 5 %."
)
FOUND = (
    "All parts stand where the picture has them, with 30 residuals and 30 norms; base has 0.97 of the paper’s weights"
    " and big 1.006."
)
COST = 2.5
SEED = 0

SIZES = {"base": "transformer-base", "big": "transformer-big"}
PAPER = {"base": 65.0, "big": 213.0}  # million weights, as Vaswani et al. (2017) print them, table 3
ROWS = {"layers": "depth", "width $d$": "dim", "hidden": "hidden", "heads": "heads", "dropout": "dropout"}


def compute() -> Numbers:
    found = {name: dissect(PRESETS[preset]) for name, preset in SIZES.items()}
    configs = {name: PRESETS[preset] for name, preset in SIZES.items()}
    return {
        "anatomy": found["base"],
        "sizes": {name: {row: getattr(config, row) for row in ROWS.values()} for name, config in configs.items()},
        "weights": {name: found[name]["parameters"] for name in SIZES},
        "future": future(),
    }


def future() -> float:
    """How much a changed last word changes the logits before it, in a small Transformer of the same build."""
    with seeded(SEED), torch.no_grad():
        model = Transformer(Config(vocab=11, dim=32, depth=2, heads=4, hidden=64)).double().eval()
        source, target = torch.randint(11, (2, 7)), torch.randint(11, (2, 6))
        other = target.clone()
        other[:, -1] = (target[:, -1] + 1) % 11
        return float((model(source, target) - model(source, other))[:, :-1].abs().max())


def draw(numbers: Numbers) -> Figure:
    note = "Drawn from the module tree of transformer-base while it ran. Arrows: queries red, keys green, values black."
    figure = style.page(TITLE, note, height=8.35)
    axes = style.stage(figure)
    words = ("source words", "target words, shifted right", "next word")
    transformer(axes, 0.75, 0.15, numbers["anatomy"], Look(unit=0.93), words)
    style.write(axes, 0.78, 4.42, "encoder", size=12, weight="bold", ha="left")
    style.write(axes, 3.9, 5.6, "decoder", size=12, weight="bold", ha="right")
    beside(axes, 7.5, numbers)
    return figure


def beside(axes: Axes, x: float, numbers: Numbers) -> None:
    """The sizes of the paper's two models, and the weights that were counted."""
    columns = [x + 1.45, x + 2.2]
    for place, name in zip(columns, SIZES, strict=True):
        style.write(axes, place, 4.22, name, ha="right", va="baseline", weight="bold", size=11)
    weights = [numbers["weights"][name] / 1e6 for name in SIZES]
    lines = [(text, [f"{numbers['sizes'][name][row]:g}" for name in SIZES]) for text, row in ROWS.items()]
    lines += [
        ("weights, M", [f"{count:.1f}" for count in weights]),
        ("paper, M", [f"{PAPER[name]:g}" for name in SIZES]),
    ]
    for i, (text, values) in enumerate(lines):
        y = 3.95 - 0.33 * i
        axes.plot([x, columns[-1]], [y + 0.165] * 2, color=style.LINE, lw=1)
        style.write(axes, x, y - 0.05, text, ha="left", va="baseline", size=10.5, color=style.SOFT)
        for place, value in zip(columns, values, strict=True):
            style.write(axes, place, y - 0.05, value, ha="right", va="baseline", size=11)


def checks(numbers: Numbers) -> list[Check]:
    found = numbers["anatomy"]
    read, wrote = (", ".join(label(part) for part in found[name]["parts"]) for name in ("encoder", "decoder"))
    places = {part["norm"] for name in ("encoder", "decoder") for part in found[name]["parts"]}
    checks = [
        equal("parts of an encoder layer", read, "self-attention, feed-forward"),
        equal("parts of a decoder layer", wrote, "masked self-attention, cross-attention, feed-forward"),
        equal("norms stand after the sum", " ".join(sorted(places)), "after"),
        equal("decoder layers that look at the encoder's last output", found["memory"], 6),
        equal("residuals", found["residuals"], 30),
        equal("norms: one each, none at the end", found["norms"], 30),
        below("a changed last word changes the logits before it by", numbers["future"], 1e-12),
    ]
    for name in SIZES:
        share = numbers["weights"][name] / 1e6 / PAPER[name]
        checks.append(within(f"{name}: weights counted over the paper's number", share, 0.95, 1.05))
    return checks
