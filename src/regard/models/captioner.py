"""A captioner: an encoder of images and a decoder of words.

Show, Attend and Tell (Xu et al., 2015), https://arxiv.org/abs/1502.03044: a net looks at parts of an image while it
writes what is on it. Here both sides are Transformers: a ViT (Dosovitskiy et al., 2021) reads the patches, a decoder
(Vaswani et al., 2017) writes, and each of its layers looks at them. Encoder and decoder need not be of one modality.

Differs from the paper: attention in place of convolutions and recurrence; pre-norm on both sides.

Shapes: b batch, m patches, n words, d width, v vocabulary.
"""

from dataclasses import dataclass

from torch import Tensor, nn

from regard.nn.axis import Axis
from regard.nn.block import Block
from regard.nn.cache import Cache, place
from regard.nn.config import not_above_zero, not_divided, not_one_of, not_positive, not_shares, refuse
from regard.nn.dropout import Dropout
from regard.nn.embed import Lookup, scaled
from regard.nn.encdec import EncoderDecoder
from regard.nn.feedforward import ACTIVATIONS, MLP, activation
from regard.nn.mask import Mask
from regard.nn.mechanisms import Choice, build_mixer, layered, unknown_choices
from regard.nn.positions import sinusoid
from regard.nn.residual import Branch, PreNorm
from regard.nn.site import Site

from . import vit


@dataclass(frozen=True, kw_only=True)
class Config:
    image: int = 224
    patch: int = 16
    channels: int = 3
    vocab: int = 8000  # words and softmax share one table
    dim: int = 384
    depth: int = 6  # of the encoder, and of the decoder unless that is given
    decoder_depth: int | None = None
    heads: int = 6
    hidden: int = 1536
    dropout: float = 0.1
    attention_dropout: float = 0.0
    eps: float = 1e-6
    activation: str = "gelu"
    attention: Choice = "softmax"  # of the encoder
    decoder_attention: Choice = "softmax"
    cross: Choice = "softmax"

    def __post_init__(self) -> None:
        sizes = ("image", "patch", "channels", "vocab", "dim", "depth", "decoder_depth", "heads", "hidden")
        refuse(
            not_positive(self, *sizes),
            not_above_zero(self, "eps"),
            not_shares(self, "dropout", "attention_dropout"),
            not_divided(self, "dim", "heads"),
            not_divided(self, "image", "patch"),
            not_one_of(ACTIVATIONS, self, "activation"),
            unknown_choices(self, "attention", "decoder_attention", "cross"),
        )
        if self.decoder_depth == self.depth:  # one way to say it
            object.__setattr__(self, "decoder_depth", None)

    @property
    def grid(self) -> tuple[int, int]:
        return self.image // self.patch, self.image // self.patch


PRESETS = {
    "captioner-tiny": Config(image=32, patch=4, vocab=100, dim=64, depth=2, heads=4, hidden=128, dropout=0.0),
    "captioner-small": Config(),
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
        self.encoder = vit.ViT(
            vit.Config(
                image=config.image,
                patch=config.patch,
                channels=config.channels,
                classes=0,
                dim=config.dim,
                depth=config.depth,
                heads=config.heads,
                hidden=config.hidden,
                pool="mean",
                dropout=config.dropout,
                attention_dropout=config.attention_dropout,
                eps=config.eps,
                activation=config.activation,
                attention=config.attention,
            )
        )
        self.embed = Lookup(config.vocab, config.dim)
        self.dropout = Dropout(config.dropout)
        depth = config.decoder_depth or config.depth
        choices = zip(layered(config.decoder_attention, depth), layered(config.cross, depth), strict=True)
        self.decoder = nn.ModuleList(self.block(choice, cross) for choice, cross in choices)
        self.norm = nn.LayerNorm(config.dim, config.eps)
        for module in self.decoder.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        nn.init.normal_(self.embed.weight, std=config.dim**-0.5)

    def block(self, choice: Choice, cross: Choice) -> Block:
        config = self.config
        own = Site(dim=config.dim, heads=config.heads, causal=True, dropout=config.attention_dropout)
        beyond = Site(dim=config.dim, heads=config.heads, cross=True, dropout=config.attention_dropout)
        return Block(
            build_mixer(choice, own),
            MLP(config.dim, config.hidden, activation(config.activation), dropout=config.dropout),
            lambda: PreNorm(nn.LayerNorm(config.dim, config.eps), Branch(config.dim, dropout=config.dropout)),
            cross=build_mixer(cross, beyond),
        )

    def encode(self, source: Tensor, keys: Tensor | None = None) -> Tensor:
        """(b, channels, height, width) -> (b, m, d); images are whole, so there are no keys"""
        if keys is not None:
            raise ValueError("an image has no padding")
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
        """(b, n), (b, m, d) -> (b, n, d): the decoder's states, before they become words"""
        mask, beyond = place(target, keys, cache), Mask(keys=source_keys)
        positions = sinusoid(mask.positions(target.shape[1], target.device), self.config.dim)
        words = scaled(self.embed, target)
        x = self.dropout(words + positions.to(words.dtype))
        for block in self.decoder:
            x = block(x, memory, mask=mask, context_mask=beyond, cache=cache)
        return self.norm(x)

    def words(self) -> tuple[Tensor, Tensor | None]:
        return self.embed.weight, None

    def forward(self, images: Tensor, target: Tensor, *, keys: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """(b, channels, height, width), (b, n) -> (b, n, v): the target is what was written so far, behind a start"""
        return self.decode(target, self.encode(images), keys=keys)

    def axes(self, images: Tensor, target: Tensor) -> dict[str, Axis]:
        return {"patches": self.encoder.axes(images)["patches"], "target": Axis("text", target.shape[1])}
