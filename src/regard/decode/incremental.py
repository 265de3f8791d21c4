"""A model in the middle of writing: what it has read, what it remembers, and what it would say next.

Shapes: s sentences, r rows (the hypotheses of all sentences, equally many for each), n new tokens, v vocabulary.
"""

from typing import Any, Protocol

import torch
from torch import Tensor

from regard.nn.cache import Cache


class DecoderNet(Protocol):
    """What of a net is asked for each new token."""

    def __call__(self, ids: Tensor, keys: Tensor | None, cache: Cache) -> Tensor:
        """(r, n), (r, n) or None -> (r, n, v); the past is in the cache"""
        ...

    def keep(self, sentences: Tensor) -> None:
        """Go on with these sentences."""
        ...


class Seq2SeqDecoder:
    """Of a net that reads and writes: the source is read once."""

    def __init__(self, net: Any, source: Tensor, keys: Tensor | None = None) -> None:
        self.net, self.keys = net, keys
        self.memory = net.encode(source, keys)

    def __call__(self, ids: Tensor, keys: Tensor | None, cache: Cache) -> Tensor:
        logits: Tensor = self.net.decode(ids, self.memory, source_keys=self.keys, keys=keys, cache=cache)
        return logits

    def keep(self, sentences: Tensor) -> None:
        self.memory = self.memory.index_select(0, sentences)
        if self.keys is not None:
            self.keys = self.keys.index_select(0, sentences)


class CausalDecoder:
    """Of a net that only writes: what it goes on from is the prompt.

    ``length`` is how many tokens it can read. Where a text becomes longer, the net reads the last half of them again
    and goes on from there.
    """

    def __init__(self, net: Any, length: int | None = None) -> None:
        self.net, self.length = net, length

    def __call__(self, ids: Tensor, keys: Tensor | None, cache: Cache) -> Tensor:
        if self.length is not None:
            ids, keys = self.within(self.length, ids, keys, cache)
        logits: Tensor = self.net.logits(self.net.read(ids, keys=keys, cache=cache))
        return logits

    def within(self, length: int, ids: Tensor, keys: Tensor | None, cache: Cache) -> tuple[Tensor, Tensor | None]:
        """What the net is to read next; the cache keeps the tokens that stand in it, so that they are reordered too."""
        own, half = cache.at("read").slot(self.net), max(length // 2, 1)
        read = torch.cat((own["ids"], ids), 1) if "ids" in own else ids
        if read.shape[1] > length:
            if cache.keys is not None:
                new = torch.ones_like(ids, dtype=torch.bool) if keys is None else keys
                keys = torch.cat((cache.keys, new), 1)[:, -half:]
            ids = read = read[:, -half:]
            cache.clear()
        cache.at("read").slot(self.net)["ids"] = read
        return ids, keys

    def keep(self, sentences: Tensor) -> None:
        pass


class WindowedDecoder:
    """Of a net that reads a text as a whole or not at all: for every new token it reads the last ``length`` again."""

    def __init__(self, net: Any, length: int | None = None) -> None:
        self.net, self.length = net, length

    def __call__(self, ids: Tensor, keys: Tensor | None, cache: Cache) -> Tensor:
        own, n = cache.slot(self.net), ids.shape[1]
        new = {"ids": ids, "keys": torch.ones_like(ids, dtype=torch.bool) if keys is None else keys}
        for name, x in new.items():
            known = torch.cat((own[name], x), 1) if name in own else x
            own[name] = known if self.length is None else known[:, -self.length :]
        logits: Tensor = self.net.logits(self.net.read(own["ids"], keys=own["keys"]))
        return logits[:, -n:]

    def keep(self, sentences: Tensor) -> None:
        pass


class IncrementalDecoder:
    """A decoder with its cache. ``prompt`` (s, n) is what each text begins with, ``keys`` False at its padding."""

    def __init__(self, decoder: DecoderNet, prompt: Tensor, keys: Tensor | None = None, *, room: int = 0) -> None:
        self.decoder, self.cache = decoder, Cache(prompt.shape[1] + room)
        self.first = self.last_logits(decoder(prompt, keys, self.cache), keys)  # (s, v), to be used first

    @staticmethod
    def last_logits(logits: Tensor, keys: Tensor | None) -> Tensor:
        """Of the last real token of each row."""
        if keys is None:
            return logits[:, -1]
        places = torch.arange(keys.shape[1], device=keys.device)
        last = torch.where(keys, places, -1).amax(1)
        return logits[torch.arange(len(logits), device=keys.device), last]

    def spread(self, beams: int) -> None:
        """As many rows for each sentence."""
        if beams > 1:
            rows = torch.arange(len(self.first), device=self.first.device)
            self.cache.reorder(rows.repeat_interleave(beams))

    def multiply(self, times: int) -> None:
        """As if each sentence had been given so many times, one after the other; what was read is not read again."""
        if times > 1:
            rows = torch.arange(len(self.first), device=self.first.device).repeat_interleave(times)
            self.decoder.keep(rows)
            self.cache.reorder(rows, rows)
            self.first = self.first.index_select(0, rows)

    def next(self, tokens: Tensor) -> Tensor:
        """(r,), the token that each row wrote -> (r, v)"""
        return self.decoder(tokens[:, None], None, self.cache)[:, -1]

    def keep(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """Go on with these rows, in this order; and with these sentences, when some are finished."""
        if sentences is not None:
            self.decoder.keep(sentences)
            self.cache.reorder(rows, sentences)
        elif not torch.equal(rows, torch.arange(len(rows), device=rows.device)):
            self.cache.reorder(rows)
