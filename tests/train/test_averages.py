"""Averages of weights: a moving one, one of checkpoints, and which of them becomes the final model."""

import shutil
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from regard.cli.app import main
from regard.modalities.text.tasks.translation import Translate
from regard.train.averages import MovingAverage, average_weights
from tests.train.runs import steps, trained


class Counted(nn.Module):
    """Weights of two widths, a buffer of whole numbers, one of flags, and one weight under two names."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 3)
        self.two.weight = self.one.weight
        self.wide = nn.Parameter(torch.randn(4).double())
        self.register_buffer("seen", torch.tensor(0))
        self.register_buffer("flags", torch.tensor([True, False]))


def change(net: Counted, i: int) -> None:
    generator = torch.Generator().manual_seed(i)
    with torch.no_grad():
        for x in net.parameters():
            x += torch.randn(x.shape, generator=generator).to(x.dtype)
        net.seen += 1
        net.flags.logical_not_()


def snapshot(net: nn.Module) -> dict[str, Tensor]:
    return {name: x.clone() for name, x in net.state_dict().items()}


def test_a_moving_average_over_many_steps() -> None:
    """Against its formula, in float64: the weight of what was i steps ago is (1 - keep) keep^i."""
    net = Counted()
    moving = MovingAverage(net, 0.9)
    history = [snapshot(net)]
    for i in range(60):
        change(net, i)
        moving.update()
        history.append(snapshot(net))
    for name in ("one.weight", "two.weight", "one.bias", "wide"):
        expected = history[0][name].double() * 0.9**60
        for i, table in enumerate(history[1:], 1):
            expected = expected + 0.1 * 0.9 ** (60 - i) * table[name].double()
        torch.testing.assert_close(moving.weights[name].double(), expected, rtol=1e-5, atol=1e-5)
    assert moving.weights["wide"].dtype == torch.float64
    assert moving.weights["seen"] == 60  # of a count there is no mean
    assert moving.weights["flags"].tolist() == [True, False]


def test_to_use_the_average_is_to_exchange_it_twice() -> None:
    net = Counted()
    moving = MovingAverage(net, 0.5)
    change(net, 0)
    moving.update()
    change(net, 1)
    weights, average = snapshot(net), {name: x.clone() for name, x in moving.weights.items()}
    with suppress(ZeroDivisionError), moving.used():
        inside = snapshot(net)
        raise ZeroDivisionError
    for name in weights:
        assert torch.equal(inside[name], average[name]), name
        assert torch.equal(net.state_dict()[name], weights[name]), name
        assert torch.equal(moving.weights[name], average[name]), name
    assert not torch.equal(weights["one.weight"], average["one.weight"])
    assert net.two.weight is net.one.weight


def test_the_average_is_a_copy() -> None:
    net = Counted()
    moving = MovingAverage(net, 0.5)
    before = moving.weights["one.weight"].clone()
    change(net, 0)
    assert torch.equal(moving.weights["one.weight"], before)


def test_the_mean_is_made_in_double() -> None:
    """In float32, 2^24 + 1 is lost; and in bfloat16 almost everything."""
    big = float(1 << 24)
    tables = [{"x": torch.tensor([big, 1.0])}, {"x": torch.tensor([1.0, 2.0])}, {"x": torch.tensor([1.0, 6.0])}]
    assert average_weights(tables)["x"].tolist() == [float(torch.tensor((big + 2) / 3)), 3.0]
    halves = [{"x": torch.tensor([1.0 + i / 128]).bfloat16()} for i in range(3)]
    assert average_weights(halves)["x"].dtype == torch.bfloat16
    assert average_weights(halves)["x"].item() == 1.0 + 1 / 128


def test_what_has_no_mean_is_taken_from_the_last() -> None:
    tables = [{"n": torch.tensor(i), "b": torch.tensor([i == 1]), "x": torch.tensor(float(i))} for i in range(3)]
    found = average_weights(tables)
    assert (found["n"].item(), found["b"].item(), found["x"].item()) == (2, False, 1.0)
    assert found["n"].dtype == torch.int64


def test_different_tables_have_no_mean() -> None:
    one = {"a": torch.zeros(3), "b": torch.zeros(2)}
    with pytest.raises(ValueError, match="different weights: b"):
        average_weights([one, {"a": torch.zeros(3)}])
    with pytest.raises(ValueError, match="different weights: c"):
        average_weights([one, one, {**one, "c": torch.zeros(1)}])
    with pytest.raises(ValueError, match="different shapes: a"):
        average_weights([one, {**one, "a": torch.zeros(1)}])  # it would be stretched


# ------------------------------------------------------------------------------------------------- the final model


def model(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model" / "model.safetensors")


def table(folder: Path, step: int, name: str = "net") -> dict[str, Tensor]:
    return load_file(folder / "checkpoints" / f"step-{step:06d}" / f"{name}.safetensors")


def equal(one: dict[str, Tensor], two: dict[str, Tensor]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(x, two[name]) for name, x in one.items())


def test_the_final_model_is_the_mean_of_the_last_three(place: Path) -> None:
    folder = trained(place, "train.average=3", "train.keep=1", "train.evaluate=50")
    assert steps(folder) == [12, 16, 20]
    tables = [table(folder, step) for step in steps(folder)]
    assert equal(model(folder), average_weights(tables))
    assert not any(equal(model(folder), one) for one in tables)


def test_the_final_model_is_the_best_one(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is not the last; it stays although only one is to be kept."""
    told = iter([3.0, 1.0, 2.0, 1.5, 1.0])  # the last time when the final model is measured
    monkeypatch.setattr(Translate, "metrics", lambda self, sums: {"loss": next(told)})
    folder = trained(place, "train.average=1", "train.evaluate=6", "train.keep=1")
    assert steps(folder) == [12, 20]
    assert equal(model(folder), table(folder, 12))
    assert "step 12. On held-out data: loss 1\n" in (folder / "model" / "card.md").read_text()


def test_with_a_moving_average_that_is_the_model(place: Path) -> None:
    folder = trained(place, "train.average=1", "train.moving=0.7", "train.evaluate=20")
    assert equal(model(folder), table(folder, 20, "net.moving"))
    assert not equal(model(folder), table(folder, 20))


def test_a_damaged_one_is_left_out_of_the_mean(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It went bad after it was written; what is left of the three makes the model."""
    folder = trained(place, "train.keep=1", "train.evaluate=50")
    shutil.rmtree(folder / "model")
    (folder / "checkpoints" / "step-000016" / "net.safetensors").write_bytes(b"")
    capsys.readouterr()
    assert main(["resume", str(folder)]) == 0
    assert (
        "step 16 is not used for the final model: 'net.safetensors' does not match its SHA-256"
        in capsys.readouterr().out
    )
    assert equal(model(folder), average_weights([table(folder, 12), table(folder, 20)]))
