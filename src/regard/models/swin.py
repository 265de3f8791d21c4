"""Swin Transformer.

Swin Transformer: Hierarchical Vision Transformer using Shifted Windows (Liu et al., 2021),
https://arxiv.org/abs/2103.14030
Small patches look at those of their own window alone, in every other block of shifted windows; from stage to stage
2 x 2 neighbours are merged to one of twice the width, so that the last windows see the whole image.

Differs from the paper: what fills an image up to whole patches and windows is never looked at (its code does look).

Shapes: b batch, r rows, c columns of patches, d width, n positions at the end.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from regard.models.family import Family, Lens, classifier_verbs, has_head, last_stage
from regard.nn.axis import Axis
from regard.nn.block import Block
from regard.nn.config import (
    not_above_zero,
    not_at_least,
    not_divided,
    not_one_of,
    not_positive,
    not_same_stages,
    not_shares,
    refuse,
)
from regard.nn.dropout import Dropout
from regard.nn.embed import Patches
from regard.nn.feedforward import ACTIVATIONS
from regard.nn.initialization import start_truncated
from regard.nn.mechanisms import Choice, unknown_choices
from regard.nn.mixers.windows import window_axes
from regard.nn.positions import WindowBias, refit_tables
from regard.nn.pyramid import Stage, halved_side, join_neighbours, pad_to_patches
from regard.nn.residual import PreNorm
from regard.nn.vision_blocks import window_block


@dataclass(frozen=True, kw_only=True)
class Config:
    image: int = 224
    patch: int = 4
    channels: int = 3
    classes: int = 1000  # 0: no head, the pooled features come out
    dim: int = 96  # of the first stage; each further one has twice that of the one before
    depth: tuple[int, ...] = (2, 2, 6, 2)  # blocks of each stage
    heads: tuple[int, ...] = (3, 6, 12, 24)  # in each stage
    hidden: int = 384  # of the first stage; it grows as dim does
    window: int = 7
    dropout: float = 0.0
    attention_dropout: float = 0.0
    drop_path: float = 0.0  # of the last block; it grows from 0 with depth
    eps: float = 1e-5
    activation: str = "gelu"
    qkv_bias: bool = True
    attention: Choice = "softmax"  # within a window

    def __post_init__(self) -> None:
        refuse(
            not_positive(self, "image", "patch", "channels", "dim", "depth", "heads", "hidden", "window"),
            not_at_least(0, self, "classes"),
            not_above_zero(self, "eps"),
            not_shares(self, "dropout", "attention_dropout", "drop_path"),
            not_same_stages(self, "depth", "heads"),
            not_divided(self, "dim", "heads"),
            not_divided(self, "image", "patch"),
            not_one_of(ACTIVATIONS, self, "activation"),
            unknown_choices(self, "attention"),
        )


LARGE = Config(dim=192, depth=(2, 2, 18, 2), heads=(6, 12, 24, 48), hidden=768)
BASE = Config(dim=128, depth=(2, 2, 18, 2), heads=(4, 8, 16, 32), hidden=512)
PRESETS = {
    "swin-tiny": Config(),
    "swin-small": Config(depth=(2, 2, 18, 2)),
    "swin-base": BASE,
    "swin-base-384": replace(BASE, image=384, window=12),
    "swin-large": LARGE,
    "swin-large-384": replace(LARGE, image=384, window=12),
    "swin-cifar": Config(image=32, patch=2, classes=10, dim=32, depth=(2, 2, 2), heads=(2, 4, 8), hidden=128, window=4),
}

AXES = {"stages.*.mixer.attention": ("{layer}", "{layer}")}


class PatchMerging(nn.Module):
    """Patch merging: 2 x 2 neighbours become one position of twice the size (section 3.1)."""

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.norm, self.reduce = nn.LayerNorm(4 * dim, eps), nn.Linear(4 * dim, 2 * dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(b, r, c, d) -> (b, r/2, c/2, 2d)"""
        return self.reduce(self.norm(join_neighbours(x)))


class Swin(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.patch = Patches(config.patch, config.channels, config.dim)
        self.patch_norm, self.dropout = nn.LayerNorm(config.dim, config.eps), Dropout(config.dropout)
        self.stages = nn.ModuleList(
            Stage(
                PatchMerging(config.dim * 2 ** (stage - 1), config.eps) if stage else None,
                [self.block(stage, i) for i in range(depth)],
            )
            for stage, depth in enumerate(config.depth)
        )
        width = config.dim * 2 ** (len(config.depth) - 1)
        self.norm = nn.LayerNorm(width, config.eps)
        self.head = nn.Linear(width, config.classes) if config.classes else None
        start_truncated(self, 0.02)

    def block(self, stage: int, i: int) -> Block:
        config = self.config
        # a stage whose whole grid is smaller than a window needs a table for that grid alone
        window = min(config.window, halved_side(config.image // config.patch, stage))
        return window_block(
            config,
            stage,
            i,
            window=window,
            offsets=lambda: WindowBias(config.heads[stage], window, window),
            biases="qkvo" if config.qkv_bias else "o",
            residual=PreNorm,
        )

    def features(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, n, d)"""
        x = self.dropout(self.patch_norm(self.patch(pad_to_patches(images, self.config.patch))))
        for stage in self.stages:
            x = stage(x)
        return self.norm(x).flatten(1, 2)

    def forward(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, classes)"""
        return self.classified(self.features(images))

    def classified(self, features: Tensor) -> Tensor:
        """(b, n, d) -> (b, classes)"""
        x = features.mean(dim=1)
        return x if self.head is None else self.head(x)

    def axes(self, images: Tensor) -> dict[str, Axis]:
        """Of each layer: where its windows are."""
        return window_axes(self, images, self.config.patch)


@torch.no_grad()
def refit(net: Swin, *, image: int, window: int) -> Swin:
    """The same net for another image or window size, for fine-tuning: position-bias tables are interpolated."""
    new = Swin(replace(net.config, image=image, window=window)).to(net.patch.projection.weight)
    new.load_state_dict(refit_tables(net, new))
    return new.train(net.training)


FAMILY = Family(
    config=Config,
    net=Swin,
    presets=PRESETS,
    axes=AXES,
    paper="Liu et al. 2021, Swin Transformer",
    link="https://arxiv.org/abs/2103.14030",
    takes=("image",),
    tasks=("classify",),
    verbs=classifier_verbs,
    example=lambda: Config(image=8, channels=3, classes=5, dim=16, depth=(2, 2), heads=(4, 4), hidden=24),
    lens=Lens(last_stage, lambda net, x: net.classified(net.norm(x).flatten(1, 2)), has_head),
    offered={"swin-cifar": 567_046},
)
