"""A task of the library as a loss for the toys' training loop; and generated pairs as batches, ready-made."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import torch
from torch import Tensor

from regard.modalities.text.pairs import PairMaker, Pairs
from regard.modalities.text.processor import Text
from regard.modalities.text.vocabulary import Vocabulary
from regard.tasks.task import Task


def lesson(task: Task, batches: Sequence[Any]) -> Callable[[], Tensor]:
    """One batch after the other, round and round; the loss is put together as the engine does it."""
    steps = count()

    def loss() -> Tensor:
        step = next(steps)
        batch = batches[step % len(batches)]
        counts = task.counts(batch)
        (found,) = task.losses(batch, step)
        return torch.stack([term.weight * term.sum / counts[term.count] for term in found.terms.values()]).sum()

    return loss


def words_of(pairs: Sequence[tuple[str, str]]) -> Text:
    """One vocabulary of all words of both languages."""
    return Vocabulary("words").learn(text for pair in pairs for text in pair)


def batched(text: Text, pairs: Sequence[tuple[str, str]], size: int) -> list[Pairs]:
    make = PairMaker(text, 1000)
    return [make(pairs[i : i + size]) for i in range(0, len(pairs), size)]
