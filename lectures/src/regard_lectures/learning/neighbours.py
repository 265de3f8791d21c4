"""3.1: word vectors of captions: words of one kind come to lie together.

Skip-gram with negative sampling, 64 wide, learns from the English half of Multi30k, 29,000 captions of photographs. The
kinds are known to nobody but the reader; they were picked by hand among eleven, for a plane shows few kinds at once:
clothes, for one, lie among the colours there. Needs that file below the folder that REGARD_DATA names.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.data.files import find_file as found
from regard.data.tables import open_plain
from regard.models.word2vec import Config, word_vectors
from regard_lectures.figure import Check, Numbers, aside, plain, seeded, starts_above, starts_below

TITLE = "Words of a kind lie together"
DECKS = ("004", "001")
CLAIM = "Learned from the company of words alone, the nearest words of a colour are colours, of a number numbers."
EXPECTED = "The nearest neighbours of colours are colours, those of numbers are numbers."
FOUND = (
    "Of the 3 nearest of a colour at least 70 % are colours, of a number 83 % numbers, in 3 starts; the nearest shown"
    " word is of the same kind in at least 98 %, and in at most 14 % with random vectors."
)
COST = 20.0
SEED = 0

TEXT = "multi30k/train.en.gz"
LEAST, SEEDS = 15, 3  # a word that is rarer is left out
KINDS = {
    "colours": "red blue green yellow white black orange pink purple brown gray",
    "numbers": "two three four five six several",
    "instruments": "guitar violin drums piano trumpet saxophone accordion keyboard",
    "people": "man woman boy girl lady guy child person kid toddler",
    "rooms": "kitchen room office restaurant store bar classroom",
}
ASKED = ["red", "yellow", "three", "guitar", "girl", "shirt"]
Spot = tuple[float, float]
Box = tuple[float, float, float, float]
Side = Literal["left", "center", "right"]
INKS = {"gray": "gray", "white": "white", "black": "black", "brown": "saddlebrown"}


def compute() -> Numbers:
    texts = [re.findall(r"[a-z]+", text.lower()) for (text,) in iterated()]
    counts = Counter(word for words in texts for word in words)
    vocabulary = [word for word, count in counts.most_common() if count >= LEAST]
    numbers_of = {word: i for i, word in enumerate(vocabulary)}
    rows = [[numbers_of[word] for word in words if word in numbers_of] for words in texts]
    shown = [numbers_of[word] for words in KINDS.values() for word in words.split()]
    numbers: Numbers = {"captions": len(texts), "vocabulary": len(vocabulary), "together": [], "colours": []}
    numbers |= {"numbers": [], "chance": []}
    for seed in range(SEED, SEED + SEEDS):
        config = Config(vocab=len(vocabulary), dim=64, window=2, often=1e-3, batch=4096, seed=seed)
        table = F.normalize(word_vectors(rows, config), dim=-1)
        with seeded(seed):
            blind = F.normalize(torch.randn(table.shape), dim=-1)
        numbers["together"].append(together(table[shown]))
        numbers["chance"].append(together(blind[shown]))
        for kind in ("colours", "numbers"):
            numbers[kind].append(own_kind(table, vocabulary, KINDS[kind].split()))
        if seed == SEED:
            numbers["places"] = plain(plane(table[shown]), 3)
            numbers["nearest"] = {word: nearest(table, vocabulary, word, 5) for word in ASKED}
    return numbers


def iterated() -> list[tuple[str, ...]]:
    rows = open_plain(found(TEXT, Path()))
    return [rows[i] for i in range(len(rows))]


def together(table: Tensor) -> float:
    """Of how many of the shown words the nearest one, of all that are shown, is of the same kind."""
    kind = torch.tensor([i for i, words in enumerate(KINDS.values()) for _ in words.split()])
    near = (table @ table.T).fill_diagonal_(-1).argmax(-1)
    return float((kind[near] == kind).double().mean())


def own_kind(table: Tensor, vocabulary: list[str], words: list[str]) -> float:
    """Of the three nearest of each word, in the whole vocabulary, the share of the same kind."""
    hits = [other in words for word in words for other, _ in nearest(table, vocabulary, word, 3)]
    return sum(hits) / len(hits)


def nearest(table: Tensor, vocabulary: list[str], word: str, count: int) -> list[list[Any]]:
    """By the cosine; the word itself, the nearest of all, is left out."""
    best = (table @ table[vocabulary.index(word)]).topk(count + 1)
    near = zip(best.indices[1:].tolist(), best.values[1:].tolist(), strict=True)
    return [[vocabulary[i], round(value, 2)] for i, value in near]


def plane(table: Tensor) -> Tensor:
    """The two directions in which the words differ most.  (v, d) -> (v, 2)"""
    centred = table - table.mean(0)
    _, _, directions = torch.linalg.svd(centred, full_matrices=False)
    places = centred @ directions[:2].T
    return places * places[0].sign()  # a direction has no sign of its own: the first word lies up and to the right


def draw(numbers: Numbers) -> Figure:
    note = f"word2vec, 64 wide, from {numbers['captions']:,} captions: the two main directions, and the nearest words."
    figure = style.page(TITLE, note, height=6.9)
    axes = style.stage(figure)
    spots = spread(numbers["places"], (1.05, 0.35), (6.1, 5.3))
    boxes = [(x - 0.07, y - 0.07, x + 0.07, y + 0.07) for x, y in spots]
    left = iter(spots)
    for kind, words in KINDS.items():
        own = [next(left) for _ in words.split()]
        x, y = sum(x for x, _ in own) / len(own), max(y for _, y in own) + 0.36
        boxes.append((x - 0.5, y - 0.1, x + 0.5, y + 0.1))
        style.write(axes, x, y, kind, color=style.SOFT, weight="bold")
    named = zip(spots, [(word, kind) for kind, words in KINDS.items() for word in words.split()], strict=True)
    for spot, (word, kind) in named:
        ink = INKS.get(word, word) if kind == "colours" else style.EDGE
        axes.plot(*spot, "o", ms=7.5, color=ink, mec=style.SOFT, mew=0.7, zorder=3)
        label(axes, spot, word, boxes)
    for i, (word, near) in enumerate(numbers["nearest"].items()):
        top = 5.6 - 0.93 * i
        style.write(axes, 7.2, top, word, ha="left", family=style.SERIF, size=15, weight="bold")
        style.write(axes, 7.2, top - 0.29, line(near[:3]), ha="left", family=style.SERIF, size=12.5)
        style.write(axes, 7.2, top - 0.53, line(near[3:]), ha="left", family=style.SERIF, size=12.5, color=style.SOFT)
    return figure


def line(near: list[list[Any]]) -> str:
    return "   ".join(f"{word} {value:.2f}" for word, value in near)


def spread(places: list[list[float]], low: Spot, high: Spot) -> list[Spot]:
    """As wide and as high as there is room."""
    axes = list(zip(*places, strict=True))
    scaled = [
        [a + (b - a) * (value - min(axis)) / (max(axis) - min(axis)) for value in axis]
        for axis, a, b in zip(axes, low, high, strict=True)
    ]
    return list(zip(*scaled, strict=True))


def label(axes: Axes, spot: Spot, word: str, boxes: list[Box]) -> None:
    """On the side of its dot where it covers least of what is there already."""
    (x, y), wide = spot, 0.085 * len(word) + 0.04
    sides: dict[Side, tuple[float, float]] = {"left": (x + 0.1, y), "right": (x - 0.1 - wide, y)}
    options: list[tuple[float, Side, Box]] = []
    for ha, (start, middle) in sides.items():
        for up in (0.0, 0.11, -0.11):
            box = (start, middle + up - 0.09, start + wide, middle + up + 0.09)
            options.append((sum(covered(box, other) for other in boxes), ha, box))
    for up in (0.19, -0.19):
        box = (x - wide / 2, y + up - 0.09, x + wide / 2, y + up + 0.09)
        options.append((sum(covered(box, other) for other in boxes), "center", box))
    _, ha, box = min(options, key=lambda option: option[0])
    at = {"left": box[0], "right": box[2], "center": (box[0] + box[2]) / 2}[ha]
    style.write(axes, at, (box[1] + box[3]) / 2, word, ha=ha, family=style.SERIF, size=12.5)
    boxes.append(box)


def covered(one: Box, other: Box) -> float:
    """The area of what two boxes share."""
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    return max(wide, 0.0) * max(high, 0.0)


def checks(numbers: Numbers) -> list[Check]:
    return [
        starts_above("the nearest shown word is of the same kind", numbers["together"], 0.9),
        aside(starts_below("the same of random vectors", numbers["chance"], 0.5)),
        starts_above("of the 3 nearest of a colour, colours", numbers["colours"], 0.5),
        starts_above("of the 3 nearest of a number, numbers", numbers["numbers"], 0.5),
    ]
