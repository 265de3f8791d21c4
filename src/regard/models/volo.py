"""VOLO: a vision transformer that begins with a finer look.

VOLO: Vision Outlooker for Visual Recognition (Yuan et al., 2021), https://arxiv.org/abs/2106.13112
A stem of convolutions makes tokens of 8 x 8 pixels, on which outlookers mix near neighbours (``nn.mixers.outlook``);
then four become one, and a transformer goes on with tokens of 16 x 16 pixels, at the end with class attention as CaiT.
It is trained with token labelling (Jiang et al., 2021, https://arxiv.org/abs/2104.10858): a second head tells the class
of every patch, and in use half of the largest that it says anywhere is added to what the class token says.

Differs from the paper: stochastic depth is that of the authors' code, which leaves out the outlookers; in nets narrower
than 768 the first weights are wider than 0.02 (``nn.start.deviation``).

Shapes: b batch, r rows and s columns of fine tokens, f their width, n coarse tokens, d their width, c classes.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.family import Family, Lens, class_logits, classifier_verbs, has_head, look_streams
from regard.nn.attention import MultiHeadAttention, Softmax
from regard.nn.axis import Axis, image_axis
from regard.nn.batchnorm import BatchNorm
from regard.nn.block import Block
from regard.nn.classattention import ClassBlock
from regard.nn.config import not_above_zero, not_at_least, not_divided, not_one_of, not_positive, not_shares, refuse
from regard.nn.convolution import Convolution
from regard.nn.embed import Patches
from regard.nn.feedforward import ACTIVATIONS, FeedForward, activation
from regard.nn.initialization import init_deviation, start_truncated, truncated_normal
from regard.nn.mechanisms import Choice, unknown_choices
from regard.nn.mixers.outlook import Outlook
from regard.nn.positions import interpolate
from regard.nn.residual import Branch, PreNorm
from regard.nn.vision_blocks import drop_path_rates, patch_blocks

HALF = 2  # the stem's first step, the outlookers' stride, and how many fine tokens a side of a coarse one has


@dataclass(frozen=True, kw_only=True)
class Config:
    image: int = 224
    patch: int = 8  # of the fine tokens; coarse ones have twice that
    channels: int = 3
    classes: int = 1000  # 0: no heads, the class token comes out
    stem_dim: int = 64
    fine_dim: int = 192
    outlookers: int = 4  # layers
    fine_heads: int = 6
    fine_hidden: int = 576
    dim: int = 384
    depth: int = 14
    heads: int = 12
    hidden: int = 1152
    looks: int = 2  # layers of class attention
    token_head: bool = True  # tells the class of every patch
    attention_dropout: float = 0.0
    drop_path: float = 0.0  # of the last block; it grows with depth, and outlookers have none
    eps: float = 1e-5
    activation: str = "gelu"
    qkv_bias: bool = False
    attention: Choice = "softmax"  # of the coarse tokens

    def __post_init__(self) -> None:
        refuse(
            not_positive(self, "image", "patch", "channels", "stem_dim", "fine_dim", "outlookers", "fine_heads"),
            not_positive(self, "fine_hidden", "dim", "depth", "heads", "hidden", "looks"),
            not_at_least(0, self, "classes"),
            not_above_zero(self, "eps"),
            not_shares(self, "attention_dropout", "drop_path"),
            not_divided(self, "dim", "heads"),
            not_divided(self, "fine_dim", "fine_heads"),
            self.not_halved(),
            not_one_of(ACTIVATIONS, self, "activation"),
            unknown_choices(self, "attention"),
        )

    def not_halved(self) -> list[str]:
        """What cannot be read, or is below 1, is told of already."""
        image, patch = self.image, self.patch
        if patch is None or patch < 1:
            return []
        if patch % HALF:
            return [f"patch = {patch} is not even"]
        if image is None or image < 1 or image % (HALF * patch) == 0:
            return []
        return [f"image = {image} is not a multiple of twice patch = {patch}"]

    @property
    def grid(self) -> tuple[int, int]:
        """of coarse tokens"""
        return self.image // (HALF * self.patch), self.image // (HALF * self.patch)


PRESETS = {
    "volo-d1": Config(),
    "volo-d2": Config(
        fine_dim=256, outlookers=6, fine_heads=8, fine_hidden=768, dim=512, depth=18, heads=16, hidden=1536
    ),
    "volo-d3": Config(
        fine_dim=256, outlookers=8, fine_heads=8, fine_hidden=768, dim=512, depth=28, heads=16, hidden=1536
    ),
    "volo-d4": Config(
        fine_dim=384, outlookers=8, fine_heads=12, fine_hidden=1152, dim=768, depth=28, heads=16, hidden=2304
    ),
    "volo-d5": Config(
        stem_dim=128, fine_dim=384, outlookers=12, fine_heads=12, fine_hidden=1536, dim=768, depth=36, heads=16,
        hidden=3072,
    ),
}  # fmt: skip

AXES = {
    "outlookers.*.mixer": ("fine", "fine"),
    "blocks.*.mixer": ("patches", "patches"),
    "looks.*.mixer": ("class", "tokens"),
}


class Stem(nn.Module):
    """Stem: three convolutions, the first with a stride, then patches; a token sees more than its own pixels."""

    def __init__(self, channels: int, stem_dim: int, dim: int, patch: int) -> None:
        super().__init__()
        self.first = Convolution(channels, stem_dim, 7, BatchNorm, stride=HALF)
        self.second = Convolution(stem_dim, stem_dim, 3, BatchNorm)
        self.third = Convolution(stem_dim, stem_dim, 3, BatchNorm)
        self.patch = Patches(patch // HALF, stem_dim, dim)
        self.coarse = HALF * patch

    def forward(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, r, s, f)"""
        height, width = images.shape[-2:]
        if height % self.coarse or width % self.coarse or not height or not width:
            side = f"{self.coarse} x {self.coarse}"
            raise ValueError(f"an image of {height} x {width} cannot be divided into patches of {side}")
        x = F.relu(self.second(F.relu(self.first(images))))
        return self.patch(F.relu(self.third(x)))


@dataclass(frozen=True, eq=False)
class VOLOOutput:
    """Logits of each head."""

    label: Tensor  # (b, c), from the class token
    tokens: Tensor  # (b, n, c), from each patch


class VOLO(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.stem = Stem(config.channels, config.stem_dim, config.fine_dim, config.patch)
        self.outlookers = nn.ModuleList(self.outlooker() for _ in range(config.outlookers))
        self.merge = Patches(HALF, config.fine_dim, config.dim)
        self.positions = nn.Parameter(torch.empty(1, config.grid[0] * config.grid[1], config.dim))
        drop_paths = drop_path_rates(config.drop_path, config.depth, config.outlookers)
        self.blocks = patch_blocks(config, self.positions.shape[1], drop_paths)
        self.class_token = nn.Parameter(torch.empty(1, 1, config.dim))
        self.looks = nn.ModuleList(self.look() for _ in range(config.looks))
        self.norm = nn.LayerNorm(config.dim, config.eps)
        dense = config.classes and config.token_head
        self.head = nn.Linear(config.dim, config.classes) if config.classes else None
        self.token_head = nn.Linear(config.dim, config.classes) if dense else None
        start_truncated(self, init_deviation(config.dim))
        for table in (self.class_token, self.positions):
            truncated_normal(table)

    def outlooker(self) -> Block:
        config = self.config
        return Block(
            Outlook(
                config.fine_dim,
                config.fine_heads,
                stride=HALF,
                dropout=config.attention_dropout,
                bias=config.qkv_bias,
            ),
            FeedForward(config.fine_dim, config.fine_hidden, activation(config.activation)),
            lambda: PreNorm(nn.LayerNorm(config.fine_dim, config.eps), Branch(config.fine_dim)),
        )

    def look(self) -> ClassBlock:
        """Of the class token at the patches."""
        config = self.config
        kernel = Softmax(config.attention_dropout)
        return ClassBlock(
            MultiHeadAttention(config.dim, config.heads, kernel=kernel, biases="qkvo" if config.qkv_bias else "o"),
            FeedForward(config.dim, config.hidden, activation(config.activation)),
            config.dim,
            config.eps,
        )

    def tokens(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, n, d); at another size than the config's, positions are interpolated"""
        x = self.stem(images)
        for block in self.outlookers:
            x = block(x)
        x = self.merge(x.movedim(-1, 1))
        grid = x.shape[1], x.shape[2]
        return x.flatten(1, 2) + interpolate(self.positions, self.config.grid, grid)

    def features(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, 1 + n, d), the class token first"""
        x = self.tokens(images)
        for block in self.blocks:
            x = block(x)
        token = self.class_token.expand(len(x), -1, -1)
        for look in self.looks:
            token = look(token, x)
        return self.norm(torch.cat((token, x), dim=1))

    def answers(self, images: Tensor) -> VOLOOutput:
        """(b, channels, height, width) -> the logits of both heads, for training with token labels"""
        if self.head is None or self.token_head is None:
            raise ValueError(f"this requires a model with two heads, got {int(self.head is not None)}")
        x = self.features(images)
        return VOLOOutput(self.head(x[:, 0]), self.token_head(x[:, 1:]))

    def forward(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, c)"""
        return self.classified(self.features(images))

    def classified(self, features: Tensor) -> Tensor:
        """(b, 1 + n, d) -> (b, c)"""
        token, patches = features[:, 0], features[:, 1:]
        label = token if self.head is None else self.head(token)
        return label if self.token_head is None else label + 0.5 * self.token_head(patches).amax(dim=1)

    def axes(self, images: Tensor) -> dict[str, Axis]:
        fine, coarse = self.config.patch, self.config.patch * HALF
        return {
            "fine": image_axis(images, fine),
            "patches": image_axis(images, coarse),
            "tokens": image_axis(images, coarse, 1),
            "class": Axis("class", 1, labels=("[class]",)),
        }


FAMILY = Family(
    config=Config,
    net=VOLO,
    presets=PRESETS,
    axes=AXES,
    paper="Yuan et al. 2021, VOLO: Vision Outlooker for Visual Recognition",
    link="https://arxiv.org/abs/2106.13112",
    takes=("image",),
    tasks=("classify",),
    verbs=classifier_verbs,
    example=lambda: Config(
        image=24,
        patch=4,
        channels=3,
        classes=5,
        stem_dim=6,
        fine_dim=12,
        outlookers=2,
        fine_heads=4,
        fine_hidden=10,
        dim=16,
        depth=2,
        heads=4,
        hidden=24,
    ),
    lens=Lens(look_streams, class_logits, has_head, lambda net: f"blocks.{len(net.blocks) - 1}.stream"),
    offered={"volo-d1": 26_632_040},
    grid=lambda config: config.grid,
)
