"""3.3: the Transformer (Fig. 15 of deck 003) with its residual connections lit.

Every part computes f(x), and x + f(x) goes on. So if all branches fall silent, what went in comes out: exactly with
norms before the branches, and normalised where norms follow the sum.
"""

from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.models.transformer import PRESETS, Config, Transformer
from regard.nn.mask import ALL
from regard.nn.tap import listen
from regard_lectures.figure import Check, Numbers, below, equal, seeded
from regard_lectures.transformer.anatomy import dissect
from regard_lectures.transformer.diagram import Look, transformer

TITLE = "Residual connections"
DECKS = ("003", "001", "004", "002")
CLAIM = "Each of the 30 parts adds to what passes by; with all branches silent, what went in comes out unchanged."
EXPECTED = "A path runs past each part; with all branches silent, blocks pass on what went in, unchanged."
FOUND = (
    "There are 30 residuals; with silent branches the difference is exactly 0 with norms first, and below 1e-5 from"
    " the normalised input with norms last."
)
COST = 2.5
SEED = 0


def compute() -> Numbers:
    return {
        "anatomy": dissect(PRESETS["transformer-base"]),
        "pre": silent("pre"),
        "post": silent("post"),
    }


def silent(placement: Literal["pre", "post"]) -> Numbers:
    """Send words through an encoder whose branches say nothing; -> how far what comes out is from what went in."""
    config = Config(vocab=11, dim=32, depth=6, heads=4, hidden=64, dropout=0.0, norm=placement)
    with seeded(SEED), torch.no_grad():
        model = Transformer(config).double().eval()
        words = torch.randint(config.vocab, (2, 7))
        x = y = model.tokens(words, ALL)
        heard: list[str] = []
        with listen(model.encoder, "*.branch.said", partial(hush, heard)):
            for block in model.encoder:
                y = block(y)
    wanted = x if placement == "pre" else F.layer_norm(x, (config.dim,))
    return {"branches": len(heard), "difference": float((y - wanted).abs().max())}


def hush(heard: list[str], name: str, y: Tensor) -> Tensor:
    heard.append(name)
    return torch.zeros_like(y)


def draw(numbers: Numbers) -> Figure:
    count = numbers["anatomy"]["residuals"]
    note = f"{count} ways around: beside every attention and every feed-forward runs a path past it."
    figure = style.page(TITLE, note, height=8.35)
    axes = style.stage(figure)
    words = ("source words", "target words, shifted right", "next word")
    transformer(axes, 0.75, 0.15, numbers["anatomy"], Look("residual", unit=0.93), words)
    style.write(axes, 7.5, 4.35, "$x + f(x)$", size=22, ha="left", color=style.WEIGHT)
    says = "In the sum, $x$ has slope 1:\na gradient passes the branch\nas if it were not there."
    style.write(axes, 7.5, 3.6, says, ha="left", size=11)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    found = numbers["anatomy"]
    parts = sum(found[name]["depth"] * len(found[name]["parts"]) for name in ("encoder", "decoder"))
    return [
        equal("residuals: one for each part of each layer", found["residuals"], parts),
        equal("branches that were silenced", numbers["pre"]["branches"], 12),
        equal("norms first, silent branches: what comes out minus what went in", numbers["pre"]["difference"], 0.0),
        below("norms last, silent branches: the same, normalised", numbers["post"]["difference"], 1e-4),
    ]
