"""A recurrent network that forecasts a series.

A Multi-Horizon Quantile Recurrent Forecaster (Wen et al., 2017), https://arxiv.org/abs/1711.11053
An LSTM reads the window value by value, and one map of its last state tells all quantiles of all steps ahead:
    y_(t+i), quantile q = x_t + w_iq . h_t

Differs from the paper: one map in place of two perceptrons, since nothing is known of the future that a second one
could be given; any cell of the library.

Shapes: b batch, n places of the window, m steps ahead, e width of states, k quantiles.
"""

from dataclasses import dataclass

from torch import Tensor, nn

from regard.models.family import Family
from regard.models.forecaster import forecaster_verbs
from regard.nn.axis import Axis
from regard.nn.config import not_one_of, not_positive, not_shares, refuse
from regard.nn.dropout import Dropout
from regard.nn.recurrent import CELLS, Recurrent, cell_kind
from regard.nn.series import move_padding_left, not_quantiles


@dataclass(frozen=True, kw_only=True)
class Config:
    horizon: int = 24  # steps ahead
    quantiles: tuple[float, ...] = (0.1, 0.5, 0.9)
    hidden: int = 128
    depth: int = 2
    cell: str = "lstm"
    dropout: float = 0.1

    def __post_init__(self) -> None:
        refuse(
            not_positive(self, "horizon", "hidden", "depth"),
            not_shares(self, "dropout"),
            not_one_of(CELLS, self, "cell"),
            not_quantiles(self),
        )


PRESETS = {"series-lstm": Config(), "series-gru": Config(cell="gru")}

AXES: dict[str, tuple[str, str]] = {}  # it looks at nothing


class SeriesRNN(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.layers = Recurrent(cell_kind(config.cell), 1, config.hidden, config.depth, dropout=config.dropout)
        self.dropout = Dropout(config.dropout)
        self.head = nn.Linear(config.hidden, config.horizon * len(config.quantiles))

    def forward(self, values: Tensor, *, keys: Tensor | None = None) -> Tensor:
        """(b, n) -> (b, m, k); keys is False at padding"""
        values, keys = move_padding_left(values, keys)
        state = self.layers(values[..., None], keys=keys).state["h"][:, -1]
        change = self.head(self.dropout(state)).unflatten(-1, (self.config.horizon, -1))
        return values[:, -1, None, None] + change

    def axes(self, values: Tensor) -> dict[str, Axis]:
        return {}


FAMILY = Family(
    config=Config,
    net=SeriesRNN,
    presets=PRESETS,
    axes=AXES,
    paper="Wen et al. 2017, A Multi-Horizon Quantile Recurrent Forecaster",
    link="https://arxiv.org/abs/1711.11053",
    takes=("series",),
    tasks=("forecast",),
    verbs=forecaster_verbs,
    example=lambda: Config(horizon=4, hidden=24, depth=1),
)
