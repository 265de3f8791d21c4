"""A Transformer that forecasts a series.

Attention Is All You Need (Vaswani et al., 2017), https://arxiv.org/abs/1706.03762, with the decoder of
Informer (Zhou et al., 2021), https://arxiv.org/abs/2012.07436, section 3.2, "generative inference"
The encoder reads a window, each value with some before it. The decoder does not write value by value: it is given one
placeholder for each step ahead and fills all of them in one pass, so that no error is fed back. Each step begins from
what the encoder made of the last value, looks at the steps before it and at the window, and tells quantiles of the
change since the last known value:
    e = encoder(x_(t-n+1) ... x_t)
    y_(t+i), quantile q = x_t + w_q . decoder(e_t + placeholder + position i, e)
Quantiles at every step ahead at once are those of Wen et al. (2017), https://arxiv.org/abs/1711.11053.

Differs from Informer: any attention, exact unless chosen otherwise; the last state in place of values before the
placeholders; no pooling between layers; nothing is known of the calendar. Pre-norm (Xiong et al., 2020). Positions
count from now: below 0 is past, from 0 on is to come.

Shapes: b batch, n places of the window, m steps ahead, d width, k quantiles.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.family import Family
from regard.nn.axis import Axis
from regard.nn.block import Block
from regard.nn.config import not_above_zero, not_divided, not_one_of, not_positive, not_shares, refuse
from regard.nn.dropout import Dropout
from regard.nn.feedforward import ACTIVATIONS, FeedForward, activation
from regard.nn.mask import CAUSAL, Mask
from regard.nn.mechanisms import Choice, build_mixer, layer_choices, unknown_choices
from regard.nn.positions import sinusoid
from regard.nn.residual import Branch, PreNorm
from regard.nn.series import move_padding_left, not_quantiles
from regard.nn.site import Site


@dataclass(frozen=True, kw_only=True)
class Config:
    horizon: int = 24  # steps ahead
    quantiles: tuple[float, ...] = (0.1, 0.5, 0.9)
    kernel: int = 12  # values that a token is made of: one, and those before it
    dim: int = 64
    depth: int = 2  # of the encoder, and of the decoder unless that is given
    decoder_depth: int | None = None
    heads: int = 4
    hidden: int = 128
    dropout: float = 0.1
    attention_dropout: float = 0.0  # on the weights
    eps: float = 1e-5
    activation: str = "gelu"
    attention: Choice = "softmax"  # of the encoder, and of the decoder unless that is given
    decoder_attention: Choice | None = None
    cross: Choice = "softmax"

    def __post_init__(self) -> None:
        refuse(
            not_positive(self, "horizon", "kernel", "dim", "depth", "decoder_depth", "heads", "hidden"),
            not_above_zero(self, "eps"),
            not_shares(self, "dropout", "attention_dropout"),
            not_divided(self, "dim", "heads"),
            not_one_of(ACTIVATIONS, self, "activation"),
            unknown_choices(self, "attention", "decoder_attention", "cross"),
            not_quantiles(self),
        )
        if self.decoder_depth == self.depth:  # one way to say it
            object.__setattr__(self, "decoder_depth", None)
        if self.decoder_attention == self.attention:
            object.__setattr__(self, "decoder_attention", None)


PRESETS = {"forecaster-small": Config(), "forecaster-base": Config(dim=256, depth=3, heads=8, hidden=512)}

AXES = {
    "encoder.*.mixer": ("past", "past"),
    "decoder.*.mixer": ("future", "future"),
    "decoder.*.cross": ("future", "past"),
}


class Forecaster(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Conv1d(1, config.dim, config.kernel)
        self.placeholder = nn.Parameter(torch.empty(config.dim))
        self.dropout = Dropout(config.dropout)
        depth = config.depth if config.decoder_depth is None else config.decoder_depth
        attention = config.attention if config.decoder_attention is None else config.decoder_attention
        self.encoder = nn.ModuleList(self.block(choice) for choice in layer_choices(config.attention, config.depth))
        self.decoder = nn.ModuleList(
            self.block(choice, cross)
            for choice, cross in zip(layer_choices(attention, depth), layer_choices(config.cross, depth), strict=True)
        )
        self.encoder_norm = nn.LayerNorm(config.dim, config.eps)
        self.decoder_norm = nn.LayerNorm(config.dim, config.eps)
        self.head = nn.Linear(config.dim, len(config.quantiles))
        nn.init.normal_(self.placeholder, std=0.02)

    def block(self, choice: Choice, cross: Choice | None = None) -> Block:
        """Build a block; with cross-attention to the window, one of the decoder."""
        config = self.config
        here = Site(dim=config.dim, heads=config.heads, causal=cross is not None, dropout=config.attention_dropout)
        beyond = Site(dim=config.dim, heads=config.heads, cross=True, dropout=config.attention_dropout)
        return Block(
            build_mixer(choice, here),
            FeedForward(config.dim, config.hidden, activation(config.activation)),
            lambda: PreNorm(nn.LayerNorm(config.dim, config.eps), Branch(config.dim, dropout=config.dropout)),
            cross=None if cross is None else build_mixer(cross, beyond),
        )

    def encode(self, values: Tensor, keys: Tensor | None) -> Tensor:
        """(b, n) -> (b, n, d); padding, where keys is False, is on the left"""
        x = self.embed(F.pad(values, (self.config.kernel - 1, 0))[:, None]).mT
        x = self.dropout(x + self.places(-values.shape[1], 0, x))
        for block in self.encoder:
            x = block(x, mask=Mask(keys=keys))
        found: Tensor = self.encoder_norm(x)
        return found

    def places(self, start: int, end: int, like: Tensor) -> Tensor:
        """-> (n, d)"""
        return sinusoid(torch.arange(start, end, device=like.device), self.config.dim).to(like.dtype)

    def forward(self, values: Tensor, *, keys: Tensor | None = None) -> Tensor:
        """(b, n) -> (b, m, k); keys is False at padding"""
        values, keys = move_padding_left(values, keys)
        memory = self.encode(values, keys)
        steps = self.placeholder + self.places(0, self.config.horizon, memory)
        x = self.dropout(memory[:, -1:] + steps)
        for block in self.decoder:
            x = block(x, memory, mask=CAUSAL, context_mask=Mask(keys=keys))
        return values[:, -1, None, None] + self.head(self.decoder_norm(x))

    def axes(self, values: Tensor) -> dict[str, Axis]:
        return {"past": Axis("time", values.shape[1]), "future": Axis("time", self.config.horizon)}


def forecaster_verbs(config: Any, task: str | None) -> tuple[str, ...]:
    return ("forecast",)


FAMILY = Family(
    config=Config,
    net=Forecaster,
    presets=PRESETS,
    axes=AXES,
    paper="Zhou et al. 2021, Informer: Beyond Efficient Transformer for Long Sequence Time-Series Forecasting",
    link="https://arxiv.org/abs/2012.07436",
    takes=("series",),
    tasks=("forecast",),
    verbs=forecaster_verbs,
    example=lambda: Config(horizon=4, dim=16, heads=4, hidden=24),
)
