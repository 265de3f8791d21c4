"""Swin Transformer V2.

Swin Transformer V2: Scaling Up Capacity and Resolution (Liu et al., 2022), https://arxiv.org/abs/2111.09883
Swin, so that it can grow: what a branch says is normed before it is added, so that activations stay small at any depth;
scores are cosines; and a small network tells the bias of any offset, so that windows may grow after training.

Differs from the paper: what fills an image up to whole patches and windows is never looked at (its code does look).

Shapes: b batch, r rows, c columns of patches, d width, n positions at the end.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from regard.errors import InputError
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
from regard.nn.positions import LogBias
from regard.nn.pyramid import Stage, halved_side, join_neighbours, pad_to_patches
from regard.nn.residual import ResPost
from regard.nn.vision_blocks import window_block


@dataclass(frozen=True, kw_only=True)
class Config:
    image: int = 256
    patch: int = 4
    channels: int = 3
    classes: int = 1000  # 0: no head, the pooled features come out
    dim: int = 96  # of the first stage; each further one has twice that of the one before
    depth: tuple[int, ...] = (2, 2, 6, 2)  # blocks of each stage
    heads: tuple[int, ...] = (3, 6, 12, 24)  # in each stage
    hidden: int = 384  # of the first stage; it grows as dim does
    window: int = 8
    trained: tuple[int, ...] | None = None  # the windows of each stage in an earlier training, if they were others
    every: int | None = None  # one more norm after every so many blocks of a stage (the largest models)
    dropout: float = 0.0
    attention_dropout: float = 0.0
    drop_path: float = 0.0  # of the last block; it grows from 0 with depth
    eps: float = 1e-5
    activation: str = "gelu"
    qkv_bias: bool = True  # keys have none
    attention: Choice = "cosine"  # within a window

    def __post_init__(self) -> None:
        refuse(
            not_positive(self, "image", "patch", "channels", "dim", "depth", "heads", "hidden", "window"),
            not_positive(self, "trained", "every"),
            not_at_least(0, self, "classes"),
            not_above_zero(self, "eps"),
            not_shares(self, "dropout", "attention_dropout", "drop_path"),
            not_same_stages(self, "depth", "heads", "trained"),
            not_divided(self, "dim", "heads"),
            not_divided(self, "image", "patch"),
            not_one_of(ACTIVATIONS, self, "activation"),
            unknown_choices(self, "attention"),
        )

    def measure(self, stage: int) -> int:
        """The window by which the offsets of a stage are measured."""
        return self.trained[stage] if self.trained else self.side(stage)

    def side(self, stage: int) -> int:
        """of the windows of a stage: a grid that is smaller than a window is one"""
        return min(self.window, halved_side(self.image // self.patch, stage))


BASE = Config(dim=128, depth=(2, 2, 18, 2), heads=(4, 8, 16, 32), hidden=512)
LARGE = Config(dim=192, depth=(2, 2, 18, 2), heads=(6, 12, 24, 48), hidden=768)
PRESETS = {
    "swinv2-tiny": Config(),
    "swinv2-small": Config(depth=(2, 2, 18, 2)),
    "swinv2-base": BASE,
    "swinv2-large": replace(LARGE, image=192, window=12),
    "swinv2-large-384": replace(LARGE, image=384, window=24, trained=(12, 12, 12, 6)),
    "swinv2-huge": Config(
        image=192, window=12, dim=352, depth=(2, 2, 18, 2), heads=(11, 22, 44, 88), hidden=1408, every=6
    ),
    "swinv2-giant": Config(
        image=192, window=12, dim=512, depth=(2, 2, 42, 4), heads=(16, 32, 64, 128), hidden=2048, every=6
    ),
}

AXES = {"stages.*.mixer.attention": ("{layer}", "{layer}")}


class PatchMergingV2(nn.Module):
    """Patch merging of Swin v2: 2 x 2 neighbours become one position of twice the size, followed by the norm."""

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.reduce, self.norm = nn.Linear(4 * dim, 2 * dim, bias=False), nn.LayerNorm(2 * dim, eps)

    def forward(self, x: Tensor) -> Tensor:
        """(b, r, c, d) -> (b, r/2, c/2, 2d)"""
        return self.norm(self.reduce(join_neighbours(x)))


class SwinV2(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.patch = Patches(config.patch, config.channels, config.dim)
        self.patch_norm, self.dropout = nn.LayerNorm(config.dim, config.eps), Dropout(config.dropout)
        self.stages = nn.ModuleList(
            Stage(PatchMergingV2(config.dim * 2 ** (stage - 1), config.eps) if stage else None, self.blocks(stage))
            for stage in range(len(config.depth))
        )
        width = config.dim * 2 ** (len(config.depth) - 1)
        self.norm = nn.LayerNorm(width, config.eps)
        self.head = nn.Linear(width, config.classes) if config.classes else None
        self.reset()

    def blocks(self, stage: int) -> list[nn.Module]:
        config, found = self.config, list[nn.Module]()
        for i in range(config.depth[stage]):
            found.append(self.block(stage, i))
            if config.every and (i + 1) % config.every == 0:
                found.append(nn.LayerNorm(config.dim * 2**stage, config.eps))
        return found

    def block(self, stage: int, i: int) -> Block:
        config = self.config
        window = config.side(stage)
        return window_block(
            config,
            stage,
            i,
            window=window,
            offsets=lambda: LogBias(config.heads[stage], config.measure(stage)),
            biases="qvo" if config.qkv_bias else "o",
            residual=ResPost,
        )

    def reset(self) -> None:
        """Initialise as in the paper's code: every residual branch starts at zero, as its final norm is zero."""
        start_truncated(self, 0.02)
        for module in self.modules():
            if isinstance(module, ResPost):
                nn.init.zeros_(module.norm.weight)  # type: ignore[arg-type]

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


def refit(net: SwinV2, *, image: int, window: int) -> SwinV2:
    """The same net for other images and windows, without training: offsets are measured as before."""
    config = net.config
    measures = tuple(config.measure(stage) for stage in range(len(config.depth)))
    new = SwinV2(replace(config, image=image, window=window, trained=measures)).to(net.patch.projection.weight)
    new.load_state_dict(net.state_dict())
    return new.train(net.training)


def unbroken(net: SwinV2) -> str:
    """The last stage, if there are only residual sums between its blocks (for the logit lens)."""
    config = net.config
    if config.every is not None and config.depth[-1] >= config.every:
        raise InputError(
            "the logit lens does not support a norm after some blocks of the last stage, as this model has",
            got=f"every = {config.every}, {config.depth[-1]} blocks",
        )
    return last_stage(net)


def reconfigured(config: Config, changes: Mapping[str, Any]) -> Config:
    """The config for another image or window, with offsets scaled by the windows of the training."""
    if {"image", "window"} & changes.keys() and "trained" not in changes:
        changes = {**changes, "trained": tuple(config.measure(stage) for stage in range(len(config.depth)))}
    return replace(config, **changes)


FAMILY = Family(
    config=Config,
    net=SwinV2,
    presets=PRESETS,
    axes=AXES,
    paper="Liu et al. 2022, Swin Transformer V2",
    link="https://arxiv.org/abs/2111.09883",
    takes=("image",),
    tasks=("classify",),
    verbs=classifier_verbs,
    example=lambda: Config(image=8, channels=3, classes=5, dim=16, depth=(2, 2), heads=(4, 4), hidden=24),
    lens=Lens(unbroken, lambda net, x: net.classified(net.norm(x).flatten(1, 2)), has_head),
    offered={"swinv2-tiny": 28_347_154},
    reconfigured=reconfigured,
)
