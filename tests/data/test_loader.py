"""Pieces of batches: shared out without loss, and the same whoever makes them."""

import json
import os
import random
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.data.counter_rng import AUGMENT, philox
from regard.data.loader import Loader, MicroBatch
from regard.data.order import Order
from regard.errors import ConfigError, InputError


@dataclass(frozen=True)
class Noisy:
    rows: Tensor
    shared: Tensor  # drawn from the generators that everyone shares
    own: Tensor  # drawn by row


class Data:
    """Batches with chance in them, as augmentation makes them."""

    def __init__(self, count: int = 23, rows: int = 5) -> None:
        self.order = Order(count, rows=rows, seed=3)

    def __len__(self) -> int:
        return len(self.order)

    def rows(self, step: int) -> np.ndarray:
        return self.order.rows(step)

    def collate(self, rows: Sequence[int], step: int) -> Noisy:
        shared = [random.random(), float(np.random.rand()), float(torch.rand(()))]
        own = [np.random.Generator(philox(AUGMENT, 3, step, row)).random() for row in rows]
        return Noisy(torch.tensor(rows), torch.tensor(shared), torch.tensor(own))


class Failing(Data):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def collate(self, rows: Sequence[int], step: int) -> Noisy:
        if step == 3:
            raise self.error
        return super().collate(rows, step)


class OddError(Exception):
    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")


def same(one: list[tuple[int, tuple[MicroBatch, ...]]], two: list[tuple[int, tuple[MicroBatch, ...]]]) -> bool:
    assert [step for step, _ in one] == [step for step, _ in two]
    return all(
        a.weight == b.weight
        and all(torch.equal(getattr(a.batch, field.name), getattr(b.batch, field.name)) for field in fields(Noisy))
        for (_, left), (_, right) in zip(one, two, strict=True)
        for a, b in zip(left, right, strict=True)
    )


def states() -> list[object]:
    return [random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist()]


def children() -> set[int]:
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


def test_workers_change_no_bit_and_disturb_nobody() -> None:
    others = children()  # whoever ran before
    random.gauss(0, 1), np.random.randn()  # both are drawn in pairs: the second one is kept, and must not be lost
    before = states()
    found = []
    for workers in (0, 2, 1):
        found.append(list(Loader(Data(), range(3, 15), workers=workers, split=2, seed=9)))
        assert states() == before
    assert [step for step, _ in found[0]] == list(range(3, 15))
    assert same(found[0], found[1])
    assert same(found[0], found[2])
    assert children() == others


def test_a_step_is_the_same_wherever_one_starts() -> None:
    whole = list(Loader(Data(), range(12), seed=9))
    assert same(whole[7:], list(Loader(Data(), range(7, 12), seed=9)))


def test_chance_differs_by_seed_step_process_and_piece() -> None:
    drawn = [
        tuple(piece.batch.shared.tolist())
        for seed in (1, 2)
        for rank in (0, 1)
        for _, pieces in Loader(Data(), range(3), rank=rank, world=2, split=2, seed=seed)
        for piece in pieces
    ]
    assert len(set(drawn)) == len(drawn) == 24
    assert len({value for values in drawn for value in values}) == 72


@pytest.mark.parametrize(("world", "split"), [(1, 1), (2, 1), (1, 4), (2, 2), (3, 4)])
def test_any_split_deals_out_each_row_once(world: int, split: int) -> None:
    data = Data()
    by_row = {}
    for step in range(len(data)):
        dealt: list[int] = []
        for rank in range(world):
            [(_, pieces)] = Loader(data, [step], rank=rank, world=world, split=split)
            assert len(pieces) == split  # every process does as much
            for piece in pieces:
                rows = piece.batch.rows.tolist()
                assert piece.weight in (0.0, 1.0)
                assert rows
                assert set(rows) <= set(data.rows(step).tolist())
                dealt += rows if piece.weight else []
                by_row |= dict(zip(rows, piece.batch.own.tolist(), strict=True)) if piece.weight else {}
        assert sorted(dealt) == sorted(data.rows(step).tolist())
    expected = {
        row: np.random.Generator(philox(AUGMENT, 3, step, row)).random()
        for step in range(len(data))
        for row in data.rows(step).tolist()
    }
    assert by_row == pytest.approx(expected)


def test_rows_are_dealt_in_turn() -> None:
    """Rows of a batch are sorted by length: dealt in turn, all processes get about the same."""
    data = Data(16, 16)
    [(_, pieces)] = Loader(data, [0], rank=1, world=2, split=2)
    assert [piece.batch.rows.tolist() for piece in pieces] == [
        data.rows(0)[1::4].tolist(),
        data.rows(0)[3::4].tolist(),
    ]


def test_steps_may_have_no_end() -> None:
    def count() -> Iterator[int]:
        step = 0
        while True:
            yield step
            step += 1

    before = children()
    loading = iter(Loader(Data(), count(), workers=2))
    assert [next(loading)[0] for _ in range(4)] == [0, 1, 2, 3]
    assert len(children() - before) == 2
    loading.close()
    assert children() == before


@pytest.mark.parametrize(
    "error",
    [
        InputError("a bad row", where="a.tsv:3", got="x", expected="y", fix="mend it"),
        ConfigError("a bad key", where="run.toml:3"),
        KeyError("key"),
        FileNotFoundError(2, "No such file", "a.png"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        json.JSONDecodeError("bad", "{", 1),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_exception_arrives_as_itself_and_in_its_turn(error: Exception) -> None:
    loading = iter(Loader(Failing(error), range(9), workers=2))
    assert [next(loading)[0] for _ in range(3)] == [0, 1, 2]
    with pytest.raises(type(error)) as caught:
        next(loading)
    assert type(caught.value) is type(error)
    assert str(caught.value) == str(error)
    assert caught.value.args == error.args
    notes = "".join(getattr(caught.value, "__notes__", []))
    if isinstance(error, InputError):
        assert isinstance(caught.value, InputError)
        assert caught.value.as_dict() == error.as_dict()
        assert notes == ""
    else:
        assert "in collate" in notes  # a fault of the program: where it was


@pytest.mark.parametrize("error", [OddError("one", "two"), ValueError(threading.Lock())], ids=["class", "content"])
def test_an_exception_that_cannot_be_sent_is_told(error: Exception) -> None:
    with pytest.raises(RuntimeError) as caught:
        list(Loader(Failing(error), range(9), workers=1))
    assert str(caught.value) == f"{type(error).__name__}: {error}"


def test_a_batch_that_cannot_be_sent_is_an_error() -> None:
    class Local(Data):
        def collate(self, rows: Sequence[int], step: int) -> object:
            class Batch:
                pass

            return Batch()

    with pytest.raises(TypeError, match="at module level"):
        list(Loader(Local(), range(2), workers=1))


def test_ctrl_c_is_not_for_workers() -> None:
    """The terminal sends it to all; the main process writes a checkpoint, and for that the workers must live."""
    before = children()
    loading = iter(Loader(Data(), range(40), workers=2))
    next(loading)
    for pid in children() - before:
        os.kill(pid, signal.SIGINT)
    assert len(list(loading)) == 39


class Slow(Data):
    def collate(self, rows: Sequence[int], step: int) -> Noisy:
        time.sleep(60 if step else 0)
        return super().collate(rows, step)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_workers_die_with_a_killed_parent() -> None:
    """Also in the middle of a batch."""
    reading, writing = os.pipe()
    if (parent := os.fork()) == 0:
        try:
            loading = iter(Loader(Slow(), range(100), workers=2))
            next(loading)
            os.write(writing, " ".join(map(str, children())).encode() + b"\n")
            time.sleep(60)
        finally:
            os._exit(1)
    with open(reading) as told:
        os.close(writing)
        workers = [int(word) for word in told.readline().split()]
    assert len(workers) == 2
    assert all(map(alive, workers))
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    until = time.monotonic() + 10
    while any(map(alive, workers)) and time.monotonic() < until:
        time.sleep(0.05)
    left = [pid for pid in workers if alive(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


class Asking(Data):
    def collate(self, rows: Sequence[int], step: int) -> str | None:
        return os.environ.get("TOKENIZERS_PARALLELISM")


@pytest.mark.parametrize("before", [None, "true"])
def test_tokenizers_start_no_threads_in_workers(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Older ones would warn of every fork; the main process keeps its threads."""
    if before is None:
        monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    else:
        monkeypatch.setenv("TOKENIZERS_PARALLELISM", before)
    assert [pieces[0].batch for _, pieces in Loader(Asking(), range(2), workers=1)] == ["false", "false"]
    assert os.environ.get("TOKENIZERS_PARALLELISM") == before
