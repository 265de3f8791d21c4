"""CaiT: deeper vision transformers.

Going deeper with Image Transformers (Touvron et al., 2021), https://arxiv.org/abs/2103.17239
Two changes let a ViT be deep. LayerScale: each branch is multiplied by a learned factor for each feature, at first the
smaller the deeper the net. And the class token comes late: first the patches look at each other, then, in two layers of
class attention, one token looks at the patches, which no longer change. The heads of the patches' attention talk.

Differs from the paper: the authors' code starts the factors of XXS-36 at 1e-5, here they follow the paper's rule; in
nets narrower than 768 the first weights are wider than 0.02 (``nn.start.deviation``).

Shapes: b batch, n patches, d width, c classes.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.models.family import Family, Lens, class_logits, classifier_verbs, has_head, look_streams
from regard.nn.attention import MultiHeadAttention, Softmax
from regard.nn.axis import Axis, image_axis
from regard.nn.classattention import ClassBlock
from regard.nn.config import not_above_zero, not_at_least, not_divided, not_one_of, not_positive, not_shares, refuse
from regard.nn.dropout import Dropout
from regard.nn.embed import Patches
from regard.nn.feedforward import ACTIVATIONS, FeedForward, activation
from regard.nn.initialization import init_deviation, start_truncated, truncated_normal
from regard.nn.mechanisms import Choice, unknown_choices
from regard.nn.positions import interpolate
from regard.nn.vision_blocks import patch_blocks


@dataclass(frozen=True, kw_only=True)
class Config:
    image: int = 224
    patch: int = 16
    channels: int = 3
    classes: int = 1000  # 0: no head, the class token comes out
    dim: int = 384
    depth: int = 24  # layers among the patches
    looks: int = 2  # layers of class attention
    heads: int = 8
    hidden: int = 1536
    scaled: bool = True  # LayerScale
    dropout: float = 0.0  # none of the three in class attention
    attention_dropout: float = 0.0
    drop_path: float = 0.0  # the same in every layer
    eps: float = 1e-6
    activation: str = "gelu"
    qkv_bias: bool = True
    attention: Choice = "talking"

    def __post_init__(self) -> None:
        refuse(
            not_positive(self, "image", "patch", "channels", "dim", "depth", "looks", "heads", "hidden"),
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
    "cait-xxs24": Config(dim=192, heads=4, hidden=768),
    "cait-xxs36": Config(dim=192, depth=36, heads=4, hidden=768),
    "cait-xs24": Config(dim=288, heads=6, hidden=1152),
    "cait-s24": Config(),
    "cait-s36": Config(depth=36),
    "cait-m36": Config(dim=768, depth=36, heads=16, hidden=3072),
    "cait-m48": Config(dim=768, depth=48, heads=16, hidden=3072),
}

AXES = {"blocks.*.mixer": ("patches", "patches"), "looks.*.mixer": ("class", "tokens")}


def first_scale(depth: int) -> float:
    """Initial value of LayerScale, section 2.2: smaller in deeper nets."""
    return 0.1 if depth <= 18 else 1e-5 if depth <= 24 else 1e-6


class CaiT(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.patch = Patches(config.patch, config.channels, config.dim)
        self.class_token = nn.Parameter(torch.empty(1, 1, config.dim))
        self.positions = nn.Parameter(torch.empty(1, config.grid[0] * config.grid[1], config.dim))
        self.dropout = Dropout(config.dropout)
        self.scale = first_scale(config.depth) if config.scaled else None
        alike = [config.drop_path] * config.depth
        self.blocks = patch_blocks(config, self.positions.shape[1], alike, dropout=config.dropout, scale=self.scale)
        self.looks = nn.ModuleList(self.look() for _ in range(config.looks))
        self.norm = nn.LayerNorm(config.dim, config.eps)
        self.head = nn.Linear(config.dim, config.classes) if config.classes else None
        start_truncated(self, init_deviation(config.dim))
        for table in (self.class_token, self.positions):
            truncated_normal(table)

    def look(self) -> ClassBlock:
        """Of the class token at the patches."""
        config = self.config
        return ClassBlock(
            MultiHeadAttention(config.dim, config.heads, kernel=Softmax(), biases="qkvo" if config.qkv_bias else "o"),
            FeedForward(config.dim, config.hidden, activation(config.activation)),
            config.dim,
            config.eps,
            self.scale,
        )

    def tokens(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, n, d); at another size than the config's, positions are interpolated"""
        x = self.patch(images)
        grid = x.shape[1], x.shape[2]
        return self.dropout(x.flatten(1, 2) + interpolate(self.positions, self.config.grid, grid))

    def features(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, 1 + n, d), the class token first"""
        x = self.tokens(images)
        for block in self.blocks:
            x = block(x)
        token = self.class_token.expand(len(x), -1, -1)
        for look in self.looks:
            token = look(token, x)
        return self.norm(torch.cat((token, x), dim=1))

    def forward(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, c)"""
        return self.classified(self.features(images))

    def classified(self, features: Tensor) -> Tensor:
        """(b, 1 + n, d) -> (b, c), by the class token alone"""
        x = features[:, 0]
        return x if self.head is None else self.head(x)

    def axes(self, images: Tensor) -> dict[str, Axis]:
        return {
            "patches": image_axis(images, self.config.patch),
            "tokens": image_axis(images, self.config.patch, 1),
            "class": Axis("class", 1, labels=("[class]",)),
        }


FAMILY = Family(
    config=Config,
    net=CaiT,
    presets=PRESETS,
    axes=AXES,
    paper="Touvron et al. 2021, Going deeper with Image Transformers",
    link="https://arxiv.org/abs/2103.17239",
    takes=("image",),
    tasks=("classify",),
    verbs=classifier_verbs,
    example=lambda: Config(image=8, patch=4, channels=3, classes=5, dim=16, depth=2, heads=4, hidden=24),
    lens=Lens(look_streams, class_logits, has_head),
    offered={"cait-xxs24": 11_956_264},
    grid=lambda config: config.grid,
)
