"""Recurrent networks that read a text, or write one.

Finding Structure in Time (Elman, 1990); Generating Sequences With Recurrent Neural Networks (Graves, 2013),
https://arxiv.org/abs/1308.0850; Bidirectional LSTM-CRF Models for Sequence Tagging (Huang, Xu and Yu, 2015),
https://arxiv.org/abs/1508.01991, without its CRF.
One net, and what is made of its states: the next word (b), a tag for each word (a), a label for the whole text (d). A
text that is conditioned on something else (c) begins with a state that is made from it. The fifth application, from one
sequence to another, is rnn.py.

Shapes: b batch, n tokens, d width of embeddings, e width of states, v vocabulary, c classes, k width of a condition.
"""

from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.family import Family
from regard.nn.axis import Axis
from regard.nn.cache import Cache
from regard.nn.config import not_one_of, not_positive, not_shares, refuse
from regard.nn.dropout import Dropout
from regard.nn.embed import Lookup
from regard.nn.loss import CrossEntropy, cross_entropy
from regard.nn.mask import fitted_keys
from regard.nn.recurrent import CELLS, Recurrent, RecurrentOutput, State, cell_kind

Head = Literal["words", "tags", "label"]


@dataclass(frozen=True, kw_only=True)
class Config:
    vocab: int = 10000
    dim: int = 256
    hidden: int = 512
    depth: int = 1
    cell: str = "lstm"
    bidirectional: bool = False
    dropout: float = 0.2
    tied: bool = False  # the embedding is the output matrix; then dim = hidden
    condition: int | None = None  # width of what the first state is made from
    head: Head = "words"
    classes: int = 2  # of labels or tags

    def __post_init__(self) -> None:
        ahead = self.bidirectional is True and self.head == "words"
        alike = None not in (self.dim, self.hidden) and self.dim == self.hidden
        refuse(
            not_positive(self, "vocab", "dim", "hidden", "depth", "condition", "classes"),
            not_shares(self, "dropout"),
            not_one_of(CELLS, self, "cell"),
            ["head = 'words' predicts the next token, so it requires bidirectional = false"] if ahead else [],
            ["tied = true requires hidden = dim, as the embedding is the output matrix"]
            if self.tied and not alike
            else [],
            ["tied = true requires head = 'words'"] if self.tied and self.head != "words" else [],
        )


PRESETS = {
    "elman": Config(cell="rnn"),
    "gru": Config(cell="gru"),
    "lstm": Config(),
    "bilstm": Config(bidirectional=True, hidden=256, head="tags"),
}
PAPERS = {
    "elman": ("Elman 1990, Finding Structure in Time", "https://doi.org/10.1207/s15516709cog1402_1"),
    "gru": ("Cho et al. 2014, Learning Phrase Representations", "https://arxiv.org/abs/1406.1078"),
    "lstm": ("Graves 2013, Generating Sequences With Recurrent Neural Networks", "https://arxiv.org/abs/1308.0850"),
    "bilstm": ("Huang, Xu and Yu 2015, Bidirectional LSTM-CRF Models", "https://arxiv.org/abs/1508.01991"),
}

AXES: dict[str, tuple[str, str]] = {}


class RecurrentReader(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embed = Lookup(config.vocab, config.dim)
        self.dropout = Dropout(config.dropout)
        self.layers = Recurrent(
            cell_kind(config.cell),
            config.dim,
            config.hidden,
            config.depth,
            bidirectional=config.bidirectional,
            dropout=config.dropout,
        )
        parts = len(self.layers.cells()[0].names) * config.depth * self.layers.width
        self.start = None if config.condition is None else nn.Linear(config.condition, parts)
        outputs = config.vocab if config.head == "words" else config.classes
        self.head = None if config.tied else nn.Linear(self.layers.width, outputs)
        nn.init.normal_(self.embed.weight, std=config.dim**-0.5)

    def forward(
        self,
        ids: Tensor,
        *,
        keys: Tensor | None = None,
        cache: Cache | None = None,
        condition: Tensor | None = None,
    ) -> Tensor:
        """(b, n) -> logits (b, n, v) of tokens, (b, n, c) of tags or (b, c) of a label; keys is False at padding; with
        a cache, ids holds only the new tokens; condition (b, k) is used without a past only"""
        found = self.recur(ids, keys, cache, condition)
        states = found.state["h"][:, -1] if self.config.head == "label" else found.outputs
        return self.logits(self.dropout(states))

    def recur(self, ids: Tensor, keys: Tensor | None, cache: Cache | None, condition: Tensor | None) -> RecurrentOutput:
        if cache is not None:
            cache.take(ids.shape[1], fitted_keys(keys, ids))
        x = self.dropout(self.embed(ids))
        return self.layers(x, keys=fitted_keys(keys, ids), state=self.first(condition), cache=cache)

    def first(self, condition: Tensor | None) -> State | None:
        """(b, k) -> the state before the first token, in every layer; none for zeros"""
        if (condition is None) != (self.start is None):
            expected = "none" if self.start is None else f"(b, {self.start.in_features})"
            got = "none" if condition is None else tuple(condition.shape)
            raise ValueError(f"condition, the input of the initial state, must be {expected}, got {got}")
        if condition is None or self.start is None:
            return None
        names = self.layers.cells()[0].names
        parts = self.start(condition).tanh().unflatten(-1, (len(names), self.config.depth, -1)).unbind(1)
        return dict(zip(names, parts, strict=True))

    def read(
        self,
        ids: Tensor,
        *,
        keys: Tensor | None = None,
        cache: Cache | None = None,
        condition: Tensor | None = None,
    ) -> Tensor:
        """(b, n) -> (b, n, e): the hidden states, before the output matrix"""
        return self.dropout(self.recur(ids, keys, cache, condition).outputs)

    def logits(self, states: Tensor) -> Tensor:
        """(b, n, e) -> (b, n, v)"""
        return F.linear(states, *self.words())

    def words(self) -> tuple[Tensor, Tensor | None]:
        """-> (v, e), (v,)"""
        return (self.embed.weight, None) if self.head is None else (self.head.weight, self.head.bias)

    def score(
        self, states: Tensor, wanted: Tensor, *, real: Tensor | None = None, smoothing: float = 0.0
    ) -> CrossEntropy:
        """hidden states (b, n, e) and targets (b, n): the cross-entropy of the targets, without forming all logits"""
        weight, bias = self.words()
        return cross_entropy(states, weight, wanted, bias=bias, real=real, smoothing=smoothing)

    def labelled(self, ids: Tensor, *, segments: Tensor | None = None, keys: Tensor | None = None) -> Tensor:
        """(b, n) -> (b, c)"""
        return self(ids, keys=keys)

    def tagged(self, ids: Tensor, *, segments: Tensor | None = None, keys: Tensor | None = None) -> Tensor:
        """(b, n) -> (b, n, c)"""
        return self(ids, keys=keys)

    def axes(self, ids: Tensor) -> dict[str, Axis]:
        return {"tokens": Axis("text", ids.shape[1])}


def verbs(config: Config, task: str | None) -> tuple[str, ...]:
    return {"words": ("generate",), "label": ("classify",), "tags": ("tag",)}.get(config.head, ())


FAMILY = Family(
    config=Config,
    net=RecurrentReader,
    presets=PRESETS,
    axes=AXES,
    paper="Graves 2013, Generating Sequences With Recurrent Neural Networks",
    link="https://arxiv.org/abs/1308.0850",
    takes=("text",),
    tasks=("language", "classify", "tag"),
    verbs=verbs,
    example=lambda: Config(vocab=13, dim=16, hidden=24, depth=2, classes=5),
    papers=PAPERS,
    tagged="last",
)
