"""GPT-2.

Language Models are Unsupervised Multitask Learners (Radford et al., 2019)
https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf
A decoder alone: each token looks at itself and what came before it, and predicts what comes next.

Shapes: b batch, n tokens, d width, v vocabulary.
"""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.axis import Axis
from regard.nn.block import Block
from regard.nn.cache import Cache, place
from regard.nn.config import not_above_zero, not_divided, not_one_of, not_positive, not_shares, refuse
from regard.nn.dropout import Dropout
from regard.nn.embed import Lookup
from regard.nn.feedforward import ACTIVATIONS, MLP, activation
from regard.nn.loss import CrossEntropy, cross_entropy
from regard.nn.mechanisms import Choice, Site, build_mixer, layered, unknown_choices
from regard.nn.positions import Learned
from regard.nn.residual import Branch, PreNorm
from regard.nn.start import deviation


@dataclass(frozen=True, kw_only=True)
class Config:
    vocab: int = 50257
    length: int = 1024
    dim: int = 768
    depth: int = 12
    heads: int = 12
    hidden: int | None = None  # 4 * dim unless given
    dropout: float = 0.1
    attention_dropout: float = 0.1
    embedding_dropout: float = 0.1
    eps: float = 1e-5
    activation: str = "gelu_tanh"
    tied: bool = True  # the output matrix is the embedding
    attention: Choice = "softmax"

    def __post_init__(self) -> None:
        refuse(
            not_positive(self, "vocab", "length", "dim", "depth", "heads", "hidden"),
            not_above_zero(self, "eps"),
            not_shares(self, "dropout", "attention_dropout", "embedding_dropout"),
            not_divided(self, "dim", "heads"),
            not_one_of(ACTIVATIONS, self, "activation"),
            unknown_choices(self, "attention"),
        )


PRESETS = {
    "gpt-tiny": Config(vocab=256, length=256, dim=128, depth=4, heads=4),
    "gpt-small": Config(),
    "gpt-medium": Config(dim=1024, depth=24, heads=16),
    "gpt-large": Config(dim=1280, depth=36, heads=20),
    "gpt-xl": Config(dim=1600, depth=48, heads=25),
}

AXES = {"blocks.*.mixer": ("tokens", "tokens")}


class GPT(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embed = Lookup(config.vocab, config.dim)
        self.positions = Learned(config.length, config.dim)
        self.dropout = Dropout(config.embedding_dropout)
        self.blocks = nn.ModuleList(self.block(choice) for choice in layered(config.attention, config.depth))
        self.norm = nn.LayerNorm(config.dim, config.eps)
        self.head = None if config.tied else nn.Linear(config.dim, config.vocab, bias=False)
        self.reset()

    def block(self, choice: Choice) -> Block:
        config = self.config
        site = Site(
            dim=config.dim, heads=config.heads, length=config.length, causal=True, dropout=config.attention_dropout
        )
        return Block(
            build_mixer(choice, site),
            MLP(config.dim, config.hidden or 4 * config.dim, activation(config.activation)),
            lambda: PreNorm(nn.LayerNorm(config.dim, config.eps), Branch(config.dim, dropout=config.dropout)),
        )

    def reset(self) -> None:
        """Normal weights; what ends a residual branch is smaller, since 2 * depth of them add up (section 2.3)."""
        std = deviation(self.config.dim)
        last = (2 * self.config.depth) ** -0.5
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.ndim == 2:
                nn.init.normal_(parameter, std=std * (last if name.endswith(("out.weight", "down.weight")) else 1.0))
        nn.init.normal_(self.positions.weight, std=std / 2)

    def forward(self, ids: Tensor, *, keys: Tensor | None = None, cache: Cache | None = None) -> Tensor:
        """(b, n) -> (b, n, v); keys is False at padding; with a cache, ids holds only the new tokens"""
        return F.linear(self.read(ids, keys=keys, cache=cache), self.words())

    def words(self) -> Tensor:
        return self.embed.weight if self.head is None else self.head.weight

    def read(self, ids: Tensor, *, keys: Tensor | None = None, cache: Cache | None = None) -> Tensor:
        """(b, n) -> (b, n, d): the states, before they become words"""
        mask = place(ids, keys, cache)
        x = self.dropout(self.embed(ids) + self.positions(mask.positions(ids.shape[1], ids.device)))
        for block in self.blocks:
            x = block(x, mask=mask, cache=cache)
        return self.norm(x)

    def score(
        self, states: Tensor, wanted: Tensor, *, real: Tensor | None = None, smoothing: float = 0.0
    ) -> CrossEntropy:
        """(b, n, d), (b, n): how well the states foretell the words, without forming all logits"""
        return cross_entropy(states, self.words(), wanted, real=real, smoothing=smoothing)

    def axes(self, ids: Tensor) -> dict[str, Axis]:
        return {"tokens": Axis("text", ids.shape[1])}
