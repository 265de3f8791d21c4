"""The key-value cache of decoding."""

from copy import copy
from weakref import ref

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .mask import Mask, fitted_keys


class Slot:
    """Cache of one layer: named, batch-first tensors, such as keys and values, an RNN's state or Performer's sums."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.tensors: dict[str, Tensor] = {}
        self.lengths: dict[str, int] = {}  # of those that grow
        self.origin: ref[Tensor] | None = None  # the context that they were made from

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def __getitem__(self, name: str) -> Tensor:
        x = self.tensors[name]
        return x[..., : self.lengths[name], :] if name in self.lengths else x

    def __setitem__(self, name: str, state: Tensor) -> None:
        self.tensors[name] = state

    def append(self, name: str, new: Tensor) -> Tensor:
        """Append (..., n, e) in place and return the full tensor as a view."""
        length, buffer = self.lengths.get(name, 0), self.tensors.get(name)
        if buffer is not None and buffer.shape[:-2] != new.shape[:-2]:  # else one row would be written to all
            raise ValueError(
                f"a cache of {len(buffer)} rows got {len(new)} rows of tokens: reorder the cache to match these rows"
            )
        total = length + new.shape[-2]
        self.lengths[name] = total
        if torch.is_grad_enabled() and (new.requires_grad or (buffer is not None and buffer.requires_grad)):
            # A gradient needs every earlier version of the buffer, so nothing may be written in place.
            self.tensors[name] = new if buffer is None else torch.cat((buffer[..., :length, :], new), -2)
        elif buffer is None or buffer.shape[-2] < total:
            room = max(total, self.capacity, 2 * length)
            grown = new.new_zeros(*new.shape[:-2], room, new.shape[-1])  # zeros: a masked slot must still be finite
            if buffer is not None:
                grown[..., :length, :] = buffer[..., :length, :]
            grown[..., length:total, :] = new
            self.tensors[name] = grown
        else:
            buffer[..., length:total, :] = new
        return self[name]

    def belongs(self, context: Tensor) -> None:
        """Check that the cache was filled from this context: the same tensor, not a copy of it."""
        if torch.compiler.is_compiling():
            return
        if self.origin is None:
            self.origin = ref(context)
        elif self.origin() is not context:
            raise ValueError(
                "this cache was filled from another context: got a different tensor than at the first step; "
                "pass the same tensor at every step, or start with a new Cache"
            )

    def reorder(self, rows: Tensor) -> None:
        """Keep the given rows. The reordered context is a new tensor, which the next call must pass."""
        self.tensors = {name: x.index_select(0, rows) for name, x in self.tensors.items()}
        self.origin = None


class Cache:
    """Cache of a model: one slot for each layer. A layer that is called several times gets a slot for each by ``at``.

    What comes from the context is kept apart, once per sentence: beams fold into the query axis there, and only the
    other slots are reordered.
    """

    def __init__(self, capacity: int = 0) -> None:
        self.capacity = capacity  # how many tokens to make room for at once; more still fit
        self.site = ""
        self.slots: dict[tuple[str, nn.Module], Slot] = {}
        self.contexts: dict[tuple[str, nn.Module], Slot] = {}
        self.length = 0  # places taken so far
        self.keys: Tensor | None = None  # (b, length), False at padding; None while there is none

    def at(self, site: str) -> "Cache":
        """The same cache with a separate slot for another call of a shared layer."""
        there = copy(self)
        there.site = f"{self.site}/{site}"
        return there

    def slot(self, owner: nn.Module) -> Slot:
        return self.slots.setdefault((self.site, owner), Slot(self.capacity))

    def context(self, owner: nn.Module) -> Slot:
        return self.contexts.setdefault((self.site, owner), Slot(0))

    def take(self, n: int, keys: Tensor | None = None) -> Mask:
        """Reserve the next n positions; ``keys`` (b, n) is False at padding. -> their mask"""
        start = self.length
        self.length += n
        if keys is not None:
            past = keys.new_ones(len(keys), start) if self.keys is None else self.keys
            self.keys = torch.cat((past, keys), 1)
        elif self.keys is not None:
            self.keys = F.pad(self.keys, (0, n), value=True)
        return Mask(causal=True, start=start, keys=self.keys)

    def clear(self) -> None:
        """Clear the cache of the target, but keep that of the contexts."""
        self.slots.clear()
        self.length, self.keys = 0, None

    def reorder(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """Keep the given rows, in that order (beam search); and the given contexts, when some sequences are
        finished."""
        for slot in self.slots.values():
            slot.reorder(rows)
        if self.keys is not None:
            self.keys = self.keys.index_select(0, rows)
        if sentences is not None:
            for slot in self.contexts.values():
                slot.reorder(sentences)


def decoder_mask(ids: Tensor, keys: Tensor | None, cache: Cache | None) -> Mask:
    """The causal mask of new tokens (b, n) of a decoder, with or without a cache. Padding on either side takes no
    position."""
    return (Cache() if cache is None else cache).take(ids.shape[1], fitted_keys(keys, ids))
