"""The duplication task (Kitaev et al., 2020, section 5): after `0 w 0`, say w again, w being a row of random symbols.

What must be said next stands exactly as far back as w is long, so whoever cannot look that far has to guess. Only the
second half is learned and counted; the first cannot be foretold.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.models.gpt import GPT, Config
from regard.nn.kernels.lsh import LSH
from regard.nn.mechanisms import Choice
from regard_lectures.efficient.training import learn
from regard_lectures.figure import seeded

DIM, HEADS = 64, 4
TESTS = 256  # rows


@dataclass(frozen=True)
class Task:
    word: int  # symbols of w
    symbols: int  # to choose from
    depth: int
    batch: int
    steps: int
    rate: float = 2e-3
    rotary: float | None = None

    @property
    def length(self) -> int:
        return 2 * self.word + 2

    def drawn(self, rows: int) -> Tensor:
        """-> (rows, 2 word + 2)"""
        words = F.pad(torch.randint(1, self.symbols + 1, (rows, self.word)), (1, 0))
        return torch.cat((words, words), 1)


@dataclass(frozen=True, eq=False)
class Lesson:
    net: GPT
    right: list[float]  # the share of symbols said rightly, at the marks of a task


def built(choice: Choice, task: Task, seed: int) -> GPT:
    with seeded(seed):
        return GPT(
            Config(
                vocab=task.symbols + 1,
                length=task.length,
                dim=DIM,
                depth=task.depth,
                heads=HEADS,
                dropout=0.0,
                attention_dropout=0.0,
                embedding_dropout=0.0,
                rotary=task.rotary,
                attention=choice,
            )
        )


def taught(choice: Choice, task: Task, seed: int) -> Lesson:
    net = built(choice, task, seed)

    def loss() -> Tensor:
        rehash(net, int(torch.randint(1 << 31, ())))
        rows = task.drawn(task.batch)
        return F.cross_entropy(said(net, rows).flatten(0, 1), second(rows).flatten())

    with seeded(seed):
        right = learn(net, loss, lambda: accuracy(net, task), steps=task.steps, rate=task.rate)
    return Lesson(net, right)


def rehash(net: GPT, seed: int) -> None:
    """Other hashes for attention by hashing, as the paper draws them at every step: no net shall know them by heart."""
    for module in net.modules():
        if isinstance(module, LSH):
            module.seed = seed


def said(net: GPT, rows: Tensor) -> Tensor:
    """(b, n) -> (b, word, v): what is foretold of the second w"""
    logits: Tensor = net(rows[:, :-1])[:, rows.shape[1] // 2 :]
    return logits


def second(rows: Tensor) -> Tensor:
    """(b, n) -> (b, word)"""
    return rows[:, rows.shape[1] // 2 + 1 :]


@torch.no_grad()
def accuracy(net: GPT, task: Task) -> float:
    """On the same rows whenever it is asked; the net must not be learning."""
    with seeded(1000):
        rows = task.drawn(TESTS)
    hits = sum(int((said(net, some).argmax(-1) == second(some)).sum()) for some in rows.split(task.batch))
    return hits / (TESTS * task.word)
