"""What is written to several texts at once, and to one while it is written: how the HTTP API answers.

A function here gives None where the model is not asked to write: then what was given is looked at as it is.
"""

from collections.abc import Sequence
from typing import Any

import torch

from regard.decode.settings import Decoding
from regard.look.answers import Answer, WrittenText
from regard.look.examples import Example
from regard.modalities.answering import answer_all
from regard.modalities.inputs import ModelView, input_text

from .examples import USUAL, source_and_target
from .runners import text_generator, translator_of
from .translator import LONGEST, check_text
from .unread import unknown_remark
from .writing import GeneratedText


def translations(model: ModelView, several: Sequence[Sequence[Any]], decoding: Decoding | None) -> list[Answer] | None:
    """As ``model.translate`` does it, and of each token that was written how likely it was."""
    if model.processor is None or any(len(one) > 1 for one in several):
        return None
    translating = translator_of(model)
    texts = [check_text(input_text(one[0])) for one in several]
    parts = [[part.text for part in translating.parts(text)] for text in texts]
    best = [own[0] if own else None for own in translating.translate(texts, decoding or USUAL)]
    flat: list[Example] = []
    for sources, said in zip(parts, best, strict=True):
        for source, one in zip(sources, pieces(said), strict=False):
            ids = [*one.ids, *(translating.symbols.end[:1] if one.ended else ())]
            if ids:
                read = torch.tensor(translating.encode([source]))
                flat.append(source_and_target(translating, read, ids, source, one.text))
    with torch.inference_mode():
        wrote = iter(answer_all(model, flat))
    found: list[Answer] = []
    for sources, said in zip(parts, best, strict=True):
        own = [next(wrote) for source, one in zip(sources, pieces(said), strict=False) if one.ids or one.ended]
        tokens = tuple(token for one in own if isinstance(one, WrittenText) for token in one.tokens)
        remark = unknown_remark(translating.text, sources)
        found.append(WrittenText(said.text if said is not None else "", tokens, remark))
    return found


def continuations(model: ModelView, several: Sequence[Sequence[Any]], decoding: Decoding | None) -> list[Answer] | None:
    """Only where it is told how to go on: a decoder that is merely asked tells the likeliest next tokens."""
    if decoding is None:
        return None
    prompts = [check_text(input_text(one[0])) for one in several]
    return [WrittenText(own[0].text if own else "", ()) for own in text_generator(model).generate(prompts, decoding)]


def translation_of(model: ModelView, source: str, text: str) -> WrittenText:
    """With its tokens, if it can be read at once."""
    if not source.strip() or not text or len(translator_of(model).encode([source])[0]) > LONGEST:
        return WrittenText(text, ())
    found: Any = model.look(source, text).answer
    return found if isinstance(found, WrittenText) else WrittenText(text, ())


def continuation_of(model: ModelView, source: str, text: str) -> WrittenText:
    return WrittenText(text, ())


def pieces(said: GeneratedText | None) -> tuple[GeneratedText, ...]:
    """Of a text that was read in parts, each; none of one that could not be written."""
    return () if said is None else said.parts or (said,)
