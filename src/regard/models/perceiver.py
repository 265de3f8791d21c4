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

from regard.models.family import Family, Lens, classifier_verbs
from regard.nn.axis import Axis
from regard.nn.config import not_positive, refuse
from regard.nn.latents import LatentBlock, Latents, LatentSizes, fourier_features, spread_over
from regard.nn.positions import interpolate


@dataclass(frozen=True, kw_only=True)
class Config(LatentSizes):
    image: int = 224
    channels: int = 3
    classes: int = 1000
    positions: Literal["fourier", "learned"] = "fourier"
    bands: int = 64  # frequencies of each axis, of fourier positions
    features: int = 256  # width of pixels and of positions, of learned ones
    pool: Literal["mean", "query"] = "query"

    def __post_init__(self) -> None:
        refuse(not_positive(self, "image", "channels", "classes", "bands", "features"), self.wrong())


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
        self.latents = Latents(config, width)
        asks = config.pool == "query"
        self.query = nn.Parameter(torch.empty(1, config.dim)) if asks else None
        self.decoder = (
            LatentBlock(config.dim, config.dim, heads=1, hidden=config.dim, dropout=config.dropout, eps=config.eps,
                 act=config.activation) if asks else None
        )  # fmt: skip
        self.head = nn.Linear(config.dim, config.classes)
        for table in (self.positions, self.query):
            if table is not None:
                nn.init.trunc_normal_(table, std=0.02)

    def inputs(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, n, w): each pixel, concatenated with its position"""
        if images.shape[1] != self.config.channels or 0 in images.shape[2:]:
            got = " x ".join(map(str, images.shape[1:]))
            raise ValueError(f"an image of {got} is not supported, expected {self.config.channels} channels")
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
        return self.classified(self.features(images))

    def classified(self, latents: Tensor) -> Tensor:
        """(b, m, d) -> (b, c)"""
        if self.decoder is None or self.query is None:
            return self.head(latents.mean(dim=1))
        return self.head(self.decoder(self.query.expand(len(latents), -1, -1), latents)[:, 0])

    def axes(self, images: Tensor) -> dict[str, Axis]:
        rows, columns = images.shape[-2:]
        return {
            "pixels": Axis("image", rows * columns, grid=(rows, columns)),
            "latents": Axis("latents", self.config.latents),
            "query": Axis("query", 1),
        }


FAMILY = Family(
    config=Config,
    net=Perceiver,
    presets=PRESETS,
    axes=AXES,
    paper="Jaegle et al. 2021, Perceiver",
    link="https://arxiv.org/abs/2103.03206",
    takes=("image",),
    tasks=("classify",),
    verbs=classifier_verbs,
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
        image=8,
        channels=3,
        classes=5,
        bands=3,
        features=6,
    ),
    lens=Lens(lambda _: "latents.blocks.*.stream", Perceiver.classified),
    papers=PAPERS,
    offered={"perceiver-mnist": 139_212},
    grid=lambda config: (config.image, config.image),
)
