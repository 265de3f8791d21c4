"""A transformer whose patches coordinate through a shared workspace.

Coordination Among Neural Modules Through a Shared Global Workspace (Goyal et al., 2022),
https://arxiv.org/abs/2103.01197, sections 2 and 3
Patches as in ViT, but instead of all looking at all, they compete to write to a few slots and read from these. One
layer is applied again and again, and what the slots hold goes on from one to the next; each image starts anew.

Differs from the paper: the block around the workspace is pre-norm, as all of this library's vision models are; what
``nn.mixers.workspace`` says of the authors' code holds here too.

Shapes: b batch, n tokens (patches, after the class token if there is one), m slots, d width, c classes.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.models.family import Family, classifier_verbs
from regard.nn.axis import Axis, image_axis
from regard.nn.config import not_above_zero, not_divided, not_one_of, not_positive, not_shares, refuse
from regard.nn.embed import Patches
from regard.nn.feedforward import ACTIVATIONS, FeedForward, activation
from regard.nn.mixers.workspace import SharedWorkspace as Slots
from regard.nn.positions import interpolate
from regard.nn.site import Site


@dataclass(frozen=True, kw_only=True)
class Config:
    image: int = 64
    patch: int = 4
    channels: int = 1
    classes: int = 2
    dim: int = 256
    depth: int = 4
    heads: int = 4
    hidden: int = 512
    slots: int = 8
    keep: int | None = None  # patches that may write to a slot; all, softly, unless given
    pool: Literal["class", "mean"] = "class"
    dropout: float = 0.0
    eps: float = 1e-6
    activation: str = "gelu"

    def __post_init__(self) -> None:
        refuse(
            not_positive(self, "image", "patch", "channels", "classes", "dim", "depth", "heads", "hidden"),
            not_positive(self, "slots", "keep"),
            not_above_zero(self, "eps"),
            not_shares(self, "dropout"),
            not_divided(self, "dim", "heads"),
            not_divided(self, "image", "patch"),
            not_one_of(ACTIVATIONS, self, "activation"),
        )

    @property
    def grid(self) -> tuple[int, int]:
        return self.image // self.patch, self.image // self.patch


PRESETS = {
    "workspace-soft": Config(),
    "workspace-hard": Config(keep=5),
}

AXES = {
    "mixer": ("patches", "patches"),
    "mixer.write": ("slots", "patches"),
    "mixer.broadcast": ("patches", "slots"),
}


class WorkspaceNet(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.patch = Patches(config.patch, config.channels, config.dim)
        special = int(config.pool == "class")
        self.class_token = nn.Parameter(torch.zeros(1, 1, config.dim)) if special else None
        self.positions = nn.Parameter(torch.empty(1, special + config.grid[0] * config.grid[1], config.dim))
        site = Site(dim=config.dim, heads=config.heads, dropout=config.dropout)
        self.mixer_norm = nn.LayerNorm(config.dim, config.eps)
        self.mixer = Slots(site, config.slots, config.keep)
        self.ffn_norm = nn.LayerNorm(config.dim, config.eps)
        self.ffn = FeedForward(config.dim, config.hidden, activation(config.activation), dropout=config.dropout)
        self.norm = nn.LayerNorm(config.dim, config.eps)
        self.head = nn.Linear(config.dim, config.classes)
        nn.init.normal_(self.positions, std=0.02)

    def features(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, n, d)"""
        x = self.patch(images)
        grid = x.shape[1], x.shape[2]
        x = x.flatten(1, 2)
        if self.class_token is not None:
            x = torch.cat((self.class_token.expand(len(x), -1, -1), x), dim=1)
        x = x + interpolate(self.positions, self.config.grid, grid)
        slots = self.mixer.slots.expand(len(x), -1, -1)
        for _ in range(self.config.depth):
            told = self.mixer.step(self.mixer_norm(x), slots)
            x, slots = x + told.heard, told.slots
            x = x + self.ffn(self.ffn_norm(x))
        return self.norm(x)

    def forward(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, c)"""
        x = self.features(images)
        return self.head(x[:, 0] if self.config.pool == "class" else x.mean(dim=1))

    def axes(self, images: Tensor) -> dict[str, Axis]:
        return {
            "patches": image_axis(images, self.config.patch, int(self.config.pool == "class")),
            "slots": Axis("slots", self.config.slots),
        }


FAMILY = Family(
    config=Config,
    net=WorkspaceNet,
    presets=PRESETS,
    axes=AXES,
    paper="Goyal et al. 2022, Coordination Among Neural Modules Through a Shared Global Workspace",
    link="https://arxiv.org/abs/2103.01197",
    takes=("image",),
    tasks=("classify",),
    verbs=classifier_verbs,
    example=lambda: Config(image=8, channels=3, classes=5, dim=16, depth=2, hidden=24, slots=3),
    grid=lambda config: config.grid,
)
