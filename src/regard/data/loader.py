"""Batches, made ahead of time by background processes that change no bit of them."""

import copy
import ctypes
import os
import random
import signal
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from regard.errors import InputError

from .counter_rng import COLLATE, philox
from .rows import Data

PLAIN = (str, bytes, int, float, type(None))


@dataclass(frozen=True, eq=False)
class MicroBatch:
    """What one process does in one go. Where there were too few rows to share out, it is a real row with weight 0."""

    batch: Any
    weight: float


@dataclass(frozen=True, eq=False)
class Made:
    """What a worker sends: the pieces of a step, or what went wrong."""

    step: int
    pieces: tuple[MicroBatch, ...] = ()
    error: Exception | None = None
    trace: str = ""


class Maker:
    """Makes the pieces of a step: of its rows, those of this process, split once more. Each step stands for itself."""

    def __init__(self, data: Data, rank: int, world: int, split: int, seed: int) -> None:
        self.data, self.rank, self.world, self.split, self.seed = data, rank, world, split, seed

    def pieces(self, step: int) -> tuple[MicroBatch, ...]:
        rows = np.asarray(self.data.rows(step))
        own = rows[self.rank :: self.world]
        return tuple(self.piece(step, i, own[i :: self.split].tolist(), rows[:1].tolist()) for i in range(self.split))

    def piece(self, step: int, i: int, rows: Sequence[int], spare: Sequence[int]) -> MicroBatch:
        with seeded(philox(COLLATE, self.seed, step, self.rank * self.split + i)):
            return MicroBatch(self.data.collate(rows or spare, step), 1.0 if rows else 0.0)

    def __getitem__(self, step: int) -> Made:
        """In a worker. An exception is caught here: torch would put a traceback into its message and lose its fields.

        A class inside a function cannot be sent; the attempt would fail where nobody hears of it, and all would wait.
        """
        try:
            made = Made(step, self.pieces(step))
            for piece in made.pieces:
                if "<locals>" in (name := type(piece.batch).__qualname__):
                    raise TypeError(f"a data loader worker cannot pickle {name}: define the class at module level")
            return made
        except Exception as error:
            trace = "" if isinstance(error, InputError) else "".join(traceback.format_tb(error.__traceback__))
            return Made(step, error=portable(error), trace=trace)


class Loader:
    """(step, pieces) for each step in turn, the same for any number of workers.

    While a batch is made, Python's, numpy's and torch's random numbers follow from seed, step, process and piece, and
    afterwards they are as they were. What must not depend on the split either, such as the augmentation of a row, draws
    from ``chance(AUGMENT, seed, step, row)``.
    """

    def __init__(
        self,
        data: Data,
        steps: Iterable[int],
        *,
        workers: int = 0,
        rank: int = 0,
        world: int = 1,
        split: int = 1,
        seed: int = 0,
    ) -> None:
        self.maker = Maker(data, rank, world, split, seed)
        self.steps, self.workers = steps, workers

    def __iter__(self) -> Iterator[tuple[int, tuple[MicroBatch, ...]]]:
        if self.workers == 0:
            for step in self.steps:
                yield step, self.maker.pieces(step)
            return
        for made in spared(self.start()):
            if made.error is not None:
                if made.trace:  # a fault of the program, so say where
                    made.error.add_note(f"in a data loader worker:\n{made.trace}")
                raise made.error
            yield made.step, made.pieces

    def start(self) -> Iterator[Made]:
        parent = os.getpid() if threading.current_thread() is threading.main_thread() else None
        loader: DataLoader[Any] = DataLoader(
            self.maker,  # type: ignore[arg-type]  # all that torch asks of it is __getitem__
            sampler=self.steps,
            batch_size=None,
            num_workers=self.workers,
            collate_fn=unchanged,
            multiprocessing_context="fork",
            worker_init_fn=lambda number: die_with(parent),
            generator=torch.Generator(),  # else a seed for the workers would be drawn from everyone's generator
        )
        with forking():
            return iter(loader)


def spared(made: Iterator[Made]) -> Iterator[Made]:
    """A worker that was killed outright, in words; torch has no kind of error of its own for it."""
    try:
        yield from made
    except RuntimeError as error:
        if "DataLoader worker" not in str(error):
            raise
        raise InputError(
            "a data loader worker was killed",
            got=str(error).split(". ")[0][:200],
            fix="free memory or lower train.workers, then resume from the last checkpoint",
        ) from None


def unchanged(made: object) -> object:
    return made


@contextmanager
def forking() -> Iterator[None]:
    """What workers are born with: Ctrl-C is not for them, and tokenizers start no threads and warn of none."""
    name = "TOKENIZERS_PARALLELISM"
    before = os.environ.get(name)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.environ[name] = "false"
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def die_with(parent: int | None) -> None:
    """Leave no process behind when the parent is killed. torch looks every five seconds; Linux can tell at once.

    Linux counts the end of the thread that forked as the parent's, so this is for workers of the main thread alone.
    """
    if sys.platform == "linux" and parent is not None:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:  # it was killed before this line
            os._exit(1)


@contextmanager
def seeded(numbers: np.random.Philox) -> Iterator[None]:
    """The random numbers that everyone shares, started from given ones, and put back as they were."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    first, second, third = (int(word) >> 1 for word in numbers.random_raw(3))
    random.seed(first)
    np.random.seed(second % 2**32)
    torch.default_generator.manual_seed(third)  # the CPU's alone: torch.manual_seed would reach into every GPU
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])


def portable(error: Exception) -> Exception:
    """The exception itself if it survives being sent, else one that says the same."""
    try:
        whole = str(copy.copy(error)) == str(error) and "<locals>" not in type(error).__qualname__
    except Exception:
        whole = False
    plain = all(isinstance(value, PLAIN) for value in (*error.args, *vars(error).values()))
    return error if whole and plain else RuntimeError(f"{type(error).__name__}: {error}")
