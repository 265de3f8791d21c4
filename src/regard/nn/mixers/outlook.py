"""Outlook attention: what stands at a place tells how its neighbours look at each other.

VOLO: Vision Outlooker for Visual Recognition (Yuan et al., 2021), https://arxiv.org/abs/2106.13112, section 3.1
    A_c = softmax(W_A x_c / sqrt(e)), k^2 x k^2 for each head, within the k x k window around c; nothing is compared
    y_i = sum over the windows c that hold i, sum over the j in each: A_c[i, j] W_V x_j
Windows overlap, and what they bring to a place is added up, not averaged. At the border they reach over the edge, where
there is nothing. With a stride, there is a window for every so many places, told by the mean of these.

It is no row of the table of mechanisms: it needs to know rows and columns, which a sequence has not.

Shapes: b batch, r rows, c columns, n = r c places, w windows, k side of a window, d width, h heads, e width of a head.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..attention import Mixer, split_heads
from ..cache import Cache
from ..dropout import Dropout
from ..mask import ALL, Bias, Mask
from ..tap import Tap


class Outlook(Mixer):
    def __init__(
        self, dim: int, heads: int, *, window: int = 3, stride: int = 1, dropout: float = 0.0, bias: bool = False
    ) -> None:
        super().__init__()
        if dim % heads:
            raise ValueError(f"the hidden size {dim} is not a multiple of {heads} heads")
        if window % 2 == 0:
            raise ValueError(f"the window size must be odd, got {window}")
        self.heads, self.window, self.stride = heads, window, stride
        self.scores = nn.Linear(dim, heads * window**4)
        self.v = nn.Linear(dim, dim, bias=bias)
        self.out = nn.Linear(dim, dim)
        self.dropout = Dropout(dropout)
        self.local = Tap()  # (b, h, w, k*k, k*k): A, of each window
        self.values = Tap()  # (b, h, n, e)
        self.weights = Tap()  # (b, h, n, n), all windows together; only this one leaves the fast path
        self.mixed = Tap()  # (b, h, n, e)

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        mask: Mask = ALL,
        bias: Bias | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """(b, r, c, d) -> (b, r, c, d)"""
        if context is not None or cache is not None:
            raise ValueError(
                "outlook attention mixes the positions of one image, so it does not support a context or a cache"
            )
        if mask.causal or mask.keys is not None or mask.pairs is not None or bias is not None:
            raise ValueError("outlook attention has no query-key scores, so it does not support a mask or a bias")
        grid = x.shape[1], x.shape[2]
        local = self.dropout(self.local(self.looks(x)))
        v = self.values(split_heads(self.v(x.flatten(1, 2)), self.heads))
        y = self.weights(self.spread(local, grid)) @ v if self.weights.live else self.by_window(local, v, grid)
        return self.out(self.mixed(y).transpose(1, 2).flatten(2)).unflatten(1, grid)

    def looks(self, x: Tensor) -> Tensor:
        """The attention weights: (b, r, c, d) -> (b, h, w, k*k, k*k), rows sum to 1"""
        if self.stride > 1:
            x = F.avg_pool2d(x.movedim(-1, 1), self.stride, ceil_mode=True).movedim(1, -1)
        size = self.window**2
        scores = self.scores(x).flatten(1, 2).unflatten(-1, (self.heads, size, size)).transpose(1, 2)
        width = self.v.out_features // self.heads
        return (scores * width**-0.5).softmax(-1)

    def by_window(self, local: Tensor, v: Tensor, grid: tuple[int, int]) -> Tensor:
        """(b, h, w, k*k, k*k), (b, h, n, e) -> (b, h, n, e), and nothing of size n x n"""
        side, padding, heads, width = self.window, self.window // 2, v.shape[1], v.shape[-1]
        image = v.mT.flatten(1, 2).unflatten(-1, grid)  # (b, h*e, r, c)
        cut = F.unfold(image, side, padding=padding, stride=self.stride)  # (b, h*e*k*k, w)
        cut = cut.unflatten(1, (heads, width, side**2)).permute(0, 1, 4, 3, 2)  # (b, h, w, k*k, e)
        seen = (local @ cut).permute(0, 1, 4, 3, 2).flatten(1, 3)  # (b, h*e*k*k, w)
        whole = F.fold(seen, grid, side, padding=padding, stride=self.stride)
        return whole.flatten(2).unflatten(1, (heads, width)).mT

    def spread(self, local: Tensor, grid: tuple[int, int]) -> Tensor:
        """(b, h, w, k*k, k*k) -> (b, h, n, n): the definition, each window's weights where they belong"""
        places, n = self.places(grid, local.device), grid[0] * grid[1]
        pairs = (places[:, :, None] * (n + 1) + places[:, None, :]).flatten()
        found = local.new_zeros(*local.shape[:2], (n + 1) ** 2).index_add(-1, pairs, local.flatten(2))
        return found.unflatten(-1, (n + 1, n + 1))[..., :n, :n]

    def places(self, grid: tuple[int, int], device: torch.device) -> Tensor:
        """-> (w, k*k): the positions of each window, n where there is none"""
        n = grid[0] * grid[1]
        counted = torch.arange(1, n + 1, dtype=torch.float64, device=device).view(1, 1, *grid)
        found = F.unfold(counted, self.window, padding=self.window // 2, stride=self.stride)[0].T.long() - 1
        return torch.where(found < 0, n, found)
