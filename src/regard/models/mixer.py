"""MLP-Mixer.

MLP-Mixer: An all-MLP Architecture for Vision (Tolstikhin et al., 2021), https://arxiv.org/abs/2105.01601
Patches as in ViT, but nothing looks: one MLP mixes the patches, the same for every feature, another the features, the
same for every patch. It knows places by its weights, so there are no positions, and one size of image alone.

Shapes: b batch, s patches, d width, c classes.
"""

from dataclasses import dataclass

from torch import Tensor, nn

from regard.models.family import Family, Lens, block_streams, class_logits, classifier_verbs, has_head
from regard.nn.axis import Axis
from regard.nn.block import Block
from regard.nn.config import not_above_zero, not_at_least, not_divided, not_one_of, not_positive, not_shares, refuse
from regard.nn.embed import Patches, check_image_shape
from regard.nn.feedforward import ACTIVATIONS, FeedForward, activation
from regard.nn.mixers.tokens import TokenMLP
from regard.nn.residual import Branch, PreNorm


@dataclass(frozen=True, kw_only=True)
class Config:
    image: int = 224
    patch: int = 16
    channels: int = 3
    classes: int = 1000  # 0: no head, the pooled features come out
    dim: int = 768
    depth: int = 12
    tokens: int = 384  # hidden units over the patches
    hidden: int = 3072  # hidden units over the features
    dropout: float = 0.0
    drop_path: float = 0.0  # of the last block; it grows from 0 with depth
    eps: float = 1e-6
    activation: str = "gelu"

    def __post_init__(self) -> None:
        refuse(
            not_positive(self, "image", "patch", "channels", "dim", "depth", "tokens", "hidden"),
            not_at_least(0, self, "classes"),
            not_above_zero(self, "eps"),
            not_shares(self, "dropout", "drop_path"),
            not_divided(self, "image", "patch"),
            not_one_of(ACTIVATIONS, self, "activation"),
        )

    @property
    def grid(self) -> tuple[int, int]:
        return self.image // self.patch, self.image // self.patch


PRESETS = {
    "mixer-s32": Config(patch=32, dim=512, depth=8, tokens=256, hidden=2048),
    "mixer-s16": Config(dim=512, depth=8, tokens=256, hidden=2048),
    "mixer-b32": Config(patch=32),
    "mixer-b16": Config(),
    "mixer-l32": Config(patch=32, dim=1024, depth=24, tokens=512, hidden=4096),
    "mixer-l16": Config(dim=1024, depth=24, tokens=512, hidden=4096),
    "mixer-h14": Config(patch=14, dim=1280, depth=32, tokens=640, hidden=5120),
    "mixer-cifar": Config(image=32, patch=4, classes=10, dim=96, depth=5, tokens=96, hidden=384),
}

AXES = {"blocks.*.mixer": ("patches", "patches")}


class MLPMixer(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.patch = Patches(config.patch, config.channels, config.dim)
        self.blocks = nn.ModuleList(
            self.block(config.drop_path * i / max(config.depth - 1, 1)) for i in range(config.depth)
        )
        self.norm = nn.LayerNorm(config.dim, config.eps)
        self.head = nn.Linear(config.dim, config.classes) if config.classes else None
        self.reset()

    def block(self, drop_path: float) -> Block:
        config, act = self.config, activation(self.config.activation)
        return Block(
            TokenMLP(config.grid[0] * config.grid[1], config.tokens, act, config.dropout),
            FeedForward(config.dim, config.hidden, act, dropout=config.dropout),
            lambda: PreNorm(
                nn.LayerNorm(config.dim, config.eps),
                Branch(config.dim, dropout=config.dropout, drop_path=drop_path),
            ),
        )

    def reset(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
        if self.head is not None:
            nn.init.zeros_(self.head.weight)

    def features(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, s, d)"""
        x = self.patch(check_image_shape(images, self.config.channels, self.config.image)).flatten(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def forward(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, c)"""
        return self.classified(self.features(images))

    def classified(self, features: Tensor) -> Tensor:
        """(b, s, d) -> (b, c)"""
        x = features.mean(dim=1)
        return x if self.head is None else self.head(x)

    def axes(self, images: Tensor) -> dict[str, Axis]:
        rows, columns = self.config.grid
        return {"patches": Axis("image", rows * columns, grid=(rows, columns))}


FAMILY = Family(
    config=Config,
    net=MLPMixer,
    presets=PRESETS,
    axes=AXES,
    paper="Tolstikhin et al. 2021, MLP-Mixer",
    link="https://arxiv.org/abs/2105.01601",
    takes=("image",),
    tasks=("classify",),
    verbs=classifier_verbs,
    example=lambda: Config(image=8, patch=4, channels=3, classes=5, dim=16, depth=2, tokens=6, hidden=24),
    lens=Lens(block_streams, class_logits, has_head),
    offered={"mixer-cifar": 441_066},
)
