"""A shared workspace: positions compete to write to a few slots, and every position reads what was written.

Coordination Among Neural Modules Through a Shared Global Workspace (Goyal et al., 2022),
https://arxiv.org/abs/2103.01197, section 2
    write      M' = softmax(M Wq (X Wk)^T / sqrt e) X Wv, over the best ``keep`` positions of each slot; a norm and
               a small network on each slot
    gate       i, f = sigmoid(U x + V tanh(M) + b), x the mean of the positions, forget biased by 1
               M <- i tanh(M') + f M
    broadcast  y = softmax(X Rq (M Rk)^T / sqrt e) M Rv
The cost grows with positions times slots, not with the square of the positions.

Differs from the authors' code: the scores are divided by sqrt e, and the best are found before the softmax, so that
what a slot writes is an average of the winners (there it is after, and the rest is lost); the gates see the mean of the
positions, not all of them in a row, so that any number will do; the slots' network has two layers, where a list there
repeats one.
A row of padding alone leaves the slots to the forget gate.

Shapes: b batch, n positions, m slots, d width.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..attention import Kernel, Mixer, Softmax, zero_padding
from ..cache import Cache
from ..config import not_positive, refuse
from ..feedforward import FeedForward
from ..influence import record_influence
from ..kernels.topk import TopK
from ..mask import ALL, Bias, Mask
from ..pool import pool_mean
from ..site import Site
from ..tap import Tap
from .whole import real_positions, refuse_site


@dataclass(frozen=True, kw_only=True)
class Settings:
    slots: int = 8
    keep: int | None = None  # positions that may write to a slot; all, softly, unless given

    def __post_init__(self) -> None:
        refuse(not_positive(self, "slots", "keep"))


def build(settings: Settings, site: Site) -> Mixer:
    refuse_site("a shared workspace", site, dropout=False)
    return SharedWorkspace(site, settings.slots, settings.keep)


@dataclass(frozen=True, eq=False)
class WorkspaceOutput:
    """Output of one step: what the positions read, and the updated slots."""

    heard: Tensor  # (b, n, d)
    slots: Tensor  # (b, m, d)


class SharedWorkspace(Mixer):
    """Shared workspace. As a mixer it starts from learned slots in every call; ``step`` continues with given slots."""

    def __init__(self, site: Site, slots: int, keep: int | None = None) -> None:
        super().__init__()
        kernel: Kernel = Softmax(site.dropout) if keep is None else TopK(keep, site.dropout)
        self.slots = nn.Parameter(distinct(slots, site.dim)[None])
        self.write = site.attention(kernel)
        self.norm = nn.LayerNorm(site.dim)
        self.ffn = FeedForward(site.dim, site.dim)
        self.input, self.forget = SlotGate(site.dim, 0.0), SlotGate(site.dim, 1.0)
        self.broadcast = site.attention(Softmax(site.dropout))
        self.influence = Tap()  # (b, 1, n, n): the norm of dy_i/dx_j, through all slots

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        mask: Mask = ALL,
        bias: Bias | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        real = real_positions("a shared workspace", x, context, mask, bias, cache)
        return self.step(x, self.slots.expand(len(x), -1, -1), real).heard

    def step(self, x: Tensor, slots: Tensor, real: Tensor | None = None) -> WorkspaceOutput:
        """(b, n, d), (b, m, d), (b, n) -> heard (b, n, d), slots (b, m, d)"""
        record_influence(self.influence, lambda x, real: self.told(x, slots.detach().clone(), real).heard, x, real)
        return self.told(x, slots, real)

    def told(self, x: Tensor, slots: Tensor, real: Tensor | None) -> WorkspaceOutput:
        x = zero_padding(x, real)
        written = self.written(x, slots, real)
        pooled = pool_mean(x, real)[..., None, :]
        slots = self.input(pooled, slots) * written.tanh() + self.forget(pooled, slots) * slots
        return WorkspaceOutput(self.broadcast(x, slots), slots)

    def written(self, x: Tensor, slots: Tensor, real: Tensor | None) -> Tensor:
        """What would be written to each slot.  -> (b, m, d)"""
        new = self.write(slots, x, mask=Mask(keys=real))
        return new + self.ffn(self.norm(new))


class SlotGate(nn.Module):
    """Gate of the slots, sigmoid(U x + V tanh(M) + b); b is initialised to ``ajar``."""

    def __init__(self, dim: int, ajar: float) -> None:
        super().__init__()
        self.ajar = ajar  # beside the bias, which models start at zero
        self.of_input = nn.Linear(dim, dim)
        self.of_slots = nn.Linear(dim, dim, bias=False)

    def forward(self, x: Tensor, slots: Tensor) -> Tensor:
        """(b, 1, d), (b, m, d) -> (b, m, d)"""
        return torch.sigmoid(self.of_input(x) + self.of_slots(slots.tanh()) + self.ajar)


def distinct(slots: int, dim: int) -> Tensor:
    """Rows of the identity: no two slots begin alike, unless there are more of them than features."""
    return torch.eye(dim)[torch.arange(slots) % dim]
