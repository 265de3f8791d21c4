"""The loop: exact resume, exact splits, several optimizers, and what happens when numbers go wrong."""

import json
import math
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.data.loader import Maker
from regard.modalities.text.tasks.language import Language, NextTokenBatch
from regard.nn.block import replay_blocks
from regard.nn.tap import capture
from regard.tasks.task import Loss, Task, Term
from regard.train.engine import Engine
from regard.train.nonfinite import NotFiniteError
from regard.train.shards import fill_weights
from regard.train.update import seed_step
from tests.train.toys import Adversaries, Counting, Ring, engine, tiny_gpt

FILES = ("net.safetensors", "net.optimizer.safetensors", "net.moving.safetensors")


def fingerprint(folder: Path, step: int) -> dict[str, str]:
    """What must not depend on where a run was interrupted."""
    checkpoint = folder / "checkpoints" / f"step-{step:06d}"
    found = {path.name: path for path in checkpoint.iterdir() if path.name.endswith(".safetensors")}
    found["metrics"] = folder / "metrics.jsonl"
    return {name: sha256(path.read_bytes()).hexdigest() for name, path in found.items()}


def stopped_at(trained: Engine, step: int) -> None:
    """Run until the machine 'fails' in the middle of a step."""
    original = trained.update

    def update(at: int, *rest: Any) -> Any:
        if at == step:
            raise ConnectionAbortedError
        return original(at, *rest)

    trained.update = update  # type: ignore[method-assign]
    with pytest.raises(ConnectionAbortedError):
        trained.run()


@pytest.mark.parametrize("stops", [(3,), (5, 6, 19), (12,), (17, 18)])
@pytest.mark.parametrize("moving", [None, 0.9])
def test_resumed_is_uninterrupted(tmp_path: Path, stops: tuple[int, ...], moving: float | None) -> None:
    """With dropout, a half-gathered line of metrics, an average, a best checkpoint: all to the bit."""
    engine(tmp_path / "whole", dropout=0.2, moving=moving).run()
    for i, stop in enumerate(stops):
        trained = engine(tmp_path / "parts", dropout=0.2, moving=moving)
        if i:
            trained.resume()
        stopped_at(trained, stop)
    trained = engine(tmp_path / "parts", dropout=0.2, moving=moving)
    assert trained.resume() <= stops[-1]
    trained.run()
    assert fingerprint(tmp_path / "parts", 20) == fingerprint(tmp_path / "whole", 20)


def test_a_seed_is_a_run(tmp_path: Path) -> None:
    prints = []
    for name, workers, seed in (("a", 0, 0), ("b", 2, 0), ("c", 0, 0), ("d", 0, 1)):
        trained = engine(tmp_path / name, dropout=0.2, workers=workers, seed=seed, steps=10)
        trained.run()
        prints.append(fingerprint(tmp_path / name, 10))
    assert prints[0] == prints[1] == prints[2]
    assert prints[0]["net.safetensors"] != prints[3]["net.safetensors"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("pieces", [2, 4, 8, 50])
def test_any_split_gives_the_same_gradient(tmp_path: Path, pieces: int, dtype: torch.dtype) -> None:
    """Ragged rows, so that pieces have different numbers of tokens; with 50, more pieces than rows."""

    def gradient(split: int) -> dict[str, Tensor]:
        task = Language(tiny_gpt().to(dtype))
        trained = engine(tmp_path / str(split), task, Counting(budget=90))
        found: dict[str, Tensor] = {}
        original = trained.descend

        def keep(name: str, *rest: Any) -> None:
            found.update({key: x.grad.clone() for key, x in task.net.named_parameters()})
            original(name, *rest)

        trained.descend = keep  # type: ignore[method-assign]
        trained.update(2, Maker(trained.data, 0, 1, split, 0).pieces(2))
        return found

    whole, parts = gradient(1), gradient(pieces)
    bound = 1e-5 if dtype == torch.float32 else 1e-12
    for name, x in whole.items():
        if name.endswith("mixer.k.bias"):  # it moves all scores of a query alike, so its gradient is zero
            assert x.norm() < 1e-6
        else:
            assert (parts[name] - x).norm() <= bound * x.norm(), name


def test_a_mean_of_means_would_be_noticed(tmp_path: Path) -> None:
    """The rows are ragged enough that dividing each piece by its own count is another gradient."""
    data = Counting(budget=90)
    task = Language(tiny_gpt())
    counts = [task.counts(piece.batch)["tokens"] for piece in Maker(data, 0, 1, 4, 0).pieces(2)]
    assert len(set(counts)) > 1


def test_two_optimizers(tmp_path: Path) -> None:
    """The discriminator has stepped before the generator's loss is made; each loss moves its own part alone."""
    task = Adversaries()
    before = {name: part[0].weight.detach().clone() for name, part in task.parts.items()}
    trained = engine(tmp_path, task, Ring(), steps=60, evaluate=20, log=20)
    trained.run()
    names, sums = [name for name, _ in task.seen], [value for _, value in task.seen]
    assert names[:4] == ["discriminator", "generator"] * 2
    assert sums[0] != sums[1]  # it stepped in between
    assert sums[1] == sums[2]  # and the generator's loss did not move it
    assert all(not torch.equal(before[name], part[0].weight) for name, part in task.parts.items())
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert {"discriminator.loss", "generator.loss", "generator.norm"} <= lines[0].keys()


def test_a_gan_resumes(tmp_path: Path) -> None:
    engine(tmp_path / "whole", Adversaries(), Ring(), steps=12).run()
    stopped_at(engine(tmp_path / "parts", Adversaries(), Ring(), steps=12), 9)
    again = engine(tmp_path / "parts", Adversaries(), Ring(), steps=12)
    assert again.resume() > 0
    again.run()
    assert fingerprint(tmp_path / "parts", 12) == fingerprint(tmp_path / "whole", 12)


def test_a_loss_is_for_its_part_alone(tmp_path: Path) -> None:
    """The gradient that the first loss leaves in the generator must not reach the generator's step."""
    task, plain = Adversaries(), Adversaries()
    engine(tmp_path, task, Ring(), steps=1, clip=None).run()
    generator, discriminator = plain.parts["generator"], plain.parts["discriminator"]
    optimizers = {
        name: torch.optim.Adam(part.parameters(), lr=1e-2, betas=(0.9, 0.98), eps=1e-9)
        for name, part in plain.parts.items()
    }
    batch = Ring().collate(list(range(32)), 0)
    for loss in plain.losses(batch, 0):
        for part in (generator, discriminator):
            part.zero_grad()
        (loss.terms["loss"].sum / 32).backward()
        optimizers[loss.part].step()
    for name in plain.parts:
        for ours, theirs in zip(task.parts[name].parameters(), plain.parts[name].parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


class Accumulated(Task):
    """Two losses of one part, of which only the second makes it step."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.net = nn.Linear(2, 1, bias=False)
        self.parts = {"net": self.net}

    def counts(self, batch: Any) -> Mapping[str, float]:
        return {"points": float(len(batch.real)), "twice": 2.0 * len(batch.real)}

    def losses(self, batch: Any, step: int) -> Iterator[Loss]:
        yield Loss("net", {"real": Term(self.net(batch.real).sum(), "points", 0.5)}, update=False)
        yield Loss("net", {"noise": Term(self.net(batch.noise).sum(), "twice", 3.0)})

    def evaluate(self, batch: Any) -> Mapping[str, Tensor]:
        return {"loss": torch.zeros(())}

    def metrics(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        return {"loss": float(sums["loss"])}


def test_a_loss_without_update_is_added_up(tmp_path: Path) -> None:
    task = Accumulated()
    trained = engine(tmp_path, task, Ring(), clip=None)
    found: list[Tensor] = []
    original = trained.descend

    def keep(*rest: Any) -> None:
        found.append(task.net.weight.grad.clone())
        original(*rest)

    trained.descend = keep  # type: ignore[method-assign]
    trained.update(0, Maker(trained.data, 0, 1, 2, 0).pieces(0))
    assert len(found) == 1
    rows = [Ring().collate(list(range(start, 32, 2)), 0) for start in (0, 1)]
    real, noise = sum(x.real.sum(0) for x in rows) / 32, sum(x.noise.sum(0) for x in rows) / 64
    torch.testing.assert_close(found[0][0], 0.5 * real + 3.0 * noise)


class Miscounted(Accumulated):
    def losses(self, batch: Any, step: int) -> Iterator[Loss]:
        yield Loss("net", {"real": Term(self.net(batch.real).sum(), "point")})


def test_a_count_that_nobody_counts_is_an_error(tmp_path: Path) -> None:
    """It would leave its loss out of the gradient, and nobody would notice."""
    trained = engine(tmp_path, Miscounted(), Ring())
    with pytest.raises(ValueError, match=r"'real' is divided by 'point', but counts\(\) returns points, twice"):
        trained.update(0, Maker(trained.data, 0, 1, 2, 0).pieces(0))


def test_clipping_bounds_the_norm_of_all(tmp_path: Path) -> None:
    lengths = []
    for clip in (None, 0.01):
        trained = engine(tmp_path / str(clip), Accumulated(), Ring(), clip=clip)
        trained.optimizers["net"] = torch.optim.SGD(trained.task.parts["net"].parameters(), lr=1.0)
        before = trained.task.parts["net"].weight.detach().clone()
        update = trained.update(0, Maker(trained.data, 0, 1, 1, 0).pieces(0))
        rate = trained.rate("net", update.step)
        lengths.append((float((trained.task.parts["net"].weight - before).norm()) / rate, update.norms["norm"]))
    (free, norm), (bounded, same) = lengths
    assert norm == same
    assert math.isclose(free, norm, rel_tol=1e-3)
    assert math.isclose(bounded, 0.01, rel_tol=1e-3)


def test_each_step_has_the_rate_of_its_schedule(tmp_path: Path) -> None:
    trained = engine(tmp_path)
    optimizer, used = trained.optimizers["net"], []
    original = optimizer.step
    optimizer.step = lambda: (used.append(optimizer.param_groups[0]["lr"]), original())[1]  # type: ignore[method-assign]
    trained.run()
    steps = trained.settings.steps
    assert used == [trained.peaks["net"] * trained.schedules["net"].factor(step, steps) for step in range(steps)]
    assert len(set(used)) > steps // 2
    told = [line["rate"] for line in trained.journal.lines() if "rate" in line]  # type: ignore[union-attr]
    assert told == [*used[trained.settings.log - 1 :: trained.settings.log], used[-1]]


class Poisoned(Counting):
    """Fine until the given step."""

    def __init__(self, step: int, layer: nn.Module) -> None:
        super().__init__()
        self.at, self.layer = step, layer

    def collate(self, rows: Any, step: int) -> NextTokenBatch:
        if step == self.at:
            with torch.no_grad():
                self.layer.weight[0, 0] = torch.inf
        return super().collate(rows, step)


@pytest.mark.parametrize("layer", ["blocks.1.ffn.up", "blocks.0.mixer.v"])
def test_a_number_that_is_none_stops_the_run(tmp_path: Path, layer: str) -> None:
    """In that step, with the layer and the batch named, and the last checkpoint whole."""
    task = Language(tiny_gpt())
    trained = engine(tmp_path, task, Poisoned(8, task.net.get_submodule(layer)))
    with pytest.raises(NotFiniteError) as error:
        trained.run()
    assert error.value.what.startswith("step 8:")
    assert layer in error.value.what
    assert "batch of step 8: rows [" in error.value.where
    assert trained.state.step == 8
    again = engine(tmp_path, steps=10)
    assert again.resume() == 7  # the best one, at the evaluation
    assert all(x.isfinite().all() for x in again.task.parts["net"].state_dict().values())
    assert again.run().finished


class Exploding(Language):
    """Finite outputs, and a gradient that is not: the root of zero."""

    def losses(self, batch: NextTokenBatch, step: int) -> Iterator[Loss]:
        for loss in super().losses(batch, step):
            zero = (self.net.blocks[1].ffn.up.weight * 0).sum().sqrt()
            term = loss.terms["loss"]
            yield Loss("net", {"loss": Term(term.sum + zero if step == 4 else term.sum, "tokens")})


def test_a_gradient_that_is_no_number_names_its_weight(tmp_path: Path) -> None:
    trained = engine(tmp_path, Exploding(tiny_gpt()))
    with pytest.raises(NotFiniteError, match=r"step 4: .* the gradient of blocks\.1\.ffn\.up\.weight"):
        trained.run()


def test_early_stopping_and_the_best(tmp_path: Path) -> None:
    """A rate so large that it gets worse: the run stops, and the best checkpoint is still there."""

    class Worse(Language):
        calls = 0

        def metrics(self, sums: Any) -> dict[str, float]:
            Worse.calls += 1
            return {"loss": [3.0, 1.0, 2.0, 1.5, 9.0][Worse.calls - 1]}

    task = Worse(tiny_gpt())
    trained = engine(tmp_path, task, evaluate=2, save=3, patience=2, keep=1, steps=100)
    state = trained.run()
    assert (state.step, state.best, state.best_step) == (8, 1.0, 4)
    assert "2 evaluations" in state.finished
    assert [step for step, _ in trained.checkpoints.all()] == [4, 8]


def test_a_moving_average_is_what_is_evaluated(tmp_path: Path) -> None:
    trained = engine(tmp_path, moving=0.5, steps=4)
    net = trained.task.parts["net"]
    history = [net.state_dict()["embed.weight"].clone()]
    original = trained.optimizers["net"].step

    def step(*rest: Any) -> Any:
        original(*rest)
        history.append(net.state_dict()["embed.weight"].clone())

    trained.optimizers["net"].step = step  # type: ignore[method-assign]
    seen: list[Tensor] = []
    evaluate = trained.task.evaluate
    trained.task.evaluate = lambda batch: (seen.append(net.embed.weight.detach().clone()), evaluate(batch))[1]  # type: ignore[method-assign]
    trained.run()
    expected = history[0]
    for new in history[1:]:
        expected = 0.5 * expected + 0.5 * new
    torch.testing.assert_close(seen[-1], expected)
    torch.testing.assert_close(net.embed.weight.detach(), history[-1])


def test_metrics_hold_only_what_seed_and_step_determine(tmp_path: Path) -> None:
    engine(tmp_path).run()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert {key for line in lines for key in line} == {"step", "epoch", "loss", "norm", "rate", "held_out"}
    assert [line["step"] for line in lines if "loss" in line] == [3, 6, 9, 12, 15, 18, 20]
    assert lines[0]["loss"] > lines[-1]["held_out"]["loss"]
    assert (tmp_path / "timing.jsonl").exists()


def test_recomputing_changes_no_gradient(tmp_path: Path) -> None:
    """With dropout; a capture holds each map once, and backward works after it has closed."""
    found = []
    for replayed in (False, True):
        task = Language(tiny_gpt(0.3))
        assert not replayed or replay_blocks(task.net) == 2
        trained = engine(tmp_path / str(replayed), task, steps=5)
        trained.run()
        found.append([x.detach().clone() for x in task.net.parameters()])
        batch = Counting().collate([0, 1], 0)
        task.net.train()
        with capture(task.net, "*.weights") as seen:
            (loss,) = task.losses(batch, 0)
        loss.terms["loss"].sum.backward()
        assert [len(calls) for calls in seen.values()] == [1, 1]
    for plain, again in zip(*found, strict=True):
        assert torch.equal(plain, again)


def test_fill_is_strict() -> None:
    net, other = nn.Linear(2, 3), nn.Linear(3, 3)
    with pytest.raises(ValueError, match="belongs to a different model"):
        fill_weights(net, {"weight": torch.zeros(3, 2)})
    with pytest.raises(ValueError, match="belongs to a different model"):
        fill_weights(net, other.state_dict())


def test_sow_reaches_every_generator() -> None:
    import random

    import numpy as np

    def draw(*address: int) -> tuple[float, float, float]:
        seed_step(*address)
        return random.random(), float(np.random.rand()), float(torch.rand(()))

    assert draw(1, 2, 3) == draw(1, 2, 3)
    others = {draw(*address) for address in ((1, 2, 3), (2, 2, 3), (1, 3, 3), (1, 2, 4))}
    assert all(len(set(column)) == 4 for column in zip(*others, strict=True))
