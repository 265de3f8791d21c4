"""Who may look at whom, and what is added to the scores. In this library True always means "may be looked at"."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Mask:
    """Attention mask (True: may be attended to), kept in parts, as few kernels need the full matrix.

    causal: query i sees the keys up to ``start + i``, whatever the number of keys: those a cache has room for but
            has not written are never seen.
    start:  the place of the first query among the keys; an int, or a tensor: one for all rows, or (b,).
    keys:   bool (..., k), False at padding.
    pairs:  bool, broadcasts to (..., h, q, k): any further restriction.
    """

    causal: bool = False
    start: int | Tensor = 0
    keys: Tensor | None = None
    pairs: Tensor | None = None

    def __post_init__(self) -> None:
        for name, part in (("keys", self.keys), ("pairs", self.pairs)):
            if part is not None and part.dtype != torch.bool:
                raise ValueError(f"Mask.{name} must be bool (True: may be attended to), got {part.dtype}")

    def dense(self, rows: int, columns: int, device: torch.device) -> Tensor | None:
        """All parts as one bool tensor that broadcasts to (..., h, q, k); None when everything is allowed."""
        parts = []
        if self.causal and not (isinstance(self.start, int) and self.start + 1 >= columns):
            parts.append(add_head_axis(torch.arange(columns, device=device) <= self.places(rows, device)[..., :, None]))
        if self.keys is not None:
            parts.append(self.keys[..., None, None, :])
        if self.pairs is not None:
            parts.append(self.pairs)
        if not parts:
            return None
        allowed = parts[0]
        for part in parts[1:]:
            allowed = allowed & part
        return allowed

    def tile(self, rows: slice, columns: int) -> "Mask":
        """The mask of some of the queries and of the first keys."""
        keys = None if self.keys is None else self.keys[..., :columns]
        pairs = None if self.pairs is None else slice_tile(self.pairs, rows, slice(0, columns))
        return Mask(self.causal, self.start + rows.start, keys, pairs)

    def reach(self, rows: slice, columns: int) -> int:
        """Number of leading keys that these queries may attend to: a causal tile can skip the rest."""
        return min(columns, self.start + rows.stop) if self.causal and isinstance(self.start, int) else columns

    def places(self, n: int, device: torch.device) -> Tensor:
        """Index of each of n queries among the keys: (n,), or (b, n) when each row has its own start."""
        first = self.start[:, None] if isinstance(self.start, Tensor) and self.start.ndim else self.start
        return torch.arange(n, device=device) + first

    def real(self, n: int, device: torch.device) -> Tensor | None:
        """Which of n queries are not padding: (..., n); None when all are real."""
        return None if self.keys is None else pick(self.keys, self.places(n, device))

    def positions(self, n: int, device: torch.device) -> Tensor:
        """The position of each of n queries in its sequence, not counting padding: (n,) or (..., n)"""
        places = self.places(n, device)
        return places if self.keys is None else pick(count(self.keys), places)

    def distances(self, rows: int, columns: int, device: torch.device) -> Tensor:
        """Position of the key minus that of the query: (q, k), or (..., 1, q, k) when the rows differ."""
        keys = torch.arange(columns, device=device) if self.keys is None else count(self.keys)
        return add_head_axis(keys[..., None, :] - self.positions(rows, device)[..., :, None])

    def structured(self, mechanism: str) -> "Mask":
        """This mask for a kernel that never forms the score matrix; raises a ValueError for what such a kernel does not
        support."""
        if self.pairs is not None:
            raise ValueError(f"{mechanism} never forms the score matrix, so it does not support Mask.pairs")
        return self


ALL = Mask()
CAUSAL = Mask(causal=True)


def fitted_keys(keys: Tensor | None, tokens: Tensor) -> Tensor | None:
    """Check that the padding mask has the shape of the tokens, (b, n) or (b, n, d), and return it."""
    if keys is not None and keys.shape != tokens.shape[:2]:
        raise ValueError(
            f"keys (the padding mask, False at padding) must have the shape of the tokens: got {tuple(keys.shape)}, "
            f"expected {tuple(tokens.shape[:2])}"
        )
    return keys


class Bias(Protocol):
    """Attention bias: added to the scores before the softmax; like a mask, it can be computed for a tile."""

    def dense(self, rows: int, columns: int, device: torch.device) -> Tensor:
        """-> broadcasts to (..., h, q, k)"""
        ...

    def tile(self, rows: slice, columns: int) -> "Bias":
        """The bias of some of the queries and of the first keys."""
        ...


def count(keys: Tensor) -> Tensor:
    """(..., k) bool -> (..., k): the position of each real token; padding repeats the last one before it."""
    return (keys.cumsum(-1) - 1).clamp(min=0)


def pick(x: Tensor, places: Tensor) -> Tensor:
    """(..., k), (n,) or (..., n) -> (..., n)"""
    return x[..., places] if places.ndim == 1 else x.take_along_dim(places, -1)


def add_head_axis(x: Tensor) -> Tensor:
    """(q, k) -> (q, k), (..., q, k) -> (..., 1, q, k): the same for every head"""
    return x if x.ndim == 2 else x.unsqueeze(-3)


@dataclass(frozen=True, eq=False)
class TensorBias:
    """A bias given as a tensor, such as AlphaFold's pair bias or Swin's position bias."""

    value: Tensor

    def dense(self, rows: int, columns: int, device: torch.device) -> Tensor:
        return self.value

    def tile(self, rows: slice, columns: int) -> "TensorBias":
        return TensorBias(slice_tile(self.value, rows, slice(0, columns)))


def slice_tile(x: Tensor, rows: slice, columns: slice) -> Tensor:
    """A tile of the last two axes; an axis of size 1 stands for all."""
    x = x if x.shape[-1] == 1 else x[..., columns]
    return x if x.ndim < 2 or x.shape[-2] == 1 else x[..., rows, :]


def add_bias(scores: Tensor, bias: Bias | None) -> Tensor:
    """(..., h, q, k) -> (..., h, q, k)"""
    if bias is None:
        return scores
    return scores + bias.dense(scores.shape[-2], scores.shape[-1], scores.device).to(scores.dtype)


def masked_softmax(scores: Tensor, allowed: Tensor | None, bias: Bias | None = None) -> Tensor:
    """Softmax over the keys, in float32 at least; a row in which every key is masked gets zeros, not NaN.

    ``bias`` is the one that the scores have in them already: where it is minus infinity, it forbids as a mask does.
    """
    if bias is not None:
        possible = scores > -torch.inf
        allowed = possible if allowed is None else allowed & possible
    precise = torch.promote_types(scores.dtype, torch.float32)
    if allowed is None:
        return scores.softmax(-1, dtype=precise).to(scores.dtype)
    weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1, dtype=precise).to(scores.dtype)
    return weights.masked_fill(~allowed, 0.0)
