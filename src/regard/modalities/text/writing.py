"""What a decoder in use does, whether it translates or goes on with a text."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from regard.decode.beam import Search
from regard.decode.incremental import IncrementalDecoder
from regard.decode.rules import Rule, ban_tokens, forced_prefix, min_tokens, no_repeat_ngrams
from regard.decode.sampling import TokenSampler, greedy_tokens
from regard.decode.settings import Decoding
from regard.decode.steps import GeneratedTokens, collect_tokens, stream_tokens
from regard.decode.symbols import Symbols
from regard.errors import InputError

from .processor import Text


@dataclass(frozen=True)
class GeneratedText:
    """A generated text and its scores."""

    text: str
    score: float  # score that texts are ranked by
    logp: float  # its log-probability
    ids: tuple[int, ...]
    ended: bool  # True if the model ended it, False if it was cut at the maximum length
    parts: tuple["GeneratedText", ...] = ()  # the parts of a text that was processed in parts


def generated_text(written: GeneratedTokens, text: Text) -> GeneratedText:
    return GeneratedText(text.decode(written.ids), written.score, written.logp, tuple(written.ids), written.ended)


def rules_of(decoding: Decoding, symbols: Symbols, literal: Text) -> list[Rule]:
    """What may not be written, or must be."""
    silent = {symbols.begin, symbols.pad} - {None, *symbols.end}
    rules: list[Rule] = [ban_tokens([i for i in silent if i is not None])] if silent else []
    if decoding.shortest:
        rules.append(min_tokens(decoding.shortest, symbols.end))
    prefix = literal.unframed([decoding.prefix])[0] if decoding.prefix else []
    if decoding.no_repeat:
        rules.append(no_repeat_ngrams(decoding.no_repeat, len(prefix)))
    if prefix:
        rules.append(forced_prefix(prefix))
    return rules


def required_length(decoding: Decoding, literal: Text) -> int:
    """How many tokens a text must have at least to hold all that it shall; more than it may have is refused."""
    forced = sum(map(len, literal.unframed([x for x in (decoding.prefix, *needed(decoding)) if x])))
    if decoding.longest is not None and forced > decoding.longest:
        raise InputError(
            "the prefix and the required phrases are longer than the maximum length",
            got=f"{forced} tokens",
            expected=f"at most longest = {decoding.longest}",
        )
    return max(forced + bool(decoding.phrases), decoding.shortest)


def needed(decoding: Decoding) -> list[str]:
    """The phrases that must be said: one that another holds, or the beginning, is said with it."""
    once = list(dict.fromkeys(decoding.phrases))
    return [
        one for one in once if one not in decoding.prefix and not any(one in other for other in once if other != one)
    ]


def write_texts(
    writer: IncrementalDecoder,
    numbers: Sequence[int],
    decoding: Decoding,
    *,
    symbols: Symbols,
    literal: Text,
    longest: Sequence[int],
) -> list[list[GeneratedTokens]]:
    """The texts of each input, the best first; the ``writer`` has read all inputs, ``numbers`` are those by which their
    random numbers are known, and ``longest`` says how long each may become. There may be none: where all that is asked
    for cannot be, or where a net's scores are no numbers."""
    rules, end = rules_of(decoding, symbols, literal), symbols.end
    if decoding.sampling is None:
        phrases = tuple(tuple(row) for row in literal.unframed(needed(decoding))) if needed(decoding) else None
        asked = None if phrases is None else [phrases] * len(numbers)
        search = Search(writer, decoding.beam, end, longest=longest, rules=rules, phrases=asked)
        return [own[: decoding.nbest] for own in search.run()]
    n = decoding.nbest
    writer.multiply(n)
    choose = TokenSampler(decoding.sampling, [number * n + turn for number in numbers for turn in range(n)])
    limits = [most for most in longest for _ in range(n)]
    drawn = collect_tokens(stream_tokens(writer, choose, end, longest=limits, rules=rules), len(limits), end)
    real = [[text for text in drawn[i : i + n] if math.isfinite(text.logp)] for i in range(0, len(drawn), n)]
    return [sorted(own, key=lambda text: -text.score) for own in real]


def check_stream(decoding: Decoding) -> None:
    """Only what is chosen token by token can be told so."""
    searched = decoding.sampling is None and decoding.beam.beams > 1
    if searched or decoding.phrases or decoding.nbest > 1:
        got = f"{decoding.beam.beams} beams" if searched else f"nbest = {decoding.nbest}, phrases {decoding.phrases}"
        raise InputError(
            "beam search, several texts and required phrases cannot be streamed",
            got=got,
            expected="one beam or sampling, nbest = 1, and no phrases",
        )


def text_pieces(
    start: Callable[[], IncrementalDecoder],
    number: int,
    decoding: Decoding,
    *,
    symbols: Symbols,
    literal: Text,
    longest: int,
    text: Callable[[Sequence[int]], str],
) -> Iterator[str]:
    """One text piece by piece, each as soon as it is chosen: the likeliest, or drawn. ``start`` gives a writer that has
    read the input, and ``text`` is what tokens say."""
    choose = greedy_tokens if decoding.sampling is None else TokenSampler(decoding.sampling, [number])
    ids: list[int] = []
    told = ""
    with torch.inference_mode():
        writer = start()
    steps = stream_tokens(writer, choose, symbols.end, longest=longest, rules=rules_of(decoding, symbols, literal))
    while True:
        with torch.inference_mode():  # not around the yield: it would hold for whoever listens
            step = next(steps, None)
        if step is None:
            break
        if step[0].id not in symbols.end:
            ids.append(step[0].id)
            known = stable_text(text(ids))
            if len(known) > len(told):
                yield known[len(told) :]
                told = known
    if rest := text(ids)[len(told) :]:
        yield rest


def stable_text(text: str) -> str:
    """Without the end that may still change: a part of a character waits for the rest, three bytes at most."""
    broken = len(text) - len(text.rstrip("\ufffd"))
    return text[: len(text) - min(broken, 3)]
