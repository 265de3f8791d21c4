"""Labels that are texts: those of a model that compares images with texts are told when it is asked.

Shapes: b batch, c labels, e joint width.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import InputError
from regard.look.answers import Labels, label_choices
from regard.look.examples import Example, image_record
from regard.modalities.images.classifier import ImageClassifier, read_pixels
from regard.modalities.inputs import ModelView, Picture, check_count, input_text
from regard.modalities.text.translator import check_text
from regard.models.clip import Embedded

from .matching import TextClasses, framed_text, read_texts
from .processor import Captions

TEMPLATE = "a photo of a {}"  # the paper's, for a label of one word; a longer one is read as it is
TEXTS_AT_ONCE = 64


def label_texts(labels: Sequence[str]) -> list[str]:
    return [TEMPLATE.format(label) if len(label.split()) == 1 else label for label in labels]


def captions_of(model: ModelView) -> Captions:
    if isinstance(model.processor, Captions):
        return model.processor
    if model.unprepared is not None:
        told = model.unprepared
        raise InputError(
            "this model does not know how its inputs are prepared", where=told.where, got=told.got, fix=told.fix
        )
    raise InputError("this model has no processor for images and texts", got=type(model.processor).__name__)


@torch.inference_mode()
def embedded_texts(model: ModelView, texts: Sequence[str]) -> Tensor:
    """-> (c, e), normalised"""
    net: Any = model.net
    framed = framed_text(captions_of(model).text)
    parts = []
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        batch = read_texts(framed, [check_text(x) for x in texts[start : start + TEXTS_AT_ONCE]], model.length)
        parts.append(F.normalize(net.text(batch.ids, keys=batch.keys), dim=-1))
    return torch.cat(parts)


def labelled_by_texts(model: ModelView) -> ImageClassifier:
    """A classifier whose classes are the model's labels."""
    if not model.labels:
        raise InputError(
            f"a {model.family} model compares images with texts, and was given none",
            expected="the labels to choose from",
            fix='model.classify(images, labels=["cat", "dog"]), or on the command line --labels "cat,dog"',
        )
    net: Any = model.net
    texts = embedded_texts(model, label_texts(model.labels))
    return ImageClassifier(TextClasses(net, texts), captions_of(model).images, model.labels)


def example(model: ModelView, given: Sequence[Picture]) -> Example:
    """An image beside a text; without a text, beside the likeliest of the model's labels."""
    check_count(model, given, 1, 2)
    images, pixels = captions_of(model).images, read_pixels(captions_of(model).images, given[0])
    entered, others = images.enter(model.net, pixels)[None], list(label_texts(model.labels))
    if len(given) > 1:
        caption = input_text(given[1])
    else:
        seeing = labelled_by_texts(model)
        with torch.inference_mode():
            caption = others[int(seeing.net(entered)[0].argmax())]
    others = [one for one in others if one != caption]
    beside = embedded_texts(model, others).clone() if others else None
    framed = framed_text(captions_of(model).text)
    batch = read_texts(framed, [check_text(caption)], model.length)

    def fits(output: Embedded) -> Tensor:
        """(b, e), (b, e) -> (b, 1 + c): each image with its own text, and with the other labels"""
        image = F.normalize(output.image, dim=-1)
        own = (image * F.normalize(output.text, dim=-1)).sum(-1, keepdim=True)
        return output.scale * (own if beside is None else torch.cat((own, image @ beside.to(image).T), -1))

    def tell(output: Embedded) -> Labels:
        """Its probability among the texts that are compared."""
        return label_choices(fits(output)[0], [caption, *others])

    def sure(output: Embedded, first: Embedded) -> Tensor:
        """Alone, how well it fits; no probability says so."""
        near = fits(output)
        return near[:, 0] if beside is None else near.log_softmax(-1)[:, 0]

    return Example(
        (entered, batch.ids),
        tell,
        ("image", "text"),
        lambda: {"kind": "caption", "image": image_record(pixels), "target": caption},
        (caption,),
        pixels,
        {"tokens": framed.sequence_labels(batch.ids[0].tolist())},
        lambda classes: tuple([caption, *others][i] for i in classes),
        sure,
    )
