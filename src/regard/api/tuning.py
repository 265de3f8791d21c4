"""A search over settings: each combination of values is trained from each seed, and one table and one picture tell
which is the best. Every trial is a run in a folder of its own, so a search that was stopped goes on where it was."""

import hashlib
import io
import itertools
import json
import os
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from regard import style
from regard.data.given_datasets import is_dataset
from regard.errors import InputError
from regard.run.training import FILE
from regard.storage.documents import json_bytes
from regard.train.nonfinite import NotFiniteError

from .asked import explain_settings
from .training import NOTHING, TrainingResult, resume, train

TRIALS, TABLE, PICTURE = "trials", "trials.json", "trials.png"
MOST = 40  # rows of the picture


@dataclass(frozen=True)
class Trial:
    """One run of a search."""

    values: Mapping[str, Any]  # settings that were tried
    seed: int
    folder: str
    metrics: Mapping[str, float] = field(default_factory=dict)  # held out, at the best evaluation
    step: int = 0  # of that evaluation
    failed: str = ""  # why there are none


@dataclass(frozen=True, eq=False)
class TuningResult:
    """The trials of a search: ``best`` are the values with the best mean over their seeds."""

    trials: tuple[Trial, ...]
    metric: str
    highest: bool  # whether the largest is best
    folder: Path

    def means(self) -> list[tuple[dict[str, Any], float, tuple[float, ...]]]:
        """The values, the mean of the metric over the seeds, and the metric of each; the best first, and of equals that
        with the lesser loss."""
        groups: dict[str, list[Trial]] = {}
        for trial in self.trials:
            groups.setdefault(json.dumps(trial.values, sort_keys=True, default=str), []).append(trial)
        found = []
        for some in groups.values():
            reached = tuple(trial.metrics[self.metric] for trial in some if not trial.failed)
            if reached:
                losses = [trial.metrics.get("loss", 0.0) for trial in some if not trial.failed]
                rank = -statistics.fmean(reached) if self.highest else statistics.fmean(reached)
                row = (dict(some[0].values), statistics.fmean(reached), reached)
                found.append((rank, statistics.fmean(losses), row))
        return [row for _, _, row in sorted(found, key=lambda one: one[:2])]

    @property
    def best(self) -> dict[str, Any]:
        rows = self.means()
        if not rows:
            raise InputError("no trial has ended", where=str(self.folder), got=self.trials[0].failed)
        return rows[0][0]

    def table(self) -> str:
        """For a terminal: values, mean, and the metric of each seed; the best first."""
        lines = [f"{self.metric} on held-out data, {'highest' if self.highest else 'lowest'} first"]
        for values, mean, reached in self.means():
            each = ", ".join(f"{x:.4g}" for x in reached)
            lines.append(f"{mean:10.4g}  {told(values)}  ({len(reached)} seeds: {each})")
        lines += [f"    failed  {told(x.values)}, seed {x.seed}: {x.failed}" for x in self.trials if x.failed]
        return "\n".join(lines)

    def __repr__(self) -> str:
        rows = self.means()
        best = f"{self.metric} {rows[0][1]:.4g} with {told(rows[0][0])}" if rows else "none has ended"
        return f"TuningResult({len(self.trials)} trials; best: {best}; {str(self.folder)!r})"


@explain_settings
def tune(
    run: str | PathLike[str] | Mapping[str, Any] = "",
    data: Any = None,
    *,
    values: Mapping[str, Sequence[Any]],
    seeds: int | Sequence[int] = 3,
    metric: str = "",
    trials: int | None = None,
    task: str | Mapping[str, Any] = "",
    model: str | Mapping[str, Any] = "",
    start: str | Mapping[str, Any] = "",
    folder: str | PathLike[str] = "",
    settings: Mapping[str, Any] = NOTHING,
    progress: bool = True,
) -> TuningResult:
    """Search for the best settings, each combination trained from several seeds.

    >>> found = regard.tune("run.toml", values={"optimizer.rate": [1e-4, 3e-4, 1e-3]}, seeds=3)
    >>> print(found.table())

    ``values``: lists of values for settings by their names in a run file, of which all combinations are tried, or
    ``trials`` of them drawn at random. ``metric``: a held-out metric, by default that of the task's best checkpoint.
    The other arguments are those of ``regard.train``. The folder gets ``trials.json``, ``trials.png`` and the runs of
    all trials; called again with the same arguments, what has ended is not trained again.
    """
    if not values or not all(values.values()):
        raise InputError("no values to try", where="values", expected='such as {"optimizer.rate": [1e-4, 1e-3]}')
    name = Path(run).stem if isinstance(run, str | PathLike) and run else "run"
    place = Path(folder or Path("runs") / f"tune-{name}").expanduser()
    chosen, numbers = combinations(values, trials), list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    asked = itertools.product(chosen, numbers)
    found: list[Trial] = []
    goal = metric
    for i, (given, seed) in enumerate(asked, 1):
        whole = {**settings, **given}
        key = json.dumps([str(run), task, model, start, whole, seed], sort_keys=True, default=str)
        home = place / TRIALS / f"seed-{seed}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
        if progress:
            before = "" if not (home / FILE).exists() else f"; taken from {home}, where it was begun before"
            print(f"trial {i} of {len(chosen) * len(numbers)}: {told(given)}, seed {seed}{before}", flush=True)
        arguments: dict[str, Any] = {"task": task, "model": model, "start": start, "seed": seed, "settings": whole}
        try:
            if (home / FILE).exists():
                ended = resume(home, data if is_dataset(data, "data") else None, progress=False)
            else:
                ended = train(run, data, **arguments, folder=home, progress=False)
        except InputError as error:
            if not found and not isinstance(error, NotFiniteError):  # most likely wrong for all of them
                raise
            found.append(Trial(given, seed, str(home), failed=str(error).splitlines()[0]))
            continue
        goal = goal or ended.goal
        found.append(trial_of(given, seed, ended, goal.removeprefix("-")))
        write_down(TuningResult(tuple(found), goal.removeprefix("-"), highest(goal, ended), place))
    result = TuningResult(tuple(found), goal.removeprefix("-"), highest(goal, ended), place)
    write_down(result)
    return result


def combinations(values: Mapping[str, Sequence[Any]], trials: int | None) -> list[dict[str, Any]]:
    """All of them in their order, or some of them drawn at random, always the same."""
    every = [dict(zip(values, some, strict=True)) for some in itertools.product(*values.values())]
    if trials is None or trials >= len(every):
        return every
    return [every[i] for i in sorted(random.Random(0).sample(range(len(every)), trials))]


def highest(goal: str, ended: TrainingResult) -> bool:
    """Whether the largest value of a metric is the best: as the task says of its own; of a loss the least is."""
    name = goal.removeprefix("-")
    return ended.goal.startswith("-") if name == ended.goal.removeprefix("-") else "loss" not in name


def trial_of(given: Mapping[str, Any], seed: int, ended: TrainingResult, metric: str) -> Trial:
    """The metrics at the evaluation that was the best."""
    curve = ended.history.curve(f"held_out.{metric}")
    most = ended.goal == f"-{metric}" or (ended.goal.removeprefix("-") != metric and "loss" not in metric)
    losses = dict(ended.history.curve("held_out.loss")) if "held_out.loss" in ended.history.names() else {}
    step, _ = min(curve, key=lambda point: (-point[1] if most else point[1], losses.get(point[0], 0.0)))
    line = next(line for line in ended.history if line["step"] == step and "held_out" in line)
    return Trial(dict(given), seed, str(ended.folder), dict(line["held_out"]), step)


def told(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in values.items())


def write_down(result: TuningResult) -> None:
    """The table and the picture, each whole or not at all."""
    data = {"metric": result.metric, "highest": result.highest, "trials": [asdict(trial) for trial in result.trials]}
    picture = io.BytesIO()
    with style.font_family():
        drawn(result).savefig(picture, format="png", dpi=120, metadata=style.METADATA["png"])
    for name, content in {TABLE: json_bytes(data), PICTURE: picture.getvalue()}.items():
        part = result.folder / f".{name}.part"
        part.write_bytes(content)
        os.replace(part, result.folder / name)


def drawn(result: TuningResult) -> Figure:
    """A row for each combination, the best on top: every seed is a dot, the mean a line."""
    rows = result.means()[:MOST][::-1]
    height = 1.6 + 0.32 * max(len(rows), 1)
    better = "higher" if result.highest else "lower"
    figure = style.page(f"{result.metric}: {better} is better", "Dots are seeds, lines their means", height=height)
    axes = figure.subplots()
    for place, (_, mean, reached) in enumerate(rows):
        axes.plot(reached, [place] * len(reached), "o", color=style.WEIGHT, alpha=0.6, markersize=6)
        axes.plot([mean, mean], [place - 0.3, place + 0.3], color=style.QUERY, linewidth=2.5)
    tried = [values for values, _, _ in rows]
    varied = [key for key in (tried[0] if tried else ()) if len({str(values[key]) for values in tried}) > 1]
    names = [told({key: values[key] for key in varied} or values) for values in tried]
    axes.set_yticks(range(len(rows)), names, fontsize=8)
    axes.set_ylim(-0.6, max(len(rows), 1) - 0.4)
    axes.set_xlabel(f"{result.metric} on held-out data")
    axes.grid(axis="x", alpha=0.3)
    return figure
