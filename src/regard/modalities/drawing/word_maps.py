"""Where each word of a prompt was looked at, step by step: the mean of all layers and heads that look at the words.

What the DAAM (Tang et al., 2022), https://arxiv.org/abs/2210.04885, section 3
    map of a word = mean over layers and heads of the cross-attention weights of its tokens, at one size

Differs from the paper: a mean where it has a sum, so that a map is a share of attention; linear where it is bicubic,
which would go below zero; and a map for each step.

Shapes: h heads, p pixels of a layer, n tokens, w words, s steps, H, W rows and columns of the finest layer.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import InputError
from regard.look.subwords import groups
from regard.look.trace import Trace, TracedSite

WORD_END = "</w>"  # what CLIP's tokenizer writes after the last piece of a word


def word_pieces(labels: Sequence[str]) -> dict[tuple[int, ...], str]:
    """The places of the pieces of each word, and the word."""
    places: list[list[int]] = groups(labels)
    if any(label.endswith(WORD_END) for label in labels):
        places = [[]]
        for i, label in enumerate(labels):
            places[-1].append(i)
            if label.endswith(WORD_END):
                places.append([])
        places = [one for one in places if one]
    return {tuple(one): "".join(labels[i].removesuffix(WORD_END) for i in one).strip() or "·" for one in places}


def looking_at_words(found: Trace[Any]) -> list[TracedSite]:
    """The layers whose rows are places of the image and whose columns are tokens."""
    sites = [site for site in found.sites.values() if site.axes[1] == "text" and site.rows.grid is not None]
    if not sites:
        raise InputError("no layer of this model looks at words from places of an image")
    return sites


def maps_of_words(found: Trace[Any], pieces: Sequence[Sequence[int]], steps: Sequence[int]) -> Tensor:
    """The share of attention that each place gives to each word, at the finest layer's size.  -> (w, s, H, W)"""
    sites = looking_at_words(found)
    rows, columns = max(site.rows.grid or (1, 1) for site in sites)
    if not pieces:
        return torch.zeros(0, len(steps), rows, columns)
    taken = [torch.stack([step_map(site, step, pieces, (rows, columns)) for step in steps], 1) for site in sites]
    return torch.stack(taken).mean(0)


def step_map(site: TracedSite, step: int, pieces: Sequence[Sequence[int]], size: tuple[int, int]) -> Tensor:
    """Of one layer; the first of its batch is the prompt, the second what guidance leads away from.  -> (w, H, W)"""
    weights = site.records[step].weights()[0].float().mean(0)  # (p, n)
    shares = torch.stack([weights[:, list(one)].sum(1) for one in pieces])
    grid = shares.view(len(pieces), 1, *(site.rows.grid or (1, 1)))
    return F.interpolate(grid, size, mode="bilinear", align_corners=False)[:, 0]
