"""Perceiver and Perceiver IO, for images.

Perceiver: General Perception with Iterative Attention (Jaegle et al., 2021), https://arxiv.org/abs/2103.03206
Perceiver IO: A General Architecture for Structured Inputs & Outputs (Jaegle et al., 2022),
https://arxiv.org/abs/2107.14795
Every pixel is an input, beside it where it stands; a few hundred latents look at all of them and then at each other.
The first paper looks eight times and takes the mean of the latents; the second looks once, and a learned query asks the
latents for the class. That it is an image, only the positions tell: pixels in another order, their positions along, are
the same input.

Shapes: b batch, n pixels, w width of a pixel with its position, m latents, d width of a latent, c classes.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.nn.axis import Axis
from regard.nn.config import not_above_zero, not_divided, not_one_of, not_positive, not_shares, refuse
from regard.nn.feedforward import ACTIVATIONS
from regard.nn.latents import Latents, Look, Sizes, fourier_features, spread_over
from regard.nn.mechanisms import Choice, unknown_choices
from regard.nn.positions import interpolate


@dataclass(frozen=True, kw_only=True)
class Config:
    image: int = 224
    channels: int = 3
    classes: int = 1000
    positions: Literal["fourier", "learned"] = "fourier"
    bands: int = 64  # frequencies of each axis, of fourier positions
    features: int = 256  # width of pixels and of positions, of learned ones
    latents: int = 512
    dim: int = 1024
    depth: int = 6
    repeats: int = 8  # of the layers, which share their weights
    looks: int = 1  # at the pixels
    heads: int = 8
    cross_heads: int = 1
    key_dim: int | None = None  # of all heads together; as wide as what is looked at unless given
    value_dim: int | None = None  # as the keys unless given
    hidden: int = 1024
    cross_hidden: int = 1024
    pool: Literal["mean", "query"] = "query"
    dropout: float = 0.0  # of attention
    eps: float = 1e-5
    activation: str = "gelu"
    attention: Choice = "softmax"

    def __post_init__(self) -> None:
        looks = self.looks is not None and self.repeats is not None and self.looks > self.repeats
        refuse(
            not_positive(self, "image", "channels", "classes", "bands", "features", "latents", "dim", "depth"),
            not_positive(self, "repeats", "looks", "heads", "cross_heads", "key_dim", "value_dim"),
            not_positive(self, "hidden", "cross_hidden"),
            not_above_zero(self, "eps"),
            not_shares(self, "dropout"),
            not_divided(self, "dim", "heads"),
            not_one_of(ACTIVATIONS, self, "activation"),
            unknown_choices(self, "attention"),
            [f"looks = {self.looks} are more than repeats = {self.repeats}"] if looks else [],
        )

    @property
    def sizes(self) -> Sizes:
        return Sizes(
            latents=self.latents,
            dim=self.dim,
            depth=self.depth,
            repeats=self.repeats,
            looks=self.looks,
            heads=self.heads,
            cross_heads=self.cross_heads,
            key_dim=self.key_dim,
            value_dim=self.value_dim,
            hidden=self.hidden,
            cross_hidden=self.cross_hidden,
            dropout=self.dropout,
            eps=self.eps,
            activation=self.activation,
            attention=self.attention,
        )


PRESETS = {
    "perceiver-imagenet": Config(looks=8, pool="mean"),
    "perceiver-io-imagenet": Config(dropout=0.1),
    "perceiver-io-learned": Config(positions="learned", dropout=0.1),
    "perceiver-mnist": Config(
        image=28, channels=1, classes=10, bands=16, latents=32, dim=64, depth=2, repeats=2, looks=2, heads=4,
        hidden=128, cross_hidden=128, pool="mean",
    ),
}  # fmt: skip
IO = ("Jaegle et al. 2022, Perceiver IO", "https://arxiv.org/abs/2107.14795")
PAPERS = {name: IO for name in PRESETS if "-io-" in name}

AXES = {
    "latents.cross.look": ("latents", "pixels"),
    "latents.again.look": ("latents", "pixels"),
    "latents.blocks.*.mixer": ("latents", "latents"),
    "decoder.look": ("query", "latents"),
}


class Perceiver(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        learned = config.positions == "learned"
        self.pixels = nn.Linear(config.channels, config.features) if learned else None
        self.positions = nn.Parameter(torch.empty(config.image**2, config.features)) if learned else None
        self.placed = nn.Linear(config.features, config.features) if learned else None
        width = 2 * config.features if learned else config.channels + 2 * (2 * config.bands + 1)
        self.latents = Latents(config.sizes, width)
        asks = config.pool == "query"
        self.query = nn.Parameter(torch.empty(1, config.dim)) if asks else None
        self.decoder = (
            Look(config.dim, config.dim, heads=1, hidden=config.dim, dropout=config.dropout, eps=config.eps,
                 act=config.activation) if asks else None
        )  # fmt: skip
        self.head = nn.Linear(config.dim, config.classes)
        for table in (self.positions, self.query):
            if table is not None:
                nn.init.trunc_normal_(table, std=0.02)

    def inputs(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, n, w): each pixel, and beside it its position"""
        if images.shape[1] != self.config.channels or 0 in images.shape[2:]:
            got = " x ".join(map(str, images.shape[1:]))
            raise ValueError(f"an image of {got} cannot be read, expected {self.config.channels} channels of pixels")
        x, grid = images.flatten(2).mT, (images.shape[2], images.shape[3])
        if self.positions is None or self.pixels is None or self.placed is None:
            places = spread_over(grid, x.device, torch.promote_types(x.dtype, torch.float32))
            where = fourier_features(places, self.config.bands, self.config.image).to(x.dtype)
        else:
            side = self.config.image
            x, where = self.pixels(x), self.placed(interpolate(self.positions[None], (side, side), grid)[0])
        return torch.cat((x, where.expand(len(x), -1, -1)), -1)

    def features(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, m, d)"""
        return self.latents(self.inputs(images))

    def forward(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, c)"""
        x = self.features(images)
        if self.decoder is None or self.query is None:
            return self.head(x.mean(dim=1))
        return self.head(self.decoder(self.query.expand(len(x), -1, -1), x)[:, 0])

    def axes(self, images: Tensor) -> dict[str, Axis]:
        rows, columns = images.shape[-2:]
        return {
            "pixels": Axis("image", rows * columns, grid=(rows, columns)),
            "latents": Axis("latents", self.config.latents),
            "query": Axis("query", 1),
        }
