"""From a csv file to forecasts: trained, resumed, measured, asked, drawn and looked into."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.cli.app import main
from regard.errors import InputError
from regard.look.changes import Token
from regard.modalities.series.processor import Series
from regard.model import Model
from regard.run import training
from regard.run.settings import read_run
from regard.run.templates import run_template
from regard.zoo import FAMILIES
from tests.series.files import sine, wide

RUN = """\
folder = "{folder}"
task.kind = "forecast"
[data]
kind = "series"
files = ["two.csv"]
window = 24
horizon = 6
period = 12
batch = 32
[model]
name = "{model}"
{keys}
[train]
steps = {steps}
evaluate = 40
save = 40
log = 20
[optimizer]
kind = "adamw"
rate = 1e-2
[schedule]
kind = "cosine"
warmup = 10
"""
SMALL = "dim = 16\nheads = 2\nhidden = 32\ndepth = 1\nkernel = 6\ndropout = 0.0"


def run_file(folder: Path, model: str = "forecaster-small", keys: str = SMALL, steps: int = 120) -> Path:
    path = folder / f"{model}.toml"
    path.write_text(RUN.format(folder=folder / model, model=model, keys=keys, steps=steps))
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sines, of one period but in different units, and a model that has learned them."""
    folder = tmp_path_factory.mktemp("series")
    wide(folder / "two.csv", {"low": sine(240), "high": sine(240, level=500, size=30)})
    assert main(["train", str(run_file(folder))]) == 0
    return folder


@pytest.fixture(scope="module")
def model(place: Path) -> Model:
    return regard.load(place / "forecaster-small")


def test_a_sine_is_foretold(place: Path, model: Model) -> None:
    """Far better than that the last value goes on, each series in its own units, with times that go on."""
    low, high = model.forecast(place / "two.csv")
    assert (low.name, high.name) == ("low", "high")
    assert low.times[:2] == ["2024-01-11 00:00", "2024-01-11 01:00"]
    truth = sine(246)[240:]
    last = np.abs(truth - sine(240)[-1]).mean()
    assert np.abs(low.median - truth).mean() < 0.2 * last
    np.testing.assert_allclose(high.median, 500 + 30 * low.median, atol=1e-2)
    assert (np.diff(low.values, axis=1) >= 0).all()


def test_beyond_its_horizon_medians_are_fed_back(place: Path, model: Model) -> None:
    known, ahead = sine(240), model.forecast(sine(240), steps=9)[0]
    (first,) = model.forecast(known)
    (second,) = model.forecast(np.concatenate((known, first.median)))
    np.testing.assert_allclose(ahead.values, np.concatenate((first.values, second.values))[:9], rtol=1e-6)
    assert (ahead.horizon, first.horizon) == (6, 6)
    assert any("forecast from its own medians" in note for note in ahead.notes)
    assert not any("medians" in note for note in first.notes)
    assert not first.notes  # a list has no times
    assert len(model.forecast(known, steps=3)[0].median) == 3


def test_what_never_changes_stays(model: Model) -> None:
    (told,) = model.forecast(np.full(30, 7.25), steps=8)
    np.testing.assert_array_equal(told.values, np.full((8, 3), 7.25))


def test_a_gap_asks_for_another_model(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "gap.csv").write_text("t,x\n1,1\n2,2\n4,3\n")
    assert main(["forecast", str(place / "forecaster-small"), str(tmp_path / "gap.csv")]) == 2
    assert 'use a model trained with data.times = "ordered"' in capsys.readouterr().err


def test_a_constant_forecast_has_a_note(place: Path, model: Model, tmp_path: Path) -> None:
    (told,) = model.forecast(np.append(sine(40), np.full(24, 7.25)))
    assert "the series is constant over its last 24 values: the forecast is this constant" in told.notes
    assert not any("constant" in note for one in model.forecast(place / "two.csv") for note in one.notes)


def test_values_out_of_range_are_refused(place: Path, model: Model, tmp_path: Path) -> None:
    """By the command line, in a list, and before training."""
    wide(tmp_path / "two.csv", {"low": sine(240), "high": sine(240, size=1e300)})
    assert main(["forecast", str(place / "forecaster-small"), str(tmp_path / "two.csv"), "--json"]) == 2
    assert main(["check", str(run_file(tmp_path))]) == 2
    with pytest.raises(InputError, match="too large") as error:
        model.forecast([1.0, 1e300])
    assert error.value.got == "1e+300 at position 2"


def test_a_forecast_that_diverges_is_an_error(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    (known,) = model.forecast(sine(40))
    monkeypatch.setattr(model.net, "forward", lambda values: torch.full((1, 6, 3), 1e20))
    with pytest.raises(InputError, match="the forecast diverges"):
        model.forecast(sine(40), steps=12)
    assert np.isfinite(known.values).all()


def test_nothing_is_learned_from_constants_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wide(tmp_path / "two.csv", {"low": np.full(240, 3.0), "high": np.full(240, 5.0)})
    assert main(["train", str(run_file(tmp_path))]) == 2
    assert "all series are constant in their training part: there is nothing to learn" in capsys.readouterr().err
    wide(tmp_path / "two.csv", {"low": np.full(240, 3.0), "high": sine(240)})
    assert main(["check", str(run_file(tmp_path))]) == 0
    assert "do not contribute to training: low" in capsys.readouterr().out


def test_a_short_list_is_told_of(model: Model) -> None:
    for count, values in ((1, "1 value"), (3, "3 values")):
        (told,) = model.forecast([1.0, 2.0, 4.0][:count])
        assert f"the series has {values}, fewer than the window of 24: the forecast uses less context" in told.notes


@pytest.mark.parametrize(
    ("step", "told"), [(3_600_000, "these are numbers 3600000 apart"), (None, "these are 1 day apart")]
)
def test_other_times_are_told_of(model: Model, tmp_path: Path, step: int | None, told: str) -> None:
    times = [f"2024-01-{i + 1:02}" if step is None else 1_705_000_000_000 + i * step for i in range(30)]
    (tmp_path / "x.csv").write_text("t,x\n" + "".join(f"{time},{i}\n" for i, time in enumerate(times)))
    (found,) = model.forecast(tmp_path / "x.csv")
    assert found.notes == (f"the model was trained on times 1 hour apart; {told}",)


@pytest.mark.parametrize("given", [[], [[1.0, 2.0]], [1.0, float("nan")], "nowhere.csv", 5, ["a"]])
def test_what_is_no_series_is_refused(model: Model, given: Any) -> None:
    with pytest.raises(InputError):
        model.forecast(given)


def test_a_folder_is_told_to_be_one(model: Model, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the path is a folder"):
        model.forecast(tmp_path)


def test_models_that_forecast_are_named_as_they_are_built() -> None:
    with pytest.raises(InputError) as error:
        regard.build("gpt-tiny").forecast([1.0, 2.0])
    names = error.value.expected.replace(" or ", ", ").split(", ")
    assert [regard.build(name, horizon=2).family for name in names] == ["forecaster", "seriesrnn", "serieslinear"]


@pytest.mark.parametrize("steps", [0, -3])
def test_no_steps_are_refused(model: Model, steps: int) -> None:
    with pytest.raises(InputError, match="the number of steps is out of range"):
        model.forecast(sine(40), steps=steps)


@pytest.mark.parametrize("steps", [2.5, "2", 3.0, [2]])
def test_a_number_of_steps_is_an_integer(model: Model, steps: Any) -> None:
    with pytest.raises(InputError, match="the number of steps is not an integer") as error:
        model.forecast(sine(40), steps=steps)
    assert error.value.got == repr(steps)
    (one,) = model.forecast(sine(40), steps=np.int64(2))  # type: ignore[arg-type]
    assert len(one.moments) == 2


@pytest.mark.parametrize(
    ("given", "got"),
    [
        ([1.0, float("nan"), 2.0], "value 2 of 3 is nan"),
        (np.array([1.0, 2.0, -np.inf, np.nan]), "value 3 of 4 is -inf"),
        ([[1.0, float("nan")]], "list of shape (1, 2)"),
        (["one"], "list"),
        ([], "list"),
    ],
)
def test_a_list_that_is_no_series(model: Model, given: Any, got: str) -> None:
    with pytest.raises(InputError, match="the input is not a time series") as error:
        model.forecast(given)
    assert error.value.got == got


def test_it_is_measured_beside_what_nobody_has_to_learn(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(place / "forecaster-small"), "--split", "test", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    metrics = found["metrics"]
    assert metrics["MAE"] < 0.3 * metrics["last value MAE"]
    assert metrics["last period MAE"] == pytest.approx(0, abs=1e-3)
    assert 0 <= metrics["coverage"] <= 1
    assert found["windows"] == 12  # 36 values of two series, six at a time
    assert {name: len(values) for name, values in found["ahead"].items()} == {
        **{"model MAE": 6, "last value MAE": 6, "last period MAE": 6, "coverage": 6},
    }
    assert np.mean(found["ahead"]["model MAE"]) == pytest.approx(metrics["MAE"], rel=1e-4)
    assert main(["evaluate", str(place / "forecaster-small")]) == 0
    out = capsys.readouterr().out
    assert "steps ahead" in out
    assert "coverage of the 80 % interval" in out
    assert "MAE is the average over 2 series, each in its own units; MASE is comparable between series." in out


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, and the same killed in the middle of a step and resumed."""
    tmp_path = tmp_path_factory.mktemp("stopped")
    wide(tmp_path / "two.csv", {"low": sine(120), "high": sine(90, level=500, size=30).repeat(2)[:120]})
    path = run_file(tmp_path, steps=12)
    words = ["train.evaluate=4", "train.save=4"]
    assert main(["train", str(path), f"folder={tmp_path / 'whole'}", *words]) == 0
    original = training.Engine.update

    def dying(self: Any, step: int, *rest: Any) -> Any:
        if step == 6:
            raise KeyboardInterrupt
        return original(self, step, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training.Engine, "update", dying)
        main(["train", str(path), f"folder={tmp_path / 'killed'}", *words])
    assert main(["resume", str(tmp_path / "killed")]) == 0
    return tmp_path


def test_resumed_to_the_bit(stopped: Path) -> None:
    one, two = ((stopped / name / "model" / "model.safetensors").read_bytes() for name in ("whole", "killed"))
    assert one == two


@pytest.fixture(scope="module")
def others(place: Path) -> dict[str, Model]:
    for name, keys in (("series-lstm", "hidden = 32\ndepth = 1\ndropout = 0.0"), ("series-linear", "")):
        assert main(["train", str(run_file(place, name, keys, steps=90))]) == 0
    return {name: regard.load(place / name) for name in ("series-lstm", "series-linear")}


@pytest.mark.parametrize("name", ["series-lstm", "series-linear"])
def test_others_learn_it_too(place: Path, others: dict[str, Model], name: str) -> None:
    truth = sine(246)[240:]
    error = np.abs(others[name].forecast(place / "two.csv")[0].median - truth).mean()
    assert error < 0.4 * np.abs(truth - sine(240)[-1]).mean()


def test_a_linear_map_has_the_length_of_the_window_and_nothing_to_look_at(
    place: Path, others: dict[str, Model]
) -> None:
    assert others["series-linear"].config.length == 24
    with pytest.raises(InputError, match="this model has no attention layers"):
        others["series-linear"].look(place / "two.csv", "low")


# The command line -------------------------------------------------------------------------------


def asked(capsys: pytest.CaptureFixture[str], place: Path, *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(["forecast", str(place / "forecaster-small"), str(place / "two.csv"), *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_numbers_in_a_terminal(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = asked(capsys, place, "--steps", "2", "--series", "high")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["high", "time", "2024-01-11", "2024-01-11"]
    assert out.splitlines()[1].split() == ["time", "0.1", "median", "0.9"]
    assert not err


def test_numbers_for_machines(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = asked(capsys, place, "--steps", "8", "--json")
    found = json.loads(out)
    assert code == 0
    assert [one["series"] for one in found["series"]] == ["low", "high"]
    assert len(found["series"][0]["quantiles"]["0.5"]) == len(found["series"][0]["times"]) == 8
    assert "the model was trained to forecast 6 steps" in err


def test_one_step_of_one_series(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = asked(capsys, place, "--steps", "1", "--series", "low", "--out", str(tmp_path / "out.csv"))
    assert "1 series, 1 step ahead, written to" in out


def test_numbers_in_a_file(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = asked(capsys, place, "--out", str(tmp_path / "out.csv"))
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert code == 0
    assert lines[0] == "series,time,0.1,0.5,0.9"
    assert len(lines) == 13
    assert "2 series, 6 steps ahead, written to" in out


def test_a_line_for_each_series(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = asked(capsys, place, "--out", str(tmp_path / "out.jsonl"))
    assert code == 0
    assert "2 series, 6 steps ahead, written to" in out
    low, high = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    assert (low["series"], high["series"]) == ("low", "high")
    assert len(low["times"]) == len(low["quantiles"]["0.5"]) == 6


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_a_picture(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    code, _, _ = asked(capsys, place, "--out", str(tmp_path / f"plot.{kind}"))
    assert code == 0
    if kind == "png":
        assert Image.open(tmp_path / "plot.png").width == 1200


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--out", "plot.pdf"], "unsupported output format"),
        (["--out", "/nowhere/plot.png"], "folder not found"),
        (["--series", "middle"], "unknown series"),
        (["--steps", "0"], "the number of steps is out of range"),
    ],
)
def test_what_cannot_be_asked(place: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str) -> None:
    code, _, err = asked(capsys, place, *words)
    assert code == 2
    assert told in err


def test_a_file_is_not_written_over(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (place / "two.csv").read_bytes()
    code, _, err = asked(capsys, place, "--out", str(place / "two.csv"))
    assert (code, (place / "two.csv").read_bytes()) == (2, before)
    assert "would be overwritten" in err


# Looking ----------------------------------------------------------------------------------------


def test_maps_have_times_on_their_axes(place: Path, model: Model, tmp_path: Path) -> None:
    found = model.look(place / "two.csv", "high")
    cross = found.maps["decoder.0.cross"]
    assert cross.rows.labels is not None
    assert cross.columns.labels is not None
    assert cross.rows.labels[0] == "2024-01-11 00:00"
    assert cross.columns.labels[-1] == "2024-01-10 23:00"
    assert cross.weights.shape == (1, 2, 6, 24)
    assert found.answer is not None
    assert found.answer.data()["quantiles"]["0.5"] == pytest.approx(
        model.forecast(place / "two.csv")[1].median.tolist(), rel=1e-5
    )
    assert found.answer.headline().startswith("high: ")
    found.save(tmp_path / "all.png")
    found.save(tmp_path / "cross.png", site="decoder.0.cross")
    found.save(tmp_path / "maps.npz")
    without = found.change(Token("past", 23))
    assert not torch.allclose(without.output, found.output)


def test_the_command_line_looks(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, file = str(place / "forecaster-small"), str(place / "two.csv")
    assert main(["look", folder, file, "low", "--json", "--without", "past:3"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["answer"]["kind"] == "forecast"
    assert found["answer"] != found["before"]
    assert main(["look", folder, file]) == 2
    assert "the file contains several series" in capsys.readouterr().err
    assert main(["look", folder, file, "middle"]) == 2
    assert "unknown series" in capsys.readouterr().err


def test_an_answer_is_shown_in_a_line(place: Path, model: Model) -> None:
    """By its plain name, and without all of its values."""
    found = model.look(place / "two.csv", "high").answer
    forecast = "SeriesForecast('high', 6 steps from 2024-01-11 00:00 to 2024-01-11 05:00)"
    assert repr(found) == f"ForecastAnswer(forecast={forecast})"
    assert repr(model.forecast([1.0])[0].series) == "TimeSeries('', 1 value, 1 apart)"


# Run files --------------------------------------------------------------------------------------


def test_the_template_is_a_run_file(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(run_template("forecast"))
    run = read_run(path)
    assert (run.task.kind, run.data.kind, run.model["name"]) == ("forecast", "series", "forecaster-small")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["model.horizon=5"], "model.horizon and data.horizon differ"),
        (["task.quantiles=[0.1, 0.9]"], "must contain 0.5"),
        (["data.share=0.6"], "leaves no training data"),
        (["data.least=25"], "least = 25 is above window = 24"),
        (["data.horizon=90"], "too short for this window and horizon"),
        (["model.name=vit-tiny"], "a vit model cannot be trained to forecast"),
        (["data.files=[]"], "files is empty"),
    ],
)
def test_run_files_that_cannot_be(place: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str) -> None:
    path = run_file(place, keys="")
    assert main(["train", str(path), f"folder={place / 'other'}", *words]) == 2
    assert told in capsys.readouterr().err


def test_the_data_is_told_of(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(run_file(place)), "folder=other"]) == 0
    assert "2 series with 480 values; spacing: 1 hour" in capsys.readouterr().out


def test_any_attention_can_be_chosen() -> None:
    config = FAMILIES["forecaster"].config(horizon=3, dim=16, heads=2, hidden=16, attention="performer", cross="cosine")
    net = FAMILIES["forecaster"].net(config).eval()
    found = Model("forecaster", net, Series(window=12)).forecast(sine(30))
    assert found[0].values.shape == (3, 3)
