"""What a net is shown when it is looked at: a text, a text and what it became, an image; and what it says to it.

A translator and a captioner write first, and are then looked at in one pass over all that they wrote.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from regard.data.text import Text
from regard.decode.beam import Beam
from regard.decode.settings import Decoding
from regard.errors import InputError

from .describing import Describing
from .detecting import boxes_found
from .finding import Finding, Thing
from .generating import Generating
from .seeing import Picture, Seeing, pixels
from .telling import Answer, Labels, Next, Things, Wrote, filled, labels, likeliest_words, wrote
from .translating import LONGEST, Translating, clean, silent

GREEDY = Decoding(beam=Beam(beams=1))
SURE = 0.5  # of a box that is told
EVERY = -1.0  # no score is lower
MASKS = ("[MASK]", "<mask>")


def numbered(classes: Sequence[int]) -> tuple[str, ...]:
    return tuple(map(str, classes))


@dataclass(frozen=True, eq=False)
class Shown:
    inputs: tuple[Tensor, ...]  # of the net
    tell: Callable[[Any], Answer | None]  # what its output says
    texts: tuple[str, ...] = ()
    image: Tensor | None = None  # (c, h, w), uint8, as the net sees it
    words: dict[str, tuple[str, ...]] = field(default_factory=dict)  # for each axis of words, those that stand on it
    names: Callable[[Sequence[int]], tuple[str, ...]] = numbered  # of what it can answer: words, or classes
    sure: Callable[[Any, Any], Tensor] | None = None  # log-probabilities, (b,): of an output, for what another one said
    alone: Callable[[int], "Shown"] | None = None  # of a detector: the same, where one query speaks alone


def scored(output: Any) -> Tensor:
    """The logits of words: some nets tell more beside them."""
    logits: Tensor = output if isinstance(output, Tensor) else output.logits
    return logits


def chance(logits: Tensor, first: Tensor) -> Tensor:
    """The log-probability of what was the likeliest at first.  (b, c), (1, c) -> (b,)"""
    return logits.log_softmax(-1)[:, int(first[0].argmax())]


def text_that_goes_on(generating: Generating, text: str) -> Shown:
    ids = generating.encode(text)
    if surplus := generating.surplus(text):
        raise InputError(
            "the text is longer than the model reads", got=f"{len(ids) + surplus} tokens", expected=f"{len(ids)}"
        )

    def tell(output: Any) -> Next:
        return Next(likeliest_words(scored(output)[0, -1], generating.text))

    return Shown(
        (torch.tensor([ids]),),
        tell,
        (text,),
        words={"tokens": generating.text.labels(ids)},
        names=generating.text.labels,
        sure=lambda output, first: chance(scored(output)[:, -1], scored(first)[:, -1]),
    )


def text_that_is_read(text: Text, length: int | None, names: Sequence[str], given: str) -> Shown:
    ids: list[int] = text.encode([given], length, shortest=1).ids[0].tolist()
    known = [text.tokenizer.token_to_id(mask) for mask in MASKS]
    masks = [mask for mask in known if mask is not None and mask in ids]

    def tell(output: Any) -> Answer | None:
        """BERT's heads, or a reader's."""
        found: Tensor | None = getattr(output, "label", None)
        if found is not None:
            return labels(found[0], names)
        masked: Tensor | None = getattr(output, "words", None)
        if masked is not None and masks:
            return filled(masked[0], ids, masks[0], text)
        return None

    def sure(output: Any, first: Any) -> Tensor:
        if getattr(output, "label", None) is not None:
            return chance(output.label, first.label)
        place = ids.index(masks[0])
        return chance(output.words[:, place], first.words[:, place])

    return Shown(
        (torch.tensor([ids]),),
        tell,
        (given,),
        words={"tokens": text.labels(ids)},
        names=text.labels,
        sure=sure if names or masks else None,
    )


def text_and_translation(translating: Translating, source: str, target: str | None) -> Shown:
    """Of one sentence, or of a few that can be read at once. Without a target it is translated."""
    source = clean(source).strip()
    read = translating.encode([source])[0] if source else []
    if not 0 < len(read) <= LONGEST:
        raise InputError("this cannot be read at once", got=f"{len(read)} tokens", expected=f"1 to {LONGEST}")
    if target is None:
        best = translating.short([source], [0], GREEDY, silent)[0][0]
        target, ids = best.text, list(best.ids)
    else:
        ids = translating.encode([target])[0]
        ids = ids[:-1] if ids[-1] in translating.symbols.end else ids
    return written(
        torch.tensor([read]), translating.text, translating.begin, [*ids, translating.symbols.end[0]],
        (source, target), {"source": translating.text.labels(read)},
    )  # fmt: skip


def image_and_caption(describing: Describing, picture: Picture, target: str | None) -> Shown:
    image = pixels(describing.seeing.images, picture)
    images = describing.seeing.images.normalise(image)[None]
    if target is None:
        best = describing.told(images, GREEDY)[0][0]
        target, ids = best.text, list(best.ids)
    else:
        ids = describing.literal.ids([clean(target)])[0]
    end = describing.symbols.end[0]
    return written(images, describing.text, describing.begin, [*ids, end], (target,), {}, image)


def written(
    read: Tensor,
    text: Text,
    begin: int,
    ids: Sequence[int],
    texts: tuple[str, ...],
    words: dict[str, tuple[str, ...]],
    image: Tensor | None = None,
) -> Shown:
    """One pass over what was read and all that was written, the end with it."""
    given = [begin, *ids[:-1]]

    def tell(output: Any) -> Wrote:
        return wrote(text, scored(output)[0], ids, texts[-1])

    def sure(output: Any, first: Any) -> Tensor:
        """Of the whole text."""
        return scored(output).log_softmax(-1)[:, torch.arange(len(ids)), list(ids)].sum(-1)

    words = {**words, "target": text.labels(given), "written": text.labels(list(ids))}
    return Shown((read, torch.tensor([given])), tell, texts, image, words, text.labels, sure)


def image_with_label(seeing: Seeing, picture: Picture) -> Shown:
    image = pixels(seeing.images, picture)

    def tell(logits: Tensor) -> Labels:
        return labels(logits[0], seeing.labels)

    def names(classes: Sequence[int]) -> tuple[str, ...]:
        return tuple(seeing.labels[i] for i in classes) if seeing.labels else numbered(classes)

    return Shown((seeing.images.normalise(image)[None],), tell, image=image, names=names, sure=chance)


def image_with_things(finding: Finding, picture: Picture) -> Shown:
    """Boxes are told in the pixels of the image as the net sees it. It is asked about the surest of them, or about what
    one query says, be that a box that is told or not."""
    image = pixels(finding.images, picture)
    seen = (image.shape[2], image.shape[1])

    def things(output: Any, threshold: float) -> list[Thing]:
        (found,) = boxes_found(output, torch.tensor([image.shape[1:]]), threshold)
        return [
            finding.thing(int(kind), float(score), box.tolist(), seen)
            for kind, score, box in zip(found.classes, found.scores, found.boxes, strict=True)
        ]

    def tell(output: Any) -> Things:
        return Things(tuple(sorted(things(output, SURE), key=lambda one: -one.score)), seen)

    def sure(output: Any, first: Any) -> Tensor:
        return thought(output.logits, first.logits, surest(first.logits[0]))

    def alone(query: int) -> Shown:
        if not 0 <= query < finding.net.config.queries:
            expected = f"0 to {finding.net.config.queries - 1}"
            raise InputError("there is no such query", got=str(query), expected=expected)
        return replace(
            shown,
            tell=lambda output: Things((things(output, EVERY)[query],), seen),
            sure=lambda output, first: thought(output.logits, first.logits, query),
        )

    shown = Shown((finding.images.normalise(image)[None],), tell, image=image, sure=sure, alone=alone)
    return shown


def surest(logits: Tensor) -> int:
    """The query that is surest to have found something; the last class is "nothing".  (q, c + 1)"""
    return int(logits.softmax(-1)[:, :-1].amax(-1).argmax())


def thought(logits: Tensor, first: Tensor, query: int) -> Tensor:
    """The log-probability of the thing that a query took for the likeliest at first.

    (b, q, c + 1), (1, q, c + 1) -> (b,)
    """
    return logits[:, query].log_softmax(-1)[:, int(first[0, query, :-1].argmax())]
