"""The maps of a published encoder (MiniLM, 6 layers of 12 heads) on 512 pieces of Wikipedia, and before it learned; and
those of the language model of letters that ships, on a play's end that it has not read.

Needs weights_minilm_l6, wikitext2_valid_test and tiny_shakespeare below REGARD_DATA.
"""

import lzma
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from regard.data.files import find_file as found
from regard.folders import load
from regard.model import Model
from regard.nn.tap import capture
from regard.zoo import FAMILIES
from regard_lectures.figure import seeded
from regard_lectures.foundations.play import words

WEIGHTS, TEXT, LENGTH = "weights_minilm_l6", "wikitext2_valid_test/valid.txt.xz", 512
WRITER, ROWS = "shakespeare", 8  # texts of as many letters as it reads


def pieces(model: Model) -> Tensor:
    """-> (1, LENGTH)"""
    with lzma.open(found(TEXT, Path()), "rt", encoding="utf8") as file:
        text = " ".join(line.strip() for line, _ in zip(file, range(60), strict=False))
    return torch.tensor(model.text().ids([text])[0][:LENGTH])[None]


@torch.no_grad()
def maps(*, learned: bool, seed: int) -> Iterator[Tensor]:
    """Layer by layer, (heads, LENGTH, LENGTH) each."""
    model = load(found(WEIGHTS, Path()))
    ids, net = pieces(model), model.net
    if not learned:
        with seeded(seed):
            net = FAMILIES["bert"].net(net.config)
    with capture(net, "blocks.*.mixer.weights") as seen:
        net.eval()(ids)
    for records in seen.values():
        yield records[0][0]


@torch.no_grad()
def writer_maps() -> Iterator[Tensor]:
    """Layer by layer, (rows * heads, n (n + 1) / 2): the weights of what may be seen."""
    model = load(WRITER)
    n, play = model.config.length, words()
    ids = torch.tensor(model.text().checked([play[-len(play) // 10 :]])[0])[1 : ROWS * n + 1].view(ROWS, n)
    with capture(model.net, "blocks.*.mixer.weights") as seen:
        model.net.eval()(ids)
    past = torch.ones(n, n, dtype=torch.bool).tril()
    for records in seen.values():
        yield records[0].flatten(0, 1)[:, past]
