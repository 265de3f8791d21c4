"""Matching: each image of a batch shall find its caption, and each caption its image; and what can be asked then.

CLIP (Radford et al., 2021), https://arxiv.org/abs/2103.00020: the mean of two cross-entropies, over the captions for
each image and over the images for each caption, so the loss is one of the whole batch. An image that is in a batch
twice, with two captions, counts as two images.

Shapes: b batch, n tokens, e joint width, c labels.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.modalities.text.framing import Texts, together
from regard.modalities.text.processor import Text
from regard.modalities.text.vocabulary import with_frame
from regard.models.clip import CLIP, LARGEST_SCALE
from regard.tasks.task import Loss, Task, Term

from .processor import Captions, Described


@dataclass(frozen=True, eq=False)
class Matched:
    """Images and their captions, in the same order."""

    images: Tensor  # (b, channels, height, width)
    ids: Tensor  # (b, n)
    keys: Tensor | None  # (b, n), False at padding


def framed_text(text: Text) -> Text:
    """A copy of the tokenizer that frames texts, and for which a text that spells "<end>" means these letters."""
    return with_frame(Text.from_bytes(text.to_bytes(), "this tokenizer")).literal()


def read_texts(framed: Text, texts: Sequence[str], longest: int | None) -> Texts:
    """Each between its begin and its end, which stay where a text is cut."""
    return together(framed.framed([(text,) for text in texts], longest))


class MatchMaker:
    """Images, normalised, and their captions; ``together`` makes a batch of images that are normalised already."""

    def __init__(self, captions: Captions, longest: int) -> None:
        self.images, self.text, self.longest = captions.images, framed_text(captions.text), longest

    def __call__(self, rows: Sequence[Described]) -> Matched:
        pixels = self.images.normalise(torch.stack([row.image for row in rows]))
        return self.together(pixels, [row.caption for row in rows])

    def together(self, pixels: Tensor, captions: Sequence[str]) -> Matched:
        found = read_texts(self.text, captions, self.longest)
        return Matched(pixels, found.ids, found.keys)


class Match(Task):
    goal = "-recall"
    indivisible = ("loss",)

    def __init__(self, net: nn.Module) -> None:
        self.parts = {"net": net}
        self.net: Any = net

    def counts(self, batch: Matched) -> Mapping[str, float]:
        return {"images": float(len(batch.images))}

    def losses(self, batch: Matched, step: int) -> Iterator[Loss]:
        if torch.is_grad_enabled():
            with torch.no_grad():  # the paper's bound, without which training becomes unstable
                self.net.scale.clamp_(max=torch.tensor(LARGEST_SCALE).log().item())
        yield Loss("net", {"loss": Term(self.loss(self.logits(batch)), "images")})

    def logits(self, batch: Matched) -> Tensor:
        """Of each image with each caption.  -> (b, b)"""
        found: Tensor = self.net(batch.images, batch.ids, keys=batch.keys).logits()
        return found

    def loss(self, near: Tensor) -> Tensor:
        """(b, b) -> a sum over the batch"""
        wanted = torch.arange(len(near), device=near.device)
        both = F.cross_entropy(near, wanted, reduction="sum") + F.cross_entropy(near.T, wanted, reduction="sum")
        return both / 2

    def evaluate(self, batch: Matched) -> Mapping[str, Tensor]:
        near = self.logits(batch)
        wanted = torch.arange(len(near), device=near.device)
        return {
            "loss": self.loss(near),
            "captions": (near.argmax(1) == wanted).sum(),
            "images": (near.argmax(0) == wanted).sum(),
            "rows": torch.tensor(len(near), device=near.device),
        }

    def metrics(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        """A partner is looked for among those of one batch: ``recall`` is the mean of both directions."""
        rows = max(float(sums["rows"]), 1.0)
        captions, images = float(sums["captions"]) / rows, float(sums["images"]) / rows
        return {
            "loss": float(sums["loss"]) / rows,
            "recall": (captions + images) / 2,
            "recall_of_captions": captions,
            "recall_of_images": images,
        }


class TextClasses(nn.Module):
    """A net that sees images, whose classes are texts."""

    def __init__(self, net: CLIP, texts: Tensor) -> None:
        super().__init__()
        self.net, self.texts = net, texts  # (c, e), normalised

    def forward(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, c)"""
        return self.net.factor() * F.normalize(self.net.image(images), dim=-1) @ self.texts.T
