"""Forecasting: quantiles of all steps ahead.

The loss is the mean quantile loss of the scaled values (``nn.series``). What is measured is in the units of the data:
    MAE       mean |truth - median|
    MASE      the same, each series divided by its mean change from one period to the next in train; no number where
              nothing changes (Hyndman and Koehler, 2006), https://doi.org/10.1016/j.ijforecast.2006.03.001
    coverage  how often the truth lies between the first and the last quantile
Beside them stand the same errors of two forecasts that nobody has to learn: the last value goes on, and the last period
comes again.

Shapes: b batch, n places of the window, m steps ahead, k quantiles.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.nn.series import quantile_losses
from regard.tasks.task import Loss, Task, Term

from .batching import WindowBatch
from .processor import Scaling

SHOWN = 6  # steps


def last_value(batch: WindowBatch) -> Tensor:
    """-> (b, m), scaled"""
    return batch.values[:, -1:].expand_as(batch.truth)


def last_period(batch: WindowBatch, period: int) -> Tensor:
    """The last known value where a window is shorter than a period.  -> (b, m), scaled"""
    steps = batch.truth.shape[1]
    if period > batch.values.shape[1]:
        return last_value(batch)
    places = batch.values.shape[1] - period + torch.arange(steps, device=batch.values.device) % period
    whole = True if batch.keys is None else batch.keys[:, -period, None]
    return batch.values[:, places].where(torch.as_tensor(whole), last_value(batch))


class Forecast(Task):
    def __init__(self, net: nn.Module, period: int = 0, scaling: Scaling = "window") -> None:
        self.parts = {"net": net}
        self.net: Any = net
        self.period, self.scaling = period, scaling
        self.quantiles: tuple[float, ...] = net.config.quantiles  # type: ignore[union-attr,assignment]
        self.median = self.quantiles.index(0.5)

    def counts(self, batch: WindowBatch) -> Mapping[str, float]:
        """Of a window that does not move there is nothing to learn."""
        return {"values": float((batch.spread > 0).sum() * batch.truth.shape[1])}

    def losses(self, batch: WindowBatch, step: int) -> Iterator[Loss]:
        said = self.net(batch.values, keys=batch.keys)
        yield Loss("net", {"loss": Term(self.total(said, batch), "values")})

    def total(self, said: Tensor, batch: WindowBatch) -> Tensor:
        """The sum over values of the mean over quantiles.  (b, m, k) -> ()"""
        moved = batch.spread > 0
        wanted = batch.truth / batch.spread.where(moved, 1.0)[:, None]
        each = quantile_losses(said, wanted, said.new_tensor(self.quantiles)).mean(-1)
        return (each * moved[:, None]).sum()

    def evaluate(self, batch: WindowBatch) -> Mapping[str, Tensor]:
        """Sums over windows, of each step ahead: (m,)"""
        said = self.net(batch.values, keys=batch.keys)
        loss, said = self.total(said, batch), said.sort(-1).values  # quantiles never cross
        forecasts = {"model": said[..., self.median], "last value": last_value(batch)}
        if self.period:
            forecasts["last period"] = last_period(batch, self.period)
        measured = batch.unit > 0
        unit = batch.unit.where(measured, 1.0)[:, None]
        sums = {"loss": loss, "values": said.new_tensor(self.counts(batch)["values"])}
        for name, forecast in forecasts.items():
            error = (batch.truth - batch.spread[:, None] * forecast).abs()
            sums |= {f"{name} error": error.sum(0), f"{name} scaled": (error / unit * measured[:, None]).sum(0)}
        lowest, highest = (batch.spread[:, None] * said[..., i] for i in (0, -1))
        inside = (lowest <= batch.truth) & (batch.truth <= highest)
        return sums | {
            "inside": inside.sum(0),
            "windows": torch.tensor(len(said), device=said.device),
            "measured": measured.sum(),
        }

    def metrics(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        windows, measured = max(float(sums["windows"]), 1.0), float(sums["measured"]) or float("nan")
        found = {"loss": float(sums["loss"]) / max(float(sums["values"]), 1.0)}
        for name in measured_names(sums):
            before = "" if name == "model" else f"{name} "
            found[f"{before}MAE"] = float(sums[f"{name} error"].mean()) / windows
            found[f"{before}MASE"] = float(sums[f"{name} scaled"].mean()) / measured
        if len(self.quantiles) > 1:
            found["coverage"] = float(sums["inside"].float().mean()) / windows
        return found

    @torch.no_grad()
    def show(self, batch: WindowBatch) -> str:
        """The first window: what came, and what was told of it."""
        said = self.net(batch.values, keys=batch.keys)[0].sort(-1).values
        median = batch.spread[0] * said[:, self.median]
        lines = (("truth", batch.truth[0]), ("median", median))
        texts = [f"{name}: {', '.join(f'{float(x):.3g}' for x in values[:SHOWN])}" for name, values in lines]
        level = "the window" if self.scaling == "window" else "the training part of the series"
        return f"values minus the mean of {level}\n" + "\n".join(texts)


def measured_names(sums: Mapping[str, Tensor]) -> list[str]:
    """The forecasts that were measured, the model's first."""
    return [name.removesuffix(" error") for name in sums if name.endswith(" error")]
