"""A captioner: a ViT looks, a Transformer's decoder writes.

CPTR: Full Transformer Network for Image Captioning (Liu et al., 2021), https://arxiv.org/abs/2101.10804
Encoder and decoder need not be of one kind: all that the decoder ever sees of the encoder are vectors to look at, and
these may be patches of an image as well as words of another language.

Differs from the paper: pre-norm, and one width for both halves.

Shapes: b batch, m patches, n words, d width, v vocabulary.
"""

from dataclasses import dataclass

from torch import Tensor, nn

from regard.models import vit
from regard.models.family import Family, Lens, decoder_streams
from regard.nn.axis import Axis
from regard.nn.block import Block
from regard.nn.cache import Cache, decoder_mask
from regard.nn.config import not_above_zero, not_divided, not_one_of, not_positive, not_shares, refuse
from regard.nn.dropout import Dropout
from regard.nn.embed import Lookup, scaled_embedding
from regard.nn.encdec import EncoderDecoder
from regard.nn.feedforward import ACTIVATIONS, FeedForward, activation
from regard.nn.mask import Mask, fitted_keys
from regard.nn.mechanisms import Choice, build_mixer, layer_choices, unknown_choices
from regard.nn.positions import sinusoid
from regard.nn.residual import Branch, PreNorm
from regard.nn.site import Site


@dataclass(frozen=True, kw_only=True)
class Config:
    image: int = 384
    patch: int = 16
    channels: int = 3
    vocab: int = 10000
    dim: int = 768
    depth: int = 12  # of the encoder
    decoder_depth: int = 4
    heads: int = 12
    hidden: int = 3072
    dropout: float = 0.1
    attention_dropout: float = 0.0  # on the weights
    eps: float = 1e-6
    activation: str = "gelu"
    attention: Choice = "softmax"  # of the encoder, and of the decoder unless that is given
    decoder_attention: Choice | None = None
    cross: Choice = "softmax"

    def __post_init__(self) -> None:
        refuse(
            not_positive(self, "image", "patch", "channels", "vocab", "dim", "depth", "decoder_depth", "heads"),
            not_positive(self, "hidden"),
            not_above_zero(self, "eps"),
            not_shares(self, "dropout", "attention_dropout"),
            not_divided(self, "dim", "heads"),
            not_divided(self, "image", "patch"),
            not_one_of(ACTIVATIONS, self, "activation"),
            unknown_choices(self, "attention", "decoder_attention", "cross"),
        )
        if self.decoder_attention == self.attention:  # one way to say it
            object.__setattr__(self, "decoder_attention", None)

    def looking(self) -> vit.Config:
        """Of the encoder, whose every patch goes on."""
        return vit.Config(
            image=self.image,
            patch=self.patch,
            channels=self.channels,
            classes=0,
            dim=self.dim,
            depth=self.depth,
            heads=self.heads,
            hidden=self.hidden,
            pool="mean",
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
            eps=self.eps,
            activation=self.activation,
            attention=self.attention,
        )


PRESETS = {
    "captioner-tiny": Config(
        image=32, patch=4, vocab=64, dim=64, depth=3, decoder_depth=2, heads=4, hidden=128, dropout=0.0
    ),
    "captioner-base": Config(),
}

AXES = {
    "encoder.blocks.*.mixer": ("patches", "patches"),
    "decoder.*.mixer": ("target", "target"),
    "decoder.*.cross": ("target", "patches"),
}


class Captioner(EncoderDecoder):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.encoder = vit.ViT(config.looking())
        self.embed, self.dropout = Lookup(config.vocab, config.dim), Dropout(config.dropout)
        own = config.attention if config.decoder_attention is None else config.decoder_attention
        choices = zip(
            layer_choices(own, config.decoder_depth), layer_choices(config.cross, config.decoder_depth), strict=True
        )
        self.decoder = nn.ModuleList(self.block(choice, cross) for choice, cross in choices)
        self.norm = nn.LayerNorm(config.dim, config.eps)
        self.reset()

    def block(self, choice: Choice, cross: Choice) -> Block:
        config = self.config
        site = Site(dim=config.dim, heads=config.heads, causal=True, dropout=config.attention_dropout)
        beyond = Site(dim=config.dim, heads=config.heads, cross=True, dropout=config.attention_dropout)
        return Block(
            build_mixer(choice, site),
            FeedForward(config.dim, config.hidden, activation(config.activation), dropout=config.dropout),
            lambda: PreNorm(nn.LayerNorm(config.dim, config.eps), Branch(config.dim, dropout=config.dropout)),
            cross=build_mixer(cross, beyond),
        )

    def reset(self) -> None:
        """As the encoder has it, too."""
        for module in self.decoder.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        nn.init.normal_(self.embed.weight, std=self.config.dim**-0.5)

    def encode(self, source: Tensor, keys: Tensor | None = None) -> Tensor:
        """(b, channels, height, width) -> (b, m, d)"""
        if keys is not None:
            raise ValueError("the image input does not support padding (keys)")
        return self.encoder.features(source)

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
        x = scaled_embedding(self.embed, target)
        x = self.dropout(x + sinusoid(mask.positions(target.shape[1], target.device), self.config.dim).to(x.dtype))
        for block in self.decoder:
            x = block(x, memory, mask=mask, context_mask=beyond, cache=cache)
        return self.norm(x)

    def words(self) -> tuple[Tensor, Tensor | None]:
        return self.embed.weight, None

    def forward(self, images: Tensor, target: Tensor, *, keys: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """(b, channels, height, width), (b, n) -> logits (b, n, v): the target begins with a start token"""
        return self.decode(target, self.encode(images), keys=keys)

    def axes(self, images: Tensor, target: Tensor) -> dict[str, Axis]:
        return self.encoder.axes(images) | {"target": Axis("text", target.shape[1])}


FAMILY = Family(
    config=Config,
    net=Captioner,
    presets=PRESETS,
    axes=AXES,
    paper="Liu et al. 2021, CPTR: Full Transformer Network for Image Captioning",
    link="https://arxiv.org/abs/2101.10804",
    takes=("image", "text"),
    tasks=("describe",),
    verbs=lambda config, task: ("describe",),
    example=lambda: Config(image=8, patch=4, channels=3, vocab=13, dim=16, depth=2, heads=4, hidden=24),
    lens=Lens(decoder_streams, lambda net, x: net.logits(net.norm(x))),
    offered={"captioner-tiny": 212_800},
)
