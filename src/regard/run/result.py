"""What a run leaves: the final model and its card."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

import regard
from regard.adapting import save_adapters
from regard.folders import save
from regard.modalities.goals import goal_of
from regard.nn.adapter import merge
from regard.train.averages import average_weights
from regard.train.checkpoint import find_damage, read_weights
from regard.train.engine import Engine
from regard.train.shards import fill_weights

from .job import PreparedRun
from .weights import initial_net

LARGEST = torch.finfo(torch.float16).max


def finish(job: PreparedRun, engine: Engine) -> None:
    """The final model: the mean of the last checkpoints if asked for, else the best one."""
    chosen = final(engine, job.run.train.average)
    if 1 < job.run.train.average != len(chosen):
        engine.reporter.note(f"the final model is the average of only {len(chosen)} checkpoints: there are no more")
    net = filled(job, chosen)
    if (start := job.run.start) is not None and start.learn == "adapters" and not start.part:
        save_adapters(
            replace(job.model, net=net),
            job.folder / "adapter",
            base=job.begun.base,
            rank=start.rank,
            alpha=start.alpha,
            added=job.begun.added,
            replace=True,
        )
        merge(net)
    if job.run.train.stored == "float16":
        if beyond := [name for name, x in net.named_parameters() if float(x.detach().abs().max()) > LARGEST]:
            engine.reporter.note(f"the model is stored as float32: {beyond[0]} is out of range for float16")
        else:
            net.half()  # what is measured for the card are the rounded numbers
    save(replace(job.model, net=net, card=card(job, engine, chosen, net)), job.folder / "model", replace=True)


def filled(job: PreparedRun, chosen: Sequence[Path]) -> torch.nn.Module:
    """A fresh net with the weights to keep."""
    net = initial_net(job.run, config_changes(job)).net  # with adapters, where there are some
    fill_weights(net, average_weights(weights_of(job, chosen, goal_of(job.run.task).kept)))
    return net.eval()


def weights_of(job: PreparedRun, chosen: Sequence[Path], part: str) -> list[dict[str, torch.Tensor]]:
    """Of a part of the task, in these checkpoints: their moving averages, where there are some."""
    names = [*([f"{part}.moving"] if job.run.train.moving is not None else []), part]
    return [read_weights(path, *names) for path in chosen]


def final(engine: Engine, average: int) -> list[Path]:
    """The last checkpoints, or the best one. One that is damaged is named and left out."""
    there, state = dict(engine.checkpoints.all()), engine.state
    found = []
    for step in state.kept[-average:] if average > 1 else [state.best_step or state.step]:
        if problem := find_damage(there[step]) if step in there else "it is missing":
            engine.reporter.note(f"the checkpoint of step {step} is not used for the final model: {problem}")
        else:
            found.append(there[step])
    return found or [there[max(there)]]


def config_changes(job: PreparedRun) -> dict[str, Any]:
    return {key: value for key, value in asdict(job.model.config).items() if value is not None}


def card(job: PreparedRun, engine: Engine, chosen: Sequence[Path], net: torch.nn.Module) -> str:
    trained = f"A {job.model.family} model trained by regard {regard.__version__} for the task {job.run.task.kind}."
    reached = measure_kept(job, engine, chosen, net)
    return (
        f"# {job.folder.name}\n\n{trained}\n\n"
        f"- Seed {job.run.seed}, {engine.state.step} steps: {engine.state.finished}.\n{reached}"
        f"- The run file next to this folder contains every setting.\n"
    )


def measure_kept(job: PreparedRun, engine: Engine, chosen: Sequence[Path], net: torch.nn.Module) -> str:
    """What these very weights reach on held-out data."""
    steps = [int(path.name.removeprefix("step-")) for path in chosen]
    what = f"Weights of step {steps[0]}" if len(steps) == 1 else f"Average of the last {len(steps)} checkpoints"
    if engine.held_out is None or engine.world.size > 1:
        return f"- {what}, not evaluated again.\n"
    kept = goal_of(job.run.task).kept
    merge(engine.task.parts[kept])  # its adapters, as the final model's are
    fill_weights(engine.task.parts[kept], net.state_dict())
    for name, part in engine.task.parts.items():
        if name != kept:
            fill_weights(part, average_weights(weights_of(job, chosen, name)))
    engine.shadows.clear()
    goal = engine.task.goal.removeprefix("-")
    return f"- {what}. On held-out data: {goal} {engine.evaluate(engine.held_out)[0][goal]:.4g}\n"
