"""Random directions, on which features of queries and keys are built; in training others are drawn from time to time.

Orthogonal ones (Performer, section 3.2 of https://arxiv.org/abs/2009.14794) come in blocks of as many as they are
wide. A block is the Q of a QR decomposition of Gaussian numbers. That Q alone leans to some sides, since the
decomposition fixes signs by its own rule, and exponentials of it are biased; with its columns turned by the signs of
R's diagonal it is uniform among all rotations (Haar).
"""

from math import ceil
from typing import Literal

import torch
from torch import Tensor, nn

from ..tap import in_backward

Layout = Literal["orthogonal", "independent"]
Norms = Literal["chi", "equal"]


class Directions(nn.Module):
    """(m, e), the same for all heads.

    What is drawn hangs on the seed and on the number of calls in training, and both are saved. So a run that goes on
    from a checkpoint, and every process of a run on several, draws the same.
    """

    matrix: Tensor
    seed: Tensor
    calls: Tensor

    def __init__(self, count: int, width: int, layout: Layout, norms: Norms, redraw: int) -> None:
        super().__init__()
        if count < 1 or redraw < 0:
            raise ValueError(
                f"expected at least one random direction and redraw >= 0, got {count} directions and redraw = {redraw}"
            )
        self.layout, self.norms, self.redraw = layout, norms, redraw
        self.register_buffer("matrix", torch.zeros(count, width))
        self.register_buffer("seed", torch.randint(2**62, ()))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        if not self.matrix.is_meta:
            self.draw()

    def forward(self) -> Tensor:
        """The random directions of this call, redrawn every ``redraw`` calls in training and never in evaluation."""
        if self.training and self.redraw and not self.matrix.is_meta:
            torch.compiler.disable(self.count)()  # a graph would keep the directions that it began with
        return self.matrix

    def count(self) -> None:
        if in_backward():  # a call that is repeated for its gradient is none
            return
        if int(self.calls) and int(self.calls) % self.redraw == 0:
            self.draw()
        self.calls += 1

    def draw(self) -> None:
        """Into a new tensor: whoever still waits for a gradient keeps the old one."""
        source = torch.Generator().manual_seed((int(self.seed) + int(self.calls)) % 2**63)
        count, width = self.matrix.shape
        self.matrix = draw_directions(count, width, self.layout, self.norms, source).to(self.matrix)


def draw_directions(count: int, width: int, layout: Layout, norms: Norms, source: torch.Generator) -> Tensor:
    """-> (m, e) in float64, each row as long as a Gaussian vector ("chi"), or all of length sqrt e ("equal")"""
    blocks = [gaussian(width, width, source) for _ in range(ceil(count / width))]
    rows = torch.cat([haar(block) if layout == "orthogonal" else block for block in blocks])[:count]
    if norms == "equal":
        return rows / rows.norm(dim=1, keepdim=True) * width**0.5
    return rows * gaussian(count, width, source).norm(dim=1, keepdim=True) if layout == "orthogonal" else rows


def gaussian(rows: int, columns: int, source: torch.Generator) -> Tensor:
    return torch.randn(rows, columns, generator=source, dtype=torch.float64, device="cpu")


def haar(block: Tensor) -> Tensor:
    """(e, e) Gaussian -> (e, e) orthonormal, none of them more likely than another"""
    q, r = torch.linalg.qr(block)
    return (q * r.diagonal().sign()).T
