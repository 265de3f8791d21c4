"""The Transformer.

Attention Is All You Need (Vaswani et al., 2017), https://arxiv.org/abs/1706.03762
An encoder reads the source, a decoder writes the target word by word and looks at the encoder's last layer; both are
attention and feed-forward layers alone, so a whole sentence is read at once.

Synthesizer (Tay et al., 2021), https://arxiv.org/abs/2005.00743, is this model with other attention over one's own
sentence; the decoder's look at the source stays as it is.

Differs from the paper: pre-norm (Xiong et al., 2020) and Admin (Liu et al., 2020) are there too.

Shapes: b batch, m source words, n target words, d width, v vocabulary.
"""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from regard.models.family import Family, Lens, apply_norm, decoder_streams, translator_verbs
from regard.nn.block import Block
from regard.nn.cache import Cache, decoder_mask
from regard.nn.config import not_above_zero, not_divided, not_one_of, not_positive, not_shares, refuse
from regard.nn.dropout import Dropout
from regard.nn.embed import Lookup, scaled_embedding
from regard.nn.encdec import EncoderDecoder
from regard.nn.feedforward import ACTIVATIONS, FeedForward, activation
from regard.nn.mask import Mask, fitted_keys
from regard.nn.mechanisms import Choice, build_mixer, layer_choices, unknown_choices
from regard.nn.positions import Layout, sinusoid
from regard.nn.residual import Branch, Residual, build_residual, profile
from regard.nn.site import Site


@dataclass(frozen=True, kw_only=True)
class Config:
    vocab: int = 37000  # source, target and softmax share one table
    dim: int = 512
    depth: int = 6  # of the encoder, and of the decoder unless that is given
    decoder_depth: int | None = None
    heads: int = 8
    hidden: int = 2048
    dropout: float = 0.1
    attention_dropout: float = 0.0  # on the weights
    hidden_dropout: float = 0.0  # within the feed-forward
    norm: Literal["pre", "post", "admin"] = "post"
    eps: float = 1e-5
    activation: str = "relu"
    waves: Layout = "interleaved"  # how sines and cosines are laid out
    scaled: bool = True  # embeddings times sqrt(dim)
    output_bias: bool = False  # one more number per word (Marian)
    attention: Choice = "softmax"  # of the encoder, and of the decoder unless that is given
    decoder_attention: Choice | None = None
    cross: Choice = "softmax"

    def __post_init__(self) -> None:
        refuse(
            not_positive(self, "vocab", "dim", "depth", "decoder_depth", "heads", "hidden"),
            not_above_zero(self, "eps"),
            not_shares(self, "dropout", "attention_dropout", "hidden_dropout"),
            not_divided(self, "dim", "heads"),
            not_one_of(ACTIVATIONS, self, "activation"),
            unknown_choices(self, "attention", "decoder_attention", "cross"),
        )
        if self.decoder_depth == self.depth:  # one way to say it
            object.__setattr__(self, "decoder_depth", None)
        if self.decoder_attention == self.attention:
            object.__setattr__(self, "decoder_attention", None)


BASE = Config()
PRESETS = {
    "transformer-small": Config(vocab=8000, dim=256, depth=3, heads=4, hidden=1024),
    "transformer-base": BASE,
    "transformer-big": Config(dim=1024, heads=16, hidden=4096, dropout=0.3),
    "transformer-base-pre": Config(norm="pre"),
    "transformer-base-admin": Config(norm="admin"),
    # How long a sentence may be, the paper does not say.
    "synthesizer-base": replace(BASE, attention={"kind": "synthesizer", "length": 256}),
    "synthesizer-base-dense": replace(BASE, attention={"kind": "synthesizer-dense", "length": 256}),
    "synthesizer-base-random": replace(BASE, attention={"kind": "synthesizer-random", "length": 256}),
}
SYNTHESIZER = "Tay et al. 2021, Synthesizer: Rethinking Self-Attention for Transformer Models"
PAPERS = {name: (SYNTHESIZER, "https://arxiv.org/abs/2005.00743") for name in PRESETS if name.startswith("synthesizer")}

AXES = {
    "encoder.*.mixer": ("source", "source"),
    "decoder.*.mixer": ("target", "target"),
    "decoder.*.cross": ("target", "source"),
}


class Transformer(EncoderDecoder):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embed = Lookup(config.vocab, config.dim)
        self.dropout = Dropout(config.dropout)
        decoder_depth = config.depth if config.decoder_depth is None else config.decoder_depth
        decoder_attention = config.attention if config.decoder_attention is None else config.decoder_attention
        self.encoder = nn.ModuleList(
            self.block(choice, causal=False) for choice in layer_choices(config.attention, config.depth)
        )
        self.decoder = nn.ModuleList(
            self.block(choice, causal=True, cross=cross)
            for choice, cross in zip(
                layer_choices(decoder_attention, decoder_depth), layer_choices(config.cross, decoder_depth), strict=True
            )
        )
        final = config.norm == "pre"  # post-norm ends in a norm by itself
        self.encoder_norm = nn.LayerNorm(config.dim, config.eps) if final else None
        self.decoder_norm = nn.LayerNorm(config.dim, config.eps) if final else None
        self.output_bias = nn.Parameter(torch.zeros(config.vocab)) if config.output_bias else None
        self.reset()

    def block(self, choice: Choice, *, causal: bool, cross: Choice | None = None) -> Block:
        config = self.config
        site = Site(dim=config.dim, heads=config.heads, causal=causal, dropout=config.attention_dropout)
        beyond = Site(dim=config.dim, heads=config.heads, cross=True, dropout=config.attention_dropout)
        act = activation(config.activation)
        return Block(
            build_mixer(choice, site),
            FeedForward(config.dim, config.hidden, act, dropout=config.hidden_dropout),
            self.residual,
            cross=None if cross is None else build_mixer(cross, beyond),
        )

    def residual(self) -> Residual:
        config = self.config
        norm, branch = nn.LayerNorm(config.dim, config.eps), Branch(config.dim, dropout=config.dropout)
        return build_residual(config.norm, norm, branch, config.dim)

    def reset(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        nn.init.normal_(self.embed.weight, std=self.config.dim**-0.5)

    def tokens(self, ids: Tensor, mask: Mask) -> Tensor:
        """(b, n) -> (b, n, d): embedding and position"""
        positions = mask.positions(ids.shape[1], ids.device)
        x = scaled_embedding(self.embed, ids) if self.config.scaled else self.embed(ids)
        return self.dropout(x + sinusoid(positions, self.config.dim, self.config.waves).to(x.dtype))

    def encode(self, source: Tensor, keys: Tensor | None = None) -> Tensor:
        """(b, m) -> (b, m, d); keys is False at padding"""
        mask = Mask(keys=fitted_keys(keys, source))
        x = self.tokens(source, mask)
        for block in self.encoder:
            x = block(x, mask=mask)
        return x if self.encoder_norm is None else self.encoder_norm(x)

    def read(
        self,
        target: Tensor,
        memory: Tensor,
        *,
        source_keys: Tensor | None = None,
        keys: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """(b, n), (b, m, d) -> (b, n, d): the hidden states of the decoder, before the output matrix"""
        mask, beyond = decoder_mask(target, keys, cache), Mask(keys=fitted_keys(source_keys, memory))
        x = self.tokens(target, mask)
        for block in self.decoder:
            x = block(x, memory, mask=mask, context_mask=beyond, cache=cache)
        return x if self.decoder_norm is None else self.decoder_norm(x)

    def words(self) -> tuple[Tensor, Tensor | None]:
        return self.embed.weight, self.output_bias

    def profile(self, source: Tensor, target: Tensor) -> None:
        """Admin's first phase on one batch: sets every omega (section 4.2 of its paper)."""
        profile([self.encoder, self.decoder], lambda: self(source, target))


FAMILY = Family(
    config=Config,
    net=Transformer,
    presets=PRESETS,
    axes=AXES,
    paper="Vaswani et al. 2017, Attention Is All You Need",
    link="https://arxiv.org/abs/1706.03762",
    takes=("text", "text"),
    tasks=("translate", "spans"),
    verbs=translator_verbs,
    example=lambda: Config(vocab=13, dim=16, depth=2, heads=4, hidden=24),
    lens=Lens(decoder_streams, lambda net, x: net.logits(apply_norm(net.decoder_norm, x))),
    papers=PAPERS,
    offered={"transformer-small": 7_065_600, "synthesizer-base": 53_501_976},
    compared="regard.modalities.text.compared:pairing",
)
