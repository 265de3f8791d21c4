"""What the contracts share: random numbers, every kind of mask, spelled out, and gradients."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

from regard.nn.mask import Mask

Net = TypeVar("Net", bound=nn.Module)

DIM, HEADS = 16, 4
WIDTH = DIM // HEADS


def stirred(module: Net) -> Net:
    """In float64, and no weight left at a special value such as zero or the identity."""
    with torch.no_grad():
        for parameter in module.double().parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return module


def numbers(*shape: int, grad: bool = False) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=grad)


def gradients(y: Tensor, *inputs: Tensor) -> list[Tensor]:
    """Of a random number made of y; the same for the same shape, however y was computed."""
    state = torch.get_rng_state()
    toward = torch.randn(y.shape, generator=torch.Generator().manual_seed(5), dtype=y.dtype)
    found = torch.autograd.grad((y * toward).sum(), inputs, allow_unused=True)
    torch.set_rng_state(state)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True)]


def ragged(batch: int, columns: int, side: str) -> Tensor:
    """Rows of different lengths, the first one full; where there is room, one with a single real key."""
    lengths = torch.tensor([max(columns - 2 * i, 1) for i in range(batch)])
    places = torch.arange(columns)
    return places < lengths[:, None] if side == "right" else places >= columns - lengths[:, None]


def some_pairs(batch: int, rows: int, columns: int) -> Tensor:
    """Random pairs, other ones in each head; the last query may look at nothing."""
    pairs = torch.rand(batch, HEADS, rows, columns) < 0.6
    pairs[:, :, -1] = False
    return pairs


# (batch, queries, keys) -> a mask. With causal masks there must be at least as many keys as queries.
MASKS: dict[str, Callable[[int, int, int], Mask]] = {
    "none": lambda b, q, k: Mask(),
    "causal": lambda b, q, k: Mask(causal=True, start=k - q),
    "causal-spare-keys": lambda b, q, k: Mask(causal=True, start=max(k - q - 2, 0)),
    "causal-late-start": lambda b, q, k: Mask(causal=True, start=k - q + 2),
    "causal-start-tensor": lambda b, q, k: Mask(causal=True, start=torch.tensor(k - q)),
    "causal-start-per-row": lambda b, q, k: Mask(causal=True, start=(torch.arange(b) + k - q) % (k - q + 1)),
    "left": lambda b, q, k: Mask(keys=ragged(b, k, "left")),
    "right": lambda b, q, k: Mask(keys=ragged(b, k, "right")),
    "fully-masked-row": lambda b, q, k: Mask(keys=torch.arange(b)[:, None].expand(b, k) > 0),
    "pairs": lambda b, q, k: Mask(pairs=some_pairs(b, q, k)),
    "causal-pairs": lambda b, q, k: Mask(causal=True, start=k - q, pairs=some_pairs(b, q, k)),
    "causal-left": lambda b, q, k: Mask(causal=True, start=k - q, keys=ragged(b, k, "left")),
    "causal-right": lambda b, q, k: Mask(causal=True, start=k - q, keys=ragged(b, k, "right")),
    "all": lambda b, q, k: Mask(True, max(k - q - 1, 0), ragged(b, k, "left"), some_pairs(b, q, k)),
}


def asked_by(mask: Mask) -> list[str]:
    """What a mask asks for that not everyone honours."""
    return ["causal"] * mask.causal + ["pairs"] * (mask.pairs is not None)


def spelled(mask: Mask, batch: int, rows: int, columns: int) -> Tensor:
    """What a mask means, one pair at a time.  -> bool (b, h, q, k)"""
    allowed = torch.ones(batch, HEADS, rows, columns, dtype=torch.bool)
    starts = torch.as_tensor(mask.start).expand(batch).tolist()
    for b in range(batch):
        for i in range(rows):
            for j in range(columns):
                if mask.causal and j > starts[b] + i:
                    allowed[b, :, i, j] = False
                if mask.keys is not None and not mask.keys[b, j]:
                    allowed[b, :, i, j] = False
    return allowed if mask.pairs is None else allowed & mask.pairs
