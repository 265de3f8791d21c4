"""How what is read from texts is shown: tags, answers to questions, embeddings, texts that were generated."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from regard.look.terminal import terminal_text
from regard.modalities.verb import AnswerView

if TYPE_CHECKING:
    from .runners import Generation
    from .text_model import AnswerSpan, EmbeddedText, TaggedText

WIDE = 36  # letters of a text in the table of embeddings
SOME = 12  # texts in it


def tag_data(one: "TaggedText") -> dict[str, Any]:
    return {"words": list(one.words), "tags": list(one.tags), "probabilities": list(one.probabilities)}


def tag_lines(answers: "Sequence[TaggedText]") -> list[str]:
    """A word, a tab and its tag, and a blank line after each text."""
    lines = []
    for one in answers:
        words = zip(one.words, one.tags, strict=True)
        lines += [*(f"{terminal_text(word)}\t{terminal_text(tag) or '?'}" for word, tag in words), ""]
    return lines


def span_data(one: "AnswerSpan") -> dict[str, Any]:
    return asdict(one)


def span_lines(answers: "Sequence[AnswerSpan]") -> list[str]:
    return [f"{terminal_text(one.text)}  {one.probability:.1%}" for one in answers]


def embedding_data(one: "EmbeddedText") -> dict[str, Any]:
    return {"text": one.text, "vector": one.vector.tolist()}


def embedding_lines(answers: "Sequence[EmbeddedText]") -> list[str]:
    """Of a few, the cosine of each with each."""
    if len(answers) > SOME:
        return [f"{len(answers)} embeddings of size {len(answers[0].vector)}"]
    lines = [" " * (WIDE + 3) + "".join(f"{i + 1:>7}" for i in range(len(answers)))]
    for i, one in enumerate(answers):
        cut = one.text if len(one.text) <= WIDE else f"{one.text[: WIDE - 1]}…"
        near = "".join(f"{float(one.vector @ other.vector):7.3f}" for other in answers)
        lines.append(f"{i + 1:>2} {terminal_text(cut):<{WIDE}}{near}")
    return lines


def generation_data(one: "Generation") -> dict[str, Any]:
    several = [{"text": x.text, "score": x.score, "logp": x.logp, "ended": x.ended} for x in one.nbest]
    unread = {"unread": one.unread, "unknown": list(one.unknown)}
    return {"prompt": one.prompt, "text": one.text, "nbest": several} | unread


def generation_lines(answers: "Sequence[Generation]") -> list[str]:
    """Each text with its score, after its prompt."""
    return [f"{x.score:8.3f}  {one.prompt}{x.text}" for one in answers for x in one.nbest]


def span_fields(one: "AnswerSpan") -> dict[str, Any]:
    return {"answer": one.text, "start": one.start, "end": one.end, "probability": one.probability}


def embedding_fields(one: "EmbeddedText") -> dict[str, Any]:
    return {"vector": one.vector.tolist()}


def generation_fields(one: "Generation") -> dict[str, Any]:
    """The best, and the others where several were asked for."""
    several = {"generations": [{"text": x.text, "score": x.score} for x in one.nbest]} if len(one.nbest) > 1 else {}
    return {"generation": one.text} | several


TAGS = AnswerView(tag_data, tag_lines)
SPANS = AnswerView(span_data, span_lines, fields=span_fields)
EMBEDDINGS = AnswerView(embedding_data, embedding_lines, fields=embedding_fields)
GENERATIONS = AnswerView(generation_data, generation_lines, fields=generation_fields)
