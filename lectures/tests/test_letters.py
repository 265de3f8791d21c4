"""The parts that the trained figures of section 10 share: tasks that ask for the right place, and an honest loop."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard_lectures.curves import spread
from regard_lectures.efficient import doubled, hidden, recalled
from regard_lectures.efficient.training import learn, marks, share
from regard_lectures.figure import seeded


def test_names_that_would_meet_stand_apart_and_others_stay():
    found = spread({"a": 0.0, "b": 0.1, "c": 5.0}, 1.0)
    assert found["b"] - found["a"] == pytest.approx(1.0)
    assert found["c"] - found["b"] > 1.0
    assert sum(found.values()) == pytest.approx(5.1)  # the middle of all
    assert spread({"a": 0.0, "b": 2.0}, 1.0) == {"a": 0.0, "b": 2.0}


def test_who_looks_back_as_far_as_the_word_is_long_copies_all_of_it():
    task = doubled.Task(word=5, symbols=9, depth=1, batch=4, steps=1)

    def back(far: int) -> float:
        return doubled.accuracy(lambda ids: F.one_hot(ids.roll(far, 1), 10).float(), task)

    rows = task.drawn(3)
    assert rows.shape == (3, task.length)
    assert torch.equal(rows[:, :6], rows[:, 6:])
    assert back(5) == 1.0
    assert max(back(4), back(6)) < 0.4


def test_who_finds_the_key_has_the_answer():
    def found(ids: Tensor) -> Tensor:
        """What followed the first place that holds the same."""
        first = (ids[:, :, None] == ids[:, None, :]).int().argmax(-1)
        return F.one_hot(
            ids.gather(1, (first + 1).clamp(max=ids.shape[1] - 1)), recalled.KEYS + recalled.VALUES
        ).float()

    assert recalled.accuracy(found) == 1.0
    with seeded(0):
        rows = recalled.rows(8)
    keys = rows[:, 0 : 2 * recalled.PAIRS : 2]
    assert all(len(set(row.tolist())) == recalled.PAIRS for row in keys)
    asked = rows[:, 2 * recalled.PAIRS : 3 * recalled.PAIRS]
    assert torch.equal(keys.sort().values, asked.sort().values)


def test_what_is_hidden_is_not_given():
    given = []

    def read(ids: Tensor) -> Tensor:
        given.append(ids)
        return torch.zeros(*ids.shape, 4)

    net = SimpleNamespace(read=read, guessed=lambda states: torch.zeros(len(states), hidden.SIGN + 1))
    rows, chosen = torch.randint(hidden.SIGN, (3, 16)), torch.rand(3, 16) < 0.5
    loss = hidden.surprise(net, rows, chosen)
    assert float(loss) == pytest.approx(torch.log(torch.tensor(hidden.SIGN + 1.0)).item())
    assert bool((given[0][chosen] == hidden.SIGN).all())
    assert torch.equal(given[0][~chosen], rows[~chosen])


def test_the_loop_learns_and_looks_as_often_as_it_says():
    net, modes = nn.Linear(1, 1, bias=False), []

    def look() -> float:
        modes.append(net.training)
        return float(net.weight.square())

    nn.init.constant_(net.weight, 1.0)
    seen = learn(net, lambda: net.weight.square().sum(), look, steps=200, rate=0.05)
    assert len(seen) == len(marks(200)) == 11
    assert seen[0] == 1.0
    assert seen[-1] < 1e-3
    assert not any(modes)
    assert net.training
    assert marks(3) == [0, 1, 2, 3]


def test_the_rate_goes_up_to_all_of_it_and_down_to_nothing():
    rates = [share(step, 400) for step in range(400)]
    assert max(rates) == 1.0
    assert rates.index(1.0) == 49
    assert rates == [*sorted(rates[:50]), *sorted(rates[50:], reverse=True)]
    assert rates[-1] < 0.01
