"""BERT.

BERT: Pre-training of Deep Bidirectional Transformers (Devlin et al., 2019), https://arxiv.org/abs/1810.04805
An encoder alone: every token looks both ways, so that a hidden word can be guessed from all that surrounds it.

ALBERT (Lan et al., 2020), https://arxiv.org/abs/1909.11942, has one layer that is applied again and again, and narrow
embeddings that are widened. DistilBERT (Sanh et al., 2019), https://arxiv.org/abs/1910.01108, is half as deep, learned
from BERT, and knows no segments. Linformer (Wang et al., 2020), https://arxiv.org/abs/2006.04768, sums keys and values
up before it looks at them; its encoder is RoBERTa's (Liu et al., 2019), https://arxiv.org/abs/1907.11692. FNet
(Lee-Thorp et al., 2022), https://arxiv.org/abs/2105.03824, has a Fourier transform in the place of attention, which in
its hybrids the last two layers have again.

Differs from FNet's code: dropout stands where BERT and ALBERT have it, on what was mixed and before the embeddings'
own layer; there it is on neither, and behind that layer.

Shapes: b batch, n tokens, d width, e width of embeddings, v vocabulary, c classes.
"""

from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.family import Family, Lens, block_streams
from regard.nn.axis import Axis
from regard.nn.block import Block
from regard.nn.config import not_above_zero, not_at_least, not_divided, not_one_of, not_positive, not_shares, refuse
from regard.nn.dropout import Dropout
from regard.nn.embed import Lookup
from regard.nn.feedforward import ACTIVATIONS, FeedForward, activation
from regard.nn.initialization import init_deviation
from regard.nn.loss import CrossEntropy, cross_entropy
from regard.nn.mask import Mask, fitted_keys
from regard.nn.mechanisms import Choice, build_mixer, layer_choices, unknown_choices
from regard.nn.pool import pool_first
from regard.nn.positions import Learned
from regard.nn.residual import Branch, PostNorm
from regard.nn.site import Site

# What is made of the states: nothing; hidden words; those, and whether B follows A; that alone; a label for the text;
# one for each token; where an answer begins and ends.
Head = Literal["none", "words", "pretraining", "follows", "label", "tags", "span"]


@dataclass(frozen=True, kw_only=True)
class Config:
    vocab: int = 30522
    length: int = 512
    segments: int = 2  # 0 where there are none
    narrow: int | None = None  # width of the embeddings, which one more layer then brings to dim
    dim: int = 768
    depth: int = 12
    shared: bool = False  # one layer, applied depth times
    heads: int = 12
    hidden: int = 3072
    dropout: float = 0.1
    attention_dropout: float = 0.1
    eps: float = 1e-12
    activation: str = "gelu"
    pooler: bool = True  # one more layer on the first token
    pooling: Literal["tanh", "relu"] = "tanh"  # of that layer
    head: Head = "none"
    classes: int = 2  # of labels or tags
    attention: Choice = "softmax"

    def __post_init__(self) -> None:
        blind = self.head in ("pretraining", "follows", "label") and self.pooler is False
        turns = isinstance(self.attention, list | tuple) and len(self.attention) > 1
        refuse(
            not_positive(self, "vocab", "length", "narrow", "dim", "depth", "heads", "hidden", "classes"),
            not_at_least(0, self, "segments"),
            not_above_zero(self, "eps"),
            not_shares(self, "dropout", "attention_dropout"),
            not_divided(self, "dim", "heads"),
            not_one_of(ACTIVATIONS, self, "activation"),
            unknown_choices(self, "attention"),
            [f"head = {self.head!r} needs pooler = true"] if blind else [],
            ["attention cannot alternate between layers when shared = true"] if turns and self.shared else [],
        )


ALBERT = Config(
    vocab=30000, narrow=128, shared=True, dropout=0.0, attention_dropout=0.0, activation="gelu_tanh"
)  # as its second version was trained
FNET = Config(vocab=32000, segments=4, narrow=768, attention_dropout=0.0, activation="gelu_tanh", attention="fourier")
FNET_LARGE = replace(FNET, narrow=1024, dim=1024, depth=24, heads=16, hidden=4096)
LINFORMER = Config(
    vocab=50265,
    segments=0,
    attention_dropout=0.0,  # what is dropped are weights, and of single keys it has none
    eps=1e-5,
    pooler=False,
    head="words",
    attention={"kind": "linformer", "rank": 256, "shared": "layers"},
)
PRESETS = {
    "bert-tiny": Config(dim=128, depth=2, heads=2, hidden=512),
    "bert-mini": Config(dim=256, depth=4, heads=4, hidden=1024),
    "bert-base": Config(),
    "bert-large": Config(dim=1024, depth=24, heads=16, hidden=4096),
    "albert-base": ALBERT,
    "albert-large": replace(ALBERT, dim=1024, depth=24, heads=16, hidden=4096),
    "albert-xlarge": replace(ALBERT, dim=2048, depth=24, heads=16, hidden=8192),
    "albert-xxlarge": replace(ALBERT, dim=4096, depth=12, heads=64, hidden=16384),
    "distilbert-base": Config(segments=0, depth=6, pooler=False),
    "fnet-base": FNET,
    "fnet-large": FNET_LARGE,
    "fnet-hybrid-base": replace(FNET, attention=("fourier",) * 10 + ("softmax",) * 2),
    "fnet-hybrid-large": replace(FNET_LARGE, attention=("fourier",) * 22 + ("softmax",) * 2),
    "fnet-tiny": replace(FNET, narrow=128, dim=128, depth=2, heads=2, hidden=512),
    "linformer-base": LINFORMER,
    "linformer-tiny": replace(
        LINFORMER,
        dim=128,
        depth=2,
        heads=2,
        hidden=512,
        length=256,
        attention={"kind": "linformer", "rank": 32, "shared": "layers"},
    ),
    "linformer-base-long": replace(LINFORMER, length=4096),  # the rank stays as the length grows
}
SOURCES = {
    "albert": ("Lan et al. 2020, ALBERT", "https://arxiv.org/abs/1909.11942"),
    "fnet": ("Lee-Thorp et al. 2022, FNet", "https://arxiv.org/abs/2105.03824"),
    "distilbert": ("Sanh et al. 2019, DistilBERT", "https://arxiv.org/abs/1910.01108"),
    "linformer": ("Wang et al. 2020, Linformer", "https://arxiv.org/abs/2006.04768"),
}
PAPERS = {name: SOURCES[name.split("-")[0]] for name in PRESETS if name.split("-")[0] in SOURCES}

AXES = {"blocks.*.mixer": ("tokens", "tokens")}


@dataclass(frozen=True, eq=False)
class Output:
    states: Tensor  # (b, n, d)
    pooled: Tensor | None  # (b, d)
    words: Tensor | None  # (b, n, v)
    follows: Tensor | None  # (b, 2)
    label: Tensor | None = None  # (b, c)
    tags: Tensor | None = None  # (b, n, c)
    span: Tensor | None = None  # (b, n, 2): the answer's first and last token


class Words(nn.Module):
    """Masked-language-model head: one more layer, then the embedding matrix with a bias for each token."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.narrow or config.dim
        self.dense = nn.Linear(config.dim, width)
        self.act = activation(config.activation)
        self.norm = nn.LayerNorm(width, config.eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab))

    def forward(self, states: Tensor, embedding: Tensor) -> Tensor:
        """(..., d), (v, e) -> (..., v)"""
        return F.linear(self.ready(states), embedding, self.bias)

    def ready(self, states: Tensor) -> Tensor:
        """(..., d) -> (..., e): the vector that is compared with each embedding"""
        return self.norm(self.act(self.dense(states)))


class BERT(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width = config.narrow or config.dim
        self.embed = Lookup(config.vocab, width)
        self.positions = Learned(config.length, width)
        self.segments = Lookup(config.segments, width) if config.segments else None
        self.norm = nn.LayerNorm(width, config.eps)
        self.dropout = Dropout(config.dropout)
        self.widen = None if config.narrow is None else nn.Linear(width, config.dim)
        layers = 1 if config.shared else config.depth
        common: dict[str, nn.Module] = {}
        self.blocks = nn.ModuleList(self.block(choice, common) for choice in layer_choices(config.attention, layers))
        self.pooler = nn.Linear(config.dim, config.dim) if config.pooler else None
        self.words = Words(config) if config.head in ("words", "pretraining") else None
        self.follows = nn.Linear(config.dim, 2) if config.head in ("pretraining", "follows") else None
        self.label = nn.Linear(config.dim, config.classes) if config.head == "label" else None
        self.tags = nn.Linear(config.dim, config.classes) if config.head == "tags" else None
        self.span = nn.Linear(config.dim, 2) if config.head == "span" else None
        self.reset()

    def block(self, choice: Choice, common: dict[str, nn.Module]) -> Block:
        config = self.config
        site = Site(
            dim=config.dim,
            heads=config.heads,
            length=config.length,
            dropout=config.attention_dropout,
            common=common,
        )
        return Block(
            build_mixer(choice, site),
            FeedForward(config.dim, config.hidden, activation(config.activation)),
            lambda: PostNorm(nn.LayerNorm(config.dim, config.eps), Branch(config.dim, dropout=config.dropout)),
        )

    def reset(self) -> None:
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.ndim == 2:
                nn.init.normal_(parameter, std=init_deviation(self.config.dim))

    def forward(self, ids: Tensor, *, segments: Tensor | None = None, keys: Tensor | None = None) -> Output:
        """(b, n) -> hidden states (b, n, d) and the outputs of the heads; keys is False at padding"""
        x = self.read(ids, segments=segments, keys=keys)
        pooled = self.pooled(x, keys)
        return Output(
            states=x,
            pooled=pooled,
            words=None if self.words is None else self.words(x, self.embed.weight),
            follows=None if self.follows is None or pooled is None else self.follows(pooled),
            label=None if self.label is None or pooled is None else self.label(self.dropout(pooled)),
            tags=None if self.tags is None else self.tags(self.dropout(x)),
            span=None if self.span is None else self.span(x),
        )

    def read(self, ids: Tensor, *, segments: Tensor | None = None, keys: Tensor | None = None) -> Tensor:
        """(b, n) -> (b, n, d)"""
        mask = Mask(keys=fitted_keys(keys, ids))
        x = self.embed(ids) + self.positions(mask.positions(ids.shape[1], ids.device))
        if self.segments is not None:
            x = x + self.segments(torch.zeros_like(ids) if segments is None else segments)
        elif segments is not None:
            raise ValueError("this model has no segment embeddings")
        x = self.dropout(self.norm(x))
        x = x if self.widen is None else self.widen(x)
        for i in range(self.config.depth):
            x = self.blocks[0 if self.config.shared else i](x, mask=mask)
        return x

    def pooled(self, states: Tensor, keys: Tensor | None = None) -> Tensor | None:
        """(b, n, d) -> (b, d): one more layer on the first token, if there is one"""
        if self.pooler is None:
            return None
        return activation(self.config.pooling)(self.pooler(pool_first(states, keys)))

    def judged(self, states: Tensor, keys: Tensor | None = None) -> Tensor:
        """(b, n, d) -> logits (b, 2) of next-sentence prediction"""
        pooled = self.pooled(states, keys)
        if self.follows is None or pooled is None:
            raise ValueError(f"head = {self.config.head!r} does not support next-sentence prediction")
        return self.follows(pooled)

    def labelled(self, ids: Tensor, *, segments: Tensor | None = None, keys: Tensor | None = None) -> Tensor:
        """Logits of the classes of a sequence: (b, n) -> (b, c)"""
        return present(self(ids, segments=self.known(segments), keys=keys).label, self.config.head, "label")

    def tagged(self, ids: Tensor, *, segments: Tensor | None = None, keys: Tensor | None = None) -> Tensor:
        """Logits of the tags of each token: (b, n) -> (b, n, c)"""
        return present(self(ids, segments=self.known(segments), keys=keys).tags, self.config.head, "tags")

    def spanned(self, ids: Tensor, *, segments: Tensor | None = None, keys: Tensor | None = None) -> Tensor:
        """Logits of the start and the end of the answer: (b, n) -> (b, n, 2)"""
        return present(self(ids, segments=self.known(segments), keys=keys).span, self.config.head, "span")

    def known(self, segments: Tensor | None) -> Tensor | None:
        """The segments that the model uses; None for a model without segment embeddings, which separates two texts by a
        token."""
        return None if self.segments is None else segments

    def guessed(self, states: Tensor) -> Tensor:
        """Logits of masked tokens from their hidden states: (m, d) -> (m, v)"""
        if self.words is None:
            raise ValueError(f"head = {self.config.head!r} does not support masked language modelling")
        found: Tensor = self.words(states, self.embed.weight)
        return found

    def score(self, states: Tensor, wanted: Tensor) -> CrossEntropy:
        """Cross-entropy of masked tokens from their hidden states, without forming all logits: (m, d), (m,)"""
        if self.words is None:
            raise ValueError(f"head = {self.config.head!r} does not support masked language modelling")
        return cross_entropy(self.words.ready(states), self.embed.weight, wanted, bias=self.words.bias)

    def axes(self, ids: Tensor) -> dict[str, Axis]:
        return {"tokens": Axis("text", ids.shape[1])}


def present(found: Tensor | None, head: str, wanted: str) -> Tensor:
    if found is None:
        raise ValueError(f"this requires a model with head = {wanted!r}, got head = {head!r}")
    return found


def verbs(config: Config, task: str | None) -> tuple[str, ...]:
    """The verbs that a model with this head supports; embeddings are available with every head."""
    own = {"label": ("classify",), "tags": ("tag",), "span": ("answer",)}
    return (*own.get(config.head, ()), "embed")


FAMILY = Family(
    config=Config,
    net=BERT,
    presets=PRESETS,
    axes=AXES,
    paper="Devlin et al. 2019, BERT",
    link="https://arxiv.org/abs/1810.04805",
    takes=("text",),
    tasks=("classify", "tag", "answer", "masked", "similar"),
    verbs=verbs,
    example=lambda: Config(vocab=13, length=12, dim=16, depth=2, heads=4, hidden=24, head="words", classes=5),
    lens=Lens(block_streams, BERT.guessed, lambda net: net.words is not None),
    papers=PAPERS,
    offered={"bert-tiny": 487_936, "linformer-tiny": 463_429, "fnet-tiny": 372_608},
    compared="regard.modalities.text.compared:reader",
    answers=("words", "follows", "label", "tags", "span"),
)
