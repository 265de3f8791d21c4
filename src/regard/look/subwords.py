"""Maps by whole words, where a tokenizer has cut words into pieces."""

import re
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from regard.nn.axis import Axis

from .maps import Map

CONTINUED = "##"  # of WordPiece
PARTS = "₁₂₃₄"  # of a letter that was cut into bytes: ï₁, ï₂
NEXT_PART = re.compile(f"(.)[{PARTS[1:]}]")
CUT = re.compile(rf"(.){PARTS[0]}(?:\1[{PARTS[1:]}])+")


def merge_subwords(one: Map) -> Map:
    """Merge subword tokens into words: weights on a word are the sum over its tokens, weights of a word their mean, so
    rows still sum to 1. An axis without labels is unchanged."""
    weights = one.weights
    if one.columns.labels is not None:
        weights = weights @ membership(groups(one.columns.labels)).to(weights)
    if one.rows.labels is not None:
        members = membership(groups(one.rows.labels)).to(weights)
        weights = (members / members.sum(0)).mT @ weights
    return replace(one, weights=weights, rows=word_axis(one.rows), columns=word_axis(one.columns))


def groups(labels: Sequence[str]) -> list[list[int]]:
    """The places of each word's pieces. A piece goes on with a word if it says so, or if it is a letter or digit after
    one, without a space, where other pieces have spaces before them."""
    spaced = any(label.startswith(" ") for label in labels)
    found: list[list[int]] = []
    for i, label in enumerate(labels):
        after = spaced and i > 0 and label[:1].isalnum() and labels[i - 1][-1:].isalnum()
        if found and (after or label.startswith(CONTINUED) or NEXT_PART.match(label)):
            found[-1].append(i)
        else:
            found.append([i])
    return found


def membership(words: Sequence[Sequence[int]]) -> Tensor:
    """(pieces, words), 1 where a piece belongs to a word."""
    table = torch.zeros(sum(map(len, words)), len(words))
    for j, pieces in enumerate(words):
        table[list(pieces), j] = 1.0
    return table


def word_axis(axis: Axis) -> Axis:
    if axis.labels is None:
        return axis
    labels = axis.labels
    words = ["".join(labels[i].removeprefix(CONTINUED) for i in pieces).strip() for pieces in groups(labels)]
    words = [CUT.sub(r"\1", word) for word in words]
    return replace(axis, size=len(words), labels=tuple(words))
