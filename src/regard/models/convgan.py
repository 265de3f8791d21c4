"""A small convolutional generator, and its critic: the reference row of TransGAN.

Improved Training of Wasserstein GANs (Gulrajani et al., 2017), https://arxiv.org/abs/1704.00028
A linear map makes a small grid of noise, convolutions double its sides until it has those of the image; the critic goes
the same way back. Its penalty is on the gradient of each image, so no norm in it may mix the images of a batch.

Differs from the paper: nearest neighbours and a convolution in place of transposed ones, which leave a checkerboard;
the generator's norm is that of each pixel, so an image never depends on those that are drawn beside it.

Shapes: b batch, z size of the noise, d channels of a stage.
"""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.family import Family
from regard.models.transgan import drawer_verbs
from regard.nn.axis import Axis
from regard.nn.config import not_one_of, not_positive, refuse
from regard.nn.feedforward import ACTIVATIONS, activation
from regard.nn.growth import PixelNorm

EPS = 1e-8  # of the norm
SLOPE = 0.2  # of the critic's leaky ReLU


@dataclass(frozen=True, kw_only=True)
class Config:
    image: int = 32
    channels: int = 3
    noise: int = 128  # size of z
    dims: tuple[int, ...] = (256, 128, 64)  # channels of each stage; each further one has twice the sides
    bound: Literal["tanh", "none"] = "tanh"  # of pixels
    activation: str = "relu"

    def __post_init__(self) -> None:
        wrong = []
        if self.image and self.dims and self.image % (shrunk := 2 ** (len(self.dims) - 1)):
            wrong = [f"image = {self.image} is not a multiple of {shrunk}, which {len(self.dims)} stages require"]
        refuse(
            not_positive(self, "image", "channels", "noise", "dims"),
            not_one_of(ACTIVATIONS, self, "activation"),
            wrong,
        )


PRESETS = {
    "convgan-cifar": Config(dims=(512, 256, 128, 64)),
    "convgan-mnist": Config(image=28, channels=1, noise=64, dims=(128, 64, 32)),
}

AXES: dict[str, tuple[str, str]] = {}  # it looks at nothing


class ConvGAN(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.side = config.image // 2 ** (len(config.dims) - 1)
        self.start = nn.Linear(config.noise, config.dims[0] * self.side**2)
        inputs = (config.dims[0], *config.dims[:-1])
        self.stages = nn.ModuleList(
            nn.Conv2d(given, made, 3, padding=1) for given, made in zip(inputs, config.dims, strict=True)
        )
        self.norm, self.activation = PixelNorm(EPS, axis=1), activation(config.activation)
        self.colours = nn.Conv2d(config.dims[-1], config.channels, 3, padding=1)

    def forward(self, noise: Tensor) -> Tensor:
        """(b, z) -> (b, channels, image, image)"""
        x = self.start(noise).unflatten(1, (-1, self.side, self.side))
        for i, stage in enumerate(self.stages):
            x = F.interpolate(x, scale_factor=2.0, mode="nearest") if i else x
            x = self.activation(self.norm(stage(x)))
        pixels: Tensor = self.colours(x)
        return pixels if self.config.bound == "none" else pixels.tanh()

    def axes(self, noise: Tensor) -> dict[str, Axis]:
        return {}


class ConvolutionCritic(nn.Module):
    """Convolutions of stride 2, without any norm, and a linear map. ``dims`` are the channels of each."""

    def __init__(self, image: int, channels: int, dims: tuple[int, ...]) -> None:
        super().__init__()
        self.stages = nn.ModuleList(
            nn.Conv2d(given, made, 3, stride=2, padding=1)
            for given, made in zip((channels, *dims[:-1]), dims, strict=True)
        )
        side = -(-image // 2 ** len(dims))
        self.head = nn.Linear(dims[-1] * side**2, 1)

    def forward(self, images: Tensor) -> Tensor:
        """(b, channels, image, image) -> (b,): the higher, the more real"""
        x = images
        for stage in self.stages:
            x = F.leaky_relu(stage(x), SLOPE)
        score: Tensor = self.head(x.flatten(1))
        return score[:, 0]


FAMILY = Family(
    config=Config,
    net=ConvGAN,
    presets=PRESETS,
    axes=AXES,
    paper="Gulrajani et al. 2017, Improved Training of Wasserstein GANs",
    link="https://arxiv.org/abs/1704.00028",
    takes=("noise",),
    tasks=("imitate",),
    verbs=drawer_verbs,
    example=lambda: Config(image=8, noise=8, dims=(8, 6), bound="none"),
    inputs=lambda config, batch: {"noise": torch.randn(batch, config.noise, dtype=torch.float64)},
)
