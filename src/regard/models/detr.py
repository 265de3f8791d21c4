"""DETR.

End-to-End Object Detection with Transformers (Carion et al., 2020), https://arxiv.org/abs/2005.12872
A convolutional net makes a small map of the image; an encoder lets its pixels look at each other; a decoder asks the
map with a few learned queries, each of which says: a box and its class, or that there is nothing. What belongs to which
object is settled by matching (``tasks/detecting.py``), so there are no anchors and nothing is suppressed afterwards.

Differs from the paper: padding is zero after every convolution and no key, so that an image in a padded batch gets the
numbers that it gets alone.

Shapes: b batch, h rows and w columns of the map, n = h*w of its pixels, q queries, d width, c classes.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.models.family import Family
from regard.models.resnet import Backbone, ResNetSizes
from regard.nn.attention import MultiHeadAttention, Softmax, zero_padding
from regard.nn.axis import Axis
from regard.nn.batchnorm import BatchNorm, FrozenBatchNorm
from regard.nn.config import not_above_zero, not_divided, not_one_of, not_positive, not_shares, refuse
from regard.nn.convolution import halved_sizes, real_pixels
from regard.nn.feedforward import ACTIVATIONS, FeedForward, activation
from regard.nn.mask import ALL, Mask
from regard.nn.residual import Branch, PostNorm
from regard.nn.tap import Tap


@dataclass(frozen=True, kw_only=True)
class Config(ResNetSizes):
    classes: int = 91  # besides "nothing"; COCO's numbers of classes go up to 90
    queries: int = 100
    dim: int = 256
    depth: int = 6
    decoder_depth: int | None = None  # as the encoder's unless given
    heads: int = 8
    hidden: int = 2048
    dropout: float = 0.1
    attention_dropout: float = 0.1
    hidden_dropout: float = 0.1  # between the two layers of a feed-forward
    eps: float = 1e-5
    activation: str = "relu"
    backbone_norm: Literal["frozen", "batch"] = "frozen"  # a backbone without trained weights needs "batch"

    def __post_init__(self) -> None:
        odd = self.dim is not None and self.dim % 4 != 0
        refuse(
            self.wrong(),
            not_positive(self, "classes", "queries", "dim", "depth", "decoder_depth", "heads", "hidden"),
            not_above_zero(self, "eps"),
            not_shares(self, "dropout", "attention_dropout", "hidden_dropout"),
            not_divided(self, "dim", "heads"),
            [f"dim = {self.dim} is not a multiple of 4, which the 2-D sine positions require"] if odd else [],
            not_one_of(ACTIVATIONS, self, "activation"),
        )
        if self.decoder_depth == self.depth:  # one way to say it
            object.__setattr__(self, "decoder_depth", None)


PRESETS = {
    "detr-resnet-50": Config(),
    "detr-resnet-101": Config(depths=(3, 4, 23, 3)),
    "detr-resnet-50-dc5": Config(last="dilated"),
    "detr-resnet-101-dc5": Config(depths=(3, 4, 23, 3), last="dilated"),
    "detr-small": Config(
        width=32, layer="basic", depths=(1, 1), dims=(32, 64), classes=3, queries=10,
        dim=64, depth=2, heads=4, hidden=128, dropout=0.0, attention_dropout=0.0, hidden_dropout=0.0,
        backbone_norm="batch",
    ),
}  # fmt: skip

AXES = {
    "encoder.*.mixer": ("pixels", "pixels"),
    "decoder.*.mixer": ("queries", "queries"),
    "decoder.*.cross": ("queries", "pixels"),
}


@dataclass(frozen=True, eq=False)
class DETROutput:
    """Class logits and boxes of each query; ``earlier`` is the output after each layer before the last."""

    logits: Tensor  # (b, q, c + 1), the last of them for "nothing"
    boxes: Tensor  # (b, q, 4): centre x, centre y, width, height, as shares of the image
    earlier: tuple["DETROutput", ...] = ()


class DETRLayer(nn.Module):
    """A post-norm block in which positions are added to queries and keys in every layer, and never to values."""

    def __init__(self, config: Config, *, asks: bool) -> None:
        super().__init__()
        self.mixer, self.mixer_residual = self.attention(config), self.residual(config)
        self.cross = self.attention(config) if asks else None
        self.cross_residual = self.residual(config) if asks else None
        act = activation(config.activation)
        self.ffn = FeedForward(config.dim, config.hidden, act, dropout=config.hidden_dropout)
        self.ffn_residual = self.residual(config)
        self.stream = Tap()

    def attention(self, config: Config) -> MultiHeadAttention:
        return MultiHeadAttention(config.dim, config.heads, kernel=Softmax(config.attention_dropout))

    def residual(self, config: Config) -> PostNorm:
        return PostNorm(nn.LayerNorm(config.dim, config.eps), Branch(config.dim, dropout=config.dropout))

    def forward(
        self, x: Tensor, places: Tensor, mask: Mask, memory: Tensor | None = None, where: Tensor | None = None
    ) -> Tensor:
        """(b, m, d), (b, m, d) -> (b, m, d); a decoder layer attends to memory and its positions, (b, n, d), under the
        mask"""
        if self.cross is None or self.cross_residual is None or memory is None or where is None:
            x = self.mixer_residual(x, lambda y: look(self.mixer, y, places, y, places, mask))
        else:
            cross = self.cross
            x = self.mixer_residual(x, lambda y: look(self.mixer, y, places, y, places, ALL))
            x = self.cross_residual(x, lambda y: look(cross, y, places, memory, where, mask))
        return self.stream(self.ffn_residual(x, self.ffn))


def look(
    attention: MultiHeadAttention, x: Tensor, places: Tensor, context: Tensor, where: Tensor, mask: Mask
) -> Tensor:
    """(b, m, d), (b, m, d), (b, n, d), (b, n, d) -> (b, m, d)"""
    q, k, v = attention.project(x + places, context + where, context)
    return attention.merge(attention.attend(q, k, v, mask))


class DETR(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.backbone = Backbone(config, FrozenBatchNorm if config.backbone_norm == "frozen" else BatchNorm)
        self.input = nn.Conv2d(config.dims[-1], config.dim, 1)
        self.queries = nn.Parameter(torch.empty(config.queries, config.dim))
        decoder_depth = config.depth if config.decoder_depth is None else config.decoder_depth
        self.encoder = nn.ModuleList(DETRLayer(config, asks=False) for _ in range(config.depth))
        self.decoder = nn.ModuleList(DETRLayer(config, asks=True) for _ in range(decoder_depth))
        self.norm = nn.LayerNorm(config.dim, config.eps)
        self.label = nn.Linear(config.dim, config.classes + 1)
        self.box = nn.Sequential(
            nn.Linear(config.dim, config.dim), nn.ReLU(), nn.Linear(config.dim, config.dim), nn.ReLU(),
            nn.Linear(config.dim, 4),
        )  # fmt: skip
        self.reset()

    def reset(self) -> None:
        """As the paper's code: Xavier in the transformer, queries as an embedding's rows."""
        for module in (*self.encoder.modules(), *self.decoder.modules()):
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
        nn.init.normal_(self.queries)

    def forward(self, images: Tensor, sizes: Tensor | None = None) -> DETROutput:
        """(b, channels, height, width) -> (b, q, c + 1) and (b, q, 4)

        ``sizes``, (b, 2), are the rows and columns of each image in the batch; what is beyond is padding.
        """
        maps = self.input(self.backbone(images, sizes))
        few, grid = halved_sizes(sizes, self.config.stride), (maps.shape[2], maps.shape[3])
        keys = None if few is None else real_pixels(few, *grid).flatten(1)
        memory, mask = zero_padding(maps.flatten(2).mT, keys), ALL if keys is None else Mask(keys=keys)
        where = sine_positions(grid, few, self.config.dim, images)
        memory = self.encode(memory, where, mask)
        return self.decode(memory, where, mask)

    def encode(self, x: Tensor, where: Tensor, mask: Mask) -> Tensor:
        """(b, n, d) -> (b, n, d); zeros at padding"""
        for layer in self.encoder:
            x = zero_padding(layer(x, where, mask), mask.keys)
        return x

    def decode(self, memory: Tensor, where: Tensor, mask: Mask) -> DETROutput:
        """(b, n, d) -> (b, q, c + 1) and (b, q, 4), after every layer"""
        places = self.queries.expand(len(memory), -1, -1)
        x, said = torch.zeros_like(places), []
        for layer in self.decoder:
            x = layer(x, places, mask, memory, where)
            states = self.norm(x)
            said.append(DETROutput(self.label(states), self.box(states).sigmoid()))
        return DETROutput(said[-1].logits, said[-1].boxes, tuple(said[:-1]))

    def axes(self, images: Tensor, sizes: Tensor | None = None) -> dict[str, Axis]:
        rows, columns = (-(-side // self.config.stride) for side in images.shape[-2:])
        return {
            "pixels": Axis("image", rows * columns, grid=(rows, columns)),
            "queries": Axis("queries", self.config.queries),
        }


def sine_positions(grid: tuple[int, int], sizes: Tensor | None, dim: int, like: Tensor) -> Tensor:
    """2-D sine positions of pixels, relative to the size of their image: sines and cosines of the row, then of the
    column.

    (b, 2) -> (b, n, d), or (1, n, d) when all images are whole
    """
    precise = torch.promote_types(like.dtype, torch.float32)
    waves = torch.arange(dim // 4, device=like.device, dtype=precise)
    speed = 10000.0 ** (-4 * waves / dim)
    found = []
    for axis, count in enumerate(grid):
        steps = torch.arange(1, count + 1, device=like.device, dtype=precise)[None]
        whole = count if sizes is None else sizes[:, axis, None].to(precise)
        angle = (steps / (whole + 1e-6) * (2 * math.pi))[..., None] * speed
        found.append(torch.stack((angle.sin(), angle.cos()), -1).flatten(-2))  # (b, count, d/2)
    rows, columns = found[0][:, :, None], found[1][:, None]
    spread = (-1, *grid, -1)
    return torch.cat((rows.expand(spread), columns.expand(spread)), -1).flatten(1, 2).to(like.dtype)


FAMILY = Family(
    config=Config,
    net=DETR,
    presets=PRESETS,
    axes=AXES,
    paper="Carion et al. 2020, End-to-End Object Detection with Transformers",
    link="https://arxiv.org/abs/2005.12872",
    takes=("image",),
    tasks=("detect",),
    verbs=lambda config, task: ("detect",),
    example=lambda: Config(
        channels=3,
        width=6,
        stem="small",
        layer="basic",
        depths=(1, 2),
        dims=(8, 12),
        classes=5,
        queries=5,
        dim=16,
        depth=2,
        heads=4,
        hidden=24,
    ),
    offered={"detr-small": 262_248},
    answers=("logits", "boxes"),
)
