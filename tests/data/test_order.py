"""The order of batches: a function of seed and step, each row once an epoch, never over the budget."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from regard.data.counter_rng import AUGMENT, COLLATE, philox
from regard.data.order import Order
from regard.errors import InputError

LENGTHS = st.tuples(st.integers(1, 60), st.integers(1, 3)).flatmap(
    lambda shape: arrays.arrays(np.int32, shape, elements=st.integers(0, 12))
)


def epoch(order: Order, number: int) -> list[list[int]]:
    return [order.rows(step).tolist() for step in range(number * len(order), (number + 1) * len(order))]


def cost(lengths: np.ndarray, rows: list[int]) -> int:
    return len(rows) * int(lengths[rows].max(axis=0).sum())


@given(lengths=LENGTHS, budget=st.integers(1, 80), limit=st.none() | st.integers(1, 9), shuffle=st.booleans())
def test_each_row_once_and_never_over_the_budget(
    lengths: np.ndarray, budget: int, limit: int | None, shuffle: bool
) -> None:
    order = Order(len(lengths), lengths, budget=budget, rows=limit, seed=5, shuffle=shuffle)
    padded = 0
    for number in range(2):
        batches = epoch(order, number)
        assert sorted(row for rows in batches for row in rows) == list(range(len(lengths)))
        for rows in batches:
            assert len(rows) == 1 or cost(lengths, rows) <= budget
            assert limit is None or len(rows) <= limit
        padded = sum(cost(lengths, rows) for rows in batches)
    assert order.waste() == (padded / lengths.sum() if lengths.sum() else 1.0)


@given(lengths=LENGTHS, budget=st.integers(1, 80))
def test_batches_are_as_full_as_neighbours_allow(lengths: np.ndarray, budget: int) -> None:
    """Sorted by length, the first row of the next batch would not have fitted; so buckets are worth their name."""
    order = Order(len(lengths), lengths, budget=budget, shuffle=False)
    batches = epoch(order, 0)
    whole = [row for rows in batches for row in rows]
    keys = [(*lengths[row].tolist(), row) for row in whole]
    assert keys == sorted(keys)
    for rows, following in pairwise(batches):
        joined = [*rows, following[0]]
        assert len(joined) * max(1, int(lengths[joined].max(axis=0).sum())) > budget


@given(
    lengths=LENGTHS,
    seed=st.integers(-(2**70), 2**70),
    steps=st.lists(st.integers(0, 500), min_size=1, max_size=8),
)
def test_a_step_does_not_depend_on_what_was_asked_before(lengths: np.ndarray, seed: int, steps: list[int]) -> None:
    order = Order(len(lengths), lengths, budget=20, seed=seed)
    found = [order.rows(step).tolist() for step in steps]
    for step, rows in zip(steps, found, strict=True):
        assert Order(len(lengths), lengths, budget=20, seed=seed).rows(step).tolist() == rows


def test_what_was_given_can_be_changed_without_harm() -> None:
    order = Order(8, rows=8)
    before = order.rows(0).tolist()
    order.rows(0)[:] = 0
    assert order.rows(0).tolist() == before


def test_epochs_and_seeds_differ() -> None:
    lengths = np.repeat(np.arange(1, 11), 30)
    order, other = Order(300, lengths, budget=50, seed=1), Order(300, lengths, budget=50, seed=2)
    assert epoch(order, 0) != epoch(order, 1)
    assert epoch(order, 0) != epoch(other, 0)
    inside = [{frozenset(rows) for rows in epoch(order, number)} for number in range(2)]
    assert inside[0] != inside[1]  # not only the order of batches, also who meets whom
    assert [sorted(map(len, epoch(order, number))) for number in range(2)] == [sorted(map(len, epoch(other, 0)))] * 2


def test_batches_do_not_come_by_length() -> None:
    lengths = np.arange(1, 401)
    first = [int(lengths[rows].max()) for rows in epoch(Order(400, lengths, budget=1000), 0)]
    assert abs(np.corrcoef(first, np.arange(len(first)))[0, 1]) < 0.3


def test_without_lengths_batches_have_a_fixed_number_of_rows() -> None:
    order = Order(10, rows=4)
    assert len(order) == 3
    assert sorted(map(len, epoch(order, 0))) == [2, 4, 4]
    assert order.waste() == 1.0
    assert epoch(order, 0) != epoch(order, 1)
    assert epoch(Order(10, rows=4, shuffle=False), 1) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_every_order_of_few_rows_is_about_as_likely() -> None:
    order = Order(3, rows=3)
    found = np.array([order.rows(step) for step in range(2000)])
    shares = [[np.mean(found[:, place] == row) for row in range(3)] for place in range(3)]
    assert np.abs(np.array(shares) - 1 / 3).max() < 0.05


def test_lengths_with_a_number_of_rows_still_sort() -> None:
    lengths = np.array([5, 1, 4, 2, 3, 6])
    assert epoch(Order(6, lengths, rows=2, shuffle=False), 0) == [[1, 3], [4, 2], [0, 5]]


def test_the_first_field_counts_first() -> None:
    lengths = np.array([[2, 1], [1, 9], [2, 0], [1, 3]])
    assert epoch(Order(4, lengths, rows=4, shuffle=False), 0) == [[3, 1, 2, 0]]


def test_the_order_is_the_same_in_every_version() -> None:
    """Runs that were begun must end in the same order. If this fails, a new release breaks their resume."""
    order = Order(12, np.array([3, 1, 2] * 4), budget=9, seed=7)
    assert [order.rows(step).tolist() for step in (0, 1, len(order), 1000)] == [
        [4, 1, 7, 10],
        [6, 3, 9],
        [1, 4, 7, 10],
        [0],
    ]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"count": 0, "rows": 1}, "no rows"),
        ({"count": 3}, "batch size is not set"),
        ({"count": 3, "budget": 5}, "needs row lengths"),
        ({"count": 3, "rows": 0}, "at least 1"),
        ({"count": 3, "lengths": np.ones(3), "budget": 0}, "at least 1"),
        ({"count": 3, "lengths": np.ones(2), "budget": 5}, "for each example"),
        ({"count": 2, "lengths": np.array([1, -1]), "budget": 5}, "smallest -1"),
    ],
)
def test_what_cannot_be_is_refused(arguments: dict, word: str) -> None:
    with pytest.raises(InputError, match=word):
        Order(**arguments)


def test_chance_has_an_address() -> None:
    """Any change of use, seed, step or row gives other numbers, and a long draw never runs into a neighbour's."""
    places = [(COLLATE, 1, 2, 3), (AUGMENT, 1, 2, 3), (COLLATE, 2, 2, 3), (COLLATE, 1, 3, 3), (COLLATE, 1, 2, 4)]
    drawn = [philox(*place).random_raw(1000) for place in places]
    assert len(np.unique(np.concatenate(drawn))) == 5000
    np.testing.assert_array_equal(drawn[0], philox(*places[0]).random_raw(1000))
