"""The model of a run that is not finished: its best checkpoint so far, in the net that the run described when it began.

blueprint/  regard.json  weights.json  ...  (files of the processor)
"""

from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any

from torch import Tensor

from regard.descriptions import DESCRIPTION, described_model, description_of, read_description
from regard.errors import CheckpointError, InputError, notify
from regard.modalities.processors import check_kind
from regard.model import Model
from regard.nn.adapter import merged_state
from regard.storage.documents import json_bytes, read_json
from regard.storage.untrusted import is_plain_name
from regard.train.checkpoint import Checkpoints, best_checkpoint, read_weights
from regard.train.distribution import World

BLUEPRINT, WEIGHTS = "blueprint", "weights.json"
TRIES = 5  # a run that goes on meanwhile throws checkpoints away


def blueprint_files(model: Model, part: str, scale: float | None) -> dict[str, bytes]:
    """What a run writes down when it begins. ``part`` of its task is the model; ``scale`` is that of its adapters."""
    files = {} if model.processor is None else model.processor.files()
    files |= {DESCRIPTION: json_bytes(description_of(model)), WEIGHTS: json_bytes({"part": part, "scale": scale})}
    return {f"{BLUEPRINT}/{name}": content for name, content in files.items()}


def load_unfinished(run: Path) -> Model:
    """The best checkpoint so far of a run without a model folder: moving averages where there are some, adapters
    merged."""
    blueprint = run / BLUEPRINT
    if not (blueprint / DESCRIPTION).is_file():
        raise InputError(
            "the run has no model: it is not finished, or its model/ folder is missing",
            where=str(run),
            got="a run of an earlier version, whose checkpoints can only be read by resuming it",
            fix=f"resume it: regard resume {quote(str(run))}",
        )
    data = read_description(blueprint / DESCRIPTION)
    check_kind(data["processor"], blueprint)
    part, scale = read_weights_file(blueprint / WEIGHTS)
    path, state = read_best(run, part, scale)
    newest = newest_state(run)
    judged = path.name == f"step-{newest.get('best_step', 0):06d}"
    which = f"{'best' if judged else 'latest'} checkpoint so far, step {int(path.name.removeprefix('step-'))}"
    shapes = {name: tuple(x.shape) for name, x in state.items()}
    model = described_model(data, blueprint, shapes, lambda: state)
    why = "has no model folder" if newest.get("finished") else "is not finished"
    notify(f"the run {run} {why}: its {which}, is used")
    return replace(model, card=f"# {run.resolve().name}\n\n- Weights: {which} of a run that {why}.\n")


def read_weights_file(where: Path) -> tuple[str, float | None]:
    data = read_json(where)
    part, scale = data.get("part"), data.get("scale")
    if not isinstance(part, str) or not is_plain_name(part) or not isinstance(scale, int | float | None):
        expected = "part: a name; scale: a number or null"
        raise CheckpointError("the file cannot be read", where=str(where), got=str(data)[:200], expected=expected)
    return part, scale


def read_best(run: Path, part: str, scale: float | None) -> tuple[Path, dict[str, Tensor]]:
    checkpoints, told = Checkpoints(run / "checkpoints", World()), dict[str, None]()
    for left in reversed(range(TRIES)):
        try:
            path = best_checkpoint(checkpoints, lambda problem: told.update({problem: None}))
            state = read_weights(path, f"{part}.moving", part)
            break
        except (FileNotFoundError, CheckpointError):
            if not left:
                raise
    for problem in told:
        notify(problem)
    return path, state if scale is None else merged_state(state, scale)


def newest_state(run: Path) -> dict[str, Any]:
    """What the newest checkpoint says of the run; empty where there is none."""
    there = Checkpoints(run / "checkpoints", World()).all()
    try:
        return read_json(there[-1][1] / "state.json") if there else {}
    except InputError:
        return {}


def tell_if_prolonged(run: Path) -> None:
    """The model folder of a run that goes on is that of its earlier end."""
    if newest_state(run).get("finished") == "":
        told = f"the run {run} was prolonged and is not finished: the model of its earlier end is used"
        notify(told)
