"""Text into token ids and back, by the ``tokenizers`` library."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer
from torch import Tensor

from regard.errors import CheckpointError, InputError


@dataclass(frozen=True, eq=False)
class Tokens:
    """A ragged batch, padded on the right."""

    ids: Tensor  # (b, n)
    keys: Tensor | None  # (b, n), False at padding; None where there is none


class Text:
    """A tokenizer that never pads or cuts by itself: the batch is padded here, and what is too long is an error."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()

    def encode(self, texts: Sequence[str], longest: int | None = None) -> Tokens:
        try:
            rows = [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts))]
        except UnicodeEncodeError:
            raise InputError("a text holds half of a surrogate pair, which is no character") from None
        width = max((len(row) for row in rows), default=0)
        if longest is not None and width > longest:
            where = max(range(len(rows)), key=lambda i: len(rows[i]))
            raise InputError(
                "a text is too long for this model",
                where=f"text {where}: {texts[where][:40]!r}",
                got=f"{width} tokens",
                expected=f"at most {longest}",
                fix="cut it into shorter texts",
            )
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        keys = torch.zeros(len(rows), width, dtype=torch.bool)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = torch.tensor(row, dtype=torch.long)
            keys[i, : len(row)] = True
        return Tokens(ids, None if bool(keys.all()) else keys)

    def labels(self, ids: Sequence[int]) -> tuple[str, ...]:
        """One readable word for each token."""
        return tuple(self.tokenizer.id_to_token(i) or f"<{i}>" for i in ids)

    def decode(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(list(ids))

    def to_bytes(self) -> bytes:
        return self.tokenizer.to_str(pretty=False).encode("utf-8")

    @classmethod
    def from_bytes(cls, raw: bytes, where: str) -> "Text":
        try:
            return cls(Tokenizer.from_buffer(raw))
        except Exception as error:  # the library raises bare Exceptions
            raise CheckpointError("this tokenizer cannot be read", where=where, got=str(error)[:200]) from None
