"""The model that a run begins with: a new one, or one that was trained before and shall learn something else."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import nn

from regard.errors import ConfigError, InputError, first_of
from regard.model import Model
from regard.nn.adapter import adapt
from regard.nn.config import config_problems
from regard.nn.positions import OffsetBias, WindowBias, interpolate, refit_tables
from regard.storage.digest import weights_digest
from regard.zoo import FAMILIES, empty_net, family_of, find_preset

from .model_names import load_finished_model
from .settings import RunSettings, Start, cannot_learn

HEADS = (  # what may be new: the part that is of a task
    *("label", "tags", "span", "words", "follows", "head", "teacher_head", "token_head", "pooler"),
)
OF_HEADS = ("classes", "head", "pooler")  # settings of these
SHOWN = 6


@dataclass(frozen=True, eq=False)
class InitialNet:
    family: str
    net: nn.Module
    notes: tuple[str, ...] = ()  # what a user should know
    base: str = ""  # SHA-256 of the weights that it began with
    added: tuple[str, ...] = ()  # names of the weights that these lack


def kind_of(run: RunSettings) -> tuple[str, Any]:
    """The family and the config that the run file names, before the data has its say."""
    changes = given_config_keys(run)
    if run.start is None or run.start.part:
        return find_preset(run.model["name"], changes)
    base = load_finished_model(run.start.model)
    return base.family, changed(base, changes, run)


def given_config_keys(run: RunSettings) -> dict[str, Any]:
    """The keys of the config that the run file itself gives."""
    return {key: value for key, value in run.model.items() if key != "name"}


def changed(base: Model, changes: Mapping[str, Any], run: RunSettings) -> Any:
    if problem := cannot_learn(base.family, run.task.kind, run.data):
        what, _, expected = problem.partition("; expected ")
        raise InputError(what, where="start.model", expected=expected)
    if wrong := config_problems(FAMILIES[base.family].config, changes):
        raise ConfigError(f"invalid config keys for a {base.family} model", where="[model]", got="; ".join(wrong))
    try:
        return FAMILIES[base.family].reconfigured(base.config, changes)
    except ValueError as error:
        raise ConfigError(
            f"a {base.family} model cannot be built from this config", where="[model]", got=str(error)
        ) from None


def initial_net(run: RunSettings, changes: Mapping[str, Any]) -> InitialNet:
    """``changes`` are those of the run file, and what follows from task and data. Weights that nobody gives follow from
    the numbers of the day, so sow before."""
    if run.start is None or run.start.part:
        family, config = find_preset(run.model["name"], changes)
        empty_net(family, config)  # an attention that this model cannot take is refused before memory is used
        return InitialNet(family, FAMILIES[family].net(config))
    base = load_finished_model(run.start.model)
    config = changed(base, changes, run)
    empty_net(base.family, config, "[model]")
    net = FAMILIES[base.family].net(config)
    added, left = take_over(net, base.net, run.start)
    notes = []
    if (old := sides(base.family, base.config)) != (new := sides(base.family, config)):
        notes.append(f"image size {new} instead of {old}: position weights are interpolated")
    if added:
        notes.append(f"new weights, not in {run.start.model}: {', '.join(first_of(added, SHOWN))}")
    if left:
        notes.append(f"unused weights of {run.start.model}: {', '.join(first_of(left, SHOWN))}")
    digest = weights_digest(base.state_dict())
    free(net, run.start, added)
    return InitialNet(base.family, net, tuple(notes), digest, tuple(added))


def sides(family: str, config: Any) -> str:
    """Of the images of a net that takes one size."""
    return f"{config.image} x {config.image}" if FAMILIES[family].has("image") else ""


def resized(base: nn.Module, net: Any) -> dict[str, torch.Tensor]:
    """The weights of ``base``, those that go by places in an image or a window made for the sizes of ``net``."""
    found, family = refit_tables(base, net), family_of(base)
    if "positions" in found and family is not None and family.grid is not None:
        x = found["positions"]  # (1, n, d), or (n, d)
        found["positions"] = interpolate(x.view(1, *x.shape[-2:]), family.grid(base.config), family.grid(net.config))
        found["positions"] = found["positions"].view(*x.shape[:-2], *found["positions"].shape[1:])
    return found


@torch.no_grad()
def take_over(net: nn.Module, base: nn.Module, start: Start) -> tuple[list[str], list[str]]:
    """Copy every weight. Only those of a task's own part may differ. -> names of new ones, names of those left out"""
    ours, theirs = net.state_dict(), resized(base, net)
    alike = {name for name, x in ours.items() if name in theirs and theirs[name].shape == x.shape}
    added = [name for name in ours if name not in alike]
    left = [name for name in theirs if name not in alike]
    if wrong := [name for name in dict.fromkeys([*added, *left]) if name.split(".")[0] not in HEADS]:
        shapes = [
            f"{name}: {shape(theirs, name)} in the checkpoint, {shape(ours, name)} in the model"
            for name in wrong[:SHOWN]
        ]
        raise InputError(
            "the weights do not fit the model",
            where=start.model,
            got="; ".join(shapes),
            fix=set_back(net.config, base),
        )
    for name in alike:
        ours[name].copy_(theirs[name])
    return added, left


def set_back(config: Any, base: nn.Module) -> str:
    """What is different from the model that a run starts from, and what may be."""
    image = ["model.image"] if by_places(base) else []
    own = [x.name for x in fields(config) if x.name not in OF_HEADS and f"model.{x.name}" not in image]
    pairs = [(name, getattr(config, name), getattr(base.config, name)) for name in own]
    other = [f"model.{name} = {old!r}, not {new!r}" for name, new, old in pairs if new != old]
    free = " and ".join([*image, "settings without weights, such as dropout"])
    again = "; ".join(other) or "the changed [model] keys back"
    return f"set {again}. Only the head, {free}, may differ"


def by_places(base: Any) -> bool:
    """Whether ``resized`` makes its weights for images of another size."""
    tables = any(isinstance(module, WindowBias | OffsetBias) for module in base.modules())
    family = family_of(base)
    learned = family is not None and family.grid is not None and "positions" in base.state_dict()
    return learned or tables


def shape(state: Mapping[str, torch.Tensor], name: str) -> str:
    return " x ".join(map(str, state[name].shape)) if name in state else "none"


def free(net: nn.Module, start: Start, added: list[str]) -> None:
    """Which weights learn."""
    if start.learn == "all":
        return
    if start.learn == "head" and not added:
        raise InputError(
            "there is no new head to train: the model already has all weights for this task",
            where="start.learn",
            fix="use start.learn = 'all' or 'adapters'",
        )
    new = {name: x for name, x in net.named_parameters() if name in added}
    if start.learn == "adapters":
        try:
            adapt(net, start.where, start.rank, start.alpha)
        except ValueError as error:
            raise InputError("the adapters cannot be added", where="[start]", got=str(error)) from None
    else:
        net.requires_grad_(False)
    for parameter in new.values():
        parameter.requires_grad_(True)
