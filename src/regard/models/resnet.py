"""Residual networks, and the small convolutional net to compare with.

Deep Residual Learning for Image Recognition (He, Zhang, Ren and Sun, 2016), https://arxiv.org/abs/1512.03385
    y = relu(x + F(x))
A layer says only what to add to what it got; so a hundred of them can be trained. ``layer = "plain"`` is a net without
that, one convolution after the other (LeCun et al., 1998, https://doi.org/10.1109/5.726791).

Differs from the paper: where a stage halves the image, a shortcut is a projection (its option B), and a bottleneck
halves in its 3x3 convolution, as all published weights do; ``halving = "first"`` is the paper's place. ``stem =
"small"``, one 3x3 convolution, is its net for images of 32 x 32 (section 4.2). Non-local blocks (Wang et al., 2018) may
follow stages. ``last = "dilated"`` is DC5 of DETR: the last stage keeps the size of the map (Yu and Koltun, 2016,
https://arxiv.org/abs/1511.07122).

Shapes: b batch, d channels of a stage, h rows and w columns of a map, c classes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.family import Family, classifier_verbs
from regard.nn.axis import Axis
from regard.nn.batchnorm import BatchNorm
from regard.nn.config import not_at_least, not_positive, not_same_stages, refuse
from regard.nn.convolution import Convolution, LayerWindow, Norm, fitted_sizes, halved_sizes, zero_beyond
from regard.nn.mixers.non_local import Form, NonLocal

POOL = LayerWindow(3, 2)  # behind the stem for large images


@dataclass(frozen=True, kw_only=True)
class ResNetSizes:
    """Sizes of the convolutions, without the head."""

    channels: int = 3
    width: int = 64  # of the stem
    stem: Literal["large", "small"] = "large"  # 7x7 and a pooling, each halving the image; or 3x3
    layer: Literal["plain", "basic", "bottleneck"] = "bottleneck"
    depths: tuple[int, ...] = (3, 4, 6, 3)  # layers of each stage; all stages but the first halve the image
    dims: tuple[int, ...] = (256, 512, 1024, 2048)  # their channels
    halving: Literal["first", "middle"] = "middle"  # which convolution of a bottleneck
    last: Literal["halving", "dilated"] = "halving"  # stage: a dilated one keeps its size and looks twice as far

    def wrong(self) -> list[str]:
        return [*not_positive(self, "channels", "width", "depths", "dims"), *not_same_stages(self, "depths", "dims")]

    @property
    def stride(self) -> int:
        """Ratio of the image size to the size of the last feature map."""
        return (4 if self.stem == "large" else 1) * math.prod(self.stride_of(i) for i in range(len(self.depths)))

    def dilated(self, stage: int) -> bool:
        return self.last == "dilated" and stage == len(self.depths) - 1

    def stride_of(self, stage: int) -> int:
        return 2 if stage and not self.dilated(stage) else 1


@dataclass(frozen=True, kw_only=True)
class Config(ResNetSizes):
    classes: int = 1000  # 0: no head, the pooled features come out
    nonlocals: tuple[int, ...] = ()  # stages, the first is 1, that end with a non-local block
    form: Form = "embedded"
    subsample: int = 1  # of keys and values there: the largest of each square of so many pixels a side

    def __post_init__(self) -> None:
        found = self.wrong()
        if self.nonlocals and self.depths and not set(self.nonlocals) <= set(range(1, len(self.depths) + 1)):
            found.append(f"nonlocals = {list(self.nonlocals)} must name stages from 1 to {len(self.depths)}")
        refuse(found, not_at_least(0, self, "classes"), not_positive(self, "subsample"))


PRESETS = {
    "resnet-18": Config(layer="basic", depths=(2, 2, 2, 2), dims=(64, 128, 256, 512)),
    "resnet-34": Config(layer="basic", depths=(3, 4, 6, 3), dims=(64, 128, 256, 512)),
    "resnet-50": Config(),
    "resnet-101": Config(depths=(3, 4, 23, 3)),
    "resnet-152": Config(depths=(3, 8, 36, 3)),
    "resnet-20": Config(width=16, stem="small", layer="basic", depths=(3, 3, 3), dims=(16, 32, 64), classes=10),
    "cnn-small": Config(width=32, stem="small", layer="plain", depths=(1, 2, 2), dims=(32, 64, 128), classes=10),
}
LECUN = (
    "LeCun et al. 1998, Gradient-Based Learning Applied to Document Recognition",
    "https://doi.org/10.1109/5.726791",
)
PAPERS = {"cnn-small": LECUN}

AXES = {"backbone.stages.*.non_local.attention": ("pixels", "pixels")}


class ResNetLayer(nn.Module):
    """One residual layer of a stage: its convolutions and their shortcut, unless the net is plain."""

    def __init__(
        self, config: ResNetSizes, dim: int, out: int, stride: int, norm: Norm, reach: tuple[int, int]
    ) -> None:
        """``reach`` is the dilation of the first 3x3 convolution and of the one behind it."""
        super().__init__()
        inner, (near, far) = max(out // 4, 1), reach
        first, middle = (stride, 1) if config.halving == "first" else (1, stride)
        shapes = {
            "plain": [(dim, out, 3, stride, near)],
            "basic": [(dim, out, 3, stride, near), (out, out, 3, 1, far)],
            "bottleneck": [(dim, inner, 1, first, 1), (inner, inner, 3, middle, near), (inner, out, 1, 1, 1)],
        }[config.layer]
        self.convolutions = nn.ModuleList(Convolution(*shape[:3], norm, *shape[3:]) for shape in shapes)
        self.strides = [shape[3] for shape in shapes]
        self.adds = config.layer != "plain"
        changed = self.adds and (dim != out or stride != 1)
        self.shortcut = Convolution(dim, out, 1, norm, stride) if changed else None

    def forward(self, x: Tensor, sizes: Tensor | None = None) -> Tensor:
        """(b, d, h, w) -> (b, out, h/stride, w/stride)"""
        y, inner = x, sizes
        for i, (convolution, stride) in enumerate(zip(self.convolutions, self.strides, strict=True)):
            y = convolution(F.relu(y) if i else y, inner)
            inner = halved_sizes(inner, stride)
        if self.adds:
            y = y + (x if self.shortcut is None else self.shortcut(x, sizes))
        return F.relu(y)


class ResNetStage(nn.Module):
    """One stage: layers of the same width, of which the first may downsample, and an optional non-local block."""

    def __init__(self, layers: list[ResNetLayer], stride: int, look: NonLocal | None) -> None:
        super().__init__()
        self.layers, self.stride = nn.ModuleList(layers), stride
        self.non_local = look

    def forward(self, x: Tensor, sizes: Tensor | None = None) -> Tensor:
        """(b, d, h, w) -> (b, out, h/stride, w/stride)"""
        for i, layer in enumerate(self.layers):
            x = layer(x, sizes)
            sizes = halved_sizes(sizes, 1 if i else self.stride)
        return x if self.non_local is None else self.non_local(x, sizes)


class Backbone(nn.Module):
    """The backbone: all convolutions. With a frozen norm and ``sizes`` it supports batches of images of several sizes,
    as in DETR."""

    def __init__(
        self, config: ResNetSizes, norm: Norm = BatchNorm, looks: Mapping[int, NonLocal] = MappingProxyType({})
    ):
        super().__init__()
        self.config = config
        large = config.stem == "large"
        self.stem = Convolution(config.channels, config.width, 7 if large else 3, norm, 2 if large else 1)
        stages, dim = [], config.width
        for i, (depth, out) in enumerate(zip(config.depths, config.dims, strict=True)):
            stride, far = config.stride_of(i), 2 if config.dilated(i) else 1
            first = ResNetLayer(
                config, dim, out, stride, norm, (1, far)
            )  # what comes in is not yet twice as fine as usual
            others = [ResNetLayer(config, out, out, 1, norm, (far, far)) for _ in range(depth - 1)]
            stages.append(ResNetStage([first, *others], stride, looks.get(i + 1)))
            dim = out
        self.stages = nn.ModuleList(stages)

    def forward(self, images: Tensor, sizes: Tensor | None = None) -> Tensor:
        """(b, channels, height, width) -> (b, d, h, w), zeros where there was padding"""
        if images.shape[1] != self.config.channels or 0 in images.shape[2:]:
            got = " x ".join(map(str, images.shape[1:]))
            raise ValueError(f"an image of {got} is not supported, expected {self.config.channels} channels")
        sizes = fitted_sizes(sizes, images)
        x = F.relu(self.stem(zero_beyond(images, sizes), sizes))
        sizes = halved_sizes(sizes, self.stem.window.stride)
        if self.config.stem == "large":  # nothing here is below 0, so the zeros at padding never win
            sizes = halved_sizes(sizes, POOL.stride)
            x = zero_beyond(F.max_pool2d(x, POOL.kernel, POOL.stride, POOL.kernel // 2), sizes)
        for i, stage in enumerate(self.stages):
            x = stage(x, sizes)
            sizes = halved_sizes(sizes, self.config.stride_of(i))
        return x

    def windows(self) -> list[LayerWindow]:
        """Of the longest way through, for ``receptive_field``; a non-local block sees everything."""
        layers = [layer for stage in self.stages for layer in stage.layers]  # type: ignore[union-attr]
        inner = [convolution.window for layer in layers for convolution in layer.convolutions]
        return [self.stem.window, *([POOL] if self.config.stem == "large" else []), *inner]


class ResNet(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        looks = {i: NonLocal(config.dims[i - 1], config.form, config.subsample) for i in config.nonlocals}
        self.backbone = Backbone(config, BatchNorm, looks)
        self.head = nn.Linear(config.dims[-1], config.classes) if config.classes else None

    def features(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, d, h, w)"""
        maps: Tensor = self.backbone(images)
        return maps

    def forward(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> logits (b, c), for images of any size"""
        x = self.features(images).mean(dim=(2, 3))
        return x if self.head is None else self.head(x)

    def axes(self, images: Tensor) -> dict[str, Axis]:
        return {}  # each stage has a grid of its own


FAMILY = Family(
    config=Config,
    net=ResNet,
    presets=PRESETS,
    axes=AXES,
    paper="He et al. 2016, Deep Residual Learning for Image Recognition",
    link="https://arxiv.org/abs/1512.03385",
    takes=("image",),
    tasks=("classify",),
    verbs=classifier_verbs,
    example=lambda: Config(
        channels=3, width=6, stem="small", layer="basic", depths=(1, 2), dims=(8, 12), classes=5, nonlocals=(2,)
    ),
    papers=PAPERS,
)
