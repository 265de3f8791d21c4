"""The parts of Stable Diffusion 1 and 2, as diffusers stores them, read as those of one model.

Everything is checked before a weight is read, and each problem is named with its subfolder.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import CheckpointError
from regard.models.diffusion import Config
from regard.storage.documents import JSON_BYTES, parse_json, read_bytes, read_json
from regard.storage.tensors import gathered, open_weights, weights_in, widened_dtype
from regard.zoo import empty_net

from . import stable_diffusion as table
from .converted import Read
from .foreign import ForeignConfig
from .formats import refuse
from .pickled import read_pickled
from .rules import converted_tensors, misfits, needed, spare
from .schedulers import import_scheduler

BOUND = "lambda_min_clipped"
UNBOUNDED = re.compile(rb'("lambda_min_clipped"\s*:\s*)-Infinity')


@dataclass(frozen=True, eq=False)
class PartWeights:
    """The tensors of a subfolder: their shapes, and how those that are asked for are read."""

    header: Mapping[str, tuple[int, ...]]
    read: Read


Opener = Callable[[Path, str], PartWeights]  # a subfolder, the usual name of its weights without what follows a dot


def stored_weights(folder: Path, name: str) -> PartWeights:
    """Safetensors: in one file, or an index and its shards."""
    whole, index = folder / f"{name}.safetensors", folder / f"{name}.safetensors.index.json"
    weights = weights_in(whole) if whole.is_file() else gathered(index) if index.is_file() else open_weights(folder)
    return PartWeights(weights.shapes(), lambda names: weights.only(names).read(torch.float32))


def any_weights(folder: Path, name: str) -> PartWeights:
    """The same, or a file that could run code, read so that it cannot."""
    if any(x.name.endswith((".safetensors", ".safetensors.index.json")) for x in folder.iterdir()):
        return stored_weights(folder, name)
    single = folder / f"{name}.bin"
    found = read_pickled(single if single.is_file() else folder)
    state = {key: widened_dtype(x, torch.float32) for key, x in found.items()}
    header = {key: tuple(x.shape) for key, x in state.items()}
    return PartWeights(header, lambda names: {key: x for key, x in state.items() if key in names})


@dataclass(frozen=True, eq=False)
class PipelineParts:
    """All but the tokenizer, read and found right, but for the weights: ``state`` reads them."""

    config: Config
    state: Callable[[], dict[str, Tensor]]


def read_parts(folder: Path, opened: Opener) -> PipelineParts:
    index = read_index(folder)
    weights = {part.folder: opened(folder / part.folder, part.weights) for part in table.PARTS}
    configs: dict[str, Any] = {}
    for part in table.PARTS:
        data = read_part_config(folder / part.folder / "config.json", part.kind)
        data = table.unet_data(data) if part.folder == "unet" else data
        configs[part.folder] = part_config(part, data, weights[part.folder].header, folder)
    told = table.scheduler_data(read_scheduler(folder / "scheduler" / "scheduler_config.json"), index)
    config = combined(configs, told, folder)
    return PipelineParts(config, lambda: converted_parts(configs, weights, config, folder))


def read_index(folder: Path) -> dict[str, Any]:
    """What the pipeline is made of: every part known, and there."""
    if (folder / table.LORA).is_file():
        raise CheckpointError("weights of LoRA are not read", where=str(folder / table.LORA), fix=table.FUSE)
    path = folder / table.INDEX
    index = read_json(path)
    if (kind := index.get("_class_name")) not in table.PIPELINES:
        raise CheckpointError(
            "unknown kind of pipeline",
            where=str(path),
            got=f"_class_name = {str(kind)[:60]!r}",
            expected=", ".join(table.PIPELINES),
            fix=table.instead_of(str(kind)),
        )
    if problems := table.index_problems(index):
        raise CheckpointError("this pipeline cannot be read exactly", where=str(path), got="\n".join(problems))
    needed = [*(f"{part.folder}/config.json" for part in table.PARTS), "scheduler/scheduler_config.json", "tokenizer"]
    if missing := [name for name in needed if not (folder / name).exists()]:
        raise CheckpointError(
            "the pipeline is not complete",
            where=str(folder),
            got=f"missing: {', '.join(missing)}",
            expected="every part that model_index.json names, in the subfolder of its name",
            fix="download the whole folder",
        )
    return index


def read_scheduler(path: Path) -> dict[str, Any]:
    """diffusers writes an infinite number in one place, which JSON does not have."""
    data = parse_json(UNBOUNDED.sub(rb"\1null", read_bytes(path, JSON_BYTES)), path)
    return {key: x for key, x in data.items() if key != BOUND or x is not None}  # absent, it is infinite


def read_part_config(path: Path, kind: str) -> dict[str, Any]:
    data = read_json(path)
    key = "_class_name" if "_class_name" in data else "model_type"
    if data.get(key, kind) != kind:
        got = f"{key} = {str(data[key])[:60]!r}"
        raise CheckpointError("this part of the pipeline is of another kind", where=str(path), got=got, expected=kind)
    return data


def part_config(part: Any, data: Mapping[str, Any], header: Mapping[str, tuple[int, ...]] | None, folder: Path) -> Any:
    """Every key is read, or changes nothing, or is an error by name; ``header`` of tensors that are there already."""
    foreign = ForeignConfig(data, tensors=None if header is None else len(header))
    config, impossible = None, []
    try:
        config = part.config(foreign)
    except ValueError as error:
        impossible = str(error).split("\n")
    wrong = foreign.finish()
    if not foreign.guessed:
        wrong += impossible
    if wrong or config is None:
        refuse({"invalid in the config": wrong}, folder / part.folder / "config.json")
    return part.complete(config, header or {})


def combined(configs: Mapping[str, Any], told: Mapping[str, Any], folder: Path) -> Config:
    scheduler = import_scheduler(told, where=str(folder / "scheduler" / "scheduler_config.json"))
    config, problems = table.whole_config(configs["text_encoder"], configs["unet"], configs["vae"], scheduler)
    if config is None:
        raise CheckpointError(
            "the parts of this pipeline do not make a model", where=str(folder), got="\n".join(problems)
        )
    return config


def converted_parts(
    configs: Mapping[str, Any], weights: Mapping[str, PartWeights], config: Any, folder: Path
) -> dict[str, Tensor]:
    """The tensors of all parts, under our names. The subfolder stands before each of theirs."""
    rules = table.whole_rules(configs, {name: part.header for name, part in weights.items()})
    header = {f"{name}.{key}": shape for name, part in weights.items() for key, shape in part.header.items()}
    wanted = {name: tuple(x.shape) for name, x in empty_net(table.FAMILY, config).state_dict().items()}
    expected, copies = needed(wanted, rules), spare(header, rules)
    problems = misfits(expected, {name: shape for name, shape in header.items() if name not in copies})
    if any(problems.values()):
        refuse(problems, folder)
    state: dict[str, Tensor] = {}
    for name, part in weights.items():
        asked = {key for key in part.header if f"{name}.{key}" in expected or f"{name}.{key}" in copies}
        state |= {f"{name}.{key}": x for key, x in part.read(asked).items()}
    return converted_tensors(state, rules).finish("the tensors cannot be converted")
