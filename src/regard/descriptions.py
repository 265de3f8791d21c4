"""What ``regard.json`` says of a model: written, read strictly, and made into a net with its weights."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import regard
from regard.decode.symbols import NO_SYMBOLS, read_symbols
from regard.errors import CheckpointError
from regard.interop.converted import ConvertedCheckpoint, check_plausible
from regard.interop.rules import check_tensors
from regard.modalities.processor import Processor, ProcessorFolder
from regard.modalities.processors import check_kind, read_processor
from regard.model import Model
from regard.plugins import require_plugins
from regard.provenance import model_plugins
from regard.storage.documents import read_json
from regard.storage.tensors import open_weights
from regard.storage.untrusted import list_names
from regard.zoo import FAMILIES, config_data, empty_net, read_config

DESCRIPTION = "regard.json"
FORMAT = 1
KEYS = ("format", "regard", "model", "config", "task", "processor")
OPTIONAL = ("symbols", "labels", "plugins")


def description_of(model: Model) -> dict[str, Any]:
    """All of a model but its weights and the files of its processor."""
    data = {
        "format": FORMAT,
        "regard": regard.__version__,
        "model": model.family,
        "config": config_data(model.config),
        "task": model.task,
        "processor": None if model.processor is None else model.processor.to_data(),
    }
    if model.symbols != NO_SYMBOLS:
        data["symbols"] = model.symbols.data()
    if model.labels:
        data["labels"] = list(model.labels)
    if plugins := model_plugins(model):
        data["plugins"] = plugins
    return data


def load_ours(folder: Path, changed: bool = False) -> Model:
    """Folder format 1. What a plug-in was part of needs it, in the same bytes, or on purpose in ``changed`` ones."""
    data = read_description(folder / DESCRIPTION, changed)
    check_kind(data["processor"], folder)
    weights = open_weights(folder)
    return described_model(data, folder, weights.shapes(), lambda: weights.read(torch.float32))


def read_description(where: Path, changed: bool = False) -> dict[str, Any]:
    """The file as data, strictly, once its plug-ins are there."""
    data = read_json(where)
    if data.get("format") != FORMAT:
        raise CheckpointError(
            "unsupported folder format version",
            where=str(where),
            got=f"format = {data.get('format')!r}",
            expected=f"{FORMAT}",
            fix="use the regard version that wrote it, or a newer one",
        )
    if wrong := sorted((data.keys() - set(OPTIONAL)) ^ set(KEYS)):
        raise CheckpointError(
            "missing or unknown keys", where=str(where), got=", ".join(wrong), expected=", ".join(KEYS)
        )
    require_plugins(data.get("plugins", []), str(where), changed)
    family, config = data["model"], data["config"]
    if not isinstance(family, str) or family not in FAMILIES or not isinstance(config, dict):
        expected = f"model: one of {', '.join(FAMILIES)}; config: an object"
        raise CheckpointError("invalid model entry", where=str(where), got=f"model = {family!r}", expected=expected)
    if not isinstance(data["task"], str | None):
        raise CheckpointError(
            "the task must be a string or null", where=str(where), got=f"task = {data['task']!r}"[:200]
        )
    return data


def described_model(
    data: Mapping[str, Any], folder: Path, shapes: Mapping[str, tuple[int, ...]], read: Callable[[], dict[str, Tensor]]
) -> Model:
    """The model of a description in a folder; no weight is ``read`` before the names and shapes of all are right."""
    where, family = str(folder / DESCRIPTION), data["model"]
    settings = read_config(family, data["config"], where)
    check_plausible(settings, len(shapes), str(folder))
    net = empty_net(family, settings, where)
    check_tensors({name: tuple(x.shape) for name, x in net.state_dict().items()}, shapes, str(folder))
    symbols = read_symbols(data.get("symbols", {}), FAMILIES[family].get(settings, "vocab") or 0, where)
    labels = read_labels(data.get("labels", []), FAMILIES[family].get(settings, "classes") or 0, where)
    processor = read_processor(data["processor"], ProcessorFolder(folder, FAMILIES[family], settings))
    return filled(net, ConvertedCheckpoint(family, settings, read(), symbols, labels), folder, data["task"], processor)


def read_labels(data: Any, classes: int, where: str) -> tuple[str, ...]:
    """A name for each class, or none."""
    if not isinstance(data, list) or not all(isinstance(name, str) for name in data):
        raise CheckpointError("invalid labels", where=where, got=str(data)[:200], expected="a list of strings")
    if len(data) not in (0, classes):
        raise CheckpointError(
            "the number of labels does not match the number of classes",
            where=where,
            got=f"{len(data)}",
            expected=f"{classes}",
        )
    return tuple(data)


def kind_of_numbers(x: Tensor) -> torch.dtype | str:
    return "floating point" if x.is_floating_point() else x.dtype


def filled(
    net: nn.Module, found: ConvertedCheckpoint, folder: Path, task: str | None, processor: Processor | None = None
) -> Model:
    """The net with its weights, ready for inference, and what else the folder holds."""
    own = net.state_dict()  # counters and seeds are integers in the net, too
    odd = [name for name, x in found.state.items() if name in own and kind_of_numbers(x) != kind_of_numbers(own[name])]
    if odd:
        raise CheckpointError(
            "tensors hold another kind of numbers than the model's",
            where=str(folder),
            got=list_names(odd),
            expected="floating-point weights; integers in counters and seeds",
        )
    net.load_state_dict(found.state, strict=True, assign=True)
    card = folder / "card.md"
    text = card.read_text("utf-8", errors="replace") if card.is_file() else ""
    return Model(found.family, net.eval(), processor, task, text, found.symbols, found.labels)
