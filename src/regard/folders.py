"""Models in folders: one of ours, of a run, of another library, or one that ships; read strictly, written whole."""

from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path
from shlex import quote
from typing import Any

import torch
from torch import Tensor, nn

import regard
from regard.decode.symbols import NO_SYMBOLS, read_symbols
from regard.errors import CheckpointError, InputError
from regard.interop.converted import ConvertedCheckpoint, Read, check_plausible
from regard.interop.rules import check_tensors
from regard.modalities.processor import ForeignFolder, MissingProcessor, Processor, ProcessorFolder
from regard.modalities.processors import PROCESSORS, check_kind, kind_for, read_processor
from regard.model import Model
from regard.plugins import require_plugins
from regard.provenance import model_plugins
from regard.storage.atomic import save_folder as write_folder
from regard.storage.documents import json_bytes, read_json
from regard.storage.tensors import open_weights, widened_dtype
from regard.storage.untrusted import list_names
from regard.zoo import FAMILIES, config_data, empty_net, read_config, shipped_names

FORMAT = 1
KEYS = ("format", "regard", "model", "config", "task", "processor")
OPTIONAL = ("symbols", "labels", "plugins")


def load(model: str | Path) -> Model:
    """A shipped model by its name, or a folder: of ours, of a run that is finished, or with a Hugging Face checkpoint.

    A bare string is a name; a path contains a separator or is a Path. Every tensor is accounted for, or it is an error.
    """
    if isinstance(model, str) and not any(separator in model for separator in "/\\"):
        if model in shipped_names():
            with as_file(files("regard").joinpath("pretrained", model)) as folder:
                return replace(load(folder), name=model)
        raise InputError(
            "no shipped model has this name",
            got=model,
            expected=", ".join(shipped_names()),
            fix=f"to load a folder, write a path: ./{model}; to start with random weights, use regard.build",
        )
    folder = Path(model)
    if (folder / "regard.json").exists():
        return load_ours(folder)
    if (folder / "run.toml").is_file():
        if (folder / "model").is_dir():
            return load(folder / "model")
        raise InputError(
            "this run has no model: it is not finished, or its folder model/ is gone",
            where=str(folder),
            fix=f"go on with it: regard resume {quote(str(folder))}",
        )
    if (folder / "config.json").exists():
        weights, said = open_weights(folder), read_json(folder / "config.json")
        return load_theirs(folder, said, weights.shapes(), lambda names: weights.only(names).read(torch.float32))
    if folder.is_dir() and any(folder.glob("*.safetensors")):
        from regard.interop import llama2c  # here, not above: the tables of other libraries would slow every start

        weights = open_weights(folder)
        if (told := llama2c.said(weights.metadata)) is not None:
            return load_theirs(folder, told, weights.shapes(), lambda names: weights.only(names).read(torch.float32))
    raise InputError(
        "this is no model folder" if folder.is_dir() else "there is no such folder",
        where=str(folder),
        expected="a folder with regard.json, or with config.json and *.safetensors, or of a run",
    )


def load_ours(folder: Path, changed: bool = False) -> Model:
    """Folder format 1. What a plug-in was part of needs it, in the same bytes, or on purpose in ``changed`` ones."""
    where = folder / "regard.json"
    data = read_json(where)
    if data.get("format") != FORMAT:
        raise CheckpointError(
            "this folder is of a format that this version cannot read",
            where=str(where),
            got=f"format = {data.get('format')!r}",
            expected=f"{FORMAT}",
            fix="use the version of regard that wrote it, or a newer one",
        )
    if wrong := sorted((data.keys() - set(OPTIONAL)) ^ set(KEYS)):
        raise CheckpointError(
            "keys are missing or unknown", where=str(where), got=", ".join(wrong), expected=", ".join(KEYS)
        )
    require_plugins(data.get("plugins", []), str(where), changed)
    family, config = data["model"], data["config"]
    if not isinstance(family, str) or family not in FAMILIES or not isinstance(config, dict):
        expected = f"model: one of {', '.join(FAMILIES)}; config: a table"
        raise CheckpointError("this is no model", where=str(where), got=f"model = {family!r}", expected=expected)
    if not isinstance(data["task"], str | None):
        raise CheckpointError("this task is not known", where=str(where), got=f"task = {data['task']!r}"[:200])
    check_kind(data["processor"], folder)
    weights = open_weights(folder)
    settings = read_config(family, config, str(where))
    check_plausible(settings, len(weights.header), str(folder))
    net = empty_net(family, settings, str(where))
    check_tensors({name: tuple(x.shape) for name, x in net.state_dict().items()}, weights.shapes(), str(folder))
    symbols = read_symbols(data.get("symbols", {}), FAMILIES[family].get(settings, "vocab") or 0, str(where))
    labels = read_labels(data.get("labels", []), FAMILIES[family].get(settings, "classes") or 0, str(where))
    processor = read_processor(data["processor"], ProcessorFolder(folder, FAMILIES[family], settings))
    found = ConvertedCheckpoint(family, settings, weights.read(torch.float32), symbols, labels)
    return filled(net, found, folder, data["task"], processor)


def read_labels(data: Any, classes: int, where: str) -> tuple[str, ...]:
    """A name for each class, or none."""
    if not isinstance(data, list) or not all(isinstance(name, str) for name in data):
        raise CheckpointError(
            "these labels cannot be read", where=where, got=str(data)[:200], expected="a list of names"
        )
    if len(data) not in (0, classes):
        raise CheckpointError(
            "not every class has a name", where=where, got=f"{len(data)} names", expected=f"{classes}"
        )
    return tuple(data)


def load_theirs(folder: Path, data: Mapping[str, Any], header: Mapping[str, tuple[int, ...]], read: Read) -> Model:
    from regard.interop.formats import checkpoint_kind, import_checkpoint

    generation = folder / "generation_config.json"
    settings = read_json(generation) if generation.is_file() else {}
    found = import_checkpoint(data, settings, header, read, folder)
    net = empty_net(found.family, found.config)
    family = FAMILIES[found.family]
    processor = kind_for(family).read_foreign(
        data, checkpoint_kind(data), ProcessorFolder(folder, family, found.config)
    )
    if isinstance(processor, MissingProcessor):
        return replace(filled(net, found, folder, None), unprepared=processor)
    return filled(net, found, folder, None, processor)


def filled(
    net: nn.Module, found: ConvertedCheckpoint, folder: Path, task: str | None, processor: Processor | None = None
) -> Model:
    """The net with its weights, ready for inference, and what else the folder holds."""
    if odd := [name for name, x in found.state.items() if not x.is_floating_point()]:
        raise CheckpointError("weights must be real numbers", where=str(folder), got=list_names(odd))
    net.load_state_dict(found.state, strict=True, assign=True)
    card = folder / "card.md"
    text = card.read_text("utf-8", errors="replace") if card.is_file() else ""
    return Model(found.family, net.eval(), processor, task, text, found.symbols, found.labels)


def save(model: Model, folder: str | Path, replace: bool = False) -> None:
    """Write folder format 1, whole or not at all."""
    state = checked_state(model)
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
    write_folder(Path(folder), {"regard.json": json_bytes(data), "model.safetensors": state, **extras(model)}, replace)


def extras(model: Model) -> dict[str, bytes]:
    beside = {} if model.processor is None else model.processor.files()
    return beside | ({"card.md": model.card.encode("utf-8")} if model.card else {})


def checked_state(model: Model) -> dict[str, Tensor]:
    """The weights under the names that the family's config gives; a prepared or wrapped net has others."""
    state = model.state_dict()
    wanted = {name: tuple(x.shape) for name, x in empty_net(model.family, model.config).state_dict().items()}
    check_tensors(wanted, {name: tuple(x.shape) for name, x in state.items()}, "the model to be saved")
    return state


def convert(source: str | Path, out: str | Path) -> list[str]:
    """A foreign folder into one of ours. Only here are .bin and .pt files read, by a reader that cannot run code. One
    of ours is written anew, with the plug-ins that are here now.

    -> the names of the written tensors that hold a NaN or an infinity, which are converted as they are
    """
    from regard.interop.pickled import read_pickled

    source = Path(source)
    safe = source.is_dir() and any(
        x.name.endswith((".safetensors", ".safetensors.index.json")) for x in source.iterdir()
    )
    if not safe and not (source / "config.json").exists():
        raise InputError(
            "this is no foreign model folder" if source.is_dir() else "there is no such folder",
            where=str(source),
            expected="a folder with config.json and weights, or one of llama2.c, with *.safetensors and tokenizer.bin",
        )
    if (source / "regard.json").exists():
        model = load_ours(source, changed=True)
    elif safe:
        model = load(source)
    else:
        state = {name: widened_dtype(x, torch.float32) for name, x in read_pickled(source).items()}
        header = {name: tuple(x.shape) for name, x in state.items()}
        said = read_json(source / "config.json")
        model = load_theirs(source, said, header, lambda names: {name: x for name, x in state.items() if name in names})
    save(replace(model, card=model.card or foreign_card(source, Path(out))), out)
    return not_finite(model.state_dict())


def foreign_card(source: Path, out: Path) -> str:
    """Of a model that was made elsewhere: where from, and who can say more. One of ours needs none."""
    from regard.interop import llama2c
    from regard.interop.formats import checkpoint_kind

    if (source / "regard.json").exists():
        return ""
    told = source / "config.json"
    kind = checkpoint_kind(read_json(told)) if told.exists() else llama2c.KIND
    return (
        f"# {out.name}\n\nConverted by regard {regard.__version__} from the folder `{source}`, of the kind {kind}.\n\n"
        "- Data, licence and limits are those of the source: see what was published with it.\n"
    )


def export(model: Model | str | Path, out: str | Path, to: str = "hf") -> list[str]:
    """A model, or what ``load`` takes, in another library's format: "hf", or "timm" for the folders of that library.
    What transformers does not have goes out in timm's by either word.

    -> the names of the written tensors that hold a NaN or an infinity, which are exported as they are
    """
    from regard.interop.formats import FORMATS, export_checkpoint

    if to not in FORMATS:
        raise InputError("this format is not known", got=to, expected=" or ".join(FORMATS))
    loaded = model if isinstance(model, Model) else load(model)
    theirs = export_checkpoint(loaded.family, loaded.config, checked_state(loaded), loaded.symbols, loaded.labels, to)
    files = {"generation_config.json": json_bytes(theirs.generation)} if theirs.generation else {}
    folder = ForeignFolder(theirs.config, files)
    if loaded.processor is not None:
        folder = PROCESSORS[loaded.processor.to_data()["kind"]].export(loaded.processor, folder)
    weights = {"model.safetensors": theirs.tensors}
    write_folder(Path(out), {"config.json": json_bytes(folder.config), **weights, **folder.files})
    return not_finite(theirs.tensors)


def not_finite(state: Mapping[str, Tensor]) -> list[str]:
    return [name for name, x in state.items() if not x.isfinite().all()]
