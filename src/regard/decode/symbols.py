"""Ids with a meaning of their own: which one a text begins with, which ones end it, which one fills it up."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from regard.errors import CheckpointError
from regard.nn.config import parse

BEGIN, END, PAD = "bos_token_id", "eos_token_id", "pad_token_id"
FIRST, LAST = "decoder_start_token_id", "forced_eos_token_id"


@dataclass(frozen=True)
class Symbols:
    """What a model has none of is None."""

    begin: int | None = None  # what a decoder is given first
    end: tuple[int, ...] = ()  # each of them ends a text
    pad: int | None = None

    def beyond(self, vocab: int) -> list[int]:
        """Those that are no row of the embedding."""
        return [i for i in (self.begin, *self.end, self.pad) if i is not None and not 0 <= i < vocab]

    def data(self) -> dict[str, Any]:
        table = {"begin": self.begin, "end": list(self.end), "pad": self.pad}
        return {key: value for key, value in table.items() if value not in (None, [])}


NO_SYMBOLS = Symbols()


def read_symbols(data: Any, vocab: int, where: str) -> Symbols:
    """From a folder of ours, strictly."""
    try:
        if not isinstance(data, dict):
            raise ValueError(f"{str(data)[:60]!r} is not a table")
        found = parse(Symbols, data)
    except ValueError as error:
        raise CheckpointError(
            "the special tokens (symbols) cannot be read", where=where, got=str(error)[:200]
        ) from None
    if wrong := found.beyond(vocab):
        raise CheckpointError(
            "special tokens (symbols) are not in the model's vocabulary",
            where=where,
            got=str(wrong),
            expected=f"ids from 0 to {vocab - 1}",
        )
    return found


def foreign_symbols(tables: list[Mapping[str, Any]], vocab: int) -> Symbols:
    """From their configs, the first that tells counts. An id beyond the vocabulary can never occur, so it is none."""

    def ids(*keys: str) -> list[int]:
        for key in keys:
            for table in tables:
                if (value := table.get(key)) is not None:
                    some = value if isinstance(value, list) else [value]
                    return [i for i in some if type(i) is int and 0 <= i < vocab]
        return []

    begin, pad = (next(iter(some), None) for some in (ids(FIRST, BEGIN), ids(PAD)))
    return Symbols(begin, tuple(ids(END)), pad)


def export_symbols(symbols: Symbols, keys: Iterable[str]) -> dict[str, Any]:
    """Under those of their keys that a kind of model has. Null where there is none: their defaults may be any word.

    Only a decoder's first token must not be null.
    """
    end = list(symbols.end) if len(symbols.end) > 1 else next(iter(symbols.end), None)
    told = {BEGIN: symbols.begin, FIRST: symbols.begin, END: end, LAST: end, PAD: symbols.pad}
    return {key: told[key] for key in keys if key != FIRST or told[key] is not None}
