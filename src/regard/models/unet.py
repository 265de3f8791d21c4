"""The U-Net of latent diffusion, which tells the noise of a noisy image.

High-Resolution Image Synthesis with Latent Diffusion Models (Rombach et al., 2022), https://arxiv.org/abs/2112.10752;
without a context the U-Net of Denoising Diffusion Probabilistic Models (Ho et al., 2020),
https://arxiv.org/abs/2006.11239
Convolutions halve the image level by level and double it again; on the way up each block also reads what a block on
the way down has said. At some levels the pixels look at each other, and at the words of a text.

Differs from the paper: the class and other conditions that are added to the time are not there.

Shapes: b batch, c channels, h rows, w columns, m tokens of the context, d their width.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.family import Family, no_verbs
from regard.nn.axis import Axis
from regard.nn.block import Block
from regard.nn.config import not_above_zero, not_at_least, not_divided, not_one_of, not_positive, not_shares, refuse
from regard.nn.feedforward import ACTIVATIONS, Gated, activation
from regard.nn.mask import Mask, fitted_keys
from regard.nn.mechanisms import Choice, build_mixer, layer_choices, unknown_choices
from regard.nn.residual import Branch, PreNorm
from regard.nn.resnet_blocks import ConvolutionStyle, Doubling, Halving, Padding, TimedResidual, TimeEmbedding
from regard.nn.site import Site
from regard.nn.spatial_blocks import PixelAttention, Projection, SpatialTransformer

NORM_EPS = 1e-6  # of the group norm before a transformer block
LAYER_EPS = 1e-5  # of the layer norms inside


@dataclass(frozen=True, kw_only=True)
class Config:
    image: int | None = None  # rows and columns of the images that it was made for, if that is known; it takes any
    channels: int = 4
    out: int = 4  # channels of the answer
    dim: int = 320  # channels of the first level
    multipliers: tuple[int, ...] = (1, 2, 4, 4)  # of dim, in each level
    depth: int = 2  # residual blocks of each level, and one more on the way up
    attended: tuple[int, ...] = (0, 1, 2)  # levels whose blocks are each followed by attention; the middle always is
    heads: int | tuple[int, ...] = 8  # in all levels, or in each
    context: int = 768  # width of the tokens that the pixels look at; 0: they look at each other alone
    projection: Projection = "convolution"  # before and after a transformer block
    padding: Padding = "both"
    cosines_first: bool = True  # in the embedding of the time
    frequency_shift: int = 0
    activation: str = "silu"  # of the convolutions
    norm_groups: int = 32
    eps: float = 1e-5
    dropout: float = 0.0
    attention: Choice = "softmax"
    cross: Choice = "softmax"

    def __post_init__(self) -> None:
        refuse(
            not_positive(self, "image", "channels", "out", "dim", "multipliers", "depth", "heads", "norm_groups"),
            not_at_least(0, self, "context"),
            not_above_zero(self, "eps"),
            not_shares(self, "dropout"),
            not_one_of(ACTIVATIONS, self, "activation"),
            unknown_choices(self, "attention", "cross"),
            self.wrong_levels(),
            self.wrong_waves(),
        )
        if isinstance(self.heads, tuple) and len(set(self.heads)) == 1:  # one way to say it
            object.__setattr__(self, "heads", self.heads[0])

    def wrong_levels(self) -> list[str]:
        """What does not go together of the levels; what is wrong by itself is told already."""
        sizes = (self.dim, self.norm_groups, *(self.multipliers or (None,)))
        if any(size is None or size < 1 for size in sizes):
            return []
        levels, problems = len(self.multipliers), not_divided(self, "dim", "norm_groups")
        if self.multipliers[0] != 1:
            problems.append(f"multipliers = {list(self.multipliers)} must begin with 1: dim is that of the first level")
        if not set(self.attended or ()) <= set(range(levels)):
            problems.append(f"attended = {list(self.attended)} must name levels from 0 to {levels - 1}")
        elif isinstance(self.heads, tuple) and len(self.heads) != levels:
            problems.append(f"heads = {list(self.heads)} must have one number for each of the {levels} levels")
        elif self.heads is not None and min(self.level_heads) > 0:
            wrong = [x for x in sorted({*(self.attended or ()), levels - 1}) if self.widths[x] % self.level_heads[x]]
            for level in wrong[:1]:
                times = "" if self.multipliers[level] == 1 else f" times {self.multipliers[level]}"
                problems.append(f"dim = {self.dim}{times} is not a multiple of heads = {self.level_heads[level]}")
        return problems

    def wrong_waves(self) -> list[str]:
        if self.frequency_shift is None or self.dim is None or 0 <= self.frequency_shift < max(self.dim // 2, 1):
            return []
        return [f"frequency_shift = {self.frequency_shift} must be at least 0 and less than half of dim = {self.dim}"]

    @property
    def widths(self) -> tuple[int, ...]:
        """Channels of each level."""
        return tuple(self.dim * many for many in self.multipliers)

    @property
    def level_heads(self) -> tuple[int, ...]:
        return (self.heads,) * len(self.multipliers) if isinstance(self.heads, int) else tuple(self.heads)

    def sides(self, side: int) -> list[int]:
        """Rows, or columns, of each level, for an image of so many."""
        found = [side]
        for _ in self.multipliers[1:]:
            found.append((found[-1] + (self.padding == "both")) // 2)
        return found


SD2 = Config(image=96, heads=(5, 10, 20, 20), context=1024, projection="linear")
PRESETS = {
    "unet-sd1": Config(image=64),
    "unet-sd2": SD2,
    "unet-ddpm-cifar": Config(
        image=32, channels=3, out=3, dim=128, multipliers=(1, 2, 2, 2), attended=(1,), heads=1, context=0,
        padding="end", cosines_first=False, frequency_shift=1, eps=1e-6,
    ),
    "unet-tiny": Config(
        image=8, dim=24, multipliers=(1, 2), depth=1, attended=(0, 1), heads=2, context=64, norm_groups=8
    ),
}  # fmt: skip

AXES = {"*.mixer": ("{layer}", "{layer}"), "*.cross": ("{layer}", "text")}
Attended = SpatialTransformer | PixelAttention


@dataclass(frozen=True, eq=False)
class Told:
    """What every block is told beside the image."""

    time: Tensor  # (b, t)
    context: Tensor | None  # (b, m, d)
    mask: Mask  # of the context


class Step(nn.Module):
    """A residual block, and attention behind it at some levels."""

    def __init__(self, residual: TimedResidual, attention: Attended | None) -> None:
        super().__init__()
        self.residual, self.attention = residual, attention

    def forward(self, x: Tensor, told: Told) -> Tensor:
        """(b, c, h, w) -> (b, e, h, w)"""
        x = self.residual(x, told.time)
        return x if self.attention is None else self.attention(x, told.context, told.mask)


class Down(nn.Module):
    """A level on the way down. What each of its layers says is kept for the way up."""

    def __init__(self, steps: list[Step], halving: Halving | None) -> None:
        super().__init__()
        self.steps, self.halving = nn.ModuleList(steps), halving

    def forward(self, x: Tensor, told: Told, said: list[Tensor]) -> Tensor:
        """(b, c, h, w) -> (b, e, h/2, w/2)"""
        for step in self.steps:
            x = step(x, told)
            said.append(x)
        if self.halving is not None:
            x = self.halving(x)
            said.append(x)
        return x


class Up(nn.Module):
    """A level on the way up. Each of its blocks reads what was said last and not yet read, and thus of its size."""

    def __init__(self, steps: list[Step], doubling: Doubling | None) -> None:
        super().__init__()
        self.steps, self.doubling = nn.ModuleList(steps), doubling

    def forward(self, x: Tensor, told: Told, said: list[Tensor]) -> Tensor:
        """(b, c, h, w) -> (b, e, 2h, 2w)"""
        for step in self.steps:
            x = step(torch.cat((x, said.pop()), 1), told)
        return x if self.doubling is None else self.doubling(x, said[-1].shape[-2:])


class UNet(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        widths, last, depth = config.widths, len(config.widths) - 1, config.depth
        self.act = activation(config.activation)
        style = ConvolutionStyle(config.norm_groups, config.eps, self.act, config.dropout, 4 * config.dim)
        self.time = TimeEmbedding(
            config.dim, 4 * config.dim, self.act, cosines_first=config.cosines_first, shift=config.frequency_shift
        )
        self.stem = nn.Conv2d(config.channels, config.dim, 3, padding=1)
        layers = len(config.attended) * (2 * depth + 1) + 1
        choices = zip(layer_choices(config.attention, layers), layer_choices(config.cross, layers), strict=True)

        def step(before: int, level: int, attends: bool) -> Step:
            attention = self.attention(level, *next(choices)) if attends else None
            return Step(TimedResidual(before, widths[level], style), attention)

        said, x = [config.dim], config.dim  # channels of what the way up will read, and of what goes on
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        for level, dim in enumerate(widths):
            steps = [step(dim if i else x, level, level in config.attended) for i in range(depth)]
            halving, x = Halving(dim, config.padding) if level < last else None, dim
            said += [dim] * (depth + (level < last))
            self.down.append(Down(steps, halving))
        self.middle = nn.ModuleList([step(x, last, True), step(x, last, False)])
        for level, dim in reversed(list(enumerate(widths))):
            attends = level in config.attended
            steps = [step((dim if i else x) + said.pop(), level, attends) for i in range(depth + 1)]
            x = dim
            self.up.append(Up(steps, Doubling(dim) if level else None))
        self.norm = nn.GroupNorm(config.norm_groups, config.dim, config.eps)
        self.head = nn.Conv2d(config.dim, config.out, 3, padding=1)
        self.reset()

    def attention(self, level: int, choice: Choice, cross: Choice) -> Attended:
        config, dim, heads = self.config, self.config.widths[level], self.config.level_heads[level]
        length = None if config.image is None else config.sides(config.image)[level] ** 2
        if not config.context:
            mixer = build_mixer(choice, Site(dim=dim, heads=heads, length=length))
            return PixelAttention(dim, mixer, groups=config.norm_groups, eps=config.eps)
        beyond = Site(dim=dim, heads=heads, cross=True, context_dim=config.context, biases="o")
        block = Block(
            build_mixer(choice, Site(dim=dim, heads=heads, length=length, biases="o")),
            Gated(dim, 4 * dim, F.gelu, biases=True),
            lambda: PreNorm(nn.LayerNorm(dim, LAYER_EPS), Branch(dim)),
            cross=build_mixer(cross, beyond),
        )
        return SpatialTransformer(dim, block, groups=config.norm_groups, eps=NORM_EPS, projection=config.projection)

    def reset(self) -> None:
        """As the paper's code: each residual block begins as the identity, and the answer as zero."""
        for module in self.modules():
            if isinstance(module, TimedResidual):
                nn.init.zeros_(module.convolution2.weight)
                nn.init.zeros_(module.convolution2.bias)  # type: ignore[arg-type]
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)  # type: ignore[arg-type]

    def forward(
        self, noisy: Tensor, time: Tensor, context: Tensor | None = None, *, keys: Tensor | None = None
    ) -> Tensor:
        """(b, c, h, w), (b,), (b, m, d), (b, m) -> (b, out, h, w); sides that are no multiple of all halvings are
        rounded up on the way down, and found again on the way up"""
        mask = Mask(keys=None if context is None else fitted_keys(keys, context))
        told = Told(self.act(self.time(time)), context, mask)  # every block begins with the activation
        x = self.stem(noisy.contiguous(memory_format=torch.channels_last))
        said = [x]
        for level in self.down:
            x = level(x, told, said)
        for step in self.middle:
            x = step(x, told)
        for level in self.up:
            x = level(x, told, said)
        return self.head(self.act(self.norm(x)))

    def for_inference(self) -> None:
        """Weights with the channels of a pixel together, as the maps have them."""
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def axes(self, noisy: Tensor, time: Tensor | None = None, context: Tensor | None = None) -> dict[str, Axis]:
        """The pixels of each layer, by its name, and the words."""
        rows, columns = noisy.shape[-2:]
        grids = list(zip(self.config.sides(rows), self.config.sides(columns), strict=True))
        found: dict[str, Axis] = {}
        for name, module in self.named_modules():
            if isinstance(module, SpatialTransformer | PixelAttention):
                part, level, *_ = name.split(".")
                grid = grids[-1] if part == "middle" else (grids if part == "down" else grids[::-1])[int(level)]
                looks = ("block.mixer", "block.cross") if isinstance(module, SpatialTransformer) else ("mixer",)
                found |= {f"{name}.{look}": Axis("image", grid[0] * grid[1], grid=grid) for look in looks}
        return found | ({} if context is None else {"text": Axis("text", context.shape[1])})


def random_noise(config: Config, batch: int) -> dict[str, Tensor]:
    side = config.image or 8
    found = {"noisy": torch.randn(batch, config.channels, side, side, dtype=torch.float64)}
    found["time"] = torch.randint(1000, (batch,))
    return found | ({"context": torch.randn(batch, 5, config.context, dtype=torch.float64)} if config.context else {})


FAMILY = Family(
    config=Config,
    net=UNet,
    presets=PRESETS,
    axes=AXES,
    paper="Rombach et al. 2022, High-Resolution Image Synthesis with Latent Diffusion Models",
    link="https://arxiv.org/abs/2112.10752",
    takes=("noise",),
    tasks=("denoise",),
    verbs=no_verbs,
    example=lambda: Config(
        image=8, channels=2, out=2, dim=8, multipliers=(1, 2), depth=1, attended=(0, 1), heads=2, context=6,
        norm_groups=4,
    ),
    papers={"unet-ddpm-cifar": (
        "Ho et al. 2020, Denoising Diffusion Probabilistic Models", "https://arxiv.org/abs/2006.11239"
    )},
    inputs=random_noise,
)  # fmt: skip
