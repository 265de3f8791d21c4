"""11.8: outside of the context window (deck 003's conclusions): what is older than it is not there.

The letter model that ships reads 256 letters at a time. Left: what a letter costs when only the last few before it are
shown. Right: one letter of a text of 512 is replaced, farther and farther back, and the chances of the letter behind
the text are compared with those before: `regard generate` reads the end of a long text, so from the window's edge on
not one bit changes, and neither could any gradient. Needs tiny_shakespeare below REGARD_DATA; the text is from its last
tenth, which the model has not learned from.
"""

from itertools import pairwise

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.folders import load
from regard.modalities.text.runners import text_generator
from regard.model import Model
from regard_lectures.figure import Check, Numbers, above, below, equal, seeded
from regard_lectures.foundations.play import words

TITLE = "Outside of the window"
DECKS = ("003",)
CLAIM = "Letters within the window help, the nearest most; what is older changes nothing at all."
EXPECTED = (
    "What is older than the context window has no influence and no gradient at all, and within it nearer letters help "
    "more."
)
FOUND = (
    "Beyond 256 letters the largest change is 0.0 and within the window the least 0.0003; 16 letters save 3.1 nats "
    "over 1, all 255 another 0.08; a letter saves ever less the farther back, though at the window's edge it moves "
    "more than before (0.0014); of 512 letters 255 enter the net, so that older ones have no gradient."
)
COST = 20.0
SEED = 0

TEXTS, LONG, HELD_OUT = 60, 512, 0.1
SHOWN = (1, 2, 4, 8, 16, 32, 64, 128, 255)  # letters before the one that is foretold
BACK = (1, 2, 4, 8, 16, 32, 64, 128, 200, 240, 254, 255, 256, 300, 400, 511)  # how far back a letter is replaced


def compute() -> Numbers:
    model = load("shakespeare")
    text = words()
    start = text.rfind("\n", 0, round(len(text) * (1 - HELD_OUT))) + 1
    with seeded(SEED):
        places = torch.randint(start, len(text) - LONG - 1, (TEXTS,)).tolist()
    excerpts = [text[place : place + LONG + 1] for place in places]
    rows = torch.tensor([text_generator(model).whole(excerpt)[-(LONG + 1) :] for excerpt in excerpts])
    return {
        "window": model.config.length,
        "loss": [loss(model, rows, shown) for shown in SHOWN],
        "moved": moved(model, excerpts),
        "slope": slope(model, rows),
        "entering": [len(text_generator(model).encode(excerpt[:-1])) for excerpt in excerpts],
    }


@torch.inference_mode()
def loss(model: Model, rows: Tensor, shown: int) -> float:
    """Of the last letter, after so many, in nats."""
    logits = model.net(rows[:, -shown - 1 : -1])[:, -1]
    return float(F.cross_entropy(logits, rows[:, -1]))


@torch.inference_mode()
def moved(model: Model, excerpts: list[str]) -> list[float]:
    """The mean over texts of the largest change of a chance, when the letter so far back is another one."""
    before = chances(model, [excerpt[:-1] for excerpt in excerpts])
    return [
        float((chances(model, [other(excerpt[:-1], back) for excerpt in excerpts]) - before).abs().amax(-1).mean())
        for back in BACK
    ]


def chances(model: Model, texts: list[str]) -> Tensor:
    """Of each letter behind each text, whose end is read.  -> (texts, letters)"""
    generating = text_generator(model)
    logits: Tensor = model.net(torch.tensor([generating.encode(text) for text in texts]))
    return logits[:, -1].softmax(-1)


def other(text: str, back: int) -> str:
    place = len(text) - back
    return text[:place] + ("e" if text[place] != "e" else "t") + text[place + 1 :]


def slope(model: Model, rows: Tensor) -> list[float]:
    """How much the last letter's loss depends on each letter of a window, from the nearest to the farthest: the norm of
    its gradient by what the letter is embedded to, over all texts."""
    length = model.config.length
    kept: list[Tensor] = []
    hook = model.net.get_submodule("embed").register_forward_hook(lambda _, __, x: kept.append(x))
    logits = model.net(rows[:, -length:-1])[:, -1]
    hook.remove()
    (found,) = torch.autograd.grad(F.cross_entropy(logits, rows[:, -1], reduction="sum"), kept[0])
    every = found.norm(dim=-1).mean(0).flip(0)
    return [float(f"{every[back - 1]:.4g}") for back in BACK if back < length]


def draw(numbers: Numbers) -> Figure:
    window = numbers["window"]
    note = (
        f"The letter model that ships reads {window} letters at a time. {TEXTS} texts that it has not learned. Left:"
        " what their last letter costs\nafter so many others. Right: a letter so far back is replaced by another, and"
        " the chances of the next letter move by so much."
    )
    figure = style.page(TITLE, note, height=4.8)
    left, right = figure.subplots(1, 2)
    left.plot(SHOWN, numbers["loss"], "o-", color=style.WEIGHT)
    left.set_xscale("log", base=2)
    left.set_xticks(SHOWN[:-1:2], [str(shown) for shown in SHOWN[:-1:2]])
    left.set_xlabel("letters that are shown")
    left.set_title("nats for the next letter")
    right.plot(BACK, [max(x, 1e-6) for x in numbers["moved"]], "o-", color=style.QUERY)
    right.axvline(window, color=style.EDGE, lw=1.2, ls=(0, (4, 3)))
    right.annotate(
        "the window's edge", (window, 0.2), (-6, 0), textcoords="offset points", ha="right", color=style.SOFT
    )
    right.annotate("exactly 0", (window, 1e-6), (-8, 6), textcoords="offset points", ha="right", color=style.SOFT)
    right.set(xscale="log", yscale="log")
    right.set_xticks([1, 4, 16, 64, 256], ["1", "4", "16", "64", "256"])
    right.set_yticks([1e-6, 1e-4, 1e-2], ["0", "0.0001", "0.01"])
    right.minorticks_off()
    right.set_xlabel("letters back")
    right.set_title("largest change of a chance")
    for axes in (left, right):
        axes.grid(axis="y")
        axes.spines["left"].set_visible(False)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    losses, window, entering = numbers["loss"], numbers["window"], max(numbers["entering"])
    each = [(losses[i] - losses[i + 1]) / (SHOWN[i + 1] - SHOWN[i]) for i in range(len(SHOWN) - 1)]
    inside = [x for back, x in zip(BACK, numbers["moved"], strict=True) if back < window]
    outside = [x for back, x in zip(BACK, numbers["moved"], strict=True) if back >= window]
    return [
        above("nats saved from 1 letter to 16", losses[0] - losses[4], 0.5),
        above("nats saved from 16 letters to all", losses[4] - losses[-1], 0),
        above("nats that one letter saves, nearer less farther, least", min(a - b for a, b in pairwise(each)), 0),
        above("within the window: the least change by another letter", min(inside), 0),
        equal("beyond the window: the largest change by another letter", max(outside), 0.0),
        below(f"letters of {LONG} that enter the net: the others have no gradient", entering, window),
        above("within the window: the least gradient", min(numbers["slope"]), 0),
        below("the farthest letter's gradient over the nearest's", numbers["slope"][-1] / numbers["slope"][0], 0.1),
    ]
