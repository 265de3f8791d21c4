"""What a run remembers: the best, the checkpoints that were due, why it ended; and what it refuses to remember."""

import math
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from regard.data.loader import Maker
from regard.errors import InputError
from regard.modalities.text.tasks.language import Language
from regard.tasks.task import Loss, Task, Term
from regard.train.distribution import World, add_gradients
from regard.train.engine import Engine
from regard.train.nonfinite import NotFiniteError
from regard.train.optimizers import SGD, build_optimizer
from regard.train.progress import Pace, Status
from regard.train.update import Update, seed_step
from tests.train.toys import Adversaries, Counting, Points, Ring, engine, tiny_gpt


class Told(Language):
    """Its metrics are given beforehand."""

    def __init__(self, *values: float, goal: str = "loss") -> None:
        super().__init__(tiny_gpt())
        self.values, self.goal = iter(values), goal

    def metrics(self, sums: Any) -> dict[str, float]:
        return {self.goal.removeprefix("-"): next(self.values)}


def kept(trained: Engine) -> list[int]:
    return [step for step, _ in trained.checkpoints.all()]


def test_the_best_is_the_smallest_or_the_largest(tmp_path: Path) -> None:
    for goal, step, best in (("loss", 4, -3.0), ("-reward", 6, 7.0)):
        trained = engine(tmp_path / goal, Told(2.0, -3.0, 7.0, -1.0, goal=goal), evaluate=2, steps=8, save=100, keep=1)
        seen: list[float | None] = []
        trained.reporter.update = lambda status, seen=seen: seen.append(status.best)  # type: ignore[method-assign]
        state = trained.run()
        assert (state.best_step, trained.best()) == (step, best)
        assert seen[-1] == best  # with its own sign
        assert kept(trained) == [step, 8]


class Judged(Told):
    """A reward and a loss at each evaluation."""

    def __init__(self, *pairs: tuple[float, float]) -> None:
        super().__init__(goal="-reward")
        self.pairs = iter(pairs)

    def metrics(self, sums: Any) -> dict[str, float]:
        return dict(zip(("reward", "loss"), next(self.pairs), strict=True))


def test_of_two_that_are_as_good_the_lower_loss_is_the_best(tmp_path: Path) -> None:
    for name, pairs, step, stale in (
        ("lower", [(0.9, 2.0), (0.9, 1.0), (0.9, 1.5)], 4, 1),
        ("alike", [(0.9, 1.0), (0.9, 1.0)], 2, 1),  # no progress: patience goes on
        ("better", [(0.8, 1.0), (0.9, 5.0), (0.8, 0.5)], 4, 1),  # the loss has no say where the goal has one
        ("no number", [(0.9, 1.0), (0.9, math.nan)], 2, 1),
        ("a number", [(0.9, math.nan), (0.9, 7.0)], 4, 0),
    ):
        trained = engine(tmp_path / name, Judged(*pairs), evaluate=2, steps=2 * len(pairs), save=100, keep=1)
        state = trained.run()
        assert (state.best_step, state.stale) == (step, stale), name
        assert step in kept(trained)


def test_the_loss_beside_the_best_outlives_an_interruption(tmp_path: Path) -> None:
    pairs = [(0.9, 1.0), (0.9, 2.0)]
    engine(tmp_path, Judged(*pairs[:1]), evaluate=2, steps=2).run()
    again = engine(tmp_path, Judged(*pairs[1:]), evaluate=2, steps=4)
    again.resume()
    assert (again.run().best_step, again.state.best_loss) == (2, 1.0)


def test_a_metric_that_is_no_number_is_never_the_best(tmp_path: Path) -> None:
    """Nor does it end the run, whose weights may be sound; but it counts as no progress."""
    trained = engine(tmp_path, Told(math.nan, 5.0, math.inf, -math.inf), evaluate=2, steps=8, save=100)
    state = trained.run()
    assert (state.best, state.best_step, state.stale) == (5.0, 4, 2)
    trained = engine(tmp_path / "never", Told(math.nan, math.nan, math.nan), evaluate=2, steps=8, patience=3)
    state = trained.run()
    assert (state.best, state.best_step, state.step) == (None, 0, 6)
    again = engine(tmp_path / "never", Told(), evaluate=2, steps=8, patience=3)
    assert again.resume() == 6
    assert again.state == state


def test_the_last_checkpoints_that_were_due_stay(tmp_path: Path) -> None:
    """And the newest, which may be due to an interruption: it is gone with the next."""
    trained = engine(tmp_path, evaluated=False, save=3, keep=2, steps=20)
    found: dict[int, list[int]] = {}
    original = trained.save

    def save(due: bool = True) -> None:
        original(due)
        found[trained.state.step] = kept(trained)

    trained.save = save  # type: ignore[method-assign]
    update = trained.update

    def interrupted(step: int, pieces: Any, stop: bool) -> Update:
        return update(step, pieces, step in (6, 7))

    trained.update = interrupted  # type: ignore[method-assign]
    trained.run()
    assert found == {3: [3], 6: [3, 6], 7: [3, 6, 7]}
    trained.run()
    assert found[8] == [3, 6, 8]
    trained.run()
    assert found[9] == [6, 9]
    assert found[20] == [18, 20]
    assert trained.state.kept == [18, 20]


def test_weights_out_of_all_bounds_are_not_saved(tmp_path: Path) -> None:
    """A loss and a gradient were fine, but the step was not: the checkpoint before it is the one to go on from."""
    trained = engine(tmp_path, evaluated=False, save=2, steps=10)
    step = trained.optimizers["net"].step

    def leap(*rest: Any) -> None:
        step(*rest)
        if trained.state.step == 5:
            with torch.no_grad():
                trained.task.parts["net"].blocks[1].ffn.up.weight[0, 0] = torch.inf

    trained.optimizers["net"].step = leap  # type: ignore[method-assign]
    with pytest.raises(NotFiniteError, match="step 5: the weights are not finite") as error:
        trained.run()
    assert "blocks.1.ffn.up.weight" in error.value.got
    assert kept(trained) == [2, 4]


def test_settings_that_changed_between(tmp_path: Path) -> None:
    """More steps than were done, fewer, more patience."""
    assert engine(tmp_path, steps=6).run().finished == "all 6 steps are done"
    longer = engine(tmp_path, steps=9)
    assert longer.resume() == 6
    assert not longer.state.finished
    assert longer.run().step == 9
    shorter = engine(tmp_path, steps=7)
    assert shorter.resume() == 9
    assert shorter.state.finished == "all 7 steps are done"
    assert shorter.run().step == 9


def test_patience_that_grew(tmp_path: Path) -> None:
    values = (1.0, 2.0, 3.0, 0.5)
    state = engine(tmp_path, Told(*values), evaluate=2, steps=8, patience=2).run()
    assert (state.step, state.finished) == (6, "early stopping: no improvement over step 2 in 2 evaluations")
    same = engine(tmp_path, Told(), evaluate=2, steps=8, patience=2)
    same.resume()
    assert same.run().step == 6
    more = engine(tmp_path, Told(0.5), evaluate=2, steps=8, patience=3)
    more.resume()
    state = more.run()
    assert (state.step, state.best, state.best_step) == (8, 0.5, 8)


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    engine(tmp_path, steps=5).run()
    with pytest.raises(InputError, match="a different seed"):
        engine(tmp_path, steps=5, seed=1).resume()
    other = engine(tmp_path, steps=5)
    other.optimizers = {"net": build_optimizer(SGD(), other.task.parts["net"])}
    with pytest.raises(InputError, match=r"a different optimizer(.|\n)*AdamW"):
        other.resume()


def test_a_moving_average_may_begin_later(tmp_path: Path) -> None:
    """From the weights that it finds, not from those that the net was made with."""
    engine(tmp_path, steps=5).run()
    trained = engine(tmp_path, steps=10, moving=0.9)
    trained.resume()
    weights = trained.task.parts["net"].state_dict()
    assert all(torch.equal(x, weights[name]) for name, x in trained.shadows["net"].weights.items())
    assert not torch.equal(weights["embed.weight"], tiny_gpt().embed.weight)
    trained.run()


def test_the_age_of_the_last_checkpoint(tmp_path: Path) -> None:
    trained = engine(tmp_path, evaluated=False, save=3, steps=6)
    seen: list[Status] = []
    trained.reporter.update = seen.append  # type: ignore[method-assign]
    trained.run()
    assert [status.saved_age is None for status in seen] == [True, True, True, False, False, False, False, False]
    assert [status.step for status in seen] == [1, 2, 3, 3, 4, 5, 6, 6], "once more when it is saved"
    before, after = seen[-2].saved_age, seen[-1].saved_age
    assert before is not None
    assert after is not None
    assert after < before
    assert all(status.unit == "tokens" for status in seen)


def test_the_loss_that_is_shown(tmp_path: Path) -> None:
    """A term of that name alone, as on held-out data; or else the sum of all, each by its weight and its count."""
    trained = engine(tmp_path)
    update = Update(0, {"tokens": 4.0, "rows": 2.0}, False)
    update.sums, update.terms = {"loss": 8.0, "balance": 3.0}, {"loss": ("tokens", 1.0), "balance": ("rows", 0.5)}
    update.counts = {"loss": 4.0, "balance": 2.0}
    shown = trained.status(update, Pace(10))
    assert shown.loss == 8 / 4
    assert shown.extra == {"balance": 3 / 2}
    update.sums, update.terms = {"label": 8.0, "balance": 3.0}, {"label": ("tokens", 1.0), "balance": ("rows", 0.5)}
    update.counts = {"label": 4.0, "balance": 2.0}
    assert trained.status(update, Pace(10)).loss == 8 / 4 + 0.5 * 3 / 2


class Eager(Adversaries):
    """Its discriminator takes two steps to one of the generator."""

    def losses(self, batch: Points, step: int) -> Iterator[Loss]:
        real, made = torch.ones(()), torch.full((), 3.0)
        for factor in (real, made):
            loss = self.parts["discriminator"](batch.real).sum() * 0 + 32 * factor
            yield Loss("discriminator", {"loss": Term(loss, "points")})
        yield Loss("generator", {"loss": Term(self.parts["generator"](batch.noise).sum() * 0 + 32 * 5, "points")})


def test_a_term_that_comes_twice_is_a_mean_too(tmp_path: Path) -> None:
    trained = engine(tmp_path, Eager(), Ring(), steps=3, evaluated=False)
    trained.run()
    assert trained.journal is not None
    (line,) = trained.journal.lines()
    assert (line["discriminator.loss"], line["generator.loss"]) == (2.0, 5.0)


class Drawing(Language):
    """It draws a number of each kind whenever it is asked for something."""

    def __init__(self) -> None:
        super().__init__(tiny_gpt())
        self.drawn: list[tuple[str, int, bool, tuple[float, ...]]] = []

    def draw(self, what: str, step: int) -> None:
        numbers = random.random(), float(np.random.rand()), float(torch.rand(()))
        self.drawn.append((what, step, self.net.training, numbers))

    def losses(self, batch: Any, step: int) -> Iterator[Loss]:
        self.draw("loss", step)
        yield from super().losses(batch, step)

    def evaluate(self, batch: Any) -> Mapping[str, Tensor]:
        self.draw("evaluate", -1)
        return super().evaluate(batch)


def test_the_random_numbers_of_a_step(tmp_path: Path) -> None:
    """They follow from seed, step and process, and from nothing else: no step has those of another."""
    task = Drawing()
    engine(tmp_path / "a", task, steps=6, evaluate=3, seed=4).run()
    for what, step, training, numbers in task.drawn:
        assert training == (what == "loss")  # and so dropout is where it should be
        if what == "loss":
            seed_step(4, step, 0)
            assert numbers == (random.random(), float(np.random.rand()), float(torch.rand(())))
    losses = [numbers for what, *_, numbers in task.drawn if what == "loss"]
    assert len(set(losses)) == len(losses) == 6
    second = Drawing()
    trained = engine(tmp_path / "b", second, steps=6, seed=4, evaluated=False)
    trained.world = World(1, 1)
    trained.update(3, Maker(trained.data, 0, 1, 1, 0).pieces(3))
    assert second.drawn[0][-1] != losses[3]


class Late(Adversaries):
    """Its second loss is no number from the fourth step on."""

    def losses(self, batch: Points, step: int) -> Iterator[Loss]:
        for loss in super().losses(batch, step):
            if loss.part == "generator" and step >= 3:
                made = self.parts["generator"]
                loss = Loss("generator", {"loss": Term(made(batch.noise * torch.inf).sum(), "points")})
            yield loss


def test_a_later_loss_is_blamed_too(tmp_path: Path) -> None:
    """The layer is found though the first loss is sound; and the weights of the part are those of before."""
    task = Late()
    trained = engine(tmp_path, task, Ring(), steps=8, evaluated=False)
    with pytest.raises(NotFiniteError, match=r"step 3: .* the output of generator\.0 \(Linear") as error:
        trained.run()
    assert "generator.loss = " in error.value.got
    assert "discriminator" not in error.value.got
    assert all(x.isfinite().all() for part in task.parts.values() for x in part.parameters())


class Endless(Language):
    """A loss without bound whose gradient knows nothing of it."""

    def losses(self, batch: Any, step: int) -> Iterator[Loss]:
        for loss in super().losses(batch, step):
            yield Loss("net", {"loss": Term(loss.terms["loss"].sum + (torch.inf if step == 2 else 0), "tokens")})


def test_an_infinite_loss_stops_though_its_gradient_is_finite(tmp_path: Path) -> None:
    trained = engine(tmp_path, Endless(tiny_gpt()), evaluated=False)
    with pytest.raises(NotFiniteError, match="step 2:") as error:
        trained.run()
    assert error.value.got == "loss = inf"


class Remembering(Language):
    """A task with a memory of its own."""

    def __init__(self) -> None:
        super().__init__(tiny_gpt())
        self.seen = torch.zeros(2, dtype=torch.int64)

    def losses(self, batch: Any, step: int) -> Iterator[Loss]:
        self.seen += torch.tensor([1, step])
        yield from super().losses(batch, step)

    def state(self) -> dict[str, Tensor]:
        return {"seen": self.seen}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.seen = state["seen"].clone()


def test_a_task_has_a_memory(tmp_path: Path) -> None:
    engine(tmp_path, Remembering(), steps=4).run()
    task = Remembering()
    trained = engine(tmp_path, task, steps=6)
    assert trained.resume() == 4
    assert task.seen.tolist() == [4, 0 + 1 + 2 + 3]
    trained.run()
    assert task.seen.tolist() == [6, 15]


class Rare(Task):
    """A weight that no row of this batch touches."""

    def __init__(self) -> None:
        self.parts = {"net": nn.ModuleDict({"used": nn.Linear(2, 1), "idle": nn.Linear(2, 1)})}

    def counts(self, batch: Points) -> Mapping[str, float]:
        return {"points": float(len(batch.real)), "none": 0.0}

    def losses(self, batch: Points, step: int) -> Iterator[Loss]:
        used = self.parts["net"]["used"](batch.real)  # type: ignore[index]
        yield Loss("net", {"loss": Term(used.sum(), "points"), "empty": Term(used.sum() * 100, "none")})


def test_what_was_not_used_does_not_move_and_what_was_not_counted_does_not_count(tmp_path: Path) -> None:
    """An idle weight has no gradient, and a term whose count is 0 has none either, nor a line in the metrics."""
    task = Rare()
    before = {name: x.clone() for name, x in task.parts["net"].state_dict().items()}
    trained = engine(tmp_path, task, Ring(), steps=1, evaluated=False, clip=None)
    trained.run()
    after = task.parts["net"].state_dict()
    assert not torch.equal(before["used.weight"], after["used.weight"])
    assert torch.equal(before["idle.weight"], after["idle.weight"])
    assert trained.journal is not None
    (line,) = trained.journal.lines()
    assert line.keys() == {"step", "epoch", "loss", "norm", "rate"}
    assert line["norm"] < 3


class Other(World):
    """A world of two of which this is one; what the other one adds is given."""

    def __init__(self, *added: Tensor) -> None:
        super().__init__(0, 2)
        object.__setattr__(self, "added", list(added))

    def sum(self, x: Tensor) -> Tensor:
        return x.add_(self.added.pop(0))  # type: ignore[attr-defined]


def test_gradients_of_two_processes() -> None:
    """What one lacks is zero there; what both lack stays away, so that its weight does not move."""
    one, two, three, four = (nn.Parameter(torch.zeros(2)) for _ in range(4))
    one.grad, two.grad = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    theirs = torch.tensor([1.0, 0.0, 1.0, 0.0]), torch.tensor([10.0, 20.0, 0.0, 0.0, 5.0, 6.0])
    add_gradients([one, two, three, four], Other(*theirs))
    assert one.grad.tolist() == [11.0, 22.0]
    assert two.grad.tolist() == [3.0, 4.0]
    assert three.grad is not None
    assert three.grad.tolist() == [5.0, 6.0]
    assert four.grad is None


def test_gradients_in_several_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.train import distribution

    monkeypatch.setattr(distribution, "BUCKET", 3)
    some = [nn.Parameter(torch.zeros(2)) for _ in range(5)]
    for i, x in enumerate(some):
        x.grad = torch.full((2,), float(i))
    add_gradients(some, Other(torch.ones(5), torch.ones(4), torch.ones(4), torch.ones(2)))
    assert [x.grad.tolist() for x in some if x.grad is not None] == [[i + 1.0] * 2 for i in range(5)]


def test_a_split_with_dropout_is_another_draw_but_the_same_rows(tmp_path: Path) -> None:
    """The counts of a step are those of the whole batch, whatever its pieces."""
    totals = []
    for split in (1, 3):
        trained = engine(tmp_path / str(split), data=Counting(), split=split, dropout=0.3, steps=3)
        found: list[dict[str, float]] = []
        original = trained.collect

        def collect(update: Update, found: list[Any] = found, original: Any = original) -> None:
            found.append(update.totals)
            original(update)

        trained.collect = collect  # type: ignore[method-assign]
        trained.run()
        totals.append(found)
    assert totals[0] == totals[1]
    assert len({total["tokens"] for total in totals[0]}) > 1


def test_a_line_of_metrics_is_of_the_steps_since_the_last_one(tmp_path: Path) -> None:
    """Means by all tokens of these steps, and of nothing before; also where a checkpoint came in between."""
    trained = engine(tmp_path, log=3, save=4, steps=8, evaluated=False, clip=None)
    updates: list[Update] = []
    original = trained.update

    def update(*rest: Any) -> Update:
        updates.append(original(*rest))
        return updates[-1]

    trained.update = update  # type: ignore[method-assign]
    trained.run()
    assert trained.journal is not None
    lines = trained.journal.lines()
    assert [line["step"] for line in lines] == [3, 6, 8]
    for line, first in zip(lines, (0, 3, 6), strict=True):
        some = updates[first : line["step"]]
        tokens = sum(one.totals["tokens"] for one in some)
        assert line["loss"] == pytest.approx(sum(one.sums["loss"] for one in some) / tokens, rel=1e-12)
        assert line["norm"] == pytest.approx(sum(one.norms["norm"] for one in some) / len(some), rel=1e-12)
        assert line["epoch"] == round(line["step"] / len(trained.data), 4)
        assert line["rate"] == 3e-3 * trained.schedules["net"].factor(line["step"] - 1, 8)


def test_curves_are_drawn_on_the_way(pictures: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a checkpoint, once a minute has gone by since the last time."""
    trained = engine(tmp_path, steps=6, save=2, log=1)
    trained.run()
    assert not (tmp_path / "curves.svg").exists()
    monkeypatch.setattr("regard.train.engine.DRAWN", -1.0)
    again = engine(tmp_path / "again", steps=2, save=2, log=1)
    again.run()
    assert (tmp_path / "again" / "curves.svg").exists()
    assert (tmp_path / "again" / "curves.png").exists()
