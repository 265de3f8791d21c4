"""Lines of text as rows of ids."""

from collections.abc import Sequence
from typing import Any

from regard.decode.symbols import Symbols

from .processor import Text
from .tasks.language import next_tokens
from .vocabulary import framing_tokens


class LineMaker:
    """Texts into rows of ids between a begin and an end; what is longer than the model can read is cut."""

    def __init__(self, text: Text, longest: int, symbols: Symbols | None = None) -> None:
        self.text, self.longest = text.literal(), longest
        self.begin, self.end = framing_tokens(text, symbols)

    def __call__(self, rows: Sequence[tuple[str, ...]]) -> Any:
        ids = self.text.unframed([row[0] for row in rows])
        return next_tokens([[self.begin, *row[: self.longest - 1], self.end] for row in ids])
