"""What is written to several texts at once, and to one while it is written: how the HTTP API answers.

A function here gives None where the model is not asked to write: then what was given is looked at as it is.
"""

from collections.abc import Sequence
from typing import Any

import torch

from regard.decode.beam import Beam
from regard.decode.settings import Decoding
from regard.look.answers import Answer, WrittenText
from regard.look.example import Example
from regard.modalities.inputs import Asked, as_text
from regard.modalities.telling import told

from .asking import generator_of, translator_of
from .examples import source_and_target
from .translator import LONGEST, clean
from .writing import Said

GREEDY = Decoding(beam=Beam(beams=1))


def translations(model: Asked, several: Sequence[Sequence[Any]], decoding: Decoding | None) -> list[Answer] | None:
    """As ``model.translate`` does it, and of each token that was written how likely it was."""
    if model.processor is None or any(len(one) > 1 for one in several):
        return None
    translating = translator_of(model)
    texts = [clean(as_text(one[0])) for one in several]
    parts = [[part.text for part in translating.parts(text)] for text in texts]
    best = [own[0] if own else None for own in translating.translate(texts, decoding or GREEDY)]
    flat: list[Example] = []
    for sources, said in zip(parts, best, strict=True):
        for source, one in zip(sources, pieces(said), strict=False):
            ids = [*one.ids, *(translating.symbols.end[:1] if one.ended else ())]
            if ids:
                read = torch.tensor(translating.encode([source]))
                flat.append(source_and_target(translating, read, ids, source, one.text))
    with torch.inference_mode():
        wrote = iter(told(model, flat))
    found: list[Answer] = []
    for sources, said in zip(parts, best, strict=True):
        own = [next(wrote) for source, one in zip(sources, pieces(said), strict=False) if one.ids or one.ended]
        tokens = tuple(token for one in own if isinstance(one, WrittenText) for token in one.tokens)
        found.append(WrittenText(said.text if said is not None else "", tokens))
    return found


def continuations(model: Asked, several: Sequence[Sequence[Any]], decoding: Decoding | None) -> list[Answer] | None:
    """Only where it is told how to go on: a decoder that is merely asked tells the likeliest next tokens."""
    if decoding is None:
        return None
    prompts = [clean(as_text(one[0])) for one in several]
    return [WrittenText(own[0].text if own else "", ()) for own in generator_of(model).generate(prompts, decoding)]


def translation_of(model: Asked, source: str, text: str) -> WrittenText:
    """With its tokens, if it can be read at once."""
    if not source.strip() or not text or len(translator_of(model).encode([source])[0]) > LONGEST:
        return WrittenText(text, ())
    found: Any = model.look(source, text).answer
    return found if isinstance(found, WrittenText) else WrittenText(text, ())


def continuation_of(model: Asked, source: str, text: str) -> WrittenText:
    return WrittenText(text, ())


def pieces(said: Said | None) -> tuple[Said, ...]:
    """Of a text that was read in parts, each; none of one that could not be written."""
    return () if said is None else said.parts or (said,)
