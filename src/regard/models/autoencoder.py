"""The autoencoder of latent diffusion: an image as a small map of numbers, and back.

High-Resolution Image Synthesis with Latent Diffusion Models (Rombach et al., 2022), https://arxiv.org/abs/2112.10752,
sections 3.1 and G; after Auto-Encoding Variational Bayes (Kingma and Welling, 2014), https://arxiv.org/abs/1312.6114
Convolutions halve the image level by level; what is left tells for each pixel of a small map the mean and the variance
of a few numbers, the latents, kept near a normal distribution. A second stack of convolutions draws the image again.

Shapes: b batch, c channels, h rows, w columns of an image, z channels, k rows, l columns of its latents.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.models.family import Family, no_verbs
from regard.nn.axis import Axis
from regard.nn.config import not_above_zero, not_divided, not_finite, not_one_of, not_positive, not_shares, refuse
from regard.nn.feedforward import ACTIVATIONS, activation
from regard.nn.mechanisms import Choice, build_mixer, layer_choices, unknown_choices
from regard.nn.resnet_blocks import ConvolutionStyle, Doubling, Halving, TimedResidual
from regard.nn.site import Site
from regard.nn.spatial_blocks import PixelAttention

NARROWEST, WIDEST = -30.0, 20.0  # of a log variance


@dataclass(frozen=True, kw_only=True)
class Config:
    image: int = 512  # rows and columns; it takes others as well
    channels: int = 3
    latent: int = 4  # channels of the latents
    dim: int = 128  # channels of the first level
    multipliers: tuple[int, ...] = (1, 2, 4, 4)  # of dim, in each level, which has half the rows of the one before
    depth: int = 2  # residual blocks of each level, and one more on the way back
    mixed: bool = True  # a 1x1 convolution behind the encoder, and one before the decoder
    scale: float = 0.18215  # of the latents in a diffusion model: one over their standard deviation
    shift: float = 0.0  # what is taken from them before
    norm_groups: int = 32
    eps: float = 1e-6
    activation: str = "silu"
    dropout: float = 0.0
    attention: Choice = "softmax"  # in the middle, of the smallest map

    def __post_init__(self) -> None:
        refuse(
            not_positive(self, "image", "channels", "latent", "dim", "multipliers", "depth", "norm_groups"),
            not_above_zero(self, "eps", "scale"),
            not_finite(self, "scale", "shift"),
            not_shares(self, "dropout"),
            not_one_of(ACTIVATIONS, self, "activation"),
            unknown_choices(self, "attention"),
            self.wrong_levels(),
        )

    def wrong_levels(self) -> list[str]:
        """What does not go together of the levels; what is wrong by itself is told already."""
        sizes = (self.dim, self.norm_groups, *(self.multipliers or (None,)))
        if any(size is None or size < 1 for size in sizes):
            return []
        problems = not_divided(self, "dim", "norm_groups")
        if self.multipliers[0] != 1:
            problems.append(f"multipliers = {list(self.multipliers)} must begin with 1: dim is that of the first level")
        if self.image and self.image % self.factor:
            problems.append(f"image = {self.image} is not a multiple of {self.factor}, by which the levels divide it")
        return problems

    @property
    def factor(self) -> int:
        """Rows of the image for each row of the latents."""
        return 1 << (len(self.multipliers) - 1)

    @property
    def widths(self) -> tuple[int, ...]:
        """Channels of each level."""
        return tuple(self.dim * many for many in self.multipliers)


PRESETS = {
    "autoencoder-sd": Config(),
    "autoencoder-tiny": Config(image=32, dim=32, multipliers=(1, 2, 2), depth=1, scale=1.0, norm_groups=8),
}

AXES = {"*.mixer": ("pixels", "pixels")}


@dataclass(frozen=True, eq=False)
class LatentGaussian:
    """What the encoder says of an image: independent normal distributions, one for each number of the latents."""

    mean: Tensor  # (b, z, k, l)
    log_variance: Tensor  # (b, z, k, l)

    def mode(self) -> Tensor:
        """The most likely latents.  -> (b, z, k, l)"""
        return self.mean

    def sample(self, noise: Tensor | None = None) -> Tensor:
        """Latents at random, by this standard normal noise if it is given.  -> (b, z, k, l)"""
        noise = torch.randn_like(self.mean) if noise is None else noise
        return self.mean + (0.5 * self.log_variance).exp() * noise


class Encoder(nn.Module):
    def __init__(self, config: Config, choice: Choice) -> None:
        super().__init__()
        style, widths = style_of(config), config.widths
        self.act = style.act
        self.stem = nn.Conv2d(config.channels, widths[0], 3, padding=1)
        self.levels = nn.ModuleList()
        for level, dim in enumerate(widths):
            before = widths[max(level - 1, 0)]
            residuals = [TimedResidual(dim if i else before, dim, style) for i in range(config.depth)]
            self.levels.append(Stack(residuals, Halving(dim, "end") if level + 1 < len(widths) else None))
        self.middle = Middle(config, choice)
        self.norm = nn.GroupNorm(config.norm_groups, widths[-1], config.eps)
        self.head = nn.Conv2d(widths[-1], 2 * config.latent, 3, padding=1)

    def forward(self, images: Tensor) -> Tensor:
        """(b, c, h, w) -> (b, 2z, k, l)"""
        x = self.stem(images.contiguous(memory_format=torch.channels_last))
        for level in self.levels:
            x = level(x)
        return self.head(self.act(self.norm(self.middle(x))))


class Decoder(nn.Module):
    def __init__(self, config: Config, choice: Choice) -> None:
        super().__init__()
        style, widths = style_of(config), config.widths[::-1]
        self.act = style.act
        self.stem = nn.Conv2d(config.latent, widths[0], 3, padding=1)
        self.middle = Middle(config, choice)
        self.levels = nn.ModuleList()
        for level, dim in enumerate(widths):
            before = widths[max(level - 1, 0)]
            residuals = [TimedResidual(dim if i else before, dim, style) for i in range(config.depth + 1)]
            self.levels.append(Stack(residuals, Doubling(dim) if level + 1 < len(widths) else None))
        self.norm = nn.GroupNorm(config.norm_groups, widths[-1], config.eps)
        self.head = nn.Conv2d(widths[-1], config.channels, 3, padding=1)

    def forward(self, latents: Tensor) -> Tensor:
        """(b, z, k, l) -> (b, c, h, w)"""
        x = self.middle(self.stem(latents.contiguous(memory_format=torch.channels_last)))
        for level in self.levels:
            x = level(x)
        return self.head(self.act(self.norm(x)))


class Stack(nn.Module):
    """The residual blocks of one size, and what changes it."""

    def __init__(self, residuals: list[TimedResidual], resize: nn.Module | None) -> None:
        super().__init__()
        self.residuals, self.resize = nn.ModuleList(residuals), resize

    def forward(self, x: Tensor) -> Tensor:
        for residual in self.residuals:
            x = residual(x)
        return x if self.resize is None else self.resize(x)


class Middle(nn.Module):
    """Between two residual blocks each pixel looks at all others, by one head."""

    def __init__(self, config: Config, choice: Choice) -> None:
        super().__init__()
        style, dim = style_of(config), config.widths[-1]
        mixer = build_mixer(choice, Site(dim=dim, heads=1, length=(config.image // config.factor) ** 2))
        self.first, self.second = TimedResidual(dim, dim, style), TimedResidual(dim, dim, style)
        self.attention = PixelAttention(dim, mixer, groups=config.norm_groups, eps=config.eps)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.attention(self.first(x)))


def style_of(config: Config) -> ConvolutionStyle:
    return ConvolutionStyle(config.norm_groups, config.eps, activation(config.activation), config.dropout)


class Autoencoder(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        there, back = layer_choices(config.attention, 2)
        self.encoder, self.decoder = Encoder(config, there), Decoder(config, back)
        self.mix_out = nn.Conv2d(2 * config.latent, 2 * config.latent, 1) if config.mixed else nn.Identity()
        self.mix_in = nn.Conv2d(config.latent, config.latent, 1) if config.mixed else nn.Identity()

    def encode(self, images: Tensor) -> LatentGaussian:
        """(b, c, h, w) -> the distributions of (b, z, k, l); sides that are no multiple of the factor lose a rest"""
        factor = self.config.factor
        if min(images.shape[-2:]) < factor:
            raise ValueError(
                f"an image must have at least {factor} x {factor} pixels, as the levels of this autoencoder divide its "
                f"sides by {factor}; got {images.shape[-2]} x {images.shape[-1]}"
            )
        mean, log_variance = self.mix_out(self.encoder(images)).chunk(2, 1)
        return LatentGaussian(mean, log_variance.clamp(NARROWEST, WIDEST))

    def decode(self, latents: Tensor) -> Tensor:
        """(b, z, k, l) -> (b, c, h, w)"""
        return self.decoder(self.mix_in(latents))

    def forward(self, images: Tensor) -> Tensor:
        """The image that is drawn from the most likely latents.  (b, c, h, w) -> (b, c, h, w)"""
        return self.decode(self.encode(images).mode())

    def scaled(self, latents: Tensor) -> Tensor:
        """Latents as a diffusion model has them: of mean 0 and variance 1, about."""
        return (latents - self.config.shift) * self.config.scale

    def unscaled(self, latents: Tensor) -> Tensor:
        """The way back."""
        return latents / self.config.scale + self.config.shift

    def for_inference(self) -> None:
        """Weights with the channels of a pixel together, as the maps have them."""
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def axes(self, images: Tensor) -> dict[str, Axis]:
        rows, columns = (side // self.config.factor for side in images.shape[-2:])
        return {"pixels": Axis("image", rows * columns, grid=(rows, columns))}


FAMILY = Family(
    config=Config,
    net=Autoencoder,
    presets=PRESETS,
    axes=AXES,
    paper="Rombach et al. 2022, High-Resolution Image Synthesis with Latent Diffusion Models",
    link="https://arxiv.org/abs/2112.10752",
    takes=("image",),
    tasks=("reconstruct",),
    verbs=no_verbs,
    example=lambda: Config(image=8, channels=3, latent=2, dim=8, multipliers=(1, 2), depth=1, scale=1.0, norm_groups=4),
)
