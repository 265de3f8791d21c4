"""Perceiver IO that reads letters and guesses the hidden ones.

Perceiver IO: A General Architecture for Structured Inputs & Outputs (Jaegle et al., 2022),
https://arxiv.org/abs/2107.14795, section 4.1
Latents look once at all bytes of a text, then at each other; a query for each place asks them what stands there.

Differs from others' code: there is an answer for each place of the text, not for all 2,048 that there could be.

Shapes: b batch, n tokens, w width of a token, m latents, d width of a latent, v vocabulary.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.family import Family, no_verbs
from regard.models.perceiver import IO
from regard.nn.axis import Axis
from regard.nn.config import not_divided, not_positive, refuse
from regard.nn.embed import Lookup
from regard.nn.initialization import init_deviation
from regard.nn.latents import LatentBlock, Latents, LatentSizes
from regard.nn.mask import Mask, fitted_keys
from regard.nn.positions import Learned


@dataclass(frozen=True, kw_only=True)
class Config(LatentSizes):
    vocab: int = 262  # bytes, and six signs
    length: int = 2048
    token_dim: int = 768  # width of a token
    latents: int = 256
    dim: int = 1280
    depth: int = 26
    repeats: int = 1
    cross_heads: int = 8
    hidden: int = 1280
    cross_hidden: int = 1280
    decoder_heads: int = 8
    decoder_keys: int = 256
    dropout: float = 0.1

    def __post_init__(self) -> None:
        refuse(
            not_positive(self, "vocab", "length", "token_dim", "decoder_heads", "decoder_keys"),
            self.wrong(),
            not_divided(self, "token_dim", "decoder_heads"),
            not_divided(self, "decoder_keys", "decoder_heads"),
        )


PRESETS = {"perceiver-io-language": Config(key_dim=256, value_dim=1280)}

AXES = {
    "latents.cross.look": ("latents", "tokens"),
    "latents.again.look": ("latents", "tokens"),
    "latents.blocks.*.mixer": ("latents", "latents"),
    "decoder.look": ("tokens", "latents"),
}


class PerceiverLM(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embed = Lookup(config.vocab, config.token_dim)
        self.positions = Learned(config.length, config.token_dim)
        self.latents = Latents(config, config.token_dim)
        self.queries = Learned(config.length, config.token_dim)
        self.decoder = LatentBlock(
            config.token_dim,
            config.dim,
            heads=config.decoder_heads,
            hidden=config.token_dim,
            key_dim=config.decoder_keys,
            value_dim=config.token_dim,
            dropout=config.dropout,
            eps=config.eps,
            act=config.activation,
            skip=False,  # a query says where, and an answer what
        )
        self.bias = nn.Parameter(torch.zeros(config.vocab))
        nn.init.normal_(self.embed.weight, std=init_deviation(config.token_dim))

    def read(self, ids: Tensor, keys: Tensor | None = None) -> Tensor:
        """(b, n) -> (b, m, d); keys is False at padding"""
        mask = Mask(keys=fitted_keys(keys, ids))
        return self.latents(self.embed(ids) + self.positions(mask.positions(ids.shape[1], ids.device)), keys)

    def forward(self, ids: Tensor, *, keys: Tensor | None = None) -> Tensor:
        """(b, n) -> (b, n, v)"""
        latents = self.read(ids, keys)
        places = Mask(keys=keys).positions(ids.shape[1], ids.device)
        states = self.decoder(self.queries(places).expand(len(ids), -1, -1), latents)
        return F.linear(states, self.embed.weight, self.bias)

    def axes(self, ids: Tensor) -> dict[str, Axis]:
        return {"tokens": Axis("text", ids.shape[1]), "latents": Axis("latents", self.config.latents)}


FAMILY = Family(
    config=Config,
    net=PerceiverLM,
    presets=PRESETS,
    axes=AXES,
    paper=IO[0],
    link=IO[1],
    takes=("text",),
    tasks=(),
    verbs=no_verbs,
    example=lambda: Config(
        latents=5,
        dim=16,
        depth=2,
        repeats=2,
        heads=4,
        cross_heads=4,
        key_dim=8,
        value_dim=12,
        hidden=24,
        cross_hidden=12,
        vocab=13,
        length=12,
        token_dim=16,
        decoder_heads=4,
        decoder_keys=8,
    ),
)
