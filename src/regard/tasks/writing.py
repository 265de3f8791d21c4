"""What a decoder in use does, whether it translates or goes on with a text."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from regard.data.text import Text
from regard.decode.beam import Search
from regard.decode.choice import Drawn
from regard.decode.rules import Rule, at_least, begins_with, never, no_repeat
from regard.decode.settings import Decoding
from regard.decode.steps import Written, collect, stream
from regard.decode.writer import Writer
from regard.errors import InputError
from regard.interop.symbols import Symbols


@dataclass(frozen=True)
class Said:
    """One of the texts that an input may become."""

    text: str
    score: float  # what it was ranked by
    logp: float  # its log-probability
    ids: tuple[int, ...]
    ended: bool  # by itself; else it was cut at the longest length
    parts: tuple["Said", ...] = ()  # of a text that was read in parts


def said(written: Written, text: Text) -> Said:
    return Said(text.decode(written.ids), written.score, written.logp, tuple(written.ids), written.ended)


def rules_of(decoding: Decoding, symbols: Symbols, literal: Text) -> list[Rule]:
    """What may not be written, or must be."""
    silent = {symbols.begin, symbols.pad} - {None, *symbols.end}
    rules: list[Rule] = [never([i for i in silent if i is not None])] if silent else []
    if decoding.shortest:
        rules.append(at_least(decoding.shortest, symbols.end))
    prefix = literal.ids([decoding.prefix])[0] if decoding.prefix else []
    if decoding.no_repeat:
        rules.append(no_repeat(decoding.no_repeat, len(prefix)))
    if prefix:
        rules.append(begins_with(prefix))
    return rules


def asked_for(decoding: Decoding, literal: Text) -> int:
    """How many tokens a text must have at least to hold all that it shall; more than it may have is refused."""
    forced = sum(map(len, literal.ids([x for x in (decoding.prefix, *decoding.phrases) if x])))
    if decoding.longest is not None and forced > decoding.longest:
        raise InputError(
            "what a text shall begin with and hold is longer than it may be",
            got=f"{forced} tokens",
            expected=f"at most longest = {decoding.longest}",
        )
    return max(forced + bool(decoding.phrases), decoding.shortest)


def write(
    start: Callable[[], Writer],
    numbers: Sequence[int],
    decoding: Decoding,
    *,
    symbols: Symbols,
    literal: Text,
    longest: Sequence[int],
) -> list[list[Written]]:
    """The texts of each input, the best first; ``start`` gives a writer that has read all inputs, ``numbers`` are those
    by which their random numbers are known, and ``longest`` says how long each may become. There may be none: where all
    that is asked for cannot be, or where a net's scores are no numbers."""
    rules, end = rules_of(decoding, symbols, literal), symbols.end
    if decoding.sampling is None:
        phrases = tuple(tuple(row) for row in literal.ids(decoding.phrases)) if decoding.phrases else None
        asked = None if phrases is None else [phrases] * len(numbers)
        search = Search(start(), decoding.beam, end, longest=longest, rules=rules, phrases=asked)
        return [own[: decoding.nbest] for own in search.run()]
    drawn = []
    for turn in range(decoding.nbest):
        choose = Drawn(decoding.sampling, [number * decoding.nbest + turn for number in numbers])
        drawn.append(collect(stream(start(), choose, end, longest=longest, rules=rules), len(numbers), end))
    real = [[text for text in own if math.isfinite(text.logp)] for own in zip(*drawn, strict=True)]
    return [sorted(own, key=lambda text: -text.score) for own in real]
