"""Generated: waves of any form and period, with a trend and noise."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.modalities.run_parts import DataKind, OpenedData, RunPlan
from regard.modalities.series.processor import Scaling
from regard.modalities.series.reading import SeriesColumns
from regard.modalities.series.waves import wave
from regard.nn.config import not_at_least, not_positive, refuse
from regard.train.runfile import setting

from .common import BATCH, HORIZON, LEAST, PERIOD, ROLLING, SCALING, SHARE, STRIDE, WINDOW, not_cut, opened


@dataclass(frozen=True)
class GeneratedWaves:
    """Generated series, each with its own period, waveform, trend and noise."""

    kind: Literal["waves"] = "waves"
    count: int = setting(200, "number of series")
    length: int = setting(400, "number of values of each series")
    shortest: int = setting(12, "shortest period in steps")
    longest: int = setting(36, "longest period in steps")
    harmonics: int = setting(4, "number of sine waves that make up a waveform; 1: plain sines")
    noise: float = setting(0.1, "standard deviation of the noise, relative to the wave's")
    trend: float = setting(1.0, "maximum rise or fall over the length of a series, in the same unit")
    window: int = setting(96, WINDOW)
    horizon: int = setting(24, HORIZON)
    least: int = setting(0, LEAST)
    share: float = setting(0.15, SHARE)
    stride: int = setting(1, STRIDE)
    rolling: int = setting(0, ROLLING)
    period: int = setting(0, PERIOD)
    scaling: Scaling = setting("window", SCALING)
    batch: int = setting(64, BATCH)

    def __post_init__(self) -> None:
        wrong = not_positive(self, "count", "length", "harmonics") + not_at_least(2, self, "shortest")
        if None not in (self.shortest, self.longest) and self.longest < self.shortest:
            wrong += [f"longest = {self.longest} is below shortest = {self.shortest}"]
        refuse(wrong, not_at_least(0, self, "noise", "trend"), not_cut(self))


def open_waves(plan: RunPlan) -> OpenedData:
    data = plan.data
    found = [
        wave(plan.seed, i, data.length, (data.shortest, data.longest), data.harmonics, data.noise, data.trend)
        for i in range(data.count)
    ]
    return opened(plan, found, SeriesColumns())


def example(folder: Path) -> dict[str, Any]:
    return {"count": 3, "length": 80, "window": 12, "horizon": 3, "batch": 8, "stride": 4}


KIND = DataKind(GeneratedWaves, ("series",), open_waves, example=example)
