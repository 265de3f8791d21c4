"""Three tasks of one net: the first word of a text says which. A small T5 that reads and writes, piece by piece.

A piece of text is a letter, a digit, or one of a few whole words.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from random import Random
from string import ascii_letters, ascii_lowercase, digits

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.models.t5 import T5, Config
from regard.nn.encdec import EncoderDecoder
from regard_lectures.figure import seeded
from regard_lectures.toys import fit

NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
TASKS: dict[str, Callable[[str], Sequence[str]]] = {
    "reverse:": lambda text: text[::-1],
    "upper:": str.upper,
    "translate-digits:": lambda text: [NUMBERS[int(digit)] for digit in text],
}
START, END = 0, 1  # rows are padded with the start, as in T5
PIECES = [*ascii_letters, *digits, *NUMBERS, *TASKS]
SIZES = Config(vocab=len(PIECES) + 2, dim=64, depth=2, heads=4, head_dim=16, hidden=128, dropout=0.0)
STEPS, EVERY, BATCH, RATE, TESTS = 800, 50, 96, 4e-3, 300
SHORTEST, LONGEST = 3, 7

Pieces = Sequence[str]


@dataclass(frozen=True)
class Pair:
    """What goes in and what should come out."""

    source: Pieces
    target: Pieces


def pair(task: str, text: str) -> Pair:
    return Pair([task, *text], TASKS[task](text))


def drawn(task: str, chance: Random) -> Pair:
    signs = digits if task == "translate-digits:" else ascii_lowercase
    return pair(task, "".join(chance.choices(signs, k=chance.randint(SHORTEST, LONGEST))))


def numbered(pieces: Pieces) -> Tensor:
    return torch.tensor([PIECES.index(piece) + 2 for piece in pieces] + [END])


@dataclass(frozen=True, eq=False)
class Batch:
    source: Tensor  # (b, m)
    given: Tensor  # (b, n), one step behind what is wanted
    wanted: Tensor  # (b, n)

    @property
    def keys(self) -> Tensor:
        return self.source != START

    @property
    def real(self) -> Tensor:
        return self.wanted != START


def batched(pairs: Sequence[Pair]) -> Batch:
    source = pad_sequence([numbered(one.source) for one in pairs], batch_first=True)
    wanted = pad_sequence([numbered(one.target) for one in pairs], batch_first=True)
    return Batch(source, F.pad(wanted, (1, -1), value=START), wanted)


def said(net: EncoderDecoder, batch: Batch) -> Tensor:
    """-> (b, n, v), at each place after the right beginning"""
    logits: Tensor = net(batch.source, batch.given, source_keys=batch.keys)
    return logits


def surprise(net: EncoderDecoder, batch: Batch) -> Tensor:
    return F.cross_entropy(said(net, batch)[batch.real], batch.wanted[batch.real])


@torch.no_grad()
def right(net: EncoderDecoder, batch: Batch) -> float:
    """The share of answers that are right from the first piece to the end.

    Who takes the likeliest piece each time writes the right answer if and only if that is the likeliest wherever all
    before it was right: one run tells, and nothing need be written.
    """
    hits = said(net, batch).argmax(-1) == batch.wanted
    return float((hits | ~batch.real).all(1).double().mean())


@torch.no_grad()
def written(net: EncoderDecoder, source: Pieces, longest: int = 12) -> list[str]:
    """The likeliest piece each time, up to the end."""
    memory, ids = net.encode(numbered(source)[None]), torch.tensor([[START]])
    while ids.shape[1] <= longest and int(ids[0, -1]) != END:
        ids = torch.cat((ids, net.decode(ids, memory)[:, -1:].argmax(-1)), 1)
    return [PIECES[i - 2] for i in ids[0].tolist() if i > END]


@dataclass(frozen=True, eq=False)
class Taught:
    net: T5
    curves: dict[str, list[float]]  # the share of right answers to unseen texts, every so many steps


@cache
def taught(seed: int) -> Taught:
    """All tasks in every batch."""
    unseen = {task: batched([drawn(task, Random(f"{task} {i}")) for i in range(TESTS)]) for task in TASKS}
    curves: dict[str, list[float]] = {task: [] for task in TASKS}
    chance, steps = Random(seed), count()

    def look() -> None:
        for task, batch in unseen.items():
            curves[task].append(round(right(net, batch), 4))

    def loss() -> Tensor:
        if next(steps) % EVERY == 0:
            look()
        return surprise(net, batched([drawn(task, chance) for task in TASKS for _ in range(BATCH // len(TASKS))]))

    with seeded(seed):
        net = T5(SIZES)
        fit(net.parameters(), loss, steps=STEPS, rate=RATE)
    look()
    return Taught(net.eval(), curves)
