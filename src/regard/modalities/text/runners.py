"""A model that reads or writes text, asked: for a translation, a continuation, labels, tags, an answer, embeddings."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from regard.decode.settings import Decoding
from regard.errors import InputError, notify
from regard.look.examples import Example
from regard.look.maps import Map
from regard.look.short_repr import BriefRepr
from regard.modalities.inputs import ModelView, Picture, as_list, as_texts, check_count, input_text, is_single
from regard.modalities.media import MEDIA
from regard.zoo import FAMILIES

from .alignment import aligned_maps
from .examples import continued_text, has_masks, read_text, translated_text
from .generator import Generating
from .processor import Text
from .prompting import PromptedAnswer, answered, few_shot
from .reader_examples import answered_example, embedded_example, labelled_example, tagged_example
from .text_model import AnswerSpan, TaggedText, TextClassification, TextReader, words_of
from .translator import Progress, TranslationModel, check_text, no_progress
from .unread import tell_unknown
from .writing import GeneratedText

MASKED = ("words", "pretraining")  # heads that fill in masks


@dataclass(frozen=True, eq=False, repr=False)
class Translation(BriefRepr):
    """A text and its translation."""

    source: str
    text: str
    nbest: list[GeneratedText]  # the nbest translations, best first; empty if the constraints cannot be met
    maps: dict[str, Map]  # attention maps of the requested layers: (1, heads, target, source)


@dataclass(frozen=True, eq=False, repr=False)
class Generation(BriefRepr):
    """A prompt and its continuation."""

    prompt: str
    text: str  # without the prompt
    nbest: list[GeneratedText]  # the nbest continuations, best first
    unread: int = 0  # number of tokens cut from the start of a prompt that is too long
    unknown: tuple[str, ...] = ()  # characters of the prompt that are not in the vocabulary


def text_processor(model: ModelView) -> Text:
    """Its tokenizer."""
    if "text" not in model.takes:
        given = " and ".join(MEDIA[one].plural if one in MEDIA else one for one in model.takes)
        raise InputError(f"this {model.family} takes {given}, not text")
    text = None if model.processor is None else model.processor.media.get("text")
    if not isinstance(text, Text) and model.unprepared is not None:
        where, got, fix = model.unprepared
        raise InputError("this model has no tokenizer", where=where, got=got, fix=fix)
    if not isinstance(text, Text):
        raise InputError(
            "this model has no tokenizer", fix="put a tokenizer.json into the folder that the model is loaded from"
        )
    return text


def translator_of(model: ModelView) -> TranslationModel:
    return TranslationModel(model.net, text_processor(model), model.symbols)


def text_generator(model: ModelView) -> Generating:
    return Generating(model.net, text_processor(model), model.symbols, model.length)


def reader_of(model: ModelView) -> TextReader:
    return TextReader(model.net, text_processor(model), model.labels, model.length, bool(model.get("segments")))


def translate(
    model: ModelView,
    texts: str | Sequence[str],
    decoding: Decoding,
    look: str | None,
    first: int,
    progress: Progress | None,
) -> Translation | list[Translation]:
    translating = translator_of(model)
    several = [check_text(text) for text in as_texts(texts)]
    tell_unknown(translating.text, several)
    found = translating.translate(several, decoding, first, progress or no_progress)
    done = [
        Translation(
            source,
            own[0].text if own else "",
            own,
            {} if look is None or not own else aligned_maps(model, translating, source, own[0], look),
        )
        for source, own in zip(several, found, strict=True)
    ]
    return done[0] if isinstance(texts, str) else done


def generate(model: ModelView, prompts: str | Sequence[str], decoding: Decoding) -> Generation | list[Generation]:
    several, generating = as_texts(prompts), text_generator(model)
    done = [
        Generation(prompt, own[0].text if own else "", own, generating.surplus(prompt), generating.unknown(prompt))
        for prompt, own in zip(several, generating.generate(several, decoding), strict=True)
    ]
    if not any(one.unknown for one in done):  # else they are named one by one
        tell_unknown(generating.text, several)
    return done[0] if isinstance(prompts, str) else done


def stream_text(model: ModelView, prompt: str, decoding: Decoding) -> Iterator[str]:
    """Of a translator, what a text becomes."""
    input_text(prompt)
    if model.can("translate"):
        return translator_of(model).stream(check_text(prompt), decoding)
    return text_generator(model).stream(prompt, decoding)


def answer_prompt(
    model: ModelView,
    query: str,
    examples: Sequence[tuple[str, str]],
    instruction: str,
    choices: Sequence[str],
    calibrated: bool,
    decoding: Decoding,
) -> PromptedAnswer:
    text = few_shot(instruction, examples, query)
    return answered(text_generator(model), text, choices, decoding, calibrated=calibrated)


def classify(
    model: ModelView, given: str | Sequence[str | tuple[str, str]]
) -> TextClassification | list[TextClassification]:
    several = as_list(given)
    rows = [(input_text(x),) if is_single(x) else tuple(map(input_text, x)) for x in several]
    found = reader_of(model).classify(rows)
    if not any(one.unknown for one in found):  # else they are named one by one
        tell_unknown(text_processor(model), [text for row in rows for text in row])
    return found[0] if is_single(given) else found


def tag(model: ModelView, texts: str | Sequence[str | Sequence[str]]) -> TaggedText | list[TaggedText]:
    words = [words_of(text) if isinstance(text, str) else as_texts(text) for text in as_list(texts)]
    tell_unknown(text_processor(model), [word for row in words for word in row])
    found = reader_of(model).tag(words, last=FAMILIES[model.family].tagged == "last")
    return found[0] if isinstance(texts, str) else found


def answer(model: ModelView, question: str, context: str) -> AnswerSpan:
    tell_unknown(text_processor(model), [input_text(question), input_text(context)])
    return reader_of(model).answer(question, context)


def answer_several(model: ModelView, pairs: Sequence[tuple[str, ...]]) -> list[AnswerSpan]:
    """Of questions, each with its context."""
    tell_unknown(text_processor(model), [text for pair in pairs for text in pair])
    return [found for _, found in reader_of(model).best_parts([(question, context) for question, context in pairs])]


def embed(model: ModelView, texts: str | Sequence[str], batch: int) -> Tensor:
    if batch < 1:
        raise InputError("batch size must be at least 1", got=str(batch))
    several = as_texts(texts)
    tell_unknown(text_processor(model), several)
    return reader_of(model).embed(several, batch)


def example(model: ModelView, given: Sequence[Picture]) -> Example:
    """One that reads a text and writes another is shown as a translator is, whatever it was trained for."""
    if model.takes == ("text", "text"):
        return translated_example(model, given)
    check_count(model, given, 1)
    told = told_texts(model, given)
    return read_text(text_processor(model), model.length, told[0])


def told_texts(model: ModelView, given: Sequence[Picture]) -> list[str]:
    """What was given; where the model cannot read much of it, that is told."""
    texts = [input_text(text) for text in given]
    tell_unknown(text_processor(model), texts)
    return texts


def labelled_example_of(model: ModelView, given: Sequence[Picture]) -> Example:
    check_count(model, given, 1, 2)
    return labelled_example(reader_of(model), told_texts(model, given))


def tagged_example_of(model: ModelView, given: Sequence[Picture]) -> Example:
    check_count(model, given, 1)
    return tagged_example(reader_of(model), told_texts(model, given)[0], last=FAMILIES[model.family].tagged == "last")


def answered_example_of(model: ModelView, given: Sequence[Picture]) -> Example:
    """A question and a context; a text alone is read without a question."""
    check_count(model, given, 1, 2)
    if len(given) == 1:
        return embedded_example_of(model, given)
    question, context = told_texts(model, given)
    return answered_example(reader_of(model), question, context)


def embedded_example_of(model: ModelView, given: Sequence[Picture]) -> Example:
    """Of a text with masks, what a masked language model fills in."""
    check_count(model, given, 1, 2)
    text, *more = told_texts(model, given)
    if not more and model.get("head") in MASKED and has_masks(text_processor(model), text):
        return read_text(text_processor(model), model.length, text)
    return embedded_example(reader_of(model), text, more[0] if more else None)


def continued_example(model: ModelView, given: Sequence[Picture]) -> Example:
    check_count(model, given, 1)
    return continued_text(text_generator(model), told_texts(model, given)[0])


def translated_example(model: ModelView, given: Sequence[Picture]) -> Example:
    check_count(model, given, 1, 2)
    source, *target = told_texts(model, given)
    translating = translator_of(model)
    if not target and len(translating.parts(source)) > 1:
        notify("several sentences are looked at as one text; `translate` reads each by itself and may answer otherwise")
    return translated_text(translating, source, target[0] if target else None)
