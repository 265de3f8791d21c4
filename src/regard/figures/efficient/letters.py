"""Letter models of one size, each with another attention: tiny Shakespeare, the last tenth held out, 512 letters at a
time. All start with the same weights where they have the same, and read the same batches in the same order.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.figures.figure import seeded
from regard.figures.foundations.play import numbered, words
from regard.models.gpt import GPT, Config
from regard.nn.mechanisms import Choice

LENGTH, BATCH, ROWS = 512, 4, 16  # letters of a window, windows of a step and of what is held out
DIM, DEPTH, HEADS = 64, 3, 4
STEPS, RATE, WARM, EVERY = 700, 4e-3, 50, 100

CHOICES: dict[str, Choice] = {
    "softmax": "softmax",
    "local": {"kind": "local", "window": 32},
    "strided": {"kind": "strided", "stride": 22},
    "performer": {"kind": "performer", "features": 128},
    "dense": "synthesizer-dense",
    "random": "synthesizer-random",
    "fixed random": {"kind": "synthesizer-random", "form": "fixed"},
    "random + vanilla": "synthesizer",
    **{f"lsh {rounds}": {"kind": "lsh", "chunk": 32, "rounds": rounds} for rounds in (1, 2, 4, 8)},
}


@dataclass(frozen=True, eq=False)
class Letters:
    train: Tensor
    rows: Tensor  # (b, n + 1), held out
    vocab: int

    def drawn(self) -> Tensor:
        """-> (BATCH, LENGTH + 1), anywhere in the text"""
        return self.train[torch.randint(len(self.train) - LENGTH, (BATCH, 1)) + torch.arange(LENGTH + 1)]


@dataclass(frozen=True, eq=False)
class Lesson:
    net: GPT
    losses: list[float]  # nats a letter of what is held out, every so many steps, and at the end


@cache
def letters() -> Letters:
    play = numbered(words())
    held_out = torch.from_numpy(play.held_out)[: ROWS * (LENGTH + 1)]
    return Letters(torch.from_numpy(play.train), held_out.view(ROWS, LENGTH + 1), play.vocab)


def built(name: str, seed: int) -> GPT:
    with seeded(seed):
        return GPT(
            Config(
                vocab=letters().vocab,
                length=LENGTH,
                dim=DIM,
                depth=DEPTH,
                heads=HEADS,
                dropout=0.0,
                attention_dropout=0.0,
                embedding_dropout=0.0,
                attention=CHOICES[name],
            )
        )


@cache
def taught(name: str, seed: int) -> Lesson:
    net = built(name, seed)
    with seeded(seed):
        return Lesson(net.eval(), learn(net, STEPS, RATE, letters().drawn))


def learn(net: GPT, steps: int, rate: float, drawn: Callable[[], Tensor]) -> list[float]:
    """Adam; up along a line, then down along another. -> the loss of what is held out, every so many steps"""
    optimizer = torch.optim.Adam(net.parameters(), rate)
    warm = min(WARM, steps // 4 + 1)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, (steps - step) / max(steps - warm, 1))
    )
    losses = []
    for step in range(steps):
        if step % EVERY == 0:
            losses.append(loss_of(net))
        net.train()
        optimizer.zero_grad()
        surprise(net, drawn()).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return [*losses, loss_of(net)]


def surprise(net: GPT, rows: Tensor) -> Tensor:
    return F.cross_entropy(net(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


@torch.no_grad()
def loss_of(net: GPT) -> float:
    net.eval()
    rows = letters().rows
    return round(sum(float(surprise(net, part)) for part in rows.split(BATCH)) / (len(rows) // BATCH), 5)
