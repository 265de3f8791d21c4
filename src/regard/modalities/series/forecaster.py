"""A model of series at work: from what is known to quantiles of what comes, scaled back and with their times.

Shapes: m steps ahead, k quantiles.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.errors import InputError

from .processor import Scale, Series
from .reading import LARGEST, TimeSeries, Values
from .times import Moment, quantity

BATCH = 256
MOST = 100_000  # steps


@dataclass(frozen=True, eq=False)
class SeriesForecast:
    """The forecast of a series: quantiles of each step ahead."""

    series: TimeSeries
    moments: Sequence[Moment]
    quantiles: tuple[float, ...]
    values: Values  # (m, k), rising along k
    notes: tuple[str, ...] = ()
    horizon: int = 0  # trained; 0: not known

    def __repr__(self) -> str:
        name = f"{self.name!r}, " if self.name else ""
        return f"SeriesForecast({name}{quantity(len(self.moments), 'step')} from {self.times[0]} to {self.times[-1]})"

    @property
    def name(self) -> str:
        return self.series.name

    @property
    def times(self) -> list[str]:
        return [self.series.times.text(moment) for moment in self.moments]

    @property
    def median(self) -> Values:
        return self.values[:, self.quantiles.index(0.5)]

    def data(self) -> dict[str, Any]:
        """For JSON."""
        told = {f"{q:g}": self.values[:, i].tolist() for i, q in enumerate(self.quantiles)}
        return {"series": self.name, "spacing": str(self.series.times.spacing), "times": self.times, "quantiles": told}


class SeriesForecaster:
    """A net with what it takes to use it."""

    def __init__(self, net: nn.Module, how: Series) -> None:
        self.net, self.how = net, how
        self.config: Any = net.config

    def context(self, series: TimeSeries, values: Values) -> tuple[torch.Tensor, Scale]:
        """The last values of a series, scaled.  -> (1, n)"""
        known = values[-self.how.window :]
        scale = self.how.scale(known, series.name)
        return torch.from_numpy(scale.scaled(known))[None], scale

    @torch.inference_mode()
    def forecast(self, series: TimeSeries, steps: int | None = None) -> SeriesForecast:
        """Beyond its horizon, the medians are taken for what came, and it looks ahead from there."""
        horizon, quantiles = self.config.horizon, self.config.quantiles
        steps = horizon if steps is None else steps
        if not isinstance(steps, int | np.integer) or not 1 <= steps <= MOST:
            what = "is out of range" if isinstance(steps, int | np.integer) else "is not an integer"
            raise InputError(f"the number of steps {what}", got=repr(steps), expected=f"1 to {MOST:,}")
        if not len(series):
            raise InputError("the series is empty", where=series.where())
        moments = series.times.after(steps)  # first: they may be more than a calendar has
        device, dtype = next((x.device, x.dtype) for x in self.net.parameters())
        known, found = series.values, list[Values]()
        while sum(map(len, found)) < steps:
            values, scale = self.context(series, known)
            said = self.net(values.to(device, dtype))[0].sort(-1).values
            found.append(scale.back(said.double().cpu().numpy()))
            if not (np.abs(found[-1]) <= LARGEST).all():
                raise InputError(
                    "the forecast diverges",
                    where=series.where(),
                    got=f"{np.abs(found[-1]).max():g} within {sum(map(len, found))} steps",
                    expected=f"absolute values up to {LARGEST:g}",
                    fix="forecast fewer steps, or train the model longer",
                )
            known = np.concatenate((known, found[-1][:, quantiles.index(0.5)]))
        every = np.concatenate(found)[:steps]
        return SeriesForecast(series, moments, quantiles, every, self.notes(series, steps), horizon)

    def notes(self, series: TimeSeries, steps: int) -> tuple[str, ...]:
        told, horizon, how = [], self.config.horizon, self.how
        if steps > horizon:
            told.append(
                f"the model was trained to forecast {horizon} steps: later steps are forecast from its own medians, "
                "and their intervals are too narrow"
            )
        if len(series) < how.window:
            told.append(
                f"{series.where() or 'the series'} has {quantity(len(series), 'value')}, fewer than the window of "
                f"{how.window}: the forecast uses less context"
            )
        if not how.scale(series.values[-how.window :], series.name).spread:
            last = f"its last {quantity(min(len(series), how.window), 'value')}"
            over = last if how.scaling == "window" else "its training part"
            told.append(f"{series.where() or 'the series'} is constant over {over}: the forecast is this constant")
        if how.spacing and series.times.given and (other := str(series.times.spacing)) != how.spacing:
            kind = "numbers " if series.times.spacing.unit == "number" else ""
            told.append(f"the model was trained on times {how.spacing} apart; these are {kind}{other} apart")
        return tuple(told)
