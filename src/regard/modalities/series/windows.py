"""Windows of series: what is known at one moment, and what came after it.

Each series is cut in time: its first part is learned from, the next is held out, the last is to test with. A window
belongs to the part that all of its future lies in; what it knows may reach back into the part before. So no part is
measured on what was learned from, and nothing known is later than what shall be foretold.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from regard.data.faults import Fault
from regard.data.rows import Rows
from regard.errors import InputError
from regard.modalities.splits import SPLITS

from .processor import Series
from .reading import TimeSeries, Values


@dataclass(frozen=True, eq=False)
class SeriesWindow:
    """One moment of one series."""

    values: NDArray[np.float32]  # known, scaled; as many as the window has places, or fewer
    truth: Values  # what came after, less the level
    spread: float
    unit: float  # the mean change of this series in train, from one period to the next: that of MASE


@dataclass(frozen=True)
class WindowLayout:
    """How rows are made of series."""

    window: int
    horizon: int
    least: int  # known values at least
    share: float  # that is held out, and as much again to test with
    stride: int  # steps from a window of train to the next
    rolling: int  # the same of the others
    period: int  # 0: none


def split_points(series: TimeSeries, cut: WindowLayout) -> tuple[int, int]:
    """Where the part that is held out begins, and where the one to test with."""
    kept, train = split_sizes(len(series), cut)
    if train < cut.least + cut.horizon:
        raise InputError(
            "the series is too short for this window and horizon",
            where=series.where(),
            got=f"{len(series)} values, {max(train, 0)} of them for training",
            expected=f"{cut.least} context and {cut.horizon} forecast values in train, and {kept} in each other split",
            fix="lower data.window, data.least, data.horizon or data.share; these settings need at least "
            f"{shortest_length(cut)} values",
        )
    return train, train + kept


def split_sizes(length: int, cut: WindowLayout) -> tuple[int, int]:
    """Of a series of this length: values of each other split, and of train."""
    kept = max(cut.horizon, round(cut.share * length))
    return kept, length - 2 * kept


def shortest_length(cut: WindowLayout) -> int:
    """From which on every series is long enough."""
    needed = cut.least + cut.horizon
    length = max(needed + 2 * cut.horizon, ceil((needed + 1) / (1 - 2 * cut.share)))  # rounding takes at most one
    while split_sizes(length - 1, cut)[1] >= needed:
        length -= 1
    return length


def train_unit(values: Values, period: int) -> float:
    """The mean change from one period to the next, or from one step to the next."""
    step = period if 0 < period < len(values) else 1
    return float(np.abs(values[step:] - values[:-step]).mean())


class SeriesWindows:
    """Rows: windows of one part of all series."""

    faults: Sequence[Fault] = ()
    lengths = None

    def __init__(
        self,
        series: Sequence[TimeSeries],
        places: NDArray[np.int64],
        units: Sequence[float],
        cut: WindowLayout,
        how: Series,
    ) -> None:
        self.series, self.places, self.units = series, places, units  # places: (rows, 2), a series and its moment
        self.cut, self.how = cut, how

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, i: int) -> SeriesWindow:
        number, now = (int(x) for x in self.places[i])
        series, cut = self.series[number], self.cut
        context = series.values[max(now - cut.window, 0) : now]
        scale = self.how.scale(context, series.name)
        truth = series.values[now : now + cut.horizon] - scale.level
        return SeriesWindow(scale.scaled(context), truth, scale.spread, self.units[number])

    def where(self, i: int) -> str:
        number, now = (int(x) for x in self.places[i])
        series = self.series[number]
        return f"{series.where()} from {series.times.text(series.times.moments[now])} on"


def split_series(series: Sequence[TimeSeries], cut: WindowLayout, how: Series) -> dict[str, Rows]:
    """Train, held out and test."""
    places: dict[str, list[NDArray[np.int64]]] = {split: [] for split in SPLITS}
    units = []
    for number, one in enumerate(series):
        held_out, test = split_points(one, cut)
        units.append(train_unit(one.values[:held_out], cut.period))
        edges = ((cut.least, held_out, cut.stride), (held_out, test, cut.rolling), (test, len(one), cut.rolling))
        for split, (start, end, step) in zip(SPLITS, edges, strict=True):
            moments = np.arange(start, end - cut.horizon + 1, step)
            places[split].append(np.stack((np.full_like(moments, number), moments), 1))
    return {split: SeriesWindows(series, np.concatenate(found), units, cut, how) for split, found in places.items()}
