"""Models that read or write text, put to work.

Text is read byte by byte, so that one file serves every model and no vocabulary has to be learned first.

Shapes: b rows, n bytes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.data.plain_text import LARGEST_TEXT, read_text
from regard.decode.incremental import CausalDecoder, IncrementalDecoder, Seq2SeqDecoder
from regard.errors import InputError
from regard.modalities.compared import without_dropout
from regard.modalities.text.masking import MaskedBatch
from regard.modalities.text.pairs import Pairs
from regard.modalities.text.reversal import Reversal
from regard.modalities.text.tasks.language import Language, NextTokenBatch
from regard.modalities.text.tasks.masked import Masked
from regard.modalities.text.tasks.translation import Translate
from regard.modalities.text.vocabulary import BYTE_VOCABULARY, Vocabulary
from regard.tasks.task import Task

VALUES = 256  # that a byte has
HELD_OUT = 0.1  # the share of a text that is measured on, its end
HIDDEN = 0.15  # the share of tokens that a reader has to guess
GENERATED = "generated text: numbers and their reversal"


class Bytes:
    """A text as numbers from 0 to 255."""

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        self.ids: NDArray[np.uint8] = np.frombuffer(text.encode("utf-8"), np.uint8)

    def first(self, length: int) -> Tensor:
        """(1, n), the beginning; a short text begins again."""
        return torch.from_numpy(np.resize(self.ids, length).astype(np.int64))[None]

    def drawn(self, rows: int, length: int, numbers: np.random.Generator, held_out: bool) -> Tensor:
        """(b, n), windows from anywhere in what is learned from, or in what is held out."""
        cut = int(len(self.ids) * (1 - HELD_OUT))
        part = self.ids[cut:] if held_out else self.ids[:cut]
        if len(part) < length:
            raise InputError(
                "the text is too short to train on",
                where=self.name,
                got=f"{len(self.ids):,} bytes",
                expected=f"at least {math.ceil(length / HELD_OUT):,} bytes: the last tenth must hold one sequence",
                fix="use a longer text or shorter --lengths, or skip training (--steps 0)",
            )
        starts = numbers.integers(0, len(part) - length + 1, rows)
        return torch.from_numpy(np.stack([part[i : i + length] for i in starts]).astype(np.int64))


def generated(seed: int) -> Bytes:
    """For a machine without data: spelling is soon learned, what is said backwards has to be looked up."""
    rows = Reversal(8000, 12, seed)
    return Bytes("".join(f"{one} = {other}\n" for one, other in (rows[i] for i in range(len(rows)))), GENERATED)


@dataclass(frozen=True)
class WindowTask:
    """What is done with windows of bytes."""

    task: Callable[[nn.Module], Task]
    window: Callable[[int], int]  # how many bytes a row of some length takes
    batch: Callable[[Tensor, np.random.Generator], Any]
    outputs: Callable[[Any, Any], Tensor]
    writer: Callable[[nn.Module, Any, int], IncrementalDecoder | None] = lambda net, batch, room: None
    keys: Mapping[str, Any] = field(default_factory=dict)  # of the config


class Textual:
    unit = "tokens"

    def __init__(self, kind: WindowTask, text: Bytes) -> None:
        self.kind, self.text, self.data = kind, text, text.name

    def real(self, length: int) -> int:
        return length

    def changes(self, config: Any, length: int) -> dict[str, Any]:
        wanted = {"length": length, "vocab": VALUES, "target_vocab": None, **self.kind.keys}
        known = {one.name for one in fields(config)}
        return {name: value for name, value in wanted.items() if name in known} | without_dropout(config)

    def notes(self, config: Any, lengths: Sequence[int]) -> list[str]:
        size = self.changes(config, lengths[0])["vocab"]
        if size == config.vocab:
            return []
        return [f"Text is tokenized into bytes: the vocabulary size is {size} instead of {config.vocab:,}."]

    def task(self, net: nn.Module) -> Task:
        return self.kind.task(net)

    def one(self, length: int) -> Any:
        return self.kind.batch(self.text.first(self.kind.window(length)), np.random.default_rng(0))

    def some(self, rows: int, length: int, numbers: np.random.Generator, held_out: bool = False) -> Any:
        return self.kind.batch(self.text.drawn(rows, self.kind.window(length), numbers, held_out), numbers)

    def outputs(self, net: Any, batch: Any) -> Tensor:
        return self.kind.outputs(net, batch)

    def writer(self, net: nn.Module, batch: Any, room: int) -> IncrementalDecoder | None:
        return self.kind.writer(net, batch, room)


def next_bytes(ids: Tensor, numbers: np.random.Generator) -> NextTokenBatch:
    return NextTokenBatch(ids[:, :-1].contiguous(), ids[:, 1:].contiguous(), None)


def going_on(net: nn.Module, batch: NextTokenBatch, room: int) -> IncrementalDecoder:
    return IncrementalDecoder(CausalDecoder(net), batch.given[:1, : batch.given.shape[1] - room], room=room)


def hidden_bytes(ids: Tensor, numbers: np.random.Generator) -> MaskedBatch:
    chosen = torch.from_numpy(numbers.random(ids.shape) < HIDDEN)
    chosen[:, 0] = True  # at least one
    return MaskedBatch(ids.masked_fill(chosen, VALUES), None, None, chosen, ids, None)


def two_halves(ids: Tensor, numbers: np.random.Generator) -> Pairs:
    n = ids.shape[1] // 2
    keys = torch.ones(len(ids), n, dtype=torch.bool)
    return Pairs(ids[:, :n].contiguous(), None, ids[:, n:-1].contiguous(), ids[:, n + 1 :].contiguous(), keys)


def answering(net: nn.Module, batch: Pairs, room: int) -> IncrementalDecoder:
    return IncrementalDecoder(
        Seq2SeqDecoder(net, batch.source[:1]), batch.given[:1, : batch.given.shape[1] - room], room=room
    )


# Foretells the next byte.
DECODER = WindowTask(
    task=Language,
    window=lambda length: length + 1,
    batch=next_bytes,
    outputs=lambda net, batch: net.logits(net.read(batch.given)),
    writer=going_on,
)
# Guesses hidden bytes from all that surrounds them; one more number hides another.
READER = WindowTask(
    task=lambda net: Masked(net, Vocabulary("bpe", BYTE_VOCABULARY).learn([])),  # of which only ``show`` would make use
    window=lambda length: length,
    batch=hidden_bytes,
    outputs=lambda net, batch: net.guessed(net.read(batch.ids)),
    keys={"vocab": VALUES + 1, "head": "words"},
)
# Reads half of the bytes, and foretells the others one by one.
PAIRING = WindowTask(
    task=lambda net: Translate(net, None, smoothing=0.0),
    window=lambda length: 2 * length + 1,
    batch=two_halves,
    outputs=lambda net, batch: net.decode(batch.given, net.encode(batch.source)),
    writer=answering,
)


# What a family's row names: a config, the text file that was given or None, a seed -> the model at work.


def decoder(config: Any, text: Path | None, seed: int) -> Textual:
    return Textual(DECODER, bytes_of(text, seed))


def reader(config: Any, text: Path | None, seed: int) -> Textual:
    return Textual(READER, bytes_of(text, seed))


def pairing(config: Any, text: Path | None, seed: int) -> Textual:
    return Textual(PAIRING, bytes_of(text, seed))


def bytes_of(text: Path | None, seed: int) -> Bytes:
    return generated(seed) if text is None else Bytes(read_text(text, LARGEST_TEXT), str(text))
