"""Images in, sentences out: learned as a translation is, from patches instead of words, and in use.

Shapes: b batch, n words.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.decode.incremental import IncrementalDecoder, Seq2SeqDecoder
from regard.decode.settings import Decoding
from regard.decode.symbols import Symbols
from regard.modalities.images.classifier import ImageClassifier
from regard.modalities.inputs import Picture
from regard.modalities.text.pairs import Pairs
from regard.modalities.text.tasks.translation import EXAMPLES_SHOWN, Translate
from regard.modalities.text.vocabulary import framing_tokens
from regard.modalities.text.writing import GeneratedText, generated_text, required_length, write_texts

from .processor import Captions

IMAGES_AT_ONCE = 16
LONGEST = 64  # tokens of a sentence, unless told otherwise


class Describe(Translate):
    """The same losses; what is shown are captions alone."""

    @torch.no_grad()
    def show(self, batch: Pairs) -> str:
        assert self.text is not None
        guesses = self.net.decode(batch.given[:EXAMPLES_SHOWN], self.net.encode(batch.source[:EXAMPLES_SHOWN])).argmax(
            -1
        )
        lines = []
        for wanted, guess, real in zip(batch.wanted, guesses, batch.keys, strict=False):
            lines.append(f"caption     {self.text.decode(wanted[real].tolist()).strip()}")
            lines.append(f"prediction  {self.text.decode(guess[real].tolist()).strip()}")
        return "\n".join(lines)


class Describing:
    """A net with what prepares images and what writes words."""

    def __init__(self, net: Any, captions: Captions, symbols: Symbols) -> None:
        self.net, self.text, self.symbols = net, captions.text, symbols
        self.seeing, self.literal = ImageClassifier(net, captions.images, ()), captions.text.literal()
        self.begin, _ = framing_tokens(captions.text, symbols)

    def describe(self, pictures: Sequence[Picture], decoding: Decoding) -> list[list[GeneratedText]]:
        """The best sentences for each image, some at a time; ``decoding`` is as for a translation."""
        images, found = self.seeing.images, list[list[GeneratedText]]()
        together = 1 if images.size is None or images.fit == "within" else IMAGES_AT_ONCE
        for start in range(0, len(pictures), together):
            some = [self.seeing.take(picture) for picture in pictures[start : start + together]]
            found += self.told(torch.cat(some), decoding, start)
        return found

    @torch.inference_mode()
    def told(self, images: Tensor, decoding: Decoding, first: int = 0) -> list[list[GeneratedText]]:
        """Of images that are prepared, (b, channels, height, width); ``first`` is the number of the first, by which
        chance is known."""
        count, longest = len(images), decoding.longest or max(LONGEST, required_length(decoding, self.literal))
        writer = IncrementalDecoder(Seq2SeqDecoder(self.net, images), torch.full((count, 1), self.begin), room=longest)
        numbers, most = range(first, first + count), [longest] * count
        found = write_texts(writer, numbers, decoding, symbols=self.symbols, literal=self.literal, longest=most)
        return [
            [replace(one, text=one.text.strip()) for one in (generated_text(x, self.text) for x in own)]
            for own in found
        ]
