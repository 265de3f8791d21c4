"""LeViT.

LeViT: a Vision Transformer in ConvNet's Clothing for Faster Inference (Graham et al., 2021),
https://arxiv.org/abs/2104.01136
Convolutions make few patches, and from stage to stage an attention of every other row and column to all makes fewer. A
learned number for each distance stands for positions, batch norms that inference folds away for all other norms.

Differs from the paper: ``patch`` may be less than its 16, one convolution fewer for each halving, for small images.

Shapes: b batch, r rows, c columns, d width, n positions at the end.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.deit import DeiTOutput
from regard.models.family import Family, Lens, classifier_verbs, has_head, last_stage
from regard.nn.attention import Mixer, MultiHeadAttention
from regard.nn.axis import Axis
from regard.nn.batchnorm import BatchNorm
from regard.nn.block import Block
from regard.nn.cache import Cache
from regard.nn.config import not_at_least, not_divided, not_positive, not_same_stages, not_shares, refuse
from regard.nn.convolution import Convolution
from regard.nn.feedforward import FeedForward
from regard.nn.folding import NormThenLinear, with_norms
from regard.nn.initialization import truncated_normal
from regard.nn.mask import ALL, Bias, Mask, TensorBias
from regard.nn.mechanisms import Choice, build_mixer, layer_choices, unknown_choices
from regard.nn.positions import OffsetBias
from regard.nn.pyramid import Stage, halved_side
from regard.nn.residual import Branch, PreNorm
from regard.nn.site import Site


@dataclass(frozen=True, kw_only=True)
class Config:
    image: int = 224
    patch: int = 16  # a power of 2: one convolution for each halving
    channels: int = 3
    classes: int = 1000  # 0: no head, the pooled features come out
    distilled: bool = True  # a second head, which learns from a teacher
    dim: tuple[int, ...] = (128, 256, 384)  # of each stage
    depth: tuple[int, ...] = (2, 3, 4)
    heads: tuple[int, ...] = (4, 6, 8)
    head_dim: int = 16  # of queries and keys; values are twice as wide, and four times where the grid shrinks
    hidden: tuple[int, ...] = (256, 512, 768)
    drop_path: float = 0.0
    attention: Choice = "softmax"  # of the blocks; where the grid shrinks it is always softmax

    def __post_init__(self) -> None:
        refuse(
            not_positive(self, "image", "patch", "channels", "dim", "depth", "heads", "head_dim", "hidden"),
            not_at_least(0, self, "classes"),
            not_shares(self, "drop_path"),
            not_same_stages(self, "dim", "depth", "heads", "hidden"),
            not_divided(self, "image", "patch"),
            not_halved(self.patch),
            unknown_choices(self, "attention"),
        )


def not_halved(patch: int | None) -> list[str]:
    right = patch is None or patch < 1 or (patch > 1 and patch & (patch - 1) == 0)
    return [] if right else [f"patch = {patch} is not a power of 2 of at least 2"]


PRESETS = {
    "levit-128s": Config(),
    "levit-128": Config(depth=(4, 4, 4), heads=(4, 8, 12)),
    "levit-192": Config(dim=(192, 288, 384), depth=(4, 4, 4), heads=(3, 5, 6), head_dim=32, hidden=(384, 576, 768)),
    "levit-256": Config(dim=(256, 384, 512), depth=(4, 4, 4), heads=(4, 6, 8), head_dim=32, hidden=(512, 768, 1024)),
    "levit-384": Config(dim=(384, 512, 768), depth=(4, 4, 4), heads=(6, 9, 12), head_dim=32, hidden=(768, 1024, 1536)),
    "levit-cifar": Config(
        image=32,
        patch=4,
        classes=10,
        distilled=False,
        dim=(96, 128, 192),
        depth=(2, 2, 2),
        heads=(3, 4, 6),
        hidden=(192, 256, 384),
    ),
}

AXES = {
    "stages.*.shrink.look.attention": ("{layer} rows", "{layer} columns"),
    "stages.*.mixer.attention": ("{layer}", "{layer}"),
}


class Looking(Mixer):
    """Attention over a grid with a learned bias for each distance: each projection has a batch norm, and an activation
    follows the heads (section 4.2). (b, r, c, d) -> (b, r, c, d)

    With a ``stride``, every so many rows and columns look at all: (b, r, c, d) -> (b, r/stride, c/stride, d')
    A mixer without queries, keys and values is taken as it is.
    """

    def __init__(self, attention: Mixer, heads: int, side: int, stride: int = 1) -> None:
        super().__init__()
        self.attention = attention
        if isinstance(attention, MultiHeadAttention):
            with_norms(attention, "q", "k", "v", "out")
        self.offsets, self.stride = OffsetBias(heads, side, side), stride

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        mask: Mask = ALL,
        bias: Bias | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        if context is not None or mask is not ALL or bias is not None or cache is not None:
            raise ValueError(
                "LeViT attention runs over one complete grid: it does not support a context, mask, bias or cache"
            )
        asking, rows, columns = x[:, :: self.stride, :: self.stride], x.shape[1], x.shape[2]
        keys, bias = x.flatten(1, 2), TensorBias(self.offsets(rows, columns, self.stride))
        if not isinstance(self.attention, MultiHeadAttention):
            return self.attention(keys, bias=bias).unflatten(1, (rows, columns))
        q, k, v = self.attention.project(keys if self.stride == 1 else asking.flatten(1, 2), keys, keys)
        y = self.attention.attend(q, k, v, bias=bias)
        return self.attention.merge(F.hardswish(y)).unflatten(1, asking.shape[1:3])


class Shrink(nn.Module):
    """Shrinking attention: every other row and column attends to all, without a residual, then a feed-forward with
    one."""

    def __init__(self, look: Looking, ffn: FeedForward, residual: PreNorm) -> None:
        super().__init__()
        self.look, self.ffn, self.ffn_residual = look, ffn, residual

    def forward(self, x: Tensor) -> Tensor:
        """(b, r, c, d) -> (b, r/2, c/2, d')"""
        return self.ffn_residual(self.look(x), self.ffn)


class LeViT(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        halvings = config.patch.bit_length() - 1
        if config.dim[0] % 2 ** (halvings - 1):
            raise ValueError(
                f"dim[0] = {config.dim[0]} cannot be halved {halvings - 1} times, as the convolutional stem requires"
            )
        widths = [config.channels, *(config.dim[0] >> i for i in reversed(range(halvings)))]
        self.stem = nn.ModuleList(Convolution(a, b, 3, BatchNorm, stride=2) for a, b in pairwise(widths))
        self.stages = nn.ModuleList(
            Stage(self.shrink(stage) if stage else None, [self.block(stage, i) for i in range(depth)])
            for stage, depth in enumerate(config.depth)
        )
        self.head = NormThenLinear(nn.Linear(config.dim[-1], config.classes)) if config.classes else None
        second = config.classes and config.distilled
        self.teacher_head = NormThenLinear(nn.Linear(config.dim[-1], config.classes)) if second else None
        self.reset()

    def side(self, stage: int) -> int:
        return halved_side(self.config.image // self.config.patch, stage)

    def block(self, stage: int, i: int) -> Block:
        config = self.config
        site = Site(
            dim=config.dim[stage],
            heads=config.heads[stage],
            head_dim=config.head_dim,
            value_dim=2 * config.head_dim,
            length=self.side(stage) ** 2,
            biased=True,
            biases="",
        )
        choice = layer_choices(config.attention, sum(config.depth))[sum(config.depth[:stage]) + i]
        looking = Looking(build_mixer(choice, site), site.heads, self.side(stage))
        return Block(looking, self.ffn(stage), lambda: self.skip(stage))

    def shrink(self, stage: int) -> Shrink:
        config = self.config
        dim, width = config.dim[stage - 1], config.head_dim
        attention = MultiHeadAttention(dim, max(dim // width, 1), head_dim=width, value_dim=4 * width, biases="")
        attention.out = nn.Linear(attention.out.in_features, config.dim[stage], bias=False)
        return Shrink(
            Looking(attention, attention.heads, self.side(stage - 1), stride=2), self.ffn(stage), self.skip(stage)
        )

    def ffn(self, stage: int) -> FeedForward:
        return with_norms(
            FeedForward(self.config.dim[stage], self.config.hidden[stage], F.hardswish, biases=False), "up", "down"
        )

    def skip(self, stage: int) -> PreNorm:
        """x + f(x): the norms are within f."""
        return PreNorm(nn.Identity(), Branch(self.config.dim[stage], drop_path=self.config.drop_path))

    def reset(self) -> None:
        """Initialise as in the paper: every residual branch starts at zero (section 4.2)."""
        for module in self.modules():
            if isinstance(module, Looking) and module.stride == 1 and isinstance(module.attention, MultiHeadAttention):
                nn.init.zeros_(module.get_parameter("attention.out.norm.weight"))
            if isinstance(module, Block | Shrink):
                nn.init.zeros_(module.get_parameter("ffn.down.norm.weight"))
            if isinstance(module, NormThenLinear):
                truncated_normal(module.linear.weight)
                nn.init.zeros_(module.linear.bias)

    def features(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, n, d)"""
        if not images.shape[-2] or not images.shape[-1]:
            raise ValueError(f"an image of {images.shape[-2]} x {images.shape[-1]} has no pixels")
        x = images
        for i, convolution in enumerate(self.stem):
            x = convolution(F.hardswish(x) if i else x)
        x = x.movedim(1, -1)
        for stage in self.stages:
            x = stage(x)
        return x.flatten(1, 2)

    def forward(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> logits (b, classes); with two heads, their mean"""
        return self.classified(self.features(images))

    def classified(self, features: Tensor) -> Tensor:
        """(b, n, d) -> (b, classes)"""
        x = features.mean(dim=1)
        if self.head is None:
            return x
        return self.head(x) if self.teacher_head is None else (self.head(x) + self.teacher_head(x)) / 2

    def answers(self, images: Tensor) -> DeiTOutput:
        """The logits of each head, for training with distillation."""
        if self.head is None or self.teacher_head is None:
            raise ValueError("this LeViT was built without distillation: it has no second head")
        x = self.features(images).mean(dim=1)
        return DeiTOutput(self.head(x), self.teacher_head(x))

    def axes(self, images: Tensor) -> dict[str, Axis]:
        """Of each layer: its grid, and of those that shrink it the coarser one of their rows."""
        found: dict[str, Axis] = {}
        for stage, depth in enumerate(self.config.depth):
            here = self.grid(images, stage)
            if stage:
                name = f"stages.{stage}.shrink.look.attention"
                found |= {f"{name} rows": here, f"{name} columns": self.grid(images, stage - 1)}
            found |= {f"stages.{stage}.blocks.{i}.mixer.attention": here for i in range(depth)}
        return found

    def grid(self, images: Tensor, stage: int) -> Axis:
        rows, columns = (halved_side(-(-side // self.config.patch), stage) for side in images.shape[-2:])
        return Axis("image", rows * columns, grid=(rows, columns))


FAMILY = Family(
    config=Config,
    net=LeViT,
    presets=PRESETS,
    axes=AXES,
    paper="Graham et al. 2021, LeViT",
    link="https://arxiv.org/abs/2104.01136",
    takes=("image",),
    tasks=("classify",),
    verbs=classifier_verbs,
    example=lambda: Config(
        image=8, patch=4, channels=3, classes=5, dim=(16, 16), depth=(2, 2), heads=(4, 4), head_dim=4, hidden=(24, 24)
    ),
    lens=Lens(last_stage, lambda net, x: net.classified(x.flatten(1, 2)), has_head),
    offered={"levit-cifar": 1_450_218},
)
