"""Models in folders: one of ours, of a run, of another library, or one that ships; read strictly, written whole."""

from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import regard
from regard.descriptions import DESCRIPTION, description_of, filled, load_ours
from regard.errors import InputError
from regard.interop.converted import Read
from regard.interop.rules import check_tensors
from regard.modalities.pipelines import WRITTEN, is_pipeline, write_pipeline
from regard.modalities.processor import ForeignFolder, MissingProcessor, ProcessorFolder
from regard.modalities.processors import PROCESSORS, kind_for
from regard.model import Model
from regard.pipelines import converted_pipeline, load_pipeline
from regard.storage.atomic import save_folder as write_folder
from regard.storage.documents import json_bytes, read_json
from regard.storage.tensors import open_weights, widened_dtype
from regard.unfinished import load_unfinished, tell_if_prolonged
from regard.zoo import FAMILIES, empty_net, shipped_names


def load(model: str | Path) -> Model:
    """Load a shipped model by name, or a folder: a regard model, a run, or a Hugging Face checkpoint.

    A string is the name of a shipped model where there is one, else a path. Of a run that is not finished, the best
    checkpoint so far is loaded, with a warning. A missing or unexpected tensor is an error.
    """
    if not isinstance(model, str | Path):
        raise InputError(
            "the name of a model is not a string", got=type(model).__name__, expected="a name, or the path to a folder"
        )
    if isinstance(model, str) and model in shipped_names():
        with as_file(files("regard").joinpath("pretrained", model)) as folder:
            return replace(load(folder), name=model)
    folder = Path(model)
    if isinstance(model, str) and (not model or not folder.exists()):
        raise InputError(
            "unknown model",
            got=model,
            expected=f"{', '.join(shipped_names()) or 'none'} (shipped), or the path to a run or model folder",
            fix="for random weights, use regard.build",
        )
    if (folder / DESCRIPTION).exists():
        return load_ours(folder)
    if (folder / "run.toml").is_file():
        if not (folder / "model").is_dir():
            return load_unfinished(folder)
        tell_if_prolonged(folder)
        return load(folder / "model")
    if is_pipeline(folder):
        return load_pipeline(folder)
    if (folder / "config.json").exists():
        weights, said = open_weights(folder), read_json(folder / "config.json")
        return load_theirs(folder, said, weights.shapes(), lambda names: weights.only(names).read(torch.float32))
    if folder.is_dir() and any(folder.glob("*.safetensors")):
        from regard.interop import llama2c  # here, not above: the tables of other libraries would slow every start

        weights = open_weights(folder)
        if (told := llama2c.config_from_metadata(weights.metadata)) is not None:
            return load_theirs(folder, told, weights.shapes(), lambda names: weights.only(names).read(torch.float32))
    raise InputError(
        "not a model folder" if folder.is_dir() else "folder not found",
        where=str(folder),
        expected="a folder with regard.json, a folder with config.json and *.safetensors, or a run folder",
    )


def load_theirs(folder: Path, data: Mapping[str, Any], header: Mapping[str, tuple[int, ...]], read: Read) -> Model:
    from regard.interop.formats import checkpoint_kind, import_checkpoint
    from regard.interop.model_types import with_model_type

    data = with_model_type(data, header)
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


def save(model: Model, folder: str | Path, replace: bool = False) -> None:
    """Save a model to a folder (format 1), atomically."""
    state = checked_state(model)
    write_folder(
        Path(folder),
        {DESCRIPTION: json_bytes(description_of(model)), "model.safetensors": state, **extras(model)},
        replace,
    )


def extras(model: Model) -> dict[str, bytes]:
    beside = {} if model.processor is None else model.processor.files()
    return beside | ({"card.md": model.card.encode("utf-8")} if model.card else {})


def checked_state(model: Model) -> dict[str, Tensor]:
    """The weights under the names that the family's config gives; a prepared or wrapped net has others."""
    state = model.state_dict()
    wanted = {name: tuple(x.shape) for name, x in empty_net(model.family, model.config).state_dict().items()}
    check_tensors(wanted, {name: tuple(x.shape) for name, x in state.items()}, "the model to save")
    return state


def convert(source: str | Path, out: str | Path) -> list[str]:
    """Convert another library's checkpoint folder to a regard folder. This is the only function that reads .bin and .pt
    files, with a reader that cannot run code. A regard folder is rewritten with the plug-ins that are loaded now.

    Returns the names of the written tensors that contain NaN or infinity; their values are kept unchanged.
    """
    from regard.interop.pickled import read_pickled

    source = Path(source)
    safe = source.is_dir() and any(
        x.name.endswith((".safetensors", ".safetensors.index.json")) for x in source.iterdir()
    )
    if not safe and not (source / "config.json").exists() and not is_pipeline(source):
        raise InputError(
            "not a model folder of another library" if source.is_dir() else "folder not found",
            where=str(source),
            expected="a folder with config.json and weights, or a llama2.c folder with *.safetensors and tokenizer.bin",
        )
    if (source / "regard.json").exists():
        model = load_ours(source, changed=True)
    elif is_pipeline(source):
        model = converted_pipeline(source, Path(out))
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
    from regard.interop.model_types import with_model_type

    if (source / "regard.json").exists():
        return ""
    told = source / "config.json"
    kind = checkpoint_kind(with_model_type(read_json(told), ())) if told.exists() else llama2c.KIND
    return (
        f"# {out.name}\n\nConverted by regard {regard.__version__} from the folder `{source}` (model type {kind}).\n\n"
        "- Data, licence and limitations are those of the source: see its documentation.\n"
    )


def export(model: Model | str | Path, out: str | Path, to: str | None = None) -> list[str]:
    """Export a model, or anything that ``load`` accepts, to another library's format: "hf" or "timm", or the first of
    them that can hold it. Models that transformers does not implement are always written in timm's format.

    Returns the names of the written tensors that contain NaN or infinity; their values are kept unchanged.
    """
    from regard.interop.exporting import LIBRARIES, export_checkpoint

    if to is not None and to not in LIBRARIES:
        raise InputError("unknown export format", got=to, expected=" or ".join(LIBRARIES))
    loaded = model if isinstance(model, Model) else load(model)
    if loaded.family in WRITTEN and to in (None, "hf"):
        return not_finite(write_pipeline(loaded, checked_state(loaded), Path(out)))
    theirs = export_checkpoint(loaded.family, loaded.config, checked_state(loaded), loaded.symbols, loaded.labels, to)
    folder = ForeignFolder(theirs.config, {}, FAMILIES[loaded.family], loaded.symbols, theirs.generation)
    if loaded.processor is not None:
        folder = PROCESSORS[loaded.processor.to_data()["kind"]].export(loaded.processor, folder)
    settings = {"config.json": folder.config, "generation_config.json": folder.generation}
    files = {name: json_bytes(data) for name, data in settings.items() if data}
    write_folder(Path(out), {**files, "model.safetensors": theirs.tensors, **folder.files})
    return not_finite(theirs.tensors)


def not_finite(state: Mapping[str, Tensor]) -> list[str]:
    return [name for name, x in state.items() if not x.isfinite().all()]
