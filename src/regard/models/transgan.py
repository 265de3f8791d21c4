"""The generator of TransGAN.

TransGAN: Two Pure Transformers Can Make One Strong GAN, and That Can Scale Up (Jiang, Chang and Wang, 2021),
https://arxiv.org/abs/2102.07074
A linear map makes a small grid of wide tokens of noise; from stage to stage PixelShuffle makes of each token four of a
quarter of its width, so that the grid grows to the size of the image and the memory does not.

Differs from the paper: a tanh keeps pixels between -1 and 1 (``bound = "none"`` leaves them as the authors' code does);
every stage grows by PixelShuffle, also those where the paper prefers bicubic resizing for images of 64 pixels and more.

Shapes: b batch, z size of the noise, r rows, s columns of a stage's grid, d its width.
"""

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from regard.models.family import Family
from regard.nn.attention import Mixer
from regard.nn.axis import Axis
from regard.nn.block import Block
from regard.nn.config import (
    not_above_zero,
    not_divided,
    not_one_of,
    not_positive,
    not_shares,
    refuse,
)
from regard.nn.feedforward import ACTIVATIONS, FeedForward, activation
from regard.nn.growth import PixelNorm, shuffle_pixels
from regard.nn.mechanisms import Choice, build_mixer, layer_choices, unknown_choices
from regard.nn.mixers.windows import WindowAttention
from regard.nn.positions import WindowBias
from regard.nn.residual import Branch, PreNorm
from regard.nn.site import Site


@dataclass(frozen=True, kw_only=True)
class Config:
    image: int = 32
    channels: int = 3
    noise: int = 256  # size of z
    dim: int = 1024  # of the first stage; each further one has a quarter of that of the one before
    depth: tuple[int, ...] = (5, 4, 2)  # blocks of each stage; each further one has twice the sides
    heads: int = 4
    expansion: int = 4  # of the feed-forward layers: hidden units for each of dim
    window: int = 16  # a larger grid is cut into windows of this side, each of which looks at itself alone
    token_norm: Literal["layer", "pixel"] = "layer"
    bound: Literal["tanh", "none"] = "tanh"  # of pixels
    attention_dropout: float = 0.0
    eps: float = 1e-5
    activation: str = "gelu"
    qkv_bias: bool = True
    attention: Choice = "softmax"  # within a window

    def __post_init__(self) -> None:
        refuse(
            not_positive(self, "image", "channels", "noise", "dim", "depth", "heads", "expansion", "window"),
            not_above_zero(self, "eps"),
            not_shares(self, "attention_dropout"),
            not_divided(self, "dim", "heads"),
            not_one_of(ACTIVATIONS, self, "activation"),
            unknown_choices(self, "attention"),
            self.not_stages(),
        )

    def not_stages(self) -> list[str]:
        """A field that could not be read is None, and one below 1 is told already."""
        if not self.depth or min(self.depth) < 1 or not self.heads:
            return []
        last = len(self.depth) - 1
        given = ("image", self.image, 2**last), ("dim / heads", self.dim and self.dim / self.heads, 4**last)
        return [
            f"{name} = {size:g} is not a multiple of {shrunk}, which {last + 1} stages require"
            for name, size, shrunk in given
            if size and size > 0 and size == int(size) and size % shrunk
        ]

    def side(self, stage: int) -> int:
        """of the grid of a stage"""
        return self.image >> (len(self.depth) - 1 - stage)


PRESETS = {
    "transgan-cifar": Config(window=32),
    "transgan-tiny": Config(
        channels=1, noise=64, dim=256, depth=(2, 2, 1), window=8, token_norm="pixel"
    ),  # digits on 32 x 32 pixels
}

AXES = {"stages.*.mixer.attention": ("{layer}", "{layer}")}


class GrowingStage(nn.Module):
    """Blocks at one resolution, after PixelShuffle and positions of its own."""

    def __init__(self, config: Config, stage: int) -> None:
        super().__init__()
        self.grows = stage > 0
        side, dim, before = config.side(stage), config.dim // 4**stage, sum(config.depth[:stage])
        self.positions = nn.Parameter(torch.empty(1, side, side, dim))
        choices = layer_choices(config.attention, sum(config.depth))[before : before + config.depth[stage]]
        window = min(config.window, side)
        site = Site(
            dim=dim,
            heads=config.heads,
            length=window**2,
            biased=True,
            dropout=config.attention_dropout,
            biases="qkvo" if config.qkv_bias else "o",
        )
        self.blocks = nn.ModuleList(
            token_block(
                WindowAttention(build_mixer(choice, site), WindowBias(config.heads, window, window), window, 0),
                dim,
                config.expansion * dim,
                config,
            )
            for choice in choices
        )

    def forward(self, x: Tensor) -> Tensor:
        """(b, r, s, d) -> (b, 2r, 2s, d/4), or in the first stage as it was"""
        x = (shuffle_pixels(x) if self.grows else x) + self.positions
        for block in self.blocks:
            x = block(x)
        return x


class BlockConfig(Protocol):
    """What a block reads of the config of either net."""

    @property
    def token_norm(self) -> Literal["layer", "pixel"]: ...
    @property
    def eps(self) -> float: ...
    @property
    def activation(self) -> str: ...


def token_block(mixer: Mixer, dim: int, hidden: int, config: BlockConfig) -> Block:
    """A pre-norm block as TransGAN has it in both of its nets."""

    return Block(
        mixer,
        FeedForward(dim, hidden, activation(config.activation)),
        lambda: PreNorm(build_token_norm(config, dim), Branch(dim)),
    )


def build_token_norm(config: BlockConfig, dim: int) -> nn.Module:
    return nn.LayerNorm(dim, config.eps) if config.token_norm == "layer" else PixelNorm(config.eps)


class TransGAN(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.start = nn.Linear(config.noise, config.side(0) ** 2 * config.dim)
        self.stages = nn.ModuleList(GrowingStage(config, stage) for stage in range(len(config.depth)))
        self.colours = nn.Conv2d(config.dim // 4 ** (len(config.depth) - 1), config.channels, 1)
        start_as_transgan(self)

    def forward(self, noise: Tensor) -> Tensor:
        """(b, z) -> (b, channels, image, image)"""
        side = self.config.side(0)
        x = self.start(noise).unflatten(1, (side, side, self.config.dim))
        for stage in self.stages:
            x = stage(x)
        pixels: Tensor = self.colours(x.movedim(-1, 1))
        return pixels if self.config.bound == "none" else pixels.tanh()

    def axes(self, noise: Tensor) -> dict[str, Axis]:
        """Of each layer: where its windows are."""
        found = {}
        for name, module in self.named_modules():
            if isinstance(module, WindowAttention):
                side = self.config.side(int(name.split(".")[1]))
                cut = module.cut(side, side)
                found[f"{name}.attention"] = Axis("image", cut.window[0] * cut.window[1], grid=cut.window, cut=cut)
        return found


def start_as_transgan(net: nn.Module) -> None:
    """As the authors' scripts: Xavier weights, no biases; small positions."""
    for name, x in net.named_parameters():
        if name.endswith(("positions", "class_token")):
            nn.init.normal_(x, std=0.02)
        elif isinstance(net.get_submodule(name.rpartition(".")[0]), nn.Linear | nn.Conv2d):
            nn.init.xavier_uniform_(x) if x.ndim > 1 else nn.init.zeros_(x)


def drawer_verbs(config: Any, task: str | None) -> tuple[str, ...]:
    return ("draw",)


FAMILY = Family(
    config=Config,
    net=TransGAN,
    presets=PRESETS,
    axes=AXES,
    paper="Jiang, Chang and Wang 2021, TransGAN",
    link="https://arxiv.org/abs/2102.07074",
    takes=("noise",),
    tasks=("imitate",),
    verbs=drawer_verbs,
    example=lambda: Config(image=8, noise=8, dim=64, depth=(1, 1), heads=2, window=4, bound="none"),
    inputs=lambda config, batch: {"noise": torch.randn(batch, config.noise, dtype=torch.float64)},
)
