"""A linear forecast of a series.

Are Transformers Effective for Time Series Forecasting? (Zeng et al., 2023), https://arxiv.org/abs/2205.13504
    Y = W X + b
One map from the window to all steps ahead, here to all quantiles of them; no other forecaster needs so little, and many
that are larger tell no more.

Differs from the paper: no decomposition into trend and season, two maps whose sum is again one.

Shapes: b batch, n places of the window, m steps ahead, k quantiles.
"""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.family import Family
from regard.models.forecaster import forecaster_verbs
from regard.nn.axis import Axis
from regard.nn.config import not_positive, refuse
from regard.nn.series import move_padding_left, not_quantiles


@dataclass(frozen=True, kw_only=True)
class Config:
    length: int = 96  # places of the window; of a shorter one, the first are zeros
    horizon: int = 24  # steps ahead
    quantiles: tuple[float, ...] = (0.1, 0.5, 0.9)

    def __post_init__(self) -> None:
        refuse(not_positive(self, "length", "horizon"), not_quantiles(self))


PRESETS = {"series-linear": Config()}

AXES: dict[str, tuple[str, str]] = {}  # it looks at nothing


class SeriesLinear(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.map = nn.Linear(config.length, config.horizon * len(config.quantiles))

    def forward(self, values: Tensor, *, keys: Tensor | None = None) -> Tensor:
        """(b, n) -> (b, m, k); keys is False at padding"""
        values, _ = move_padding_left(values, keys)
        missing = self.config.length - values.shape[1]
        if missing < 0:
            raise ValueError(f"expected a window of {self.config.length} values, got {values.shape[1]}")
        told: Tensor = self.map(F.pad(values, (missing, 0)))
        return told.unflatten(-1, (self.config.horizon, -1))

    def axes(self, values: Tensor) -> dict[str, Axis]:
        return {}


FAMILY = Family(
    config=Config,
    net=SeriesLinear,
    presets=PRESETS,
    axes=AXES,
    paper="Zeng et al. 2023, Are Transformers Effective for Time Series Forecasting?",
    link="https://arxiv.org/abs/2205.13504",
    takes=("series",),
    tasks=("forecast",),
    verbs=forecaster_verbs,
    example=lambda: Config(length=12, horizon=4),
)
