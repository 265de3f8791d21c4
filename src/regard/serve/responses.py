"""What models answer, several inputs at once: by the verb that a model can, or as it looks at what it is given."""

from collections.abc import Sequence
from typing import Any

import torch

from regard.decode.beam import Beam
from regard.decode.sampling import Sampling
from regard.decode.settings import Decoding
from regard.errors import InputError
from regard.look.answers import Answer, answer_data
from regard.look.changes import Change
from regard.modalities.answering import answer_all
from regard.modalities.page_input import LookInput
from regard.modalities.verb_table import VERBS
from regard.modalities.verbs import asked_example_maker, example_maker, verb_function
from regard.model import Model

from .schema import DecodingFields

GREEDY = DecodingFields()


def decoding_of(asked: DecodingFields) -> Decoding:
    if asked.temperature > 0 and asked.beam > 1:
        raise InputError("use either sampling or beam search, not both", got="both beam and temperature")
    chance = None
    if asked.temperature > 0:
        chance = Sampling(temperature=asked.temperature, top_k=asked.top_k, top_p=asked.top_p, seed=asked.seed)
    elif asked.top_k or asked.top_p < 1 or asked.seed:
        raise InputError(
            "sampling settings need a temperature", got="top_k, top_p or seed", fix="set a temperature above 0"
        )
    return Decoding(beam=Beam(beams=asked.beam), sampling=chance, longest=asked.longest)


def answer(
    model: Model, shown: LookInput, changes: Sequence[Change], asked: DecodingFields | None, verb: str | None = None
) -> dict[str, Any]:
    """Of one input."""
    if changes and asked is not None and asked != GREEDY:
        raise InputError("changes can only be combined with greedy decoding", got="both changes and settings")
    if changes and verb not in (None, *model.verbs()[:1]):
        raise InputError("changes can only be combined with the first verb of a model", got="both changes and verb")
    if changes:
        return answer_data(model.look(*shown, changes=changes).answer)
    return answers(model, [shown], asked, verb)[0]


def answers(
    model: Model, several: Sequence[LookInput], asked: DecodingFields | None, verb: str | None = None
) -> list[dict[str, Any]]:
    """Of several, without changes."""
    decoding = None if asked is None else decoding_of(asked)
    make = example_maker(model) if verb is None else asked_example_maker(model, verb)
    for reply in (VERBS[name].reply for name in (model.verbs() if verb is None else (verb,))):
        found: list[Answer] | None = verb_function(reply)(model, several, decoding) if reply else None
        if found is not None:
            return [answer_data(one) for one in found]
    if asked is not None and asked != GREEDY:
        raise InputError("this model has no decoding settings", got="settings")
    with torch.inference_mode():
        return [answer_data(one) for one in answer_all(model, [make(model, one) for one in several])]
