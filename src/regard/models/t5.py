"""T5.

Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer (Raffel et al., 2020)
https://arxiv.org/abs/1910.10683
Every task is text in, text out, and the first words of the text say which. An encoder and a decoder with norms by size
alone, no bias in any linear map, scores that are not scaled (the initial weights make up for it), and positions known
only by their distance: one number for each bucket of distances and each head, shared by all layers of a stack.

Version 1.1 has a gated feed-forward and an output matrix of its own.

Shapes: b batch, m source tokens, n target tokens, d width, v vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from regard.models.family import Family, Lens, decoder_streams, translator_verbs
from regard.nn.block import AttentionBlock, Block
from regard.nn.cache import Cache, decoder_mask
from regard.nn.config import not_above_zero, not_one_of, not_positive, not_shares, refuse
from regard.nn.dropout import Dropout
from regard.nn.embed import Lookup
from regard.nn.encdec import EncoderDecoder
from regard.nn.feedforward import ACTIVATIONS, FeedForward, Gated, activation
from regard.nn.mask import Mask, fitted_keys
from regard.nn.mechanisms import Choice, build_mixer, layer_choices, unknown_choices
from regard.nn.positions import Buckets
from regard.nn.residual import Branch, PreNorm, Residual
from regard.nn.site import Site

Run = Callable[[nn.Module, Tensor], Any]  # a block on what it is given


@dataclass(frozen=True, kw_only=True)
class Config:
    vocab: int = 32128
    dim: int = 512
    depth: int = 6  # of the encoder, and of the decoder unless that is given
    decoder_depth: int | None = None
    heads: int = 8
    head_dim: int = 64  # heads of this width need not add up to dim
    hidden: int = 2048
    dropout: float = 0.1
    eps: float = 1e-6
    buckets: int = 32
    farthest: int = 128  # from this distance on, all is one bucket
    activation: str = "relu"
    gated: bool = False
    tied: bool = True  # the output matrix is the embedding
    scaled: bool = True  # if it is: the states are made smaller before they meet it
    attention: Choice = "dot"
    cross: Choice = "dot"

    def __post_init__(self) -> None:
        refuse(*self.checks())
        if self.decoder_depth == self.depth:  # one way to say it
            object.__setattr__(self, "decoder_depth", None)

    def checks(self) -> list[list[str]]:
        few = self.buckets is not None and self.buckets < 4
        near = None not in (self.buckets, self.farthest) and self.farthest <= self.buckets // 2
        idle = self.tied is False and self.scaled is False
        return [
            not_positive(self, "vocab", "dim", "depth", "decoder_depth", "heads", "head_dim", "hidden", "farthest"),
            not_above_zero(self, "eps"),
            not_shares(self, "dropout"),
            not_one_of(ACTIVATIONS, self, "activation"),
            unknown_choices(self, "attention", "cross"),
            [f"buckets = {self.buckets} must be at least 4"] if few else [],
            [f"farthest = {self.farthest} must be greater than buckets / 2, the distances with a bucket each"]
            if near
            else [],
            ["scaled = false has no effect when tied = false: untied outputs are never scaled"] if idle else [],
        ]


V11 = Config(gated=True, activation="gelu_tanh", tied=False)
PRESETS = {
    "t5-small": Config(),
    "t5-base": Config(dim=768, depth=12, heads=12, hidden=3072),
    "t5-large": Config(dim=1024, depth=24, heads=16, hidden=4096),
    "t5-3b": Config(dim=1024, depth=24, heads=32, head_dim=128, hidden=16384),
    "t5-11b": Config(dim=1024, depth=24, heads=128, head_dim=128, hidden=65536),
    "t5-v1.1-small": replace(V11, depth=8, heads=6, hidden=1024),
    "t5-v1.1-base": replace(V11, dim=768, depth=12, heads=12, hidden=2048),
    "t5-v1.1-large": replace(V11, dim=1024, depth=24, heads=16, hidden=2816),
}

AXES = {
    "encoder.*.mixer": ("source", "source"),
    "decoder.*.mixer": ("target", "target"),
    "decoder.*.cross": ("target", "source"),
}


class T5(EncoderDecoder):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embed = Lookup(config.vocab, config.dim)
        self.dropout = Dropout(config.dropout)
        depth = config.depth if config.decoder_depth is None else config.decoder_depth
        self.encoder_bias = Buckets(config.heads, config.buckets, config.farthest)
        self.decoder_bias = Buckets(config.heads, config.buckets, config.farthest, both=False)
        own, beyond = layer_choices(config.attention, depth), layer_choices(config.cross, depth)
        self.encoder = nn.ModuleList(
            self.block(i, x) for i, x in enumerate(layer_choices(config.attention, config.depth))
        )
        self.decoder = nn.ModuleList(self.block(i, own[i], beyond[i]) for i in range(depth))
        self.encoder_norm = nn.RMSNorm(config.dim, config.eps)
        self.decoder_norm = nn.RMSNorm(config.dim, config.eps)
        self.head = None if config.tied else nn.Linear(config.dim, config.vocab, bias=False)
        self.reset()

    def block(self, layer: int, choice: Choice, cross: Choice | None = None) -> AttentionBlock:
        """All layers are alike."""
        config = self.config
        site = Site(
            dim=config.dim,
            heads=config.heads,
            causal=cross is not None,
            biased=True,
            dropout=config.dropout,
            head_dim=config.head_dim,
            biases="",
        )
        kind, act = Gated if config.gated else FeedForward, activation(config.activation)
        return Block(
            build_mixer(choice, site),
            kind(config.dim, config.hidden, act, dropout=config.dropout, biases=False),
            self.residual,
            cross=None if cross is None else build_mixer(cross, replace(site, causal=False, biased=False, cross=True)),
        )

    def residual(self) -> Residual:
        config = self.config
        return PreNorm(nn.RMSNorm(config.dim, config.eps), Branch(config.dim, dropout=config.dropout))

    def reset(self) -> None:
        """Initialise with smaller query weights in place of the factor 1/sqrt(d) of the scores."""
        config = self.config
        spread = {"q": (config.dim * config.head_dim) ** -0.5, "out": (config.heads * config.head_dim) ** -0.5}
        spread |= {name: config.dim**-0.5 for name in ("k", "v", "up", "gate", "head")}
        spread["down"] = config.hidden**-0.5
        for name, module in self.named_modules():
            weight, std = getattr(module, "weight", None), spread.get(name.rpartition(".")[2])
            if isinstance(weight, Tensor) and std is not None:
                self.draw(weight, std)
        nn.init.normal_(self.embed.weight)
        for table in (self.encoder_bias, self.decoder_bias):
            nn.init.normal_(table.weight, std=config.dim**-0.5)

    def draw(self, weight: Tensor, std: float) -> None:
        nn.init.normal_(weight, std=std)

    def encode(self, source: Tensor, keys: Tensor | None = None) -> Any:
        """(b, m) -> (b, m, d); keys is False at padding"""
        mask = Mask(keys=fitted_keys(keys, source))
        bias = self.encoder_bias(mask)
        return self.stack(self.encoder, self.encoder_norm, source, lambda block, x: block(x, mask=mask, bias=bias))

    def read(
        self,
        target: Tensor,
        memory: Any,
        *,
        source_keys: Tensor | None = None,
        keys: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Any:
        """(b, n), (b, m, d) -> (b, n, d): the hidden states of the decoder, before the output matrix"""
        mask, beyond = decoder_mask(target, keys, cache), Mask(keys=fitted_keys(source_keys, memory))
        bias = self.decoder_bias(mask)

        def run(block: nn.Module, x: Tensor) -> Any:
            return block(x, memory, mask=mask, context_mask=beyond, bias=bias, cache=cache)

        return self.stack(self.decoder, self.decoder_norm, target, run)

    def stack(self, blocks: nn.ModuleList, norm: nn.Module, ids: Tensor, run: Run) -> Any:
        """(b, n) -> (b, n, d): what the encoder and the decoder do alike"""
        x = self.dropout(self.embed(ids))
        for block in blocks:
            x = run(block, x)
        return self.dropout(norm(x))

    def spoken(self, states: Any) -> Tensor:
        """A tied embedding is large, so the states are made smaller, unless it was learned without that."""
        x: Tensor = states
        return x * self.config.dim**-0.5 if self.head is None and self.config.scaled else x

    def words(self) -> tuple[Tensor, Tensor | None]:
        return (self.embed if self.head is None else self.head).weight, None


FAMILY = Family(
    config=Config,
    net=T5,
    presets=PRESETS,
    axes=AXES,
    paper="Raffel et al. 2020, Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer",
    link="https://arxiv.org/abs/1910.10683",
    takes=("text", "text"),
    tasks=("translate", "spans"),
    verbs=translator_verbs,
    example=lambda: Config(vocab=13, dim=16, depth=2, heads=4, head_dim=4, hidden=24, buckets=8, farthest=6),
    lens=Lens(decoder_streams, lambda net, x: net.logits(net.decoder_norm(x))),
    offered={"t5-small": 47_129_088},
    compared="regard.modalities.text.compared:pairing",
)
