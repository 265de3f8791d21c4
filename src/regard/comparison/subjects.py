"""How a model of each family is put to work: inputs of any length, what it learns from them, and what comes out.

Text is read byte by byte, so that one file serves every model and no vocabulary has to be learned first.

Shapes: b rows, n tokens, v vocabulary.
"""

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.data.generated import Reversal
from regard.data.masking import Hidden
from regard.data.pairs import Pairs
from regard.data.vocabulary import BYTES, Vocabulary
from regard.decode.writer import Continuer, Translator, Writer
from regard.errors import InputError
from regard.tasks.classify import Classify, Labelled
from regard.tasks.language import Language, Tokens
from regard.tasks.masked import Masked
from regard.tasks.task import Task
from regard.tasks.translate import Translate

VALUES = 256  # that a byte has
HELD_OUT = 0.1  # the share of a text that is measured on, its end
HIDDEN = 0.15  # the share of tokens that a reader has to guess
CLASSES = 8  # directions of generated waves
GENERATED = "generated text, numbers and the same backwards"


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
                "the text is too short to learn from",
                where=self.name,
                got=f"{len(self.ids):,} bytes",
                expected=f"at least {math.ceil(length / HELD_OUT):,}: its last tenth is held out, as a window or more",
                fix="give a longer text or shorter lengths, or leave the lesson out (--steps 0)",
            )
        starts = numbers.integers(0, len(part) - length + 1, rows)
        return torch.from_numpy(np.stack([part[i : i + length] for i in starts]).astype(np.int64))


def generated(seed: int) -> Bytes:
    """For a machine without data: spelling is soon learned, what is said backwards has to be looked up."""
    rows = Reversal(8000, 12, seed)
    return Bytes("".join(f"{one} = {other}\n" for one, other in (rows[i] for i in range(len(rows)))), GENERATED)


class Subject:
    """One kind of model. What it learns is a task, as in a run; a batch is what that task takes."""

    unit = "tokens"
    vocab = VALUES

    def __init__(self, text: Bytes) -> None:
        self.text = text

    @property
    def data(self) -> str:
        return self.text.name

    def real(self, length: int) -> int:
        """The nearest length that there is."""
        return length

    def changes(self, config: Any, length: int) -> dict[str, Any]:
        """The keys of its config for inputs of this length. Dropout would only hide what an attention does."""
        wanted = {"length": length, "vocab": self.vocab, "target_vocab": None}
        known = {field.name: getattr(config, field.name) for field in fields(config)}
        off = {name: 0.0 for name, value in known.items() if name.endswith(("dropout", "drop_path")) and value}
        return {name: value for name, value in wanted.items() if name in known} | off

    def task(self, net: nn.Module) -> Task:
        raise NotImplementedError

    def one(self, length: int) -> Any:
        """A batch of one row, always the same."""
        return self.batch(self.text.first(self.window(length)), np.random.default_rng(0))

    def some(self, rows: int, length: int, numbers: np.random.Generator, held_out: bool = False) -> Any:
        """A batch to learn from, or to measure on."""
        return self.batch(self.text.drawn(rows, self.window(length), numbers, held_out), numbers)

    def window(self, length: int) -> int:
        """How many bytes make a row."""
        return length

    def batch(self, ids: Tensor, numbers: np.random.Generator) -> Any:
        raise NotImplementedError

    def outputs(self, net: Any, batch: Any) -> Tensor:
        """What the net makes of a batch, to be compared with what another net makes of it."""
        raise NotImplementedError

    def writer(self, net: nn.Module, batch: Any, room: int) -> Writer | None:
        """The net as it writes, all but the last ``room`` tokens read; None for what does not write."""
        return None


class Decoder(Subject):
    """Foretells the next byte."""

    def task(self, net: nn.Module) -> Task:
        return Language(net)

    def window(self, length: int) -> int:
        return length + 1

    def batch(self, ids: Tensor, numbers: np.random.Generator) -> Tokens:
        return Tokens(ids[:, :-1].contiguous(), ids[:, 1:].contiguous(), None)

    def outputs(self, net: Any, batch: Tokens) -> Tensor:
        found: Tensor = net.logits(net.read(batch.given))
        return found

    def writer(self, net: nn.Module, batch: Tokens, room: int) -> Writer:
        return Writer(Continuer(net), batch.given[:1, : batch.given.shape[1] - room], room=room)


class Reader(Subject):
    """Guesses hidden bytes from all that surrounds them."""

    vocab = VALUES + 1  # one that hides another

    def changes(self, config: Any, length: int) -> dict[str, Any]:
        return super().changes(config, length) | {"head": "words"}

    def task(self, net: nn.Module) -> Task:
        return Masked(net, Vocabulary("bpe", BYTES).learn([]))  # of which only ``show`` would make use

    def batch(self, ids: Tensor, numbers: np.random.Generator) -> Hidden:
        chosen = torch.from_numpy(numbers.random(ids.shape) < HIDDEN)
        chosen[:, 0] = True  # at least one
        return Hidden(ids.masked_fill(chosen, VALUES), None, None, chosen, ids, None)

    def outputs(self, net: Any, batch: Hidden) -> Tensor:
        found: Tensor = net.guessed(net.read(batch.ids))
        return found


class Pairing(Subject):
    """Foretells bytes from as many before them: an encoder reads these, a decoder writes what follows."""

    def task(self, net: nn.Module) -> Task:
        return Translate(net, None, smoothing=0.0)

    def window(self, length: int) -> int:
        return 2 * length + 1

    def batch(self, ids: Tensor, numbers: np.random.Generator) -> Pairs:
        n = ids.shape[1] // 2
        keys = torch.ones(len(ids), n, dtype=torch.bool)
        return Pairs(ids[:, :n].contiguous(), None, ids[:, n:-1].contiguous(), ids[:, n + 1 :].contiguous(), keys)

    def outputs(self, net: Any, batch: Pairs) -> Tensor:
        found: Tensor = net.decode(batch.given, net.encode(batch.source))
        return found

    def writer(self, net: nn.Module, batch: Pairs, room: int) -> Writer:
        prompt = batch.given[:1, : batch.given.shape[1] - room]
        return Writer(Translator(net, batch.source[:1]), prompt, room=room)


class Viewer(Subject):
    """Tells the direction of waves in an image; lengths are patches, as many as make a square."""

    unit = "patches"
    data = f"generated images, waves in {CLASSES} directions"

    def __init__(self, config: Any) -> None:
        self.patch, self.channels = config.patch, config.channels

    def real(self, length: int) -> int:
        return self.side(length) ** 2

    def side(self, length: int) -> int:
        return max(round(math.sqrt(length)), 1)

    def changes(self, config: Any, length: int) -> dict[str, Any]:
        more = {"image": self.side(length) * self.patch, "classes": CLASSES}
        return super().changes(config, length) | more

    def task(self, net: nn.Module) -> Task:
        return Classify(net, [str(i) for i in range(CLASSES)])

    def one(self, length: int) -> Labelled:
        return self.some(1, length, np.random.default_rng(0))

    def some(self, rows: int, length: int, numbers: np.random.Generator, held_out: bool = False) -> Labelled:
        """Each wave is some pixels long, begins anywhere, and is in all colours alike."""
        places = np.arange(self.side(length) * self.patch)
        labels = numbers.integers(0, CLASSES, rows)
        angles, begins = labels * np.pi / CLASSES, 2 * np.pi * numbers.random(rows)
        along = np.cos(angles)[:, None, None] * places + np.sin(angles)[:, None, None] * places[:, None]
        waves = np.sin(along * (4 * np.pi / self.patch) + begins[:, None, None])[:, None]
        noise = numbers.standard_normal((rows, self.channels, len(places), len(places)), np.float32)
        return Labelled(torch.from_numpy((waves + noise).astype(np.float32)), torch.from_numpy(labels))

    def outputs(self, net: Any, batch: Labelled) -> Tensor:
        """The states of all patches: a head that has learned nothing is zero."""
        found: Tensor = net.features(batch.inputs)
        return found


KINDS: Mapping[str, type[Subject]] = {
    "gpt": Decoder,
    "switchlm": Decoder,
    "bert": Reader,
    "transformer": Pairing,
    "t5": Pairing,
    "switch": Pairing,
    "rnn": Pairing,
    "vit": Viewer,
}


def subject_of(family: str, config: Any, text: Bytes | None, seed: int) -> Subject:
    """``text`` is None where a file was not given."""
    kind = KINDS.get(family)
    if kind is None or not hasattr(config, "attention"):
        raise InputError(
            f"a model of the {family} family has no attention to be swapped, or cannot be compared yet",
            expected=f"one of {', '.join(KINDS)}",
            fix="`regard models` lists all of them",
        )
    if issubclass(kind, Viewer):
        if text is not None:
            raise InputError(
                "this model sees images, and those that it is compared by are generated",
                where=text.name,
                fix="leave out --data",
            )
        return kind(config)
    return kind(generated(seed) if text is None else text)
