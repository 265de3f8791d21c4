"""Texts that a reader labels, tags, searches or embeds, as examples to look at: one of them, or two side by side.

Shapes: b batch, n tokens, c classes or tags, d width.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import InputError
from regard.look.answers import Answer, label_choices
from regard.look.examples import Example, answer_log_probability
from regard.nn.pool import pool_mean

from .examples import text_record
from .framing import context_places, tagged_places, together
from .processor import Framed
from .reading_answers import FoundSpan, TextEmbedding, WordTags
from .tasks.answering import best_spans, inside
from .text_model import TextReader, span_in, tagged_text, words_of

Scorer = Callable[[Any, Any], Tensor]


def labelled_example(reader: TextReader, texts: Sequence[str]) -> Example:
    """Of one text, or of a pair."""

    def tell(output: Any) -> Answer:
        return label_choices(head_of(output, "label")[0], reader.labels)

    def sure(output: Any, first: Any) -> Tensor:
        return answer_log_probability(head_of(output, "label"), head_of(first, "label"))

    return framed_example(reader, whole(reader, texts), texts, tell, sure, named_classes(reader))


def tagged_example(reader: TextReader, text: str, *, last: bool) -> Example:
    words = words_of(text)
    (framed,) = reader.literal.framed_words([words])
    places = tagged_places(fitting(framed, reader.length), len(words), last=last)

    def tell(output: Any) -> Answer:
        return WordTags(tagged_text(list(reader.tags(words, places, head_of(output, "tags")[0]))))

    def sure(output: Any, first: Any) -> Tensor:
        """Of the tags of all words."""
        own = [place for place in places if place is not None]
        best = head_of(first, "tags")[0, own].argmax(-1)
        return head_of(output, "tags").log_softmax(-1)[:, own, best].sum(-1)

    return framed_example(reader, framed, (text,), tell, sure, named_classes(reader))


def answered_example(reader: TextReader, question: str, context: str) -> Example:
    """Of a long context the part that holds the best answer."""
    framed, _ = reader.best_part(question, context)
    inner = torch.tensor([context_places(framed)])

    def tell(output: Any) -> Answer:
        return FoundSpan(span_in(context, framed, head_of(output, "span")[0]))

    def sure(output: Any, first: Any) -> Tensor:
        """That the answer begins and ends where it did."""
        best, logits = best_spans(head_of(first, "span"), inner), head_of(output, "span")
        chances = inside(logits, inner.expand(len(logits), -1)).log_softmax(1)
        return chances[:, int(best.first), 0] + chances[:, int(best.last), 1]

    return framed_example(reader, framed, (question, context), tell, sure, reader.text.labels)


def embedded_example(reader: TextReader, text: str, other: str | None) -> Example:
    """The maps are those of the first text; a second one is embedded to be compared with it."""
    beside = None if other is None else reader.embed([other])[0]

    def tell(output: Any) -> Answer:
        vector = F.normalize(pool_mean(output.states, None), dim=-1)[0]
        return TextEmbedding(tuple(vector.tolist()), None if beside is None else float(vector @ beside))

    texts = (text,) if other is None else (text, other)
    return framed_example(reader, whole(reader, [text]), texts, tell, None, reader.text.labels)


# What all share ----------------------------------------------------------------------------------


def framed_example(
    reader: TextReader,
    framed: Framed,
    texts: Sequence[str],
    tell: Callable[[Any], Answer],
    sure: Scorer | None,
    names: Callable[[Sequence[int]], tuple[str, ...]],
) -> Example:
    row = together([framed])
    return Example(
        (row.ids,),
        tell,
        ("text",),
        lambda: text_record(*texts),
        tuple(texts),
        words={"tokens": reader.text.sequence_labels(framed.ids)},
        names=names,
        sure=sure,
        named={"segments": row.segments} if row.segments is not None and reader.segments else {},
    )


def whole(reader: TextReader, texts: Sequence[str]) -> Framed:
    (framed,) = reader.literal.framed([tuple(texts)])
    return fitting(framed, reader.length)


def fitting(framed: Framed, length: int | None) -> Framed:
    """All of a text is looked at, or nothing of it."""
    if not any(framed.free):
        raise InputError("the text is empty")
    if length is not None and len(framed.ids) > length:
        got, expected = f"{len(framed.ids)} tokens", f"at most {length} tokens"
        raise InputError("the text is longer than the model's maximum length", got=got, expected=expected)
    return framed


def head_of(output: Any, name: str) -> Tensor:
    """A net with one head gives its logits alone."""
    found: Tensor = output if isinstance(output, Tensor) else getattr(output, name)
    return found


def named_classes(reader: TextReader) -> Callable[[Sequence[int]], tuple[str, ...]]:
    return lambda ids: tuple(map(reader.name, ids))
