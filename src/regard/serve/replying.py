"""What models answer, several inputs at once: each gets the answer that it would get alone.

Texts to translate are searched for in one batch. Then all that has one shape goes through the net together.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.decode.beam import Beam
from regard.decode.choice import Sampling
from regard.decode.settings import Decoding
from regard.errors import InputError
from regard.look.changes import Change
from regard.look.document import answer_data
from regard.model import Model
from regard.tasks.shown import Shown, written
from regard.tasks.telling import Answer, Wrote
from regard.tasks.translating import clean
from regard.tasks.writing import Said

from .giving import Given
from .schema import Settings

GREEDY = Settings()


def decoding_of(asked: Settings) -> Decoding:
    if asked.temperature > 0 and asked.beam > 1:
        raise InputError("tokens are either drawn by chance or found by a search", got="beam and temperature")
    chance = None
    if asked.temperature > 0:
        chance = Sampling(temperature=asked.temperature, top_k=asked.top_k, top_p=asked.top_p, seed=asked.seed)
    elif asked.top_k or asked.top_p < 1 or asked.seed:
        raise InputError("nothing is drawn by chance here", got="top_k, top_p or seed", fix="give a temperature too")
    return Decoding(beam=Beam(beams=asked.beam), sampling=chance, longest=asked.longest)


def answer(model: Model, shown: Given, changes: Sequence[Change], asked: Settings | None) -> dict[str, Any]:
    """Of one input."""
    if changes and asked is not None and asked != GREEDY:
        raise InputError("what is changed is told by the likeliest tokens alone", got="changes and settings")
    if changes:
        return answer_data(model.look(*shown, changes=changes).answer)
    return answers(model, [shown], asked)[0]


def answers(model: Model, several: Sequence[Given], asked: Settings | None) -> list[dict[str, Any]]:
    """Of several, without changes."""
    if model.translates() and model.processor is not None and all(len(one) == 1 for one in several):
        return [answer_data(x) for x in translated(model, [text_of(one) for one in several], asked or GREEDY)]
    if model.continues() and asked is not None:
        found = model.generate([clean(text_of(one)) for one in several], decoding=decoding_of(asked))
        assert isinstance(found, list)
        return [answer_data(Wrote(one.text, ())) for one in found]
    if asked is not None and asked != GREEDY:
        raise InputError("this model is asked for nothing that could be set", got="settings")
    with torch.inference_mode():
        return [answer_data(x) for x in told(model, [model.shown(one) for one in several])]


def text_of(shown: Given) -> str:
    (text,) = shown
    assert isinstance(text, str)
    return text


def told(model: Model, several: Sequence[Shown]) -> list[Answer | None]:
    """One pass for all whose inputs have the same shapes."""
    found: dict[int, Answer | None] = {}
    shapes = [tuple(x.shape for x in one.inputs) for one in several]
    for shape in dict.fromkeys(shapes):
        same = [i for i, own in enumerate(shapes) if own == shape]
        inputs = [torch.cat(column) for column in zip(*(several[i].inputs for i in same), strict=True)]
        output = model.net(*inputs)
        if not isinstance(output, Tensor) and len(same) > 1:  # of several parts, which only their model knows to split
            found |= {i: several[i].tell(model.net(*several[i].inputs)) for i in same}
            continue
        found |= {
            i: several[i].tell(output[j : j + 1] if isinstance(output, Tensor) else output) for j, i in enumerate(same)
        }
    return [found[i] for i in range(len(several))]


def translated(model: Model, texts: Sequence[str], asked: Settings) -> list[Wrote]:
    """As ``model.translate`` does it, and of each token that was written how likely it was."""
    translating = model.translating()
    texts = [clean(text) for text in texts]
    parts = [[part.text for part in translating.parts(text)] for text in texts]
    best = [own[0] if own else None for own in translating.translate(texts, decoding_of(asked))]
    flat: list[Shown] = []
    for sources, said in zip(parts, best, strict=True):
        for source, one in zip(sources, pieces(said), strict=False):
            ids = [*one.ids, *(translating.symbols.end[:1] if one.ended else ())]
            if ids:
                read = torch.tensor(translating.encode([source]))
                flat.append(written(read, translating.text, translating.begin, ids, (source, one.text), {}))
    with torch.inference_mode():
        wrote = iter(told(model, flat))
    found = []
    for sources, said in zip(parts, best, strict=True):
        own = [next(wrote) for source, one in zip(sources, pieces(said), strict=False) if one.ids or one.ended]
        tokens = tuple(token for one in own if isinstance(one, Wrote) for token in one.tokens)
        found.append(Wrote(said.text if said is not None else "", tokens))
    return found


def pieces(said: Said | None) -> tuple[Said, ...]:
    """Of a text that was read in parts, each; none of one that could not be written."""
    return () if said is None else said.parts or (said,)
