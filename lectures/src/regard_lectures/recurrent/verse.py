"""1.9b: sequence generation. A net that foretells letters is fed its own guesses, and Shakespeare goes on.

The LSTM is that of figure 1.3b, learned anew by the same code: tiny Shakespeare, the last tenth held out. It is held
against a 5-gram by Kneser and Ney, in bits of a letter and in what they write: the share of words in 16 texts of 600
letters that occur in the text they learned from. Short words arise by chance, so those of five letters and more are
counted by themselves. A temperature below 1 makes likely letters likelier.

More of the 5-gram's words occur in the text than of the LSTM's at temperature 1, though it foretells letters worse: it
can hardly do other than put pieces of the text together. The LSTM must cool down to 0.7 to make as few of its own.
"""

import re
from collections.abc import Callable
from statistics import fmean

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.models.ngram import KneserNey, NGram
from regard.nn.recurrent import State
from regard_lectures.figure import Check, Numbers, aside, seeded, starts_above
from regard_lectures.foundations.letters import HIDDEN, Letters, counted, foretold, learned
from regard_lectures.foundations.play import Play, numbered, words

TITLE = "A net that goes on with its own letters"
DECKS = ("004",)
CLAIM = "An LSTM foretells letters better than a 5-gram, and of the words that it makes up most are words."
EXPECTED = (
    "The LSTM’s bits a letter are below those of a 5-gram, and what it writes has words (most of them occur in the"
    " text)."
)
FOUND = (
    "2.178, 2.209 and 2.210 bits against 2.277, and in each of 3 starts 82 % of its words occur in the text; of the "
    "5-gram’s own words 88 to 89 % do."
)
COST = 150.0
SEED = 0
SEEDS = 3

ORDER, TEXTS, LENGTH, LONG = 5, 16, 600, 5
TEMPERATURES = {"LSTM": 1.0, "cooler": 0.7}
SHOWN = (13, 44)  # lines and letters of a line


def compute() -> Numbers:
    play, seeds = numbered(words()), range(SEED, SEED + SEEDS)
    models = [learned(play, seed) for seed in seeds]
    known = {word.lower() for word in spelled("".join(play.letters[i] for i in play.train))}
    numbers: Numbers = {
        "bits": {str(ORDER): short(counted(play, ORDER)), "LSTM": [short(foretold(one, play)) for one in models]},
        "known": len(known),
        "words": {},
    }
    for order in (1, ORDER):
        grams = NGram(order, play.vocab, play.end, KneserNey()).learn([play.train])
        numbers["words"][str(order)] = [shares(by_counts(grams, play, seed), known) for seed in seeds]
    for name, temperature in TEMPERATURES.items():
        said = [by_state(model, play, temperature, seed) for model, seed in zip(models, seeds, strict=True)]
        numbers["words"][name] = [shares(texts, known) for texts in said]
    shown = said[0][0].splitlines()  # by the last, coolest one of the first start
    whole = [line if len(line) <= SHOWN[1] else line[: SHOWN[1]].rpartition(" ")[0] for line in shown if line.strip()]
    numbers["shown"] = whole[: SHOWN[0]]
    made_up = {word for line in numbers["shown"] for word in spelled(line) if word.lower() not in known}
    numbers["made up"] = sorted(made_up)
    return numbers


def short(bits: float) -> float:
    return float(f"{bits:.4g}")


def spelled(text: str) -> list[str]:
    return re.findall(r"[A-Za-z]+(?:'[a-z]+)?", text)


def written(step: Callable[[Tensor], Tensor], play: Play, seed: int) -> list[str]:
    """Texts that begin after an empty line; a step takes the last letters (b,) and gives shares of the next (b, v)."""
    with seeded(seed):
        ids = [torch.full((TEXTS,), play.letters.index("\n"))]
        for _ in range(LENGTH):
            ids.append(torch.multinomial(step(ids[-1])[:, : len(play.letters)], 1)[:, 0])
    return ["".join(play.letters[i] for i in row) for row in torch.stack(ids[1:], 1).tolist()]


@torch.no_grad()
def by_state(model: Letters, play: Play, temperature: float, seed: int) -> list[str]:
    state: list[State | None] = [None]

    def step(last: Tensor) -> Tensor:
        read = model.rnn(model.embed(last[:, None]), state=state[-1])
        state[:] = [read.state]
        return torch.softmax(model.head(read.outputs[:, -1]) / temperature, -1)

    return written(step, play, seed)


def by_counts(grams: NGram, play: Play, seed: int) -> list[str]:
    rows: list[list[int]] = [[] for _ in range(TEXTS)]

    def step(last: Tensor) -> Tensor:
        for row, letter in zip(rows, last.tolist(), strict=True):
            row.append(letter)
        return torch.from_numpy(np.stack([grams.foretold(row[-ORDER:]) for row in rows]))

    return written(step, play, seed)


def shares(texts: list[str], known: set[str]) -> list[float]:
    """Of all words that occur in the text learned from, and of the long ones; the last of a text may be cut off."""
    said = [word.lower() for text in texts for word in spelled(text)[:-1]]
    long = [word for word in said if len(word) >= LONG]
    return [short(sum(word in known for word in some) / max(len(some), 1)) for some in (said, long)]


NAMES = {"1": "single\nletters", "5": "5-gram", "LSTM": "LSTM", "cooler": "LSTM,\ncooler"}
TINTS = {"1": style.EDGE, "5": style.SECOND, "LSTM": style.WEIGHT, "cooler": style.mix(style.WEIGHT, 0.65)}


def draw(numbers: Numbers) -> Figure:
    bits = numbers["bits"]
    note = (
        f"Letters of Shakespeare, text held out: {bits[str(ORDER)]:.2f} bits a letter by a {ORDER}-gram, "
        f"{fmean(bits['LSTM']):.2f} by an LSTM of {HIDDEN} units.\n"
        f"Left, which words occur in the text learned from; {SEEDS} starts, dots. Right, what an LSTM writes at "
        f"temperature {TEMPERATURES['cooler']:g};\nwords of its own are ochre."
    )
    figure = style.page(TITLE, note, height=5.9)
    halves = figure.add_gridspec(1, 2, width_ratios=(1, 1.08))
    panels, page = figure.add_subfigure(halves[0]).subplots(2, 1), figure.add_subplot(halves[1])
    for i, (axes, text) in enumerate(zip(panels, ("all words", f"words of {LONG} letters and more"), strict=True)):
        found = [[start[i] for start in numbers["words"][name]] for name in NAMES]
        heights = [fmean(starts) for starts in found]
        labels = list(NAMES.values()) if i else [""] * len(NAMES)
        axes.bar(range(len(NAMES)), heights, 0.62, color=[TINTS[name] for name in NAMES])
        for place, starts in enumerate(found):
            axes.plot([place] * SEEDS, starts, "o", color=style.INK, ms=3.5)
            says = style.percent(heights[place])
            axes.text(place, max(starts) + 0.05, says, size=11, color=style.INK, ha="center", va="bottom")
        axes.set(yticks=[], ylim=(0, 1.18), title=text)
        axes.set_xticks(range(len(NAMES)), labels)
        axes.spines["left"].set_visible(False)
        for label in axes.get_xticklabels():
            label.set(size=11, color=style.INK)
    page_of(page, numbers)
    return figure


def page_of(axes: Axes, numbers: Numbers) -> None:
    """Letters of one width: each line is written twice, its own words and all others, with spaces for the rest."""
    axes.axis("off")
    axes.set(xlim=(0, 1), ylim=(SHOWN[0], 0))

    def own(match: re.Match[str]) -> bool:
        return any(word in numbers["made up"] for word in spelled(match.group()))

    def gap(match: re.Match[str]) -> str:
        return " " * len(match.group())

    for row, line in enumerate(numbers["shown"]):
        others = re.sub(r"\S+", lambda match: gap(match) if own(match) else match.group(), line)
        coined = re.sub(r"\S+", lambda match: match.group() if own(match) else gap(match), line)
        for text, tint in ((others, style.INK), (coined, style.SECOND)):
            axes.text(0.06, row + 0.5, text, family=style.MONO, size=10.5, va="center", color=tint)


def checks(numbers: Numbers) -> list[Check]:
    bits = numbers["bits"]
    words, letters = ([start[0] for start in numbers["words"][name]] for name in ("LSTM", "1"))
    more = [one / other for one, other in zip(words, letters, strict=True)]
    return [
        starts_above("bits: the 5-gram over the LSTM", [bits[str(ORDER)] - own for own in bits["LSTM"]], 0.0),
        starts_above("LSTM: share of words that occur in the text", words, 0.7),
        aside(starts_above("LSTM over single letters, all words", more, 2)),
    ]
