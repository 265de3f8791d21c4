"""DeiT: a vision transformer that learns from a teacher through a token of its own.

Training data-efficient image transformers & distillation through attention (Touvron et al., 2021),
https://arxiv.org/abs/2012.12877
A ViT with a second learned token beside the class token. One head reads the class token and is told the labels, the
other reads the distillation token and is told what a teacher says (``tasks.token``). Both tokens look at the patches
and at each other. In use, the two heads are averaged. Without that token DeiT is a ViT, trained by another recipe.

Differs from the paper: in use it averages logits, as the authors' code does, where section 4 adds up probabilities; in
nets narrower than 768 the first weights are wider than 0.02 (``nn.start.deviation``).

Shapes: b batch, n tokens (class, distillation, then patches), d width, c classes.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.models.family import Family, Lens, block_streams, class_logits, classifier_verbs, has_head
from regard.nn.axis import Axis, image_axis
from regard.nn.config import not_above_zero, not_at_least, not_divided, not_one_of, not_positive, not_shares, refuse
from regard.nn.dropout import Dropout
from regard.nn.embed import Patches
from regard.nn.feedforward import ACTIVATIONS
from regard.nn.initialization import init_deviation, start_truncated, truncated_normal
from regard.nn.mechanisms import Choice, unknown_choices
from regard.nn.positions import interpolate
from regard.nn.vision_blocks import drop_path_rates, patch_blocks

SPECIAL = 2  # tokens before the patches


@dataclass(frozen=True, kw_only=True)
class Config:
    image: int = 224
    patch: int = 16
    channels: int = 3
    classes: int = 1000  # 0: no heads, the pooled features come out
    dim: int = 768
    depth: int = 12
    heads: int = 12
    hidden: int = 3072
    representation: int | None = None  # width of a tanh layer on the class token, for "class"
    pool: Literal["both", "class"] = "both"  # "class": the distillation token has no head, and is only looked at
    dropout: float = 0.0
    attention_dropout: float = 0.0
    drop_path: float = 0.0  # of the last block; it grows from 0 with depth
    eps: float = 1e-6
    activation: str = "gelu"
    qkv_bias: bool = True
    attention: Choice = "softmax"

    def __post_init__(self) -> None:
        refuse(
            not_positive(self, "image", "patch", "channels", "dim", "depth", "heads", "hidden", "representation"),
            not_at_least(0, self, "classes"),
            not_above_zero(self, "eps"),
            not_shares(self, "dropout", "attention_dropout", "drop_path"),
            not_divided(self, "dim", "heads"),
            not_divided(self, "image", "patch"),
            not_one_of(ACTIVATIONS, self, "activation"),
            unknown_choices(self, "attention"),
            ["representation requires pool = 'class'"] if self.representation and self.pool == "both" else [],
        )

    @property
    def grid(self) -> tuple[int, int]:
        return self.image // self.patch, self.image // self.patch


PRESETS = {
    "deit-tiny": Config(dim=192, heads=3, hidden=768),
    "deit-small": Config(dim=384, heads=6, hidden=1536),
    "deit-base": Config(),
    "deit-base-384": Config(image=384),
}

AXES = {"blocks.*.mixer": ("patches", "patches")}


@dataclass(frozen=True, eq=False)
class DeiTOutput:
    """Logits of both heads, (b, c) each."""

    label: Tensor  # of the head that learns labels
    teacher: Tensor  # of the head that learns from a teacher


class DeiT(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.patch = Patches(config.patch, config.channels, config.dim)
        self.class_token = nn.Parameter(torch.empty(1, 1, config.dim))
        self.distillation_token = nn.Parameter(torch.empty(1, 1, config.dim))
        self.positions = nn.Parameter(torch.empty(1, SPECIAL + config.grid[0] * config.grid[1], config.dim))
        self.dropout = Dropout(config.dropout)
        drop_paths = drop_path_rates(config.drop_path, config.depth)
        self.blocks = patch_blocks(config, self.positions.shape[1], drop_paths, dropout=config.dropout)
        self.norm = nn.LayerNorm(config.dim, config.eps)
        told = config.classes and config.pool == "both"
        self.representation = None if config.representation is None else nn.Linear(config.dim, config.representation)
        self.head = nn.Linear(config.representation or config.dim, config.classes) if config.classes else None
        self.teacher_head = nn.Linear(config.dim, config.classes) if told else None
        start_truncated(self, init_deviation(config.dim))
        for table in (self.class_token, self.distillation_token, self.positions):
            truncated_normal(table)

    def tokens(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, n, d); at another size than the config's, positions are interpolated"""
        x = self.patch(images)
        grid = x.shape[1], x.shape[2]
        special = torch.cat((self.class_token, self.distillation_token), 1).expand(len(x), -1, -1)
        x = torch.cat((special, x.flatten(1, 2)), dim=1)
        return self.dropout(x + interpolate(self.positions, self.config.grid, grid))

    def features(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, n, d)"""
        x = self.tokens(images)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def answers(self, images: Tensor) -> DeiTOutput:
        """(b, channels, height, width) -> the logits of both heads, for training: the labels and the teacher"""
        if self.head is None or self.teacher_head is None:
            raise ValueError(f"this requires a model with two heads, got {int(self.head is not None)}")
        x = self.features(images)
        return DeiTOutput(self.head(x[:, 0]), self.teacher_head(x[:, 1]))

    def forward(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, c), the mean of both heads"""
        return self.classified(self.features(images))

    def classified(self, features: Tensor) -> Tensor:
        """(b, n, d) -> (b, c)"""
        label, teacher = features[:, 0], features[:, 1]
        if self.representation is not None:
            label = torch.tanh(self.representation(label))
        if self.head is not None:
            label = self.head(label)
        if self.config.pool == "class":
            return label
        return (label + (teacher if self.teacher_head is None else self.teacher_head(teacher))) / 2

    def axes(self, images: Tensor) -> dict[str, Axis]:
        return {"patches": image_axis(images, self.config.patch, SPECIAL)}


FAMILY = Family(
    config=Config,
    net=DeiT,
    presets=PRESETS,
    axes=AXES,
    paper="Touvron et al. 2021, Training data-efficient image transformers & distillation through attention",
    link="https://arxiv.org/abs/2012.12877",
    takes=("image",),
    tasks=("classify",),
    verbs=classifier_verbs,
    example=lambda: Config(image=8, patch=4, channels=3, classes=5, dim=16, depth=2, heads=4, hidden=24),
    lens=Lens(block_streams, class_logits, has_head),
    offered={"deit-tiny": 5_910_800},
    grid=lambda config: config.grid,
)
