"""Forecasting: quantiles of the next values of a time series."""

from dataclasses import dataclass
from typing import Any, Literal

from regard.errors import InputError
from regard.modalities.inputs import ModelView
from regard.modalities.net_needs import NeedsByMedia, NetCall, NetNeeds
from regard.modalities.run_parts import Goal, RunPlan, SplitBatches, Template
from regard.nn.config import refuse
from regard.nn.series import not_quantiles
from regard.tasks.task import Task
from regard.train.optimizers import AdamW
from regard.train.runfile import setting
from regard.train.schedules import CosineSchedule
from regard.train.settings import Train
from regard.zoo import FAMILIES

from .forecasting import Forecast
from .measuring import backtest
from .sources.files import SeriesFiles


@dataclass(frozen=True)
class Forecasting:
    """Forecasting: quantiles of the next values of a time series."""

    kind: Literal["forecast"] = "forecast"
    quantiles: tuple[float, ...] = setting(
        (0.1, 0.5, 0.9), "quantiles to forecast for each step; 0.5 is the point forecast"
    )

    def __post_init__(self) -> None:
        refuse(not_quantiles(self))


def config(plan: RunPlan) -> dict[str, Any]:
    """What follows from the data and the task is said there, and only there."""
    found = {"horizon": plan.data.horizon, "quantiles": tuple(plan.task.quantiles)}
    if FAMILIES[plan.family].has("length"):
        found["length"] = plan.data.window
    homes = {"horizon": "data.horizon", "quantiles": "task.quantiles", "length": "data.window"}
    for key, value in found.items():
        if key in plan.asked and plan.asked[key] not in (value, list(plan.task.quantiles)):
            got = f"model.{key} = {plan.asked[key]}, {homes[key]} = {value}"
            raise InputError(
                f"model.{key} and {homes[key]} differ", got=got, fix=f"remove model.{key}: it follows from {homes[key]}"
            )
    return found


def task_of(plan: RunPlan, model: ModelView, sources: SplitBatches) -> Task:
    return Forecast(model.net, plan.data.period, plan.data.scaling)


TEMPLATE = Template(
    task=Forecasting(),
    data=SeriesFiles(files=("series.csv",)),
    model={"name": "forecaster-small"},
    train=Train(steps=2000, evaluate=200, save=200, log=20),
    optimizer=AdamW(rate=1e-3, betas=(0.9, 0.999), decay=0.01),
    schedule=CosineSchedule(warmup=100),
)
BATCHES = "regard.modalities.series.batching:window_batches"
CALL = NetCall("forward", "values, keys=", "forecasts (b, horizon, quantiles)")
NEEDS: NeedsByMedia = {("series",): NetNeeds((CALL,), ("horizon", "quantiles"))}
GOAL = Goal(
    Forecasting,
    {"series": BATCHES, "waves": BATCHES},
    task_of,
    {"forecast": TEMPLATE},
    config=config,
    measure=backtest,
    needs=NEEDS,
)
