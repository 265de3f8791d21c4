"""What a net's output says, in words that can be shown: a text, labels, the next word, boxes.

Shapes: b batch, n tokens, v words, c classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.text import Text

from .finding import Thing
from .seeing import ranked

MOST = 10  # choices that are told

Choices = tuple[tuple[str, float], ...]  # each with its probability, the likeliest first


@dataclass(frozen=True)
class Wrote:
    """A text, and of each of its tokens the log-probability."""

    text: str
    tokens: Choices


@dataclass(frozen=True)
class Labels:
    choices: Choices


@dataclass(frozen=True)
class Next:
    """What may follow a text."""

    choices: Choices


@dataclass(frozen=True)
class Filled:
    """What may stand at each place that is masked."""

    places: tuple[tuple[int, Choices], ...]


@dataclass(frozen=True)
class Things:
    found: tuple[Thing, ...]
    size: tuple[int, int]  # width and height of the image as the net sees it, in whose pixels boxes are told


Answer = Wrote | Labels | Next | Filled | Things


def wrote(text: Text, logits: Tensor, ids: Sequence[int], said: str) -> Wrote:
    """(n, v), and the n tokens that were written"""
    chances = logits.log_softmax(-1)[torch.arange(len(ids)), list(ids)]
    return Wrote(said, tuple(zip(text.labels(list(ids)), chances.tolist(), strict=True)))


def labels(logits: Tensor, names: Sequence[str]) -> Labels:
    """(c,)"""
    return Labels(tuple((names[i] if names else str(i), chance) for i, chance in ranked(logits)[:MOST]))


def likeliest_words(logits: Tensor, text: Text) -> Choices:
    """(v,)"""
    chances, ids = logits.softmax(-1).topk(min(MOST, len(logits)))
    return tuple(zip(text.labels(ids.tolist()), chances.tolist(), strict=True))


def filled(logits: Tensor, ids: Sequence[int], mask: int, text: Text) -> Filled:
    """(n, v)"""
    return Filled(tuple((i, likeliest_words(logits[i], text)) for i, own in enumerate(ids) if own == mask))
