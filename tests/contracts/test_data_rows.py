"""The contracts of a kind of data: what draws anew, or has no example, fails in words."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from regard.contracts import runs
from regard.contracts.equality import same
from regard.contracts.report import asked
from regard.modalities.run_parts import OpenedData, RunPlan
from regard.modalities.sources import SOURCES

READ = "its rows can be read, with the same result each time"


class Noted:
    """The same pairs of words, each with what a function gives for it."""

    faults: Sequence[Any] = ()
    lengths = None

    def __init__(self, rows: int, note: Callable[[int], Any]) -> None:
        self.rows, self.note = rows, note

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, i: int) -> Any:
        return "one two", "two one", self.note(i)

    def where(self, i: int) -> str:
        return f"row {i}"


def failing(monkeypatch: pytest.MonkeyPatch, opened: Callable[[], Any]) -> dict[str, str]:
    """What data that is opened so fails, and in which words."""

    def open_data(plan: RunPlan) -> OpenedData:
        rows = opened()
        return OpenedData({"train": rows, "held_out": rows})

    monkeypatch.setitem(SOURCES.rows, "reverse", replace(SOURCES["reverse"], open=open_data))
    wanted = [one for one in runs.data_contracts("reverse") if one.says == READ]
    return {one.contract: one.words for one in asked("data", wanted) if not one.holds}


@pytest.mark.parametrize(
    "draw", [lambda: float(torch.rand(())), lambda: float(np.random.default_rng().random()), random.random]
)
def test_data_that_draws_when_it_is_opened_fails(monkeypatch: pytest.MonkeyPatch, draw: Callable[[], float]) -> None:
    def opened() -> Noted:
        drawn = draw()
        return Noted(8, lambda i: drawn)

    assert failing(monkeypatch, opened) == {READ: "row 0 of the train split differs each time the data is opened"}


def test_data_of_which_few_rows_differ_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deep inside of large tensors, which are not printed whole."""
    openings = count()

    def opened() -> Noted:
        x = torch.zeros(3, 40, 40)
        x[1, 20, 20] = next(openings)
        return Noted(8, lambda i: {"image": x if i == 5 else torch.zeros(1)})

    assert failing(monkeypatch, opened) == {READ: "row 5 of the train split differs each time the data is opened"}


def test_data_that_draws_when_it_is_read_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    told = failing(monkeypatch, lambda: Noted(8, lambda i: random.random()))
    assert told == {READ: "row 0 of the train split differs each time it is read"}


def test_data_of_which_the_number_of_rows_differs_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    openings = count(8)
    told = failing(monkeypatch, lambda: Noted(next(openings), lambda i: i))
    assert told == {READ: "the train split has 8 rows, and 9 when the data is opened again"}


def test_data_that_is_the_same_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not failing(monkeypatch, lambda: Noted(8, lambda i: [torch.full((2,), i), {"x": float("nan")}, Bare(i)]))


def test_data_without_an_example_fails_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SOURCES.rows, "reverse", replace(SOURCES["reverse"], example=None))
    told = [one.words for one in asked("data", runs.data_contracts("reverse")) if not one.holds]
    missing = "the data has no example: define one with DataKind(example=...)"
    assert told == [missing, f"not checked: {missing}", f"not checked: {missing}"]


class Bare:
    """An object that says nothing of itself."""

    def __init__(self, x: Any) -> None:
        self.x = x


@dataclass(frozen=True, eq=False)
class Held:
    x: Any


def image(colour: int) -> Image.Image:
    return Image.new("L", (2, 3), colour)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (torch.tensor([1.0, torch.nan]), torch.tensor([2.0, torch.nan])),
        (torch.tensor([1.0, torch.nan]), torch.tensor([1.0, 1.0])),
        (torch.tensor([1.0]), torch.tensor([1])),
        (np.array([1.0, np.nan]), np.array([1.0, 2.0])),
        (np.zeros(2), np.zeros((2, 1))),
        (np.array([{"x": 1}, "y"]), np.array([{"x": 2}, "y"])),
        (float("nan"), 1.0),
        ("a", "b"),
        (1, True),
        ([1, (2, 3)], [1, (2, 4)]),
        ([1], [1, 2]),
        ({"x": torch.zeros(1)}, {"x": torch.ones(1)}),
        ({"x": 1}, {"y": 1}),
        (Held(torch.zeros(1)), Held(torch.ones(1))),
        (Bare(torch.zeros(1)), Bare(torch.ones(1))),
        (image(0), image(1)),
        (None, 0),
    ],
)
def test_what_is_the_same(one: Any, other: Any) -> None:
    assert not same(one, other)
    assert same(one, one)
    assert same(other, other)


def test_what_is_made_anew_is_the_same() -> None:
    for make in (lambda: Held([image(1), np.array([np.nan])]), lambda: Bare(torch.tensor([torch.nan]))):
        assert same(make(), make())
