"""Texts as examples to look at: one that is continued, one that is read, one and its translation.

Shapes: b batch, n tokens, v words.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.decode.settings import Decoding
from regard.errors import InputError
from regard.look.answers import MOST_CHOICES, Answer, Choices, FilledMasks, NextToken, WrittenText
from regard.look.examples import Example, answer_log_probability

from .generator import Generating
from .processor import Text
from .translator import LONGEST, TranslationModel, check_text, no_progress
from .unread import unknown_remark
from .vocabulary import MASKS

USUAL = Decoding()  # as the verbs write where nothing is asked: what is looked at is what they answer


def continued_text(generating: Generating, text: str) -> Example:
    """For a decoder."""
    ids = generating.encode(text)
    if surplus := generating.surplus(text):
        raise InputError(
            "the text is longer than the model's context",
            got=f"{len(ids) + surplus} tokens",
            expected=f"at most {len(ids)} tokens",
        )

    remark = unknown_remark(generating.text, [text])

    def tell(output: Any) -> NextToken:
        return NextToken(likeliest_words(word_logits(output)[0, -1], generating.text), remark)

    return Example(
        (torch.tensor([ids]),),
        tell,
        ("text",),
        lambda: text_record(text),
        (text,),
        words={"tokens": generating.text.sequence_labels(ids)},
        names=generating.text.labels,
        sure=lambda output, first: answer_log_probability(word_logits(output)[:, -1], word_logits(first)[:, -1]),
    )


def read_text(text: Text, length: int | None, given: str) -> Example:
    """For an encoder: what stands behind its masks, if there are any."""
    ids: list[int] = text.encode([given], length, shortest=1).ids[0].tolist()
    masks = masks_in(text, ids)

    def tell(output: Any) -> Answer | None:
        masked: Tensor | None = getattr(output, "words", None)
        return filled_masks(masked[0], ids, masks[0], text) if masked is not None and masks else None

    def sure(output: Any, first: Any) -> Tensor:
        place = ids.index(masks[0])
        return answer_log_probability(output.words[:, place], first.words[:, place])

    return Example(
        (torch.tensor([ids]),),
        tell,
        ("text",),
        lambda: text_record(given),
        (given,),
        words={"tokens": text.sequence_labels(ids)},
        names=text.labels,
        sure=sure if masks else None,
    )


def masks_in(text: Text, ids: Sequence[int]) -> list[int]:
    """The tokens that stand for a masked one, of those that occur."""
    known = [text.tokenizer.token_to_id(mask) for mask in MASKS]
    return [mask for mask in known if mask is not None and mask in ids]


def has_masks(text: Text, given: str) -> bool:
    return bool(masks_in(text, text.ids([given])[0]))


def translated_text(translating: TranslationModel, source: str, target: str | None) -> Example:
    """Of one sentence, or of a few that can be read at once. Without a target it is translated."""
    source = check_text(source).strip()
    read = translating.encode([source])[0] if source else []
    if not 0 < len(read) <= LONGEST:
        raise InputError(
            "the source text is empty or too long", got=f"{len(read)} tokens", expected=f"1 to {LONGEST} tokens"
        )
    if target is None:
        best = translating.short([source], [0], USUAL, no_progress)[0][0]
        target, ids = best.text, list(best.ids)
    else:
        ids = translating.encode([target])[0]
        ids = ids[:-1] if ids[-1] in translating.symbols.end else ids
    wrote = [*ids, translating.symbols.end[0]]
    return source_and_target(
        translating, torch.tensor([read]), wrote, source, target, translating.text.sequence_labels(read)
    )


def source_and_target(
    translating: TranslationModel,
    read: Tensor,
    wrote: Sequence[int],
    source: str,
    target: str,
    words: tuple[str, ...] | None = None,
) -> Example:
    return written_example(
        translating.text,
        translating.begin,
        wrote,
        inputs=(read,),
        media=("text", "text"),
        record={"kind": "pair", "source": source, "target": target},
        texts=(source, target),
        words={} if words is None else {"source": words},
        remark=unknown_remark(translating.text, [source]),
    )


def written_example(
    text: Text,
    begin: int,
    ids: Sequence[int],
    *,
    inputs: tuple[Tensor, ...],
    media: tuple[str, ...],
    record: dict[str, Any],
    texts: tuple[str, ...],
    words: dict[str, tuple[str, ...]],
    image: Tensor | None = None,
    remark: str = "",
) -> Example:
    """One pass over what was read, ``inputs``, and all that was written, the end with it."""
    given = [begin, *ids[:-1]]

    def tell(output: Any) -> WrittenText:
        chances = word_logits(output)[0].log_softmax(-1)[torch.arange(len(ids)), list(ids)]
        return WrittenText(
            texts[-1], tuple(zip(text.sequence_labels(list(ids)), chances.tolist(), strict=True)), remark
        )

    def sure(output: Any, first: Any) -> Tensor:
        """Of the whole text."""
        return word_logits(output).log_softmax(-1)[:, torch.arange(len(ids)), list(ids)].sum(-1)

    words = {**words, "target": text.sequence_labels(given), "written": text.sequence_labels(list(ids))}
    inputs = (*inputs, torch.tensor([given]))
    return Example(inputs, tell, media, lambda: record, texts, image, words, text.labels, sure)


def text_record(text: str, second: str | None = None) -> dict[str, Any]:
    return {"kind": "text", "text": text} | ({} if second is None else {"second": second})


def word_logits(output: Any) -> Tensor:
    """Some nets tell more beside them."""
    logits: Tensor = output if isinstance(output, Tensor) else output.logits
    return logits


def likeliest_words(logits: Tensor, text: Text) -> Choices:
    """(v,)"""
    chances, ids = logits.softmax(-1).topk(min(MOST_CHOICES, len(logits)))
    return tuple(zip(text.labels(ids.tolist()), chances.tolist(), strict=True))


def filled_masks(logits: Tensor, ids: Sequence[int], mask: int, text: Text) -> FilledMasks:
    """(n, v)"""
    return FilledMasks(tuple((i, likeliest_words(logits[i], text)) for i, own in enumerate(ids) if own == mask))
