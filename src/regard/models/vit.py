"""Vision Transformer.

An Image is Worth 16x16 Words (Dosovitskiy et al., 2021), https://arxiv.org/abs/2010.11929
Cut the image into patches, embed each as a token, add learned positions, run an ordinary pre-norm encoder.

Differs from the paper: ``pool = "mean"`` is there too, because most later ViTs use it.

Shapes: b batch, n tokens (patches, after the class token if there is one), d width, c classes.
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
from regard.nn.mechanisms import Choice, unknown_choices
from regard.nn.positions import interpolate
from regard.nn.vision_blocks import drop_path_rates, patch_blocks


@dataclass(frozen=True, kw_only=True)
class Config:
    image: int = 224
    patch: int = 16
    channels: int = 3
    classes: int = 1000  # 0: no head, the pooled features come out
    dim: int = 768
    depth: int = 12
    heads: int = 12
    hidden: int = 3072
    pool: Literal["class", "mean"] = "class"
    representation: int | None = None  # width of a tanh layer before the head (the paper's pre-training head)
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
        )

    @property
    def grid(self) -> tuple[int, int]:
        return self.image // self.patch, self.image // self.patch


PRESETS = {
    "vit-tiny": Config(dim=192, heads=3, hidden=768),
    "vit-small": Config(dim=384, heads=6, hidden=1536),
    "vit-base": Config(),
    "vit-large": Config(dim=1024, depth=24, heads=16, hidden=4096),
    "vit-huge": Config(patch=14, dim=1280, depth=32, heads=16, hidden=5120),
    "vit-cifar": Config(image=32, patch=4, classes=10, dim=192, depth=9, heads=3, hidden=384, pool="mean"),
}

AXES = {"blocks.*.mixer": ("patches", "patches")}


class ViT(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.patch = Patches(config.patch, config.channels, config.dim)
        special = int(config.pool == "class")
        self.class_token = nn.Parameter(torch.empty(1, 1, config.dim)) if special else None
        self.positions = nn.Parameter(torch.empty(1, special + config.grid[0] * config.grid[1], config.dim))
        self.dropout = Dropout(config.dropout)
        drop_paths = drop_path_rates(config.drop_path, config.depth)
        self.blocks = patch_blocks(config, self.positions.shape[1], drop_paths, dropout=config.dropout)
        self.norm = nn.LayerNorm(config.dim, config.eps)
        self.representation = None if config.representation is None else nn.Linear(config.dim, config.representation)
        self.head = nn.Linear(config.representation or config.dim, config.classes) if config.classes else None
        self.reset()

    def reset(self) -> None:
        """As the paper's code: Xavier projections, small positions, a zero head, so that training starts at uniform."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        nn.init.normal_(self.positions, std=0.02)
        if self.class_token is not None:
            nn.init.zeros_(self.class_token)
        if self.head is not None:
            nn.init.zeros_(self.head.weight)

    def tokens(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, n, d); at another size than the config's, positions are interpolated"""
        x = self.patch(images)
        grid = x.shape[1], x.shape[2]
        x = x.flatten(1, 2)
        if self.class_token is not None:
            x = torch.cat((self.class_token.expand(len(x), -1, -1), x), dim=1)
        return self.dropout(x + interpolate(self.positions, self.config.grid, grid))

    def features(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, n, d)"""
        x = self.tokens(images)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def forward(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, c)"""
        return self.classified(self.features(images))

    def classified(self, features: Tensor) -> Tensor:
        """(b, n, d) -> (b, c)"""
        x = features[:, 0] if self.config.pool == "class" else features.mean(dim=1)
        if self.representation is not None:
            x = torch.tanh(self.representation(x))
        return x if self.head is None else self.head(x)

    def axes(self, images: Tensor) -> dict[str, Axis]:
        return {"patches": image_axis(images, self.config.patch, int(self.config.pool == "class"))}


FAMILY = Family(
    config=Config,
    net=ViT,
    presets=PRESETS,
    axes=AXES,
    paper="Dosovitskiy et al. 2021, An Image is Worth 16x16 Words",
    link="https://arxiv.org/abs/2010.11929",
    takes=("image",),
    tasks=("classify",),
    verbs=classifier_verbs,
    example=lambda: Config(image=8, patch=4, channels=3, classes=5, dim=16, depth=2, heads=4, hidden=24),
    lens=Lens(block_streams, class_logits, has_head),
    offered={"vit-tiny": 5_717_416, "vit-cifar": 2_697_226},
    grid=lambda config: config.grid,
    compared="regard.modalities.images.compared:images",
)
