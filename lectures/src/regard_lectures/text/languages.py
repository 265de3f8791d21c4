"""4.5e: four languages in one net, dense and with experts (deck 002's figure of many tasks, in miniature).

A language has 32 letters of its own, as if in another script, and a random table: how likely each is after the one
before it. The feed-forwards are narrow, so that four tables are more than a dense net can keep. How well a letter can
be foretold at best is known: the entropy of the table, with the letters as they come.

Of the twelve gains, four languages and three seeds, one is a loss, of 0.001 nats. It takes letters of their own and
narrow feed-forwards: with letters in common and feed-forwards four times as wide, languages gained 0.085, 0.018, -0.040
and 0.017 nats in as many steps, the mean of two seeds.
"""

import math
from dataclasses import dataclass, replace
from functools import cache

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.models.switchlm import SwitchLM
from regard_lectures.figure import Check, Numbers, above, aside, below, seeded, starts_above
from regard_lectures.text.experts import BATCH, LENGTH, Way, config, learn, look
from regard_lectures.toys import means

TITLE = "Four languages, one net"
DECKS = ("002",)
CLAIM = "In one net for four languages, experts bring each nearer to what can be known at best."
EXPECTED = "In one net for four languages experts gain on every language, over 0.005 nats a letter."
FOUND = (
    "Experts save 0.022, 0.015, 0.009 and 0.014 nats a letter, means of 3 starts; 11 of 12 gains are above 0, all "
    "four languages gain over 0.005 in 2 of 3 starts."
)
COST = 60.0
SEED = 0

LANGUAGES, LETTERS, SHARP, HIDDEN = 4, 32, 2.0, 32
CHAINS, LONG, WAY = 32, 1300, Way(steps=350)
EXPERTS, SEEDS, TESTED = (1, 8), 3, 64


@dataclass(frozen=True, eq=False)
class Texts:
    train: Tensor  # (languages, chains, letters)
    held_out: Tensor  # (languages, rows, length + 1)
    entropy: list[float]


@cache
def texts() -> Texts:
    with seeded(SEED):
        tables = (SHARP * torch.randn(LANGUAGES, LETTERS, LETTERS)).softmax(-1)
        which = torch.arange(LANGUAGES).repeat_interleave(CHAINS)
        letters = [torch.randint(LETTERS, (len(which),))]
        surprise = torch.zeros(len(which))
        for _ in range(LONG):
            likely = tables[which, letters[-1]]
            letters.append(torch.multinomial(likely, 1)[:, 0])
            surprise += torch.special.entr(likely).sum(-1) / LONG
    drawn = (torch.stack(letters, 1) + LETTERS * which[:, None]).unflatten(0, (LANGUAGES, CHAINS))
    rows = drawn[:, :, -2 * (LENGTH + 1) :].reshape(LANGUAGES, TESTED, LENGTH + 1)
    entropy = surprise.view(LANGUAGES, CHAINS).mean(1)
    return Texts(drawn[:, :, : -2 * (LENGTH + 1)], rows, [round(float(x), 4) for x in entropy])


def taught(experts: int, seed: int) -> list[float]:
    """The loss on unseen text in each language."""
    found = texts()
    spots, which = found.train.shape[2] - LENGTH, torch.arange(BATCH)[:, None] % LANGUAGES  # as many rows of each

    def drawn() -> Tensor:
        places = torch.randint(spots, (BATCH, 1)) + torch.arange(LENGTH + 1)
        return found.train[which, torch.randint(CHAINS, (BATCH, 1)), places]

    with seeded(seed):
        net = SwitchLM(replace(config(experts, LANGUAGES * LETTERS, WAY), hidden=HIDDEN))
    with seeded(seed):  # the same batches for all
        learn(net, drawn, WAY, lambda: None)
    net.eval()
    with torch.no_grad():
        return [round(look(net, rows).loss, 4) for rows in found.held_out]


def compute() -> Numbers:
    return {
        "entropy": texts().entropy,
        **{str(experts): [taught(experts, SEED + i) for i in range(SEEDS)] for experts in EXPERTS},
    }


def gains(numbers: Numbers) -> list[list[float]]:
    """For each seed and language: nats a letter that experts save."""
    return [
        [one - many for one, many in zip(*pair, strict=True)]
        for pair in zip(numbers["1"], numbers[str(EXPERTS[1])], strict=True)
    ]


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Nats a letter on unseen text, above what can be known at best; mean and range of {SEEDS} seeds.\n"
        "One net for all four languages, of narrow feed-forwards; each language has letters of its own."
    )
    figure = style.page(TITLE, note, height=5.3)
    axes, saved = figure.subplots(1, 2, width_ratios=(1.7, 1))
    for shift, experts, tint in ((-0.2, "1", style.SECOND), (0.2, str(EXPERTS[1]), style.WEIGHT)):
        places = [i + shift for i in range(LANGUAGES)]
        left = [[loss - best for loss, best in zip(run, numbers["entropy"], strict=True)] for run in numbers[experts]]
        axes.bar(places, means(left), 0.36, color=tint)
        for place, height, seeds in zip(places, means(left), zip(*left, strict=True), strict=True):
            axes.vlines(place, min(seeds), max(seeds), color=style.INK, lw=1.6)
            axes.text(place, max(seeds) + 0.003, f"{height:.3f}", ha="center", va="bottom", size=11)
    axes.set_xticks(range(LANGUAGES), [f"language {i + 1}\nbest {x:.2f}" for i, x in enumerate(numbers["entropy"])])
    for text in axes.get_xticklabels():
        text.set(size=11, color=style.INK)
    axes.set(yticks=[])
    axes.margins(y=0.2)
    axes.spines["left"].set_visible(False)
    axes.set_title("nats above the best")
    axes.text(0.02, 0.97, "dense", color=style.SECOND, weight="bold", va="top", transform=axes.transAxes)
    said = f"{EXPERTS[1]} experts"
    axes.text(0.12, 0.97, said, color=style.WEIGHT, weight="bold", va="top", transform=axes.transAxes)
    found = means(gains(numbers))
    style.bars(saved, [str(i + 1) for i in range(LANGUAGES)], found, form="{:.3f}".format)
    saved.set_title("nats saved by experts")
    saved.set_xlabel("language")
    return figure


def checks(numbers: Numbers) -> list[Check]:
    found, floor = gains(numbers), numbers["entropy"]
    many, dense = numbers[str(EXPERTS[1])], max(map(max, numbers["1"]))
    uniform = math.log(LETTERS)
    return [
        *(
            starts_above(f"language {i + 1}: nats saved by experts", own, 0.005)
            for i, own in enumerate(zip(*found, strict=True))
        ),
        aside(above("the least of all gains, of one language and seed", min(map(min, found)), -0.01)),
        aside(above("what is left to learn, with experts: least above the entropy", least(many, floor), -0.02)),
        aside(below("dense: worst loss over that of a net that learned nothing", dense / uniform, 0.95)),
    ]


def least(runs: list[list[float]], floor: list[float]) -> float:
    return min(loss - best for run in runs for loss, best in zip(run, floor, strict=True))
