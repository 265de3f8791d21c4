"""Letter models of one size, each with another attention: tiny Shakespeare, the last tenth held out.

All that read the same course start with the same weights where they have the same, and see the same batches in the same
order. Positions are rotary, by which a net learns far sooner to look at the letter before; synthesizers, which compare
nothing, have learned ones, and so have those that they are held against.
"""

from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.models.gpt import GPT, Config
from regard.nn.mechanisms import Choice
from regard_lectures.efficient.training import learn
from regard_lectures.figure import seeded
from regard_lectures.foundations.play import Play, numbered, words

DIM, DEPTH, HEADS = 64, 3, 4
HELD = 1 << 14  # letters held out, in rows as long as those that are learned from

NEAR: Choice = {"kind": "local", "window": 32}
FEATURES: Choice = {"kind": "performer", "features": 128}
CHOICES: dict[str, Choice] = {
    "softmax": "softmax",
    "local": NEAR,
    "strided": {"kind": "strided", "stride": 22},
    "performer": FEATURES,
    "local, softmax": (NEAR, "softmax", "softmax"),
    "local, performer": (NEAR, FEATURES, FEATURES),
    "dense": "synthesizer-dense",
    "random": "synthesizer-random",
    "fixed random": {"kind": "synthesizer-random", "form": "fixed"},
    "random + vanilla": "synthesizer",
    **{f"lsh {rounds}": {"kind": "lsh", "chunk": 32, "rounds": rounds} for rounds in (1, 2, 4, 8)},
}


@dataclass(frozen=True)
class Course:
    """How many letters a net reads at once, in how many rows, and how often."""

    length: int
    batch: int
    steps: int
    rate: float = 4e-3
    rotary: float | None = 10000.0


@dataclass(frozen=True, eq=False)
class Lesson:
    net: GPT
    losses: list[float]  # nats of a letter that is held out, at the marks of a course


@cache
def play() -> Play:
    return numbered(words())


def drawn(length: int, batch: int) -> Tensor:
    """Rows from anywhere in what may be learned.  -> (batch, length)"""
    letters = torch.from_numpy(play().train)
    return letters[torch.randint(len(letters) - length, (batch, 1)) + torch.arange(length)]


def held_out(length: int) -> Tensor:
    """-> (HELD / length, length + 1), each row's last letter the next one's first"""
    letters = torch.from_numpy(play().held_out)
    return letters[: HELD + 1].unfold(0, length + 1, length)


def built(choice: Choice, course: Course, seed: int) -> GPT:
    with seeded(seed):
        return GPT(
            Config(
                vocab=play().vocab,
                length=course.length,
                dim=DIM,
                depth=DEPTH,
                heads=HEADS,
                dropout=0.0,
                attention_dropout=0.0,
                embedding_dropout=0.0,
                rotary=course.rotary,
                attention=choice,
            )
        )


@cache
def taught(name: str, course: Course, seed: int) -> Lesson:
    net = built(CHOICES[name], course, seed)
    return Lesson(net, taught_more(net, course, seed))


def taught_more(net: GPT, course: Course, seed: int) -> list[float]:
    """-> the losses at its marks"""
    rows = held_out(course.length).split(course.batch)
    with seeded(seed):
        return learn(
            net,
            lambda: surprise(net, drawn(course.length + 1, course.batch)),
            lambda: sum(float(surprise(net, some)) * len(some) for some in rows) / sum(map(len, rows)),
            steps=course.steps,
            rate=course.rate,
        )


def surprise(net: GPT, rows: Tensor) -> Tensor:
    """(b, n + 1) -> nats of a letter, given those before it"""
    return F.cross_entropy(net(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
