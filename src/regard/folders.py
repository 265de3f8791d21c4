"""Models in folders: one of ours, of a run, of another library, or one that ships; read strictly, written whole."""

import os
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path
from shlex import quote
from typing import Any

import torch
from torch import Tensor, nn

import regard
from regard.data.captions import KIND as CAPTIONS
from regard.data.captions import Captions, images_from_data
from regard.data.images import Images
from regard.data.text import Text
from regard.errors import CheckpointError, ConfigError, InputError
from regard.interop import llama2c, pictures
from regard.interop.files import weights_of, widened
from regard.interop.kinds import FORMATS, Found, Read, believable, kind_of, read_foreign, write_foreign
from regard.interop.pickled import read_pickled
from regard.interop.rules import fit
from regard.interop.suspicion import listed
from regard.interop.symbols import NONE, read_symbols
from regard.interop.texts import json_bytes, read_bytes, read_json
from regard.interop.tokens import foreign_tokenizer
from regard.interop.writing import save as write_folder
from regard.model import DETECTORS, Model
from regard.zoo import FAMILIES, bare, config_data, read_config, shipped

FORMAT = 1
KEYS = ("format", "regard", "model", "config", "task", "processor")
OPTIONAL = ("symbols", "labels")


def load(model: str | Path) -> Model:
    """A shipped model by its name, or a folder: of ours, of a run that is finished, or with a Hugging Face checkpoint.

    A bare string is a name; a path contains a separator or is a Path. Every tensor is accounted for, or it is an error.
    """
    if isinstance(model, str) and not any(separator in model for separator in "/\\"):
        if model in shipped():
            with as_file(files("regard").joinpath("pretrained", model)) as folder:
                return replace(load(folder), name=model)
        raise InputError(
            "no shipped model has this name",
            got=model,
            expected=", ".join(shipped()),
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
        weights, said = weights_of(folder), read_json(folder / "config.json")
        return load_theirs(folder, said, weights.shapes(), lambda names: weights.only(names).read(torch.float32))
    if folder.is_dir() and any(folder.glob("*.safetensors")):
        weights = weights_of(folder)
        if (told := llama2c.said(weights.metadata)) is not None:
            return load_theirs(folder, told, weights.shapes(), lambda names: weights.only(names).read(torch.float32))
    raise InputError(
        "this is no model folder" if folder.is_dir() else "there is no such folder",
        where=str(folder),
        expected="a folder with regard.json, or with config.json and *.safetensors, or of a run",
    )


def load_ours(folder: Path) -> Model:
    """Folder format 1."""
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
    family, config = data["model"], data["config"]
    if not isinstance(family, str) or family not in FAMILIES or not isinstance(config, dict):
        expected = f"model: one of {', '.join(FAMILIES)}; config: a table"
        raise CheckpointError("this is no model", where=str(where), got=f"model = {family!r}", expected=expected)
    told = data["processor"]
    kind = told.get("kind") if isinstance(told, dict) else None
    pictured = kind in ("images", CAPTIONS)
    if not isinstance(data["task"], str | None) or (told not in (None, {"kind": "text"}) and not pictured):
        got = f"task = {data['task']!r}, processor = {data['processor']!r}"
        raise CheckpointError("this task or processor is not known", where=str(where), got=got[:200])
    if kind in ("text", CAPTIONS) and not (folder / "tokenizer.json").is_file():
        raise CheckpointError("the tokenizer is missing", where=str(folder), expected="tokenizer.json")
    weights = weights_of(folder)
    settings = read_config(family, config, str(where))
    believable(settings, len(weights.header), str(folder))
    net = bare(family, settings, str(where))
    fit({name: tuple(x.shape) for name, x in net.state_dict().items()}, weights.shapes(), str(folder))
    symbols = read_symbols(data.get("symbols", {}), getattr(settings, "vocab", 0), str(where))
    labels = read_labels(data.get("labels", []), getattr(settings, "classes", 0), str(where))
    images = sized(read_images(told, settings, str(where)), settings, str(where)) if pictured else None
    text = None if kind == "images" else tokenizer_of(folder, settings, "")
    processor: Text | Images | Captions | None = text if images is None else images
    if images is not None and text is not None:
        processor = Captions(images, text)
    found = Found(family, settings, weights.read(torch.float32), symbols, labels)
    return filled(net, found, folder, data["task"], processor)


def read_images(data: Mapping[str, Any], config: Any, where: str) -> Images:
    """How images are prepared, for a net that sees images of as many channels."""
    found = images_from_data(data, where) if data["kind"] == CAPTIONS else Images.from_data(data, where)
    channels = getattr(config, "channels", None)
    if found.channels != channels:
        got = f"images of {found.channels} channels, for a net that takes {channels or 'none'}"
        raise CheckpointError("processor and model do not belong together", where=where, got=got)
    return found


def sized(images: Images, config: Any, where: str) -> Images:
    """For a net that takes images of one size. A plain square is made of any size; where more is told, such as what is
    cut off, nobody can say what was meant."""
    size = getattr(config, "image", None)
    if size is None or images.size is None or (images.size == size and images.fit != "within"):
        return images
    if images.shorter is not None or images.fit == "within":
        raise CheckpointError(
            "the net and the processor of its images differ in size",
            where=where,
            got=f"images of {images.size} ({images.fit}), for a net that takes {size} x {size}",
            fix="set the sizes in this file to that of the net, or take the file away",
        )
    return replace(images, size=size)


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
    generation = folder / "generation_config.json"
    settings = read_json(generation) if generation.is_file() else {}
    found = read_foreign(data, settings, header, read, folder)
    net = bare(found.family, found.config)
    if not hasattr(found.config, "channels"):
        return filled(net, found, folder, None, tokenizer_of(folder, found.config, kind_of(data)))
    seen = foreign_images(folder, data, found)
    if isinstance(seen, Images):
        return filled(net, found, folder, None, seen)
    return replace(filled(net, found, folder, None), unsaid=seen)


def foreign_images(folder: Path, data: Mapping[str, Any], model: Found) -> Images | pictures.Unsaid:
    """How images are prepared, as timm's config tells it or the file of transformers beside it, or why neither does so
    in words that we have."""
    path, config = folder / pictures.FILE, model.config
    size = getattr(config, "image", None)
    line = pictures.sample(size, config.channels, detects=model.family in DETECTORS)
    fix = f"a file with this line would do, with the mean and the deviation that it was trained with:\n{line}"
    told = pictures.from_timm(data, size)
    if told is None and not path.is_file():
        return pictures.Unsaid(str(path), "there is no such file", fix)
    if told is None:
        given = read_json(path)
        told = pictures.from_transformers(given, config.channels)
        if told is None:
            return pictures.Unsaid(str(path), pictures.obstacle(given), fix)
    try:
        found = read_images(told, config, str(path))
    except (CheckpointError, ConfigError) as error:
        return pictures.Unsaid(str(path), f"{error.what}: {error.got.strip()}", fix)
    return sized(found, config, str(path))


def filled(
    net: nn.Module, found: Found, folder: Path, task: str | None, processor: Text | Images | Captions | None = None
) -> Model:
    """The net with its weights, ready for inference, and what else the folder holds."""
    if odd := [name for name, x in found.state.items() if not x.is_floating_point()]:
        raise CheckpointError("weights must be real numbers", where=str(folder), got=listed(odd))
    net.load_state_dict(found.state, strict=True, assign=True)
    card = folder / "card.md"
    text = card.read_text("utf-8", errors="replace") if card.is_file() else ""
    return Model(found.family, net.eval(), processor, task, text, found.symbols, found.labels)


def tokenizer_of(folder: Path, config: Any, kind: str) -> Text | None:
    """The folder's tokenizer, whose every id must have a row in the embedding."""
    path = folder / "tokenizer.json"
    if os.path.lexists(path):
        if not path.is_file():
            raise CheckpointError(
                "the tokenizer is no regular file", where=str(path), fix="remove it, or put the file there"
            )
        raw = read_bytes(path)
    elif not kind or (other := foreign_tokenizer(folder, kind)) is None:
        return None
    else:
        raw = other
    text = Text.from_bytes(raw, str(path))
    last = max(text.tokenizer.get_vocab().values(), default=-1)
    if last >= getattr(config, "vocab", 0):
        raise CheckpointError(
            "the tokenizer has ids that the model has no embedding for",
            where=str(path),
            got=f"an id of {last}",
            expected=f"below {getattr(config, 'vocab', 0)}",
        )
    return text


def save(model: Model, folder: str | Path, replace: bool = False) -> None:
    """Write folder format 1, whole or not at all."""
    state = checked_state(model)
    data = {
        "format": FORMAT,
        "regard": regard.__version__,
        "model": model.family,
        "config": config_data(model.config),
        "task": model.task,
        "processor": model.processor.to_data() if isinstance(model.processor, Images | Captions) else None,
    }
    if isinstance(model.processor, Text):
        data["processor"] = {"kind": "text"}
    if model.symbols != NONE:
        data["symbols"] = model.symbols.data()
    if model.labels:
        data["labels"] = list(model.labels)
    write_folder(Path(folder), {"regard.json": json_bytes(data), "model.safetensors": state, **extras(model)}, replace)


def extras(model: Model) -> dict[str, bytes]:
    texts = isinstance(model.processor, Text | Captions)
    tokenizer = {"tokenizer.json": model.text().to_bytes()} if texts else {}
    return tokenizer | ({"card.md": model.card.encode("utf-8")} if model.card else {})


def checked_state(model: Model) -> dict[str, Tensor]:
    """The weights under the names that the family's config gives; a prepared or wrapped net has others."""
    state = model.state_dict()
    wanted = {name: tuple(x.shape) for name, x in bare(model.family, model.config).state_dict().items()}
    fit(wanted, {name: tuple(x.shape) for name, x in state.items()}, "the model to be saved")
    return state


def convert(source: str | Path, out: str | Path) -> list[str]:
    """A foreign folder into one of ours. Only here are .bin and .pt files read, by a reader that cannot run code.

    -> the names of the written tensors that hold a NaN or an infinity, which are converted as they are
    """
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
    if safe:
        model = load(source)
    else:
        state = {name: widened(x, torch.float32) for name, x in read_pickled(source).items()}
        header = {name: tuple(x.shape) for name, x in state.items()}
        said = read_json(source / "config.json")
        model = load_theirs(source, said, header, lambda names: {name: x for name, x in state.items() if name in names})
    save(replace(model, card=model.card or foreign_card(source, Path(out))), out)
    return not_finite(model.state_dict())


def foreign_card(source: Path, out: Path) -> str:
    """Of a model that was made elsewhere: where from, and who can say more. One of ours needs none."""
    if (source / "regard.json").exists():
        return ""
    told = source / "config.json"
    kind = kind_of(read_json(told)) if told.exists() else llama2c.KIND
    return (
        f"# {out.name}\n\nConverted by regard {regard.__version__} from the folder `{source}`, of the kind {kind}.\n\n"
        "- Data, licence and limits are those of the source: see what was published with it.\n"
    )


def export(model: Model | str | Path, out: str | Path, to: str = "hf") -> list[str]:
    """A model, or what ``load`` takes, in another library's format: "hf", or "timm" for the folders of that library.
    What transformers does not have goes out in timm's by either word.

    -> the names of the written tensors that hold a NaN or an infinity, which are exported as they are
    """
    if to not in FORMATS:
        raise InputError("this format is not known", got=to, expected=" or ".join(FORMATS))
    loaded = model if isinstance(model, Model) else load(model)
    theirs = write_foreign(loaded.family, loaded.config, checked_state(loaded), loaded.symbols, loaded.labels, to)
    texts = {name: raw for name, raw in extras(loaded).items() if name == "tokenizer.json"}
    if theirs.generation:
        texts["generation_config.json"] = json_bytes(theirs.generation)
    config = theirs.config
    if isinstance(loaded.processor, Images) and "architecture" in config:  # timm's, whose config tells it
        more = pictures.to_timm(loaded.processor.to_data()) or {}
        config = config | {"pretrained_cfg": config["pretrained_cfg"] | more}
    elif isinstance(loaded.processor, Images) and (told := pictures.to_transformers(loaded.processor.to_data())):
        texts[pictures.FILE] = json_bytes(told)
    write_folder(Path(out), {"config.json": json_bytes(config), "model.safetensors": theirs.tensors, **texts})
    return not_finite(theirs.tensors)


def not_finite(state: Mapping[str, Tensor]) -> list[str]:
    return [name for name, x in state.items() if not x.isfinite().all()]
