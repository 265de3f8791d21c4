"""Encoders that guess hidden pixels, each with another attention: BERT's net and task, small, on pictures of clothes.

Of all pixels 15 % are hidden, each behind the same sign; in pictures held out they are hidden once and for all, at the
same places for every net. Hidden letters would be nearer to the papers, but what stands beside a letter is all that
tells it: an encoder that began with rotary positions knew nothing but how often each letter is after 150 steps. A
picture tells a pixel by its neighbours and by all of it, so that a net learns something at once, and more in minutes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.models.bert import BERT, Config
from regard.nn.mechanisms import Choice
from regard_lectures.efficient import clothes
from regard_lectures.efficient.training import learn
from regard_lectures.figure import seeded

DIM, DEPTH, HEADS, SHARE = 64, 4, 4, 0.15
SIGN = clothes.SHADES  # the one behind which pixels are hidden
HELD = 1 << 15  # pixels held out, about


@dataclass(frozen=True)
class Course:
    """Pictures as wide and high as this, how many of them at a step, and how many steps."""

    side: int
    batch: int
    steps: int
    rate: float = 2e-3


@dataclass(frozen=True, eq=False)
class Test:
    rows: Tensor  # (b, n)
    chosen: Tensor  # bool (b, n): what is hidden

    @staticmethod
    def of(side: int) -> "Test":
        rows = clothes.held_out(side, HELD // side**2)
        return Test(rows, torch.rand(rows.shape, generator=torch.Generator().manual_seed(0)) < SHARE)


def built(choice: Choice, length: int, seed: int) -> BERT:
    with seeded(seed):
        return BERT(
            Config(
                vocab=clothes.SHADES + 1,
                length=length,
                segments=0,
                dim=DIM,
                depth=DEPTH,
                heads=HEADS,
                hidden=4 * DIM,
                dropout=0.0,
                attention_dropout=0.0,
                pooler=False,
                head="words",
                attention=choice,
            )
        )


def surprise(net: BERT, rows: Tensor, chosen: Tensor) -> Tensor:
    """(b, n), bool (b, n) -> nats of a pixel that is hidden"""
    states = net.read(rows.masked_fill(chosen, SIGN))[chosen]
    return F.cross_entropy(net.guessed(states), rows[chosen])


def batch_of(net: BERT, side: int, batch: int) -> Callable[[], Tensor]:
    """-> what draws a batch and tells its loss"""
    return lambda: surprise(net, clothes.drawn(side, batch), torch.rand(batch, side**2) < SHARE)


def taught(choice: Choice, course: Course, seed: int) -> list[float]:
    """The losses of what is held out, at the marks of a course."""
    net, test = built(choice, course.side**2, seed), Test.of(course.side)
    parts = list(zip(test.rows.split(course.batch), test.chosen.split(course.batch), strict=True))

    def look() -> float:
        return sum(float(surprise(net, *part)) * int(part[1].sum()) for part in parts) / int(test.chosen.sum())

    with seeded(seed):
        loss = batch_of(net, course.side, course.batch)
        return learn(net, loss, look, steps=course.steps, rate=course.rate)


def alone(side: int) -> float:
    """Nats of a pixel that is hidden, for one who looks at no other."""
    test = Test.of(side)
    return clothes.alone(side, test.rows, test.chosen)
