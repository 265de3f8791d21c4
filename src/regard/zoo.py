"""The zoo: the table of model families, and the sizes of each that have a name."""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from fnmatch import fnmatchcase
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from regard.errors import ConfigError, InputError, first_of
from regard.models.family import Family
from regard.nn.config import config_problems, parse
from regard.plugins import look_further
from regard.tables import Table

if TYPE_CHECKING:  # to list what there is, torch is not needed
    from torch import nn


class Families(Table[Family]):
    """A family's file imports the layers, which know nothing of packages: their table is told where to look further."""

    def __getitem__(self, name: str) -> Family:
        row = super().__getitem__(name)
        from regard.nn.mechanisms import MECHANISMS

        MECHANISMS.elsewhere = look_further
        return row


FAMILIES = Families(
    "model family",
    {
        "transformer": "regard.models.transformer:FAMILY",
        "rnn": "regard.models.rnn:FAMILY",
        "recurrent": "regard.models.recurrent:FAMILY",
        "gpt": "regard.models.gpt:FAMILY",
        "bert": "regard.models.bert:FAMILY",
        "t5": "regard.models.t5:FAMILY",
        "switch": "regard.models.switch:FAMILY",
        "switchlm": "regard.models.switchlm:FAMILY",
        "reformer": "regard.models.reformer:FAMILY",
        "vit": "regard.models.vit:FAMILY",
        "deit": "regard.models.deit:FAMILY",
        "cait": "regard.models.cait:FAMILY",
        "volo": "regard.models.volo:FAMILY",
        "swin": "regard.models.swin:FAMILY",
        "swinv2": "regard.models.swinv2:FAMILY",
        "levit": "regard.models.levit:FAMILY",
        "mixer": "regard.models.mixer:FAMILY",
        "resnet": "regard.models.resnet:FAMILY",
        "detr": "regard.models.detr:FAMILY",
        "autoencoder": "regard.models.autoencoder:FAMILY",
        "captioner": "regard.models.captioner:FAMILY",
        "cliptext": "regard.models.cliptext:FAMILY",
        "clip": "regard.models.clip:FAMILY",
        "perceiver": "regard.models.perceiver:FAMILY",
        "perceiverlm": "regard.models.perceiverlm:FAMILY",
        "workspace": "regard.models.workspace:FAMILY",
        "mlp": "regard.models.mlp:FAMILY",
        "forecaster": "regard.models.forecaster:FAMILY",
        "seriesrnn": "regard.models.seriesrnn:FAMILY",
        "serieslinear": "regard.models.serieslinear:FAMILY",
        "diffusion": "regard.models.diffusion:FAMILY",
        "transgan": "regard.models.transgan:FAMILY",
        "convgan": "regard.models.convgan:FAMILY",
    },
)


class Presets(Mapping[str, str]):
    """The family of each named size. All families are imported when the first name is looked up."""

    def __getitem__(self, name: str) -> str:
        for family, row in FAMILIES.items():
            if name in row.presets:
                return family
        count = len(FAMILIES)
        look_further()
        if len(FAMILIES) > count:
            return self[name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for row in FAMILIES.values() for name in row.presets)

    def __len__(self) -> int:
        return sum(len(row.presets) for row in FAMILIES.values())


PRESETS = Presets()


@dataclass(frozen=True)
class CatalogRow:
    """Catalog entry of one model."""

    name: str
    family: str
    paper: str
    link: str
    sizes: dict[str, int | tuple[int, ...]]  # of a net in stages, one for each
    verified_against: dict[str, Any] | None
    shipped: bool  # with trained weights, for ``load``; all others are for ``build``


def catalog(pattern: str = "*") -> list[CatalogRow]:
    """List the models whose names match a pattern: papers, sizes, and the reference that each was verified against."""
    verified = json.loads(files("regard").joinpath("verified.json").read_text("utf-8"))
    ready = {name: trained(name) for name in shipped_names()}
    known = {name: (family, row.presets[name]) for family, row in FAMILIES.items() for name in row.presets} | ready
    rows = []
    for name, (family, config) in known.items():
        if fnmatchcase(name, pattern):
            entry = FAMILIES[family]
            shown = [key for key in ("dim", "depth", "heads", "length", "vocab", "classes") if entry.has(key)]
            sizes = {"parameters": count_parameters(empty_net(family, config))} | {
                key: getattr(config, key) for key in shown
            }
            own = [row for key, row in verified.items() if key.split("-")[0] == family]
            checked = evidence(config, own)
            paper, link = entry.papers.get(name, (entry.paper, entry.link))
            rows.append(CatalogRow(name, family, paper, link, sizes, checked, name in ready))
    return rows


def shipped_names() -> tuple[str, ...]:
    """Names of the models that ship with trained weights."""
    folders = files("regard").joinpath("pretrained").iterdir()
    return tuple(sorted(folder.name for folder in folders if folder.joinpath("regard.json").is_file()))


def trained(name: str) -> tuple[str, Any]:
    """The family and the config of one that ships."""
    data = json.loads(files("regard").joinpath("pretrained", name, "regard.json").read_text("utf-8"))
    return data["model"], read_config(data["model"], data["config"], name)


def evidence(config: Any, rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """What the parity run measured of models with these settings, and the largest of its differences."""
    for found in rows:
        if all(getattr(config, key) == value for key, value in found["where"].items()):
            told = {key: value for key, value in found.items() if key != "where"}
            return told | {"difference": max(found["logits"], found["gradients"], found["maps"])}
    return None


def find_preset(name: str, changes: Mapping[str, Any]) -> tuple[str, Any]:
    """The family and config of a named model, some keys changed. All that is wrong comes in one error."""
    if name not in PRESETS:
        raise no_such_model(name, changes)
    family, data = PRESETS[name], changed_config(name, changes)
    try:
        return family, parse(FAMILIES[family].config, data)
    except ValueError as error:
        problems = [*str(error).split("\n"), *refused(family, data)]
        raise no_config(family, problems, f"{name} with {dict(changes)}") from None


def config_misfits(name: str, changes: Mapping[str, Any]) -> list[str]:
    """What is wrong with a named model once these keys are changed, though each alone is right."""
    family, data = PRESETS[name], changed_config(name, changes)
    return [*config_problems(FAMILIES[family].config, data), *refused(family, data)] if changes else []


def changed_config(name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """With another attention, one that has no weights to drop, dropout of weights is off unless it was asked for."""
    from regard.nn.mechanisms import can_drop

    data = config_data(FAMILIES[PRESETS[name]].presets[name]) | dict(changes)
    picked = "attention" in changes and "attention_dropout" in data and "attention_dropout" not in changes
    return data | {"attention_dropout": 0.0} if picked and not can_drop(changes["attention"]) else data


def no_such_model(name: str, changes: Mapping[str, Any]) -> InputError:
    """With what is wrong in the changes too, if the name tells the family that was meant."""
    near = near_names(name)
    family = family_in(name) or (PRESETS[near[0]] if near else None)
    more = [] if family is None else config_problems(FAMILIES[family].config, changes)
    what = "unknown model name" + (f", and invalid config keys for the {family} family" if more else "")
    return InputError(what, got=in_lines([name, *more]), fix=meant_by_name(name))


def meant_by_name(name: str) -> str:
    """The models that an unknown name may mean: those of the family that it names, or those with names like it."""
    listing = "run `regard models` to list all models"
    if family := family_in(name):
        return f"the {family} models are {', '.join(first_of(list(FAMILIES[family].presets)))}; {listing}"
    if near := near_names(name):
        return f"did you mean {' or '.join(map(repr, near))}? {listing}"
    return listing


def family_in(name: str) -> str | None:
    """The family that a name consists of, but for a version: "gpt2" is no misspelled "gpt3"."""
    whole = letters_of(name)
    named = next((word for word in (whole, whole.rstrip("0123456789.")) if word in FAMILIES), None)
    return None if whole in map(letters_of, PRESETS) else named


def near_names(name: str) -> list[str]:
    """Names that are the same but for hyphens, or begin with this one, or are spelled like it, the closest first."""
    whole = letters_of(name)
    same = [other for other in PRESETS if letters_of(other) == whole]
    longer = [other for other in PRESETS if other.startswith(f"{name.lower()}-")][:3]
    alike = get_close_matches(name.lower(), PRESETS, 3, cutoff=0.8)
    return same or longer or alike or get_close_matches(name.lower(), PRESETS, 1, cutoff=0.7)


def letters_of(name: str) -> str:
    return re.sub(r"[-_ ]", "", name.lower())


def refused(family: str, data: Mapping[str, Any]) -> list[str]:
    """What the net says to the keys that are known, if they can be read: an attention that it cannot take."""
    kind = FAMILIES[family].config
    known = {one.name: data[one.name] for one in fields(kind) if one.name in data}
    try:
        empty_net(family, parse(kind, known))
    except ConfigError as error:
        return [error.got]
    except ValueError:
        return []  # told already
    return []


def read_config(family: str, data: Mapping[str, Any], where: str) -> Any:
    """A family's config from plain data, strictly."""
    try:
        return parse(FAMILIES[family].config, data)
    except ValueError as error:
        raise no_config(family, str(error).split("\n"), where) from None


def no_config(family: str, problems: list[str], where: str) -> ConfigError:
    return ConfigError(f"invalid config for the {family} family", where=where, got=in_lines(problems))


def in_lines(problems: list[str]) -> str:
    return problems[0] if len(problems) == 1 else "".join(f"\n    {problem}" for problem in problems)


def config_data(config: Any) -> dict[str, Any]:
    """A config as plain data for JSON or TOML; what is not set is left out."""
    return {key: value for key, value in asdict(config).items() if value is not None}


def family_of(net: "nn.Module") -> Family | None:
    """The row that stands in the net's own file, or was registered for it; what is derived from a net has none."""
    own = getattr(sys.modules[type(net).__module__], "FAMILY", None)
    there = [own, *(row for row in FAMILIES.rows.values() if isinstance(row, Family))]
    return next((row for row in there if isinstance(row, Family) and row.net is type(net)), None)


def empty_net(family: str, config: Any, where: str = "") -> "nn.Module":
    """The net without memory, to be measured, checked or filled; ``where`` is the file that the config is from."""
    import torch

    from regard.nn.uninitialized import SkipInitialization

    try:
        with torch.device("meta"), SkipInitialization():
            return FAMILIES[family].net(config)
    except (ValueError, RuntimeError, OverflowError, ZeroDivisionError, TypeError) as error:
        # An impossible size: of one beyond 64 bits torch raises a TypeError.
        raise ConfigError(
            f"a {family} model cannot be built from this config", where=where, got=str(error).splitlines()[0]
        ) from None


def count_parameters(net: "nn.Module") -> int:
    return sum(parameter.numel() for parameter in net.parameters())
