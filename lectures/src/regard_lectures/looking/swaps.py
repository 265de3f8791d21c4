"""11.1: where a translator looks for each word it writes, Bahdanau et al. (2015), figure 3; decks 002, 003 and 004.

An RNN with attention learns a little French (see ``french``), where it is known which English word each French one is
made of. The end is made of no word: that it has come can be read off many places, so it is counted apart.
"""

from itertools import pairwise

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard import style
from regard.modalities.text.runners import Translation
from regard.model import Model
from regard_lectures.figure import Check, Numbers, above, aside, below, equal, plain, starts_above
from regard_lectures.looking.french import STRAIGHT, SWAPPED, Sentence, looked, sentences, taught, translated, untaught

TITLE = "Where a translator looks"
DECKS = ("002", "003", "004")
CLAIM = "Attention learns which word each word is made of: along the diagonal, and crosswise where two words swap."
EXPECTED = (
    "Attention follows the diagonal where both languages have one order and crosses where adjective and noun swap; "
    "more than 95 % of words look hardest at the word they are made of."
)
FOUND = (
    "100, 99.7 and 98.5 % of words look hardest at their own word in 3 starts; in one order the look is 0.23 words off "
    "the diagonal, and swapped words have at least 82 % of it."
)
COST = 40.0
SEED = 0

SIZES: dict[str, object] = {"target_vocab": None, "dim": 32, "hidden": 48, "align": 32, "maxout": 48, "cell": "gru"}
SEEDS, UNSEEN, LAYER = 3, 200, "decoder.cross"


def compute() -> Numbers:
    numbers: Numbers = {"right": [], "words": [], "ends": [], "shown": []}
    for seed in range(SEED, SEED + SEEDS):
        model = taught(untaught("rnn-bahdanau", seed, SIZES), seed=seed, steps=210, rate=0.01)
        unseen = sentences(UNSEEN, 1000 + seed)
        found = looked(model, [one.english for one in unseen], LAYER)
        numbers["right"].append(sum(x.text == one.french for x, one in zip(found, unseen, strict=True)) / UNSEEN)
        words, ends = zip(*map(agreement, found, unseen), strict=True)
        numbers["words"].append(float(torch.cat(words).double().mean()))
        numbers["ends"].append(float(torch.stack(ends).double().mean()))
        if seed == SEED:
            numbers["shown"] = [shown(model, text) for text in (STRAIGHT, SWAPPED)]
    return numbers


def agreement(found: Translation, wanted: Sentence) -> tuple[torch.Tensor, torch.Tensor]:
    """For each written word, whether it looked hardest at the word that it is made of; and whether the end looked
    hardest at the end.  -> (n,), ()"""
    places = found.maps[LAYER].weights[0, 0].argmax(-1)
    expected, last = torch.tensor(wanted.sources), len(wanted.sources)
    if len(places) != last + 1:
        return torch.zeros(last), torch.tensor(0.0)
    return places[:-1] == expected, places[-1] == last


def shown(model: Model, english: str) -> Numbers:
    (found,), wanted = looked(model, [english], LAYER), translated(english)
    seen = found.maps[LAYER]
    assert seen.rows.labels is not None
    assert seen.columns.labels is not None
    weights = seen.weights[0, 0]
    numbers: Numbers = {"rows": list(seen.rows.labels), "columns": list(seen.columns.labels), "map": plain(weights, 3)}
    return numbers | {"sources": list(wanted.sources), "wanted": wanted.french}


def draw(numbers: Numbers) -> Figure:
    note = (
        f"An RNN with attention writes French; swapped words are framed. Of {UNSEEN} unseen sentences "
        f"{share(numbers['words'])} of the words look\nhardest at the word that they are made of; the end is made of "
        f"none, and looks hardest at the end in {share(numbers['ends'])}."
    )
    figure = style.page(TITLE, note, height=6.4)
    panels = figure.subplots(1, 2)
    for axes, one in zip(panels, numbers["shown"], strict=True):
        style.heatmap(axes, one["map"], one["rows"], one["columns"], slant=50, size=12)
        frames(axes, one["sources"])
    style.scale(figure, list(panels), shrink=0.4)
    return figure


def share(shares: list[float]) -> str:
    """The mean of all seeds."""
    return style.percent(sum(shares) / len(shares))


def frames(axes: Axes, sources: list[int]) -> None:
    """Around each two words that stand the other way round."""
    for i, (here, after) in enumerate(pairwise(sources)):
        if after < here:
            style.frame(axes, after, i, 2, 2, style.INK, line=1.4)


def off_diagonal(one: Numbers) -> float:
    """How far from the diagonal the weight of a word lies, on average over all rows but the end's."""
    rows = one["map"][:-1]
    return sum(weight * abs(i - j) for i, row in enumerate(rows) for j, weight in enumerate(row)) / len(rows)


def crossed(one: Numbers) -> float:
    """The smallest weight of a swapped word on the word that it is made of."""
    return min(one["map"][i][j] for i, j in enumerate(one["sources"]) if i != j)


def checks(numbers: Numbers) -> list[Check]:
    straight, swapped = numbers["shown"]
    return [
        aside(starts_above("sentences translated without a fault", numbers["right"], 0.95)),
        starts_above("words that look hardest at the word they are made of", numbers["words"], 0.95),
        below("same order: mean distance from the diagonal, in words", off_diagonal(straight), 0.5),
        above("swapped words: smallest weight on their own word", crossed(swapped), 0.5),
        aside(equal("the rows are what was written", " ".join(swapped["rows"]), f"{swapped['wanted']} <end>")),
        aside(equal("the columns are what was read", " ".join(swapped["columns"]), f"{SWAPPED} <end>")),
        aside(equal("the same for the other sentence", " ".join(straight["rows"]), f"{straight['wanted']} <end>")),
    ]
