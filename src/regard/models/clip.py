"""CLIP: a tower that reads texts beside one that sees images, and one space for both.

Learning Transferable Visual Models From Natural Language Supervision (Radford et al., 2021)
https://arxiv.org/abs/2103.00020
Of the images and the captions of a batch, each shall find its partner by the cosine of their embeddings; then any
texts can serve as the labels of an image.

Shapes: b batch (of images, or of texts), n tokens, m patches after the class token, d width, e joint width.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models import cliptext, vit
from regard.models.family import Family
from regard.nn.axis import Axis, image_axis
from regard.nn.config import not_above_zero, not_divided, not_one_of, not_positive, not_shares, refuse
from regard.nn.embed import Patches
from regard.nn.feedforward import ACTIVATIONS
from regard.nn.mechanisms import Choice, unknown_choices
from regard.nn.positions import interpolate
from regard.nn.vision_blocks import patch_blocks

FIRST_SCALE = 1 / 0.07  # the factor of the cosines before training
LARGEST_SCALE = 100.0  # and its bound in training


@dataclass(frozen=True, kw_only=True)
class Config:
    """The keys of the image tower have the usual names, those of the other tower begin with ``text``."""

    image: int = 224
    patch: int = 32
    channels: int = 3
    dim: int = 768
    depth: int = 12
    heads: int = 12
    hidden: int = 3072
    attention_dropout: float = 0.0
    eps: float = 1e-5
    activation: str = "quick_gelu"
    attention: Choice = "softmax"
    vocab: int = 49408
    length: int = 77
    text_dim: int = 512
    text_depth: int = 12
    text_heads: int = 8
    text_hidden: int = 2048
    text_attention_dropout: float = 0.0
    text_eps: float = 1e-5
    text_activation: str = "quick_gelu"
    text_attention: Choice = "softmax"
    ending: cliptext.Ending = "first"
    end: int | None = None  # id of the end token; without one, and in a text without it, the last token is taken
    joint: int = 512  # width of the space that both towers reach

    def __post_init__(self) -> None:
        refuse(
            not_positive(self, "image", "patch", "channels", "dim", "depth", "heads", "hidden", "joint"),
            not_positive(self, "vocab", "length", "text_dim", "text_depth", "text_heads", "text_hidden"),
            not_above_zero(self, "eps", "text_eps"),
            not_shares(self, "attention_dropout", "text_attention_dropout"),
            not_divided(self, "dim", "heads"),
            not_divided(self, "text_dim", "text_heads"),
            not_divided(self, "image", "patch"),
            not_one_of(ACTIVATIONS, self, "activation"),
            not_one_of(ACTIVATIONS, self, "text_activation"),
            unknown_choices(self, "attention", "text_attention"),
        )
        self.reading()  # which refuses what its tower cannot be

    def looking(self) -> vit.Config:
        """Of the image tower, in the words of a ViT."""
        return vit.Config(
            image=self.image,
            patch=self.patch,
            channels=self.channels,
            classes=0,
            dim=self.dim,
            depth=self.depth,
            heads=self.heads,
            hidden=self.hidden,
            attention_dropout=self.attention_dropout,
            eps=self.eps,
            activation=self.activation,
            attention=self.attention,
        )

    def reading(self) -> cliptext.Config:
        """Of the text tower."""
        return cliptext.Config(
            vocab=self.vocab,
            length=self.length,
            dim=self.text_dim,
            depth=self.text_depth,
            heads=self.text_heads,
            hidden=self.text_hidden,
            joint=self.joint,
            ending=self.ending,
            end=self.end,
            attention_dropout=self.text_attention_dropout,
            eps=self.text_eps,
            activation=self.text_activation,
            attention=self.text_attention,
        )


SMALL: dict[str, Any] = {"dim": 64, "depth": 3, "heads": 4, "hidden": 128}
PRESETS = {
    "clip-tiny": Config(
        image=32, patch=4, vocab=64, text_dim=64, text_depth=3, text_heads=4, text_hidden=128, joint=64, **SMALL
    ),
    "clip-vit-base-32": Config(ending="highest"),
    "clip-vit-base-16": Config(ending="highest", patch=16),
    "clip-vit-large-14": Config(
        patch=14,
        dim=1024,
        depth=24,
        heads=16,
        hidden=4096,
        text_dim=768,
        text_heads=12,
        text_hidden=3072,
        ending="highest",
        joint=768,
    ),
}

AXES = {"image.blocks.*.mixer": ("patches", "patches"), "text.blocks.*.mixer": ("tokens", "tokens")}


@dataclass(frozen=True, eq=False)
class Embedded:
    """Images and texts in the joint space, not normalised yet."""

    image: Tensor  # (b, e)
    text: Tensor  # (b, e); there may be more texts than images, or fewer
    scale: Tensor  # the factor of the cosines, a number

    def logits(self) -> Tensor:
        """How well each text fits each image.  -> (images, texts)"""
        return self.scale * F.normalize(self.image, dim=-1) @ F.normalize(self.text, dim=-1).T


class ImageTower(nn.Module):
    """A ViT with a norm before its blocks, one after them on the class token alone, and no bias of the patches."""

    def __init__(self, config: vit.Config, joint: int) -> None:
        super().__init__()
        self.config = config
        self.patch = Patches(config.patch, config.channels, config.dim, biases=False)
        self.class_token = nn.Parameter(torch.empty(1, 1, config.dim))
        self.positions = nn.Parameter(torch.empty(1, 1 + config.grid[0] * config.grid[1], config.dim))
        self.first_norm = nn.LayerNorm(config.dim, config.eps)
        self.blocks = patch_blocks(config, self.positions.shape[1], [0.0] * config.depth)
        self.norm = nn.LayerNorm(config.dim, config.eps)
        self.projection = nn.Linear(config.dim, joint, bias=False)
        self.reset()

    def reset(self) -> None:
        cliptext.reset_blocks(self.blocks, self.config.dim)
        for first in (self.class_token, self.positions, self.projection.weight):
            nn.init.normal_(first, std=self.config.dim**-0.5)
        nn.init.normal_(self.patch.projection.weight, std=0.02)

    def features(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, 1 + m, d); at another size, positions are interpolated"""
        x = self.patch(images)
        grid = x.shape[1], x.shape[2]
        x = torch.cat((self.class_token.expand(len(x), -1, -1), x.flatten(1, 2)), dim=1)
        x = self.first_norm(x + interpolate(self.positions, self.config.grid, grid))
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, e)"""
        return self.projection(self.norm(self.features(images)[:, 0]))


class CLIP(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.image = ImageTower(config.looking(), config.joint)
        self.text = cliptext.CLIPText(config.reading())
        self.scale = nn.Parameter(torch.empty(()))
        nn.init.constant_(self.scale, math.log(FIRST_SCALE))

    def factor(self) -> Tensor:
        """Of the cosines."""
        return self.scale.exp()

    def forward(self, images: Tensor, ids: Tensor, *, keys: Tensor | None = None) -> Embedded:
        """(b, channels, height, width), (b, n): any images beside any texts; keys is False at padding"""
        return Embedded(self.image(images), self.text(ids, keys=keys), self.factor())

    def axes(self, images: Tensor, ids: Tensor) -> dict[str, Axis]:
        return {"patches": image_axis(images, self.config.patch, 1), "tokens": Axis("text", ids.shape[1])}


FAMILY = Family(
    config=Config,
    net=CLIP,
    presets=PRESETS,
    axes=AXES,
    paper="Radford et al. 2021, Learning Transferable Visual Models From Natural Language Supervision",
    link="https://arxiv.org/abs/2103.00020",
    takes=("image", "text"),
    tasks=("match",),
    verbs=lambda config, task: ("classify",),
    example=lambda: Config(
        image=8,
        patch=4,
        channels=3,
        dim=16,
        depth=2,
        heads=4,
        hidden=24,
        vocab=13,
        length=12,
        text_dim=16,
        text_depth=2,
        text_heads=4,
        text_hidden=24,
        joint=12,
    ),
)
