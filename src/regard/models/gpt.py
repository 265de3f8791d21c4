"""GPT, and what became of it.

Language Models are Unsupervised Multitask Learners (Radford et al., 2019)
https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf
A decoder alone: each token looks at itself and what came before it, and predicts what comes next.

GPT-1 (2018) has its norms after the residuals. GPT-3 (Brown et al., 2020), https://arxiv.org/abs/2005.14165, alternates
dense and banded attention. Today's decoders (Llama; Touvron et al., 2023), https://arxiv.org/abs/2302.13971, have
RMSNorm, rotary positions, a gated feed-forward, no biases, and heads that share keys and values.

Shapes: b batch, n tokens, d width, v vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.family import Family, Lens, apply_norm, block_streams, generator_verbs
from regard.nn.axis import Axis
from regard.nn.block import AttentionBlock, Block
from regard.nn.cache import Cache, decoder_mask
from regard.nn.config import not_above_zero, not_divided, not_one_of, not_positive, not_shares, refuse
from regard.nn.dropout import Dropout
from regard.nn.embed import Lookup
from regard.nn.feedforward import ACTIVATIONS, FeedForward, Gated, activation
from regard.nn.initialization import init_deviation
from regard.nn.loss import CrossEntropy, cross_entropy
from regard.nn.mechanisms import Choice, build_mixer, layer_choices, unknown_choices
from regard.nn.norm import Norm, build_norm
from regard.nn.positions import Learned, Rotary
from regard.nn.residual import Branch, Residual, build_residual
from regard.nn.site import Site

Biases = Literal["all", "attention", "qkv", "none"]


@dataclass(frozen=True, kw_only=True)
class Config:
    vocab: int = 50257
    length: int = 1024
    dim: int = 768
    depth: int = 12
    heads: int = 12
    head_dim: int | None = None  # dim / heads unless given
    groups: int | None = None  # of heads that share keys and values; as many as heads unless given
    hidden: int | None = None  # 4 * dim unless given
    dropout: float = 0.1
    attention_dropout: float = 0.1
    embedding_dropout: float = 0.1
    norm: Literal["pre", "post"] = "pre"
    normed: Norm = "layer"
    eps: float = 1e-5
    rotary: float | None = None  # the base of rotary positions; learned ones unless given
    activation: str = "gelu_tanh"
    gated: bool = False  # the feed-forward
    biases: Biases = "all"  # which linear maps have one
    tied: bool = True  # the output matrix is the embedding
    attention: Choice = "softmax"

    def __post_init__(self) -> None:
        refuse(*self.checks())
        if self.groups == self.heads:  # one way to say it
            object.__setattr__(self, "groups", None)
        if self.head_dim is not None and self.heads is not None and self.head_dim * self.heads == self.dim:
            object.__setattr__(self, "head_dim", None)

    def checks(self) -> list[list[str]]:
        return [
            not_positive(self, "vocab", "length", "dim", "depth", "heads", "head_dim", "groups", "hidden"),
            not_above_zero(self, "eps", "rotary"),
            not_shares(self, "dropout", "attention_dropout", "embedding_dropout"),
            not_divided(self, "dim", "heads") if self.head_dim is None else [],
            not_divided(self, "heads", "groups"),
            not_one_of(ACTIVATIONS, self, "activation"),
            unknown_choices(self, "attention"),
        ]


BIASES = {"all": "qkvo", "attention": "qkvo", "qkv": "qkv", "none": ""}  # of the projections of attention
BANDED = {"kind": "local", "window": 256}  # the paper does not say how wide
GPT3 = Config(length=2048, dropout=0.0, attention_dropout=0.0, embedding_dropout=0.0, attention=("softmax", BANDED))
LLAMA = Config(
    vocab=32000,
    length=2048,
    dropout=0.0,
    attention_dropout=0.0,
    embedding_dropout=0.0,
    normed="rms",
    rotary=10000.0,
    activation="silu",
    gated=True,
    biases="none",
    tied=False,
)
PERFORMER = Config(
    vocab=32000,
    length=8192,
    dim=512,
    depth=6,
    heads=8,
    hidden=2048,
    attention_dropout=0.0,  # what is dropped are weights, and it has none
    attention={"kind": "performer", "features": 256},
)  # sizes of our own: the paper tells several, each for another task
PRESETS = {
    "gpt-tiny": Config(vocab=256, length=256, dim=128, depth=4, heads=4),
    "gpt1": Config(vocab=40478, length=512, norm="post"),
    "gpt-small": Config(),
    "gpt-medium": Config(dim=1024, depth=24, heads=16),
    "gpt-large": Config(dim=1280, depth=36, heads=20),
    "gpt-xl": Config(dim=1600, depth=48, heads=25),
    "gpt3-small": GPT3,
    "gpt3-medium": replace(GPT3, dim=1024, depth=24, heads=16),
    "gpt3-large": replace(GPT3, dim=1536, depth=24, heads=16),
    "gpt3-xl": replace(GPT3, dim=2048, depth=24, heads=16),  # printed are 24 heads of 128, which 1.3B do not allow
    "gpt3-2.7b": replace(GPT3, dim=2560, depth=32, heads=32),
    "gpt3-6.7b": replace(GPT3, dim=4096, depth=32, heads=32),
    "gpt3-13b": replace(GPT3, dim=5140, depth=40, heads=40, head_dim=128),  # 5140 as printed
    "gpt3": replace(GPT3, dim=12288, depth=96, heads=96),
    "performer-small": replace(PERFORMER, dim=256, depth=4, heads=4, hidden=1024),
    "performer-base": PERFORMER,
    "llama-15m": replace(LLAMA, length=256, dim=288, depth=6, heads=6, hidden=768, tied=True),
    "llama-7b": replace(LLAMA, eps=1e-6, dim=4096, depth=32, heads=32, hidden=11008),
    "llama-13b": replace(LLAMA, eps=1e-6, dim=5120, depth=40, heads=40, hidden=13824),
    "llama-30b": replace(LLAMA, eps=1e-6, dim=6656, depth=60, heads=52, hidden=17920),
    "llama-65b": replace(LLAMA, eps=1e-6, dim=8192, depth=80, heads=64, hidden=22016),
    "llama2-70b": replace(LLAMA, length=4096, dim=8192, depth=80, heads=64, groups=8, hidden=28672),
}
SOURCES = {
    "gpt1": (
        "Radford et al. 2018, Improving Language Understanding by Generative Pre-Training",
        "https://openai.com/index/language-unsupervised",
    ),
    "gpt3": ("Brown et al. 2020, Language Models are Few-Shot Learners", "https://arxiv.org/abs/2005.14165"),
    "performer": (
        "Choromanski et al. 2021, Rethinking Attention with Performers",
        "https://arxiv.org/abs/2009.14794",
    ),
    "llama": ("Touvron et al. 2023, LLaMA", "https://arxiv.org/abs/2302.13971"),
    "llama2": ("Touvron et al. 2023, Llama 2", "https://arxiv.org/abs/2307.09288"),
}
PAPERS = {name: SOURCES[name.split("-")[0]] for name in PRESETS if name.split("-")[0] in SOURCES}

AXES = {"blocks.*.mixer": ("tokens", "tokens")}


class GPT(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embed = Lookup(config.vocab, config.dim)
        self.positions = Learned(config.length, config.dim) if config.rotary is None else None
        self.dropout = Dropout(config.embedding_dropout)
        self.blocks = nn.ModuleList(
            self.block(i, x) for i, x in enumerate(layer_choices(config.attention, config.depth))
        )
        final = config.norm == "pre"  # post-norm ends in a norm by itself
        self.norm = build_norm(config.normed, config.dim, config.eps) if final else None
        self.head = None if config.tied else nn.Linear(config.dim, config.vocab, bias=False)
        self.reset()

    def block(self, layer: int, choice: Choice) -> AttentionBlock:
        """All layers are alike, but for the attention that was picked."""
        config = self.config
        width = config.head_dim or config.dim // config.heads
        site = Site(
            dim=config.dim,
            heads=config.heads,
            length=config.length,
            causal=True,
            dropout=config.attention_dropout,
            head_dim=config.head_dim,
            groups=config.groups,
            biases=BIASES[config.biases],
            rotary=None if config.rotary is None else Rotary(width, base=config.rotary, layout="halves"),
        )
        kind, act = Gated if config.gated else FeedForward, activation(config.activation)
        ffn = kind(config.dim, config.hidden or 4 * config.dim, act, biases=config.biases == "all")
        return Block(build_mixer(choice, site), ffn, self.residual)

    def residual(self) -> Residual:
        config = self.config
        norm, branch = build_norm(config.normed, config.dim, config.eps), Branch(config.dim, dropout=config.dropout)
        return build_residual(config.norm, norm, branch, config.dim)

    def reset(self) -> None:
        """Normal weights; what ends a residual branch is smaller, since 2 * depth of them add up (section 2.3)."""
        std = init_deviation(self.config.dim)
        last = (2 * self.config.depth) ** -0.5
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.ndim == 2:
                nn.init.normal_(parameter, std=std * (last if name.endswith(("out.weight", "down.weight")) else 1.0))
        if self.positions is not None:
            nn.init.normal_(self.positions.weight, std=std / 2)

    def forward(self, ids: Tensor, *, keys: Tensor | None = None, cache: Cache | None = None) -> Any:
        """(b, n) -> (b, n, v); keys is False at padding; with a cache, ids holds only the new tokens"""
        return self.logits(self.read(ids, keys=keys, cache=cache))

    def words(self) -> Tensor:
        return self.embed.weight if self.head is None else self.head.weight

    def logits(self, states: Any) -> Tensor:
        """(b, n, d) -> (b, n, v)"""
        return F.linear(states, self.words())

    def read(self, ids: Tensor, *, keys: Tensor | None = None, cache: Cache | None = None) -> Any:
        """(b, n) -> (b, n, d): the hidden states, before the output matrix"""
        mask = decoder_mask(ids, keys, cache)
        x = self.embed(ids)
        if self.positions is not None:
            x = x + self.positions(mask.positions(ids.shape[1], ids.device))
        return self.stack(self.dropout(x), lambda block, x: block(x, mask=mask, cache=cache))

    def stack(self, x: Tensor, run: Callable[[nn.Module, Tensor], Any]) -> Any:
        """(b, n, d) -> (b, n, d)"""
        for block in self.blocks:
            x = run(block, x)
        return x if self.norm is None else self.norm(x)

    def score(self, states: Any, wanted: Tensor, *, real: Tensor | None = None, smoothing: float = 0.0) -> CrossEntropy:
        """hidden states (b, n, d) and targets (b, n): the cross-entropy of the targets, without forming all logits"""
        return cross_entropy(states, self.words(), wanted, real=real, smoothing=smoothing)

    def axes(self, ids: Tensor) -> dict[str, Axis]:
        return {"tokens": Axis("text", ids.shape[1])}


FAMILY = Family(
    config=Config,
    net=GPT,
    presets=PRESETS,
    axes=AXES,
    paper="Radford et al. 2019, Language Models are Unsupervised Multitask Learners",
    link="https://openai.com/index/better-language-models",
    takes=("text",),
    tasks=("language",),
    verbs=generator_verbs,
    example=lambda: Config(vocab=13, length=12, dim=16, depth=2, heads=4, hidden=24),
    lens=Lens(block_streams, lambda net, x: net.logits(apply_norm(net.norm, x))),
    papers=PAPERS,
    offered={"gpt-tiny": 834_944, "llama-15m": 5_995_584, "performer-small": 5_274_368},
    compared="regard.modalities.text.compared:decoder",
)
