"""A backtest: forecasts from one moment after the other, each by what was known then, held against what came."""

from dataclasses import replace

import torch
from torch import Tensor

from regard.data.rows import Rows
from regard.decode.settings import Decoding
from regard.modalities.inputs import ModelView
from regard.modalities.run_parts import Scores

from .batching import together
from .forecasting import Forecast, measured_names
from .times import quantity
from .windows import SeriesWindows

BATCH = 64
SHOWN = 6  # steps ahead in a terminal
POOLED = "MAE is the average over {} series, each in its own units; MASE is comparable between series."


@torch.inference_mode()
def backtest(model: ModelView, rows: Rows, decoding: Decoding) -> Scores:
    """Errors by how far ahead a step is."""
    assert isinstance(rows, SeriesWindows)
    task, sums = Forecast(model.net, rows.cut.period), dict[str, Tensor]()
    training = model.net.training
    model.net.eval()
    for start in range(0, len(rows), BATCH):
        batch = together([rows[i] for i in range(start, min(start + BATCH, len(rows)))])
        device = next(model.net.parameters()).device
        batch = replace(batch, **{name: x.to(device) for name, x in vars(batch).items() if x is not None})
        for name, x in task.evaluate(batch).items():
            sums[name] = sums[name] + x if name in sums else x
    model.net.train(training)
    found = {f"{name} MAE": (sums[f"{name} error"] / len(rows)).tolist() for name in measured_names(sums)}
    found["coverage"] = (sums["inside"] / len(rows)).tolist()
    return Scores({"windows": len(rows), "ahead": found}, lines(found, len(rows), task, len(rows.series)))


def lines(found: dict[str, list[float]], windows: int, task: Forecast, series: int) -> tuple[str, ...]:
    """A table of some steps ahead, the first and the last among them."""
    horizon = len(found["coverage"])
    steps = sorted({round(i * (horizon - 1) / max(SHOWN - 1, 1)) for i in range(SHOWN)})
    nominal = f"coverage of the {100 * (task.quantiles[-1] - task.quantiles[0]):.4g} % interval"
    table = [("steps ahead", [str(step + 1) for step in steps])]
    for name, values in found.items():
        form = "{:.1%}" if name == "coverage" else "{:.4g}"
        table.append((nominal if name == "coverage" else name, [form.format(values[step]) for step in steps]))
    if len(task.quantiles) == 1:
        table.pop()
    wide = max(len(name) for name, _ in table)
    return (
        quantity(windows, "rolling window"),
        *(f"{name:<{wide}}" + "".join(f"{x:>10}" for x in row) for name, row in table),
        *((POOLED.format(series),) if series > 1 else ()),
    )
