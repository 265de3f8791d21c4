"""Letter models with more and more experts: as much work for each letter, and more weights.

Tiny Shakespeare, the last tenth held out. Every other layer has experts in place of its feed-forward, so that a model
with one expert is a dense one. All start with the same rate, which falls with the root of the step, as in the paper.
Positions are rotary: with learned ones most of the steps go by before a net looks further back than one letter.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.models.switchlm import Config, SwitchLM
from regard.nn.tap import capture
from regard_lectures.figure import plain, seeded
from regard_lectures.foundations.play import numbered, words

LENGTH, BATCH, STEPS, EVERY = 64, 16, 1500, 50
ROWS = 200  # of the held-out text


@dataclass(frozen=True)
class Way:
    """To train."""

    load: float = 0.01  # how much the load loss counts
    rate: float = 1.5e-2
    warm: int = 100  # steps up to the full rate
    capacity: float = 1.25
    steps: int = STEPS
    rotary: float | None = 10000.0

    def part(self, step: int) -> float:
        """Of the rate: up along a line, then down with the root."""
        return float(min((step + 1) / self.warm, (max(step, self.warm) / self.warm) ** -0.5))


def config(experts: int, vocab: int, way: Way) -> Config:
    return Config(
        vocab=vocab,
        length=LENGTH,
        dim=32,
        depth=4,
        heads=2,
        hidden=128,
        rotary=way.rotary,
        experts=experts,
        capacity=way.capacity,
        dropout=0.0,
        attention_dropout=0.0,
        embedding_dropout=0.0,
    )


@dataclass(frozen=True)
class Look:
    """At a model in the middle of its training."""

    loss: float  # nats a letter of the held-out text
    shares: list[list[float]]  # for each switch layer, of each expert

    @property
    def evenness(self) -> list[float]:
        """For each switch layer 1 if all experts have equal shares, 0 if one has all."""
        return [round(even(layer), 4) for layer in self.shares]


@dataclass(frozen=True, eq=False)
class Run:
    net: SwitchLM
    looks: list[Look]  # every so many steps


@dataclass(frozen=True, eq=False)
class Letters:
    train: Tensor
    rows: Tensor  # (b, n + 1), held out
    vocab: int


@cache
def letters() -> Letters:
    play = numbered(words())
    held_out = torch.from_numpy(play.held_out)[: ROWS * (LENGTH + 1)]
    return Letters(torch.from_numpy(play.train), held_out.view(ROWS, LENGTH + 1), play.vocab)


@cache
def trained(experts: int, seed: int, way: Way) -> Run:
    text = letters()

    def drawn() -> Tensor:
        return text.train[torch.randint(len(text.train) - LENGTH, (BATCH, 1)) + torch.arange(LENGTH + 1)]

    with seeded(seed):
        net, looks = SwitchLM(config(experts, text.vocab, way)), list[Look]()
    with seeded(seed):  # all read the same batches, however many random numbers their weights took
        learn(net, drawn, way, lambda: looks.append(look(net, text.rows)))
    return Run(net.eval(), looks)


def learn(net: SwitchLM, drawn: Callable[[], Tensor], way: Way, see: Callable[[], None]) -> None:
    """Rows (b, n + 1), drawn afresh for every step; ``see`` is called every so many steps, and at the end."""
    optimizer = torch.optim.Adam(net.parameters(), way.rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, way.part)
    for step in range(way.steps):
        if step % EVERY == 0:
            see()
        rows = drawn()
        out = net(rows[:, :-1])
        loss = F.cross_entropy(out.logits.flatten(0, 1), rows[:, 1:].flatten()) + way.load * out.load
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    see()


@torch.no_grad()
def look(net: SwitchLM, rows: Tensor) -> Look:
    net.eval()
    with capture(net, "*.routes") as seen:
        loss = F.cross_entropy(net(rows[:, :-1]).logits.flatten(0, 1), rows[:, 1:].flatten())
    net.train()
    return Look(round(float(loss), 5), [shares(calls[0]) for calls in seen.values()])


def shares(likely: Tensor) -> list[float]:
    """(t, e) -> how often each expert is the likeliest"""
    found: list[float] = plain(torch.bincount(likely.argmax(-1), minlength=likely.shape[1]).double() / len(likely), 4)
    return found


def even(parts: Sequence[float]) -> float:
    """Their entropy over that of as many equal ones."""
    return -sum(part * math.log(part) for part in parts if part) / math.log(len(parts)) if len(parts) > 1 else 1.0
