"""A model that reads or writes text, asked: for a translation, a continuation, labels, tags, an answer, embeddings."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from regard.decode.settings import Decoding
from regard.errors import InputError
from regard.look.example import Example
from regard.look.maps import Map
from regard.modalities.inputs import Asked, Picture, as_text, counted, is_one, several_of
from regard.zoo import FAMILIES

from .alignment import aligned_maps
from .examples import continued_text, read_text, translated_text
from .generator import Generating
from .processor import Text
from .prompting import Prompted, answered, few_shot
from .reader import Answer, Labelled, Reading, Tagged, words_of
from .translator import Progress, Translating, clean, silent
from .writing import Said


@dataclass(frozen=True, eq=False)
class Translated:
    """A text and what it became."""

    source: str
    text: str
    nbest: list[Said]  # as many as were asked for, the best first; none where what was asked for cannot be
    maps: dict[str, Map]  # where it looked, of the layers that were asked for: (1, heads, target, source)


@dataclass(frozen=True, eq=False)
class Generated:
    """What a prompt goes on with."""

    prompt: str
    text: str  # without the prompt
    nbest: list[Said]  # as many as were asked for, the best first
    unread: int = 0  # of the prompt's first tokens, that were more than can be read
    unknown: tuple[str, ...] = ()  # letters of the prompt that the model has no token for


def text_of(model: Asked) -> Text:
    """Its tokenizer."""
    if "text" not in model.takes:
        raise InputError(f"a {model.family} sees images, and reads no texts")
    text = None if model.processor is None else model.processor.media.get("text")
    if not isinstance(text, Text):
        raise InputError("this model has no tokenizer", fix="put its tokenizer.json into the folder it is loaded from")
    return text


def translator_of(model: Asked) -> Translating:
    return Translating(model.net, text_of(model), model.symbols)


def generator_of(model: Asked) -> Generating:
    return Generating(model.net, text_of(model), model.symbols, model.length)


def reader_of(model: Asked) -> Reading:
    return Reading(model.net, text_of(model), model.labels, model.length)


def translate(
    model: Asked,
    texts: str | Sequence[str],
    decoding: Decoding,
    look: str | None,
    first: int,
    progress: Progress | None,
) -> Translated | list[Translated]:
    translating = translator_of(model)
    several = [clean(text) for text in ([texts] if isinstance(texts, str) else texts)]
    found = translating.translate(several, decoding, first, progress or silent)
    done = [
        Translated(
            source,
            own[0].text if own else "",
            own,
            {} if look is None or not own else aligned_maps(model, translating, source, own[0], look),
        )
        for source, own in zip(several, found, strict=True)
    ]
    return done[0] if isinstance(texts, str) else done


def generate(model: Asked, prompts: str | Sequence[str], decoding: Decoding) -> Generated | list[Generated]:
    several, generating = [prompts] if isinstance(prompts, str) else list(prompts), generator_of(model)
    done = [
        Generated(prompt, own[0].text if own else "", own, generating.surplus(prompt), generating.unknown(prompt))
        for prompt, own in zip(several, generating.generate(several, decoding), strict=True)
    ]
    return done[0] if isinstance(prompts, str) else done


def stream(model: Asked, prompt: str, decoding: Decoding) -> Iterator[str]:
    """Of a translator, what a text becomes."""
    if model.can("translate"):
        return translator_of(model).stream(clean(prompt), decoding)
    return generator_of(model).stream(prompt, decoding)


def prompt(
    model: Asked,
    query: str,
    examples: Sequence[tuple[str, str]],
    instruction: str,
    choices: Sequence[str],
    calibrated: bool,
    decoding: Decoding,
) -> Prompted:
    text = few_shot(instruction, examples, query)
    return answered(generator_of(model), text, choices, decoding, calibrated=calibrated)


def classify(model: Asked, given: str | Sequence[str | tuple[str, str]]) -> Labelled | list[Labelled]:
    several = several_of(given)
    found = reader_of(model).classify([(as_text(x),) if is_one(x) else tuple(map(as_text, x)) for x in several])
    return found[0] if is_one(given) else found


def tag(model: Asked, texts: str | Sequence[str | Sequence[str]]) -> Tagged | list[Tagged]:
    several = [texts] if isinstance(texts, str) else texts
    words = [words_of(text) if isinstance(text, str) else list(text) for text in several]
    found = reader_of(model).tag(words, last=FAMILIES[model.family].tagged == "last")
    return found[0] if isinstance(texts, str) else found


def answer(model: Asked, question: str, context: str) -> Answer:
    return reader_of(model).answer(question, context)


def embed(model: Asked, texts: str | Sequence[str], batch: int) -> Tensor:
    if batch < 1:
        raise InputError("a batch holds at least one text", got=str(batch))
    return reader_of(model).embed([texts] if isinstance(texts, str) else list(texts), batch)


def example(model: Asked, given: Sequence[Picture]) -> Example:
    """One that reads a text and writes another is shown as a translator is, whatever it was trained for."""
    if model.takes == ("text", "text"):
        return translated_example(model, given)
    counted(model, given, 1)
    return read_text(text_of(model), model.length, model.labels, as_text(given[0]))


def continued_example(model: Asked, given: Sequence[Picture]) -> Example:
    counted(model, given, 1)
    return continued_text(generator_of(model), as_text(given[0]))


def translated_example(model: Asked, given: Sequence[Picture]) -> Example:
    counted(model, given, 1, 2)
    return translated_text(translator_of(model), as_text(given[0]), as_text(given[1]) if len(given) > 1 else None)
