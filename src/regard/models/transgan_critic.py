"""The discriminator of TransGAN, which looks at an image at two scales.

TransGAN (Jiang, Chang and Wang, 2021), https://arxiv.org/abs/2102.07074, section 3.3
Small patches are read first, for detail; then their grid is averaged to half its sides, and patches of twice the side
stand beside them as further channels. A class token looks at all of it in one last block, and its score is the answer.

Shapes: b batch, n fine tokens, n/4 coarse ones, d width: 3/4 of it from the fine patches.
"""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.transgan import build_token_norm, start_as_transgan, token_block
from regard.nn.block import Block
from regard.nn.config import not_above_zero, not_one_of, not_positive, refuse
from regard.nn.embed import Patches
from regard.nn.feedforward import ACTIVATIONS
from regard.nn.mechanisms import Choice, build_mixer, unknown_choices
from regard.nn.site import Site


@dataclass(frozen=True, kw_only=True)
class Config:
    image: int = 32
    channels: int = 3
    patch: int = 2  # of the fine scale; the coarse one has twice its side
    dim: int = 384
    depth: tuple[int, ...] = (3, 3)  # blocks at the fine scale, and at the coarse one
    heads: int = 4
    expansion: int = 4  # of the feed-forward layers
    token_norm: Literal["layer", "pixel"] = "layer"
    eps: float = 1e-5
    activation: str = "gelu"
    attention: Choice = "softmax"

    def __post_init__(self) -> None:
        refuse(
            not_positive(self, "image", "channels", "patch", "dim", "depth", "heads", "expansion"),
            not_above_zero(self, "eps"),
            not_one_of(ACTIVATIONS, self, "activation"),
            unknown_choices(self, "attention"),
            self.not_scales(),
        )

    def not_scales(self) -> list[str]:
        """Of two scales; a field that could not be read is None."""
        wrong = []
        if self.depth is not None and len(self.depth) != 2:
            wrong += [f"depth = {list(self.depth)} is not two numbers of blocks, one for each scale"]
        if self.dim and self.heads and self.dim % (4 * self.heads):
            wrong += [f"dim = {self.dim} is not a multiple of 4 x heads = {4 * self.heads}"]
        if self.image and self.patch and self.image % (2 * self.patch):
            wrong += [f"image = {self.image} is not a multiple of 2 x patch = {2 * self.patch}"]
        return wrong


class MultiScaleCritic(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        fine, side = config.dim * 3 // 4, config.image // config.patch
        self.fine = Patches(config.patch, config.channels, fine)
        self.coarse = Patches(2 * config.patch, config.channels, config.dim - fine)
        self.fine_positions = nn.Parameter(torch.empty(1, side, side, fine))
        self.coarse_positions = nn.Parameter(torch.empty(1, side // 2, side // 2, config.dim))
        self.fine_blocks = nn.ModuleList(self.block(fine, side**2) for _ in range(config.depth[0]))
        self.coarse_blocks = nn.ModuleList(self.block(config.dim, (side // 2) ** 2) for _ in range(config.depth[1]))
        self.class_token = nn.Parameter(torch.empty(1, 1, config.dim))
        self.last = self.block(config.dim, (side // 2) ** 2 + 1)
        self.norm = build_token_norm(config, config.dim)
        self.head = nn.Linear(config.dim, 1)
        start_as_transgan(self)

    def block(self, dim: int, length: int) -> Block:
        site = Site(dim=dim, heads=self.config.heads, length=length)
        return token_block(build_mixer(self.config.attention, site), dim, self.config.expansion * dim, self.config)

    def forward(self, images: Tensor) -> Tensor:
        """(b, channels, image, image) -> (b,): the higher, the more real"""
        x = self.fine(images) + self.fine_positions
        rows, columns = x.shape[1:3]
        x = x.flatten(1, 2)
        for block in self.fine_blocks:
            x = block(x)
        x = F.avg_pool2d(x.unflatten(1, (rows, columns)).movedim(-1, 1), 2).movedim(1, -1)
        x = (torch.cat((x, self.coarse(images)), -1) + self.coarse_positions).flatten(1, 2)
        for block in self.coarse_blocks:
            x = block(x)
        x = self.last(torch.cat((self.class_token.expand(len(x), -1, -1), x), 1))
        score: Tensor = self.head(self.norm(x[:, 0]))
        return score[:, 0]
