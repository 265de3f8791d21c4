"""Windows: cut in time, scaled by what is known, and blind to the future."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data.counter_rng import normal_samples, philox
from regard.decode.settings import Decoding
from regard.errors import ConfigError, InputError
from regard.modalities.series.batching import together
from regard.modalities.series.forecasting import Forecast, last_period, last_value
from regard.modalities.series.measuring import backtest
from regard.modalities.series.processor import Scale, Scaling, Series, from_data, scale_of
from regard.modalities.series.reading import SeriesColumns, TimeSeries
from regard.modalities.series.times import numbered
from regard.modalities.series.waves import wave
from regard.modalities.series.windows import SeriesWindows, WindowLayout, split_points, split_series
from regard.model import Model
from tests.contracts.families import net

CUT = WindowLayout(window=12, horizon=4, least=6, share=0.2, stride=1, rolling=4, period=0)


def series(values: np.ndarray, name: str = "x") -> TimeSeries:
    return TimeSeries(name, np.asarray(values, np.float64), numbered(len(values)), "file.csv")


def noise(count: int, number: int = 0) -> np.ndarray:
    return np.asarray(normal_samples(philox(0, 0, number), count))


def split(values: np.ndarray, cut: WindowLayout = CUT) -> dict[str, SeriesWindows]:
    found = split_series([series(values)], cut, Series(cut.window))
    assert all(isinstance(rows, SeriesWindows) for rows in found.values())
    return found  # type: ignore[return-value]


def test_each_part_foretells_its_own_values_alone() -> None:
    """All of train's futures are before those that are held out, and these before those of the test."""
    found, (held_out, test) = split(np.arange(100.0)), split_points(series(np.arange(100.0)), CUT)
    assert (held_out, test) == (60, 80)
    futures = {}
    for name, rows in found.items():
        moments = rows.places[:, 1]
        futures[name] = {int(now) + step for now in moments for step in range(CUT.horizon)}
    assert futures["train"] == set(range(6, 60))
    assert futures["held_out"] == set(range(60, 80))
    assert futures["test"] == set(range(80, 100))


@pytest.mark.parametrize("split_name", ["train", "held_out", "test"])
def test_no_window_sees_its_future(split_name: str) -> None:
    """Other values from a moment on change no window that is asked at this moment or before."""
    values = noise(100)
    rows = split(values)[split_name]
    for i in range(0, len(rows), 3):
        now = int(rows.places[i, 1])
        other = values.copy()
        other[now:] += 1000
        again = split(other)[split_name]
        np.testing.assert_array_equal(rows[i].values, again[i].values)
        assert rows[i].spread == again[i].spread


def test_rolling_forecasts_do_not_see_the_future() -> None:
    """The whole way: a value that changes leaves all earlier forecasts as they were, and moves a later one."""
    values, model = noise(100), net("forecaster").float()
    other = values.copy()
    other[90] += 5
    forecasts = [
        [model(together([rows[i]]).values) for i in range(len(rows))]
        for rows in (split(x)["test"] for x in (values, other))
    ]
    moments = split(values)["test"].places[:, 1]
    same = [torch.equal(one, two) for one, two in zip(*forecasts, strict=True)]
    assert same == [now <= 90 for now in moments]
    assert not all(same)


def test_scales_of_train_know_nothing_of_the_rest() -> None:
    from types import SimpleNamespace

    from regard.modalities.series.sources.common import opened
    from regard.modalities.series.sources.files import SeriesFiles

    data = SeriesFiles(files=("x.csv",), window=12, horizon=4, share=0.2, scaling="train")
    values = noise(100)
    other = np.where(np.arange(100) < 60, values, values * 50 + 7)
    scales = [opened(SimpleNamespace(data=data), [series(x)], SeriesColumns()).prepared.scales for x in (values, other)]  # type: ignore[arg-type]
    assert scales[0] == scales[1] == {"x": (pytest.approx(values[:60].mean()), pytest.approx(values[:60].std()))}


def test_scaling_is_undone_exactly() -> None:
    for values in (noise(50), 1e6 + 1e-2 * noise(50), -3e8 * noise(50)):
        scale = scale_of(values)
        assert abs(float(scale.scaled(values).mean())) < 1e-4
        assert float(scale.scaled(values).std()) == pytest.approx(1, abs=1e-4)
        np.testing.assert_allclose(scale.back(scale.scaled(values).astype(np.float64)), values, rtol=1e-6, atol=1e-12)


def test_small_changes_at_a_high_level_are_seen() -> None:
    """What float64 resolves is no constant."""
    for values in (1e12 + 5 * noise(50), 1e-29 * noise(50)):
        scale = scale_of(values)
        assert scale.spread == pytest.approx(values.std())
        np.testing.assert_allclose(scale.back(scale.scaled(values).astype(np.float64)), values, rtol=1e-6)
    for count in (20, 100_000):
        assert not scale_of(np.full(count, 1e12 / 3)).spread


def test_what_does_not_move_is_foretold_as_it_is() -> None:
    scale = scale_of(np.full(20, 0.1))
    assert scale == Scale(pytest.approx(0.1), 0.0)
    assert not scale.scaled(np.full(20, 0.1)).any()
    np.testing.assert_allclose(scale.back(noise(8)), 0.1)


def test_nothing_is_learned_from_what_does_not_move() -> None:
    still, moving = (split(x)["train"][0] for x in (np.full(100, 3.0), noise(100)))
    task = Forecast(net("forecaster").float())
    both, alone = together([still, moving]), together([moving])
    assert task.counts(both) == task.counts(alone) == {"values": 4.0}
    (loss,), (own,) = ([x.terms["loss"].sum for x in task.losses(batch, 0)] for batch in (both, alone))
    torch.testing.assert_close(loss, own)
    with torch.no_grad():
        metrics = task.metrics(task.evaluate(together([still])))
    assert np.isnan(metrics["MASE"])
    assert metrics["MAE"] == metrics["last value MAE"] == 0
    assert metrics["coverage"] == 1


def test_windows_of_different_lengths_stand_side_by_side() -> None:
    rows = split(noise(100))["train"]
    batch = together([rows[0], rows[20]])
    assert batch.values.shape == (2, 12)
    assert batch.keys is not None
    assert batch.keys.sum(1).tolist() == [6, 12]
    assert batch.keys[0].tolist() == [False] * 6 + [True] * 6
    assert together([rows[20], rows[21]]).keys is None


def test_baselines() -> None:
    values = np.tile([1.0, 2.0, 3.0, 4.0, 5.0], 20)
    cut = WindowLayout(window=10, horizon=7, least=10, share=0.2, stride=1, rolling=1, period=5)
    rows = split_series([series(values)], cut, Series(10))["test"]
    batch = together([rows[0], rows[1]])
    scale = batch.spread[:, None]
    torch.testing.assert_close(last_period(batch, 5) * scale, batch.truth)
    torch.testing.assert_close(last_value(batch), batch.values[:, -1:].expand(2, 7))
    short = together([rows[0]])
    assert torch.equal(last_period(short, 11), last_value(short))


def test_the_metrics_are_their_definitions() -> None:
    values = noise(100).cumsum()
    rows = split(values)["test"]
    model = net("serieslinear").float()
    batch = together([rows[i] for i in range(len(rows))])
    with torch.no_grad():
        found = Forecast(model).metrics(Forecast(model).evaluate(batch))
        said = model(batch.values).sort(-1).values.double().numpy() * batch.spread.double().numpy()[:, None, None]
    truth = batch.truth.double().numpy()
    unit = np.abs(np.diff(values[:60])).mean()
    assert found["MAE"] == pytest.approx(np.abs(truth - said[..., 1]).mean(), rel=1e-5)
    assert found["MASE"] == pytest.approx(np.abs(truth - said[..., 1]).mean() / unit, rel=1e-5)
    assert found["coverage"] == pytest.approx(((said[..., 0] <= truth) & (truth <= said[..., 2])).mean())
    naive = [np.abs(values[now : now + 4] - values[now - 1]).mean() for now in rows.places[:, 1]]
    assert found["last value MAE"] == pytest.approx(np.mean(naive), rel=1e-5)
    q = np.array([0.1, 0.5, 0.9])
    with torch.no_grad():
        error = (batch.truth / batch.spread[:, None])[..., None].numpy() - model(batch.values).numpy()
    assert found["loss"] == pytest.approx(np.maximum(q * error, (q - 1) * error).mean(), rel=1e-5)


def test_errors_of_one_series_are_not_called_pooled() -> None:
    model = Model("serieslinear", net("serieslinear").float(), Series(12))
    assert not any("average" in line for line in backtest(model, split(noise(100))["test"], Decoding()).lines)


@pytest.mark.parametrize(("scaling", "level"), [("window", "the window"), ("train", "the training part of the series")])
def test_samples_tell_what_they_are_relative_to(scaling: Scaling, level: str) -> None:
    task = Forecast(net("serieslinear").float(), scaling=scaling)
    assert task.show(together([split(noise(100))["test"][0]])).startswith(f"values minus the mean of {level}\ntruth: ")


def test_a_series_that_is_too_short_is_named() -> None:
    with pytest.raises(InputError, match="too short for this window and horizon") as error:
        split(np.arange(17.0))
    assert error.value.where == "file.csv: x"
    assert split(np.arange(18.0))["train"]


@given(horizon=st.integers(1, 30), least=st.integers(1, 60), share=st.floats(0.001, 0.49), more=st.integers(0, 300))
def test_how_many_values_are_needed_follows_from_the_share(horizon: int, least: int, share: float, more: int) -> None:
    cut = replace(CUT, window=64, horizon=horizon, least=least, share=share)
    with pytest.raises(InputError, match="too short for this window and horizon") as error:
        split_points(series(np.zeros(1)), cut)
    needed = int(error.value.fix.split()[-2])
    split_points(series(np.zeros(needed + more)), cut)
    with pytest.raises(InputError, match="too short"):
        split_points(series(np.zeros(needed - 1)), cut)


def test_waves_follow_from_the_seed_and_their_number() -> None:
    one, again, other = (wave(seed, i, 60, (12, 36), 4, 0.1, 1.0) for seed, i in ((3, 5), (3, 5), (3, 6)))
    np.testing.assert_array_equal(one.values, again.values)
    assert not np.allclose(one.values, other.values)


def test_a_plain_wave_has_its_period() -> None:
    values = wave(0, 0, 72, (12, 12), 3, 0.0, 0.0).values
    np.testing.assert_allclose(values[12:], values[:-12], rtol=1e-9)


def test_the_processor_passes_through_its_data() -> None:
    how = Series(24, "train", {"x": (1.0, 2.0)}, "1 hour", SeriesColumns("t", ("a", "b"), "", "ordered"))
    assert from_data(how.to_data(), "") == how
    for bad in ({"window": 0}, {"scaling": "mine"}, {"scales": {"x": [1.0, -1.0]}}, {"columns": {"tim": "x"}}):
        with pytest.raises(ConfigError, match="invalid series processor"):
            from_data(how.to_data() | bad, "")
    with pytest.raises(InputError, match="scales of its training series only"):
        how.scale(np.arange(4.0), "y")


def test_values_far_from_the_scales_of_train_are_refused() -> None:
    """What float32 cannot hold after scaling."""
    how = Series(24, "train", {"x": (0.0, 1e-20)})
    assert how.scale(np.array([1e9]), "x").spread == 1e-20
    with pytest.raises(InputError, match="the values of the series 'x' are too far from its training data"):
        how.scale(np.array([1.0, 1e25]), "x")
