"""How a series is prepared for a net: its last values, scaled, and how a forecast is scaled back.

    scaled = (x - level) / spread,   forecast = level + spread * said
Level and spread are mean and deviation of the window itself, so that nothing of the future is in them; or, if asked
for, those of the part of each series that was learned from. A window that does not move has the spread 0: to the net it
is zeros, and its forecast is its level.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from regard.data.faults import printable
from regard.errors import ConfigError, InputError
from regard.nn.config import config_problems, not_at_least, not_positive, parse, refuse

from .reading import LARGEST, SeriesColumns, Values

Scaling = Literal["window", "train"]
FIRST = SeriesColumns()
STILL = 1e-13  # of its level: a deviation below this is rounding of float64


@dataclass(frozen=True)
class Scale:
    level: float
    spread: float  # 0 where nothing moves

    def scaled(self, values: Values) -> NDArray[np.float32]:
        return ((values - self.level) / (self.spread or 1.0) * (self.spread > 0)).astype(np.float32)

    def back(self, said: Values) -> Values:
        return self.level + self.spread * said


def scale_of(values: Values) -> Scale:
    level, spread = float(values.mean()), float(values.std())
    return Scale(level, spread if spread > STILL * abs(level) else 0.0)


@dataclass(frozen=True)
class Series:
    window: int = 96  # values that are read
    scaling: Scaling = "window"
    scales: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # of scaling "train", by series
    spacing: str = ""  # of the times that were learned from
    columns: SeriesColumns = FIRST

    def __post_init__(self) -> None:
        refuse(not_positive(self, "window"))

    @property
    def media(self) -> dict[str, Any]:
        return {"series": self}

    def scale(self, context: Values, name: str) -> Scale:
        """Of a window of a series."""
        if self.scaling == "window":
            return scale_of(context)
        if name not in self.scales:
            raise InputError(
                "unknown series: this model has the scales of its training series only",
                got=name,
                expected=", ".join(list(self.scales)[:10]),
                fix="use the name of a training series, or train with data.scaling = 'window'",
            )
        scale = Scale(*self.scales[name])
        distance = float(np.abs(context - scale.level).max(initial=0.0))
        if scale.spread and distance > LARGEST * scale.spread:
            raise InputError(
                f"the values of the series {printable(name)!r} are too far from its training data",
                got=f"a distance of {distance:g} from the mean of the training data",
                expected=f"at most {LARGEST:g} times their standard deviation of {scale.spread:g}",
                fix="check the values, or train with data.scaling = 'window'",
            )
        return scale

    def to_data(self) -> dict[str, Any]:
        return {
            "kind": "series",
            "window": self.window,
            "scaling": self.scaling,
            "scales": {name: list(pair) for name, pair in self.scales.items()},
            "spacing": self.spacing,
            "columns": self.columns.to_data(),
        }

    def files(self) -> dict[str, bytes]:
        return {}


def from_data(data: Mapping[str, Any], where: str) -> Series:
    """Strictly: a file may lie."""
    given = {key: value for key, value in data.items() if key not in ("kind", "columns", "scales")}
    columns, scales = data.get("columns", {}), data.get("scales", {})
    wrong = config_problems(Shape, given)
    wrong += config_problems(SeriesColumns, columns) if isinstance(columns, Mapping) else ["columns is not a table"]
    if not isinstance(scales, Mapping) or not all(map(pair, scales.values())):
        wrong += ["scales is not a table of number pairs"]
    if wrong:
        raise ConfigError("invalid series processor", where=where, got="; ".join(wrong))
    return Series(
        **given,
        columns=parse(SeriesColumns, columns),
        scales={name: (float(a), float(b)) for name, (a, b) in scales.items()},
    )


def pair(given: Any) -> bool:
    numbers = isinstance(given, list) and len(given) == 2 and all(type(x) in (int, float) for x in given)
    return numbers and bool(np.isfinite(given).all()) and given[1] >= 0


@dataclass(frozen=True)
class Shape:
    """What is plain in the data of a processor."""

    window: int = 96
    scaling: Scaling = "window"
    spacing: str = ""

    def __post_init__(self) -> None:
        refuse(not_at_least(1, self, "window"))
