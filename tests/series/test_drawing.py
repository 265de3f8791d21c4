"""Pictures of forecasts: what their captions, labels and axes tell."""

from collections.abc import Sequence

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.modalities.series.drawing import draw_forecasts
from regard.modalities.series.forecaster import SeriesForecast
from regard.modalities.series.reading import TimeSeries
from regard.modalities.series.times import Spacing, Times, numbered
from tests.series.files import sine


def forecast(
    level: float = 0.0,
    size: float = 1.0,
    spread: tuple[float, float] = (1.0, 1.0),
    times: Times | None = None,
    horizon: int = 12,
    name: str = "x",
) -> SeriesForecast:
    """Twelve steps, with an interval so far below and above the median."""
    known = TimeSeries(name, sine(48, level=level, size=size), times or numbered(48), "file.csv")
    median = sine(12, level=level, size=size)
    values = np.stack((median - spread[0] * size, median, median + spread[1] * size), 1)
    return SeriesForecast(known, known.times.after(12), (0.1, 0.5, 0.9), values, horizon=horizon)


def drawn(found: Sequence[SeriesForecast]) -> Figure:
    figure = draw_forecasts(found)
    figure.canvas.draw()
    return figure


def labels(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def words(figure: Figure) -> str:
    return " ".join(" ".join(text.get_text() for text in figure.texts).split())


def test_the_trained_horizon_is_marked() -> None:
    within, beyond = drawn([forecast()]), drawn([forecast(horizon=5)])
    assert "trained horizon" not in words(within)
    assert "Beyond the trained horizon of 5 steps (dotted line), the intervals are too narrow." in words(beyond)
    places = [
        [line.get_xdata()[0] for line in x.axes[0].lines if len(set(line.get_xdata())) == 1] for x in (within, beyond)
    ]  # type: ignore[arg-type,index]
    assert places == [[47.0], [47.0, 52.0]]


@pytest.mark.parametrize(("spread", "shown"), [((1, 1), ["0.1", "0.9"]), ((1, 0.01), []), ((0.01, 1), [])])
def test_both_bounds_are_named_or_none(spread: tuple[float, float], shown: list[str]) -> None:
    assert labels(drawn([forecast(spread=spread)]).axes[0]) == ["median", *shown]


def test_of_several_panels_the_first_with_room_names_the_bounds() -> None:
    narrow, wide = forecast(spread=(0.01, 0.01)), forecast()
    assert [labels(axes) for axes in drawn([wide, wide]).axes] == [["median", "0.1", "0.9"], []]
    assert [labels(axes) for axes in drawn([narrow, wide]).axes] == [["median"], ["median", "0.1", "0.9"]]


@pytest.mark.parametrize("level", [0, 5e6, 1e12, -3e20])
@pytest.mark.parametrize("size", [1e-9, 1.0, 3e7])
def test_axes_have_no_offsets(level: float, size: float) -> None:
    """Of values of any size, and of times as milliseconds since 1970."""
    start, hour = 1.705e12, 3.6e6
    times = Times([start + i * hour for i in range(48)], Spacing("number", hour))
    axes = drawn([forecast(level, size, times=times)] * 2).axes[0]
    assert [axis.get_offset_text().get_text() for axis in (axes.xaxis, axes.yaxis)] == ["", ""]
    ticks = [text.get_text() for text in axes.get_xticklabels()]
    assert "1705000000000" in ticks
    assert len(ticks) <= 8
