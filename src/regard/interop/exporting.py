"""Our models in the formats of other libraries: which of them can hold a model, and what it says there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.decode.symbols import Symbols, export_symbols
from regard.errors import InputError
from regard.nn.mechanisms import simplest_choice
from regard.zoo import config_data, empty_net

from . import detr, timm
from .equivalents import Restated
from .foreign import ForeignConfig
from .formats import CHECKPOINT_FORMATS, CheckpointFormat
from .rules import export_tensors

LIBRARIES = {"hf": "transformers", "timm": "timm"}  # what is asked for, and whose it is
READ_ONLY = (detr.TIMM,)  # what goes out has another kind, which alone can say why something cannot

TRAINING = ("dropout", "attention_dropout", "embedding_dropout", "hidden_dropout", "drop_path")  # nothing, in use
Lost = dict[str, tuple[Any, Any]]  # by key: our value, and the one that their format would mean


@dataclass(frozen=True, eq=False)
class ExportedModel:
    """One of our models in the format of another library."""

    library: str
    config: dict[str, Any]
    generation: dict[str, Any]
    tensors: dict[str, Tensor]
    untrained: Lost  # settings of training that the format has no place for


@dataclass(frozen=True, eq=False)
class ExportPlan:
    """A config in one format, what would be lost of the model, and what only of its further training."""

    library: str
    kind: CheckpointFormat
    data: dict[str, Any]
    lost: Lost
    untrained: Lost


@dataclass(frozen=True)
class ExportTarget:
    """Whether a model can be exported to a library: the class that loads it there, or why there is none."""

    library: str
    name: str
    refused: str = ""


def formats_of(family: str, to: str | None) -> list[tuple[str, CheckpointFormat]]:
    """Those that a family can be written as, with their libraries: of one that is asked for; of timm alone where
    transformers has none; of both where nothing is asked for."""
    both = [(name, kind) for name, kind in CHECKPOINT_FORMATS.items() if kind.family == family]
    theirs = [("timm", kind) for name, kind in both if name.startswith(timm.KIND)]
    others = [("hf", kind) for name, kind in both if not name.startswith(timm.KIND) and name not in READ_ONLY]
    return theirs if to == "timm" else [*others, *theirs] if to is None else others or theirs


def export_checkpoint(
    family: str,
    config: Any,
    state: Mapping[str, Tensor],
    symbols: Symbols,
    labels: Sequence[str] = (),
    to: str | None = None,
) -> ExportedModel:
    """Export a model: to the first format that can hold all of it. What none can represent is an error, not a loss."""
    plan = best_plan(family, config, to)
    if plan.lost:
        raise InputError(
            f"this {family} model cannot be exported: the target format cannot represent its config",
            got=", ".join(f"{key} = {ours!r}" for key, (ours, _) in plan.lost.items()),
            expected=", ".join(f"{key} = {said!r}" for key, (_, said) in plan.lost.items()),
            fix="export a model with the expected values, or keep this one with `regard.save`",
        )
    restated = plan.kind.restate(config, state)
    run = export_tensors(restated.state, plan.kind.rules(restated.config, None))
    ids = export_symbols(symbols, plan.kind.symbols)
    told = {key: x for key, x in ids.items() if x is not None}
    silent = sorted({i for i in (symbols.begin, symbols.pad) if i is not None} - set(symbols.end))
    banned = {"bad_words_ids": [[i] for i in silent]} if silent else {}  # what is never written here either
    data = plan.data | label_names(labels, plan.data) | ids
    tensors = run.finish("the tensors cannot be exported")
    return ExportedModel(plan.library, data, told | banned, tensors, plan.untrained)


def label_names(labels: Sequence[str], data: Mapping[str, Any]) -> dict[str, Any]:
    """The names of the classes, under the keys that a config has for them."""
    found: dict[str, Any] = {}
    if labels and "id2label" in data:
        found["id2label"] = {str(i): name for i, name in enumerate(labels)}
        found["label2id"] = {name: i for i, name in enumerate(labels)}
    if labels and "architecture" in data:
        found["label_names"] = list(labels)
    return found


def export_targets(family: str, config: Any) -> list[ExportTarget]:
    """What a model of this config can be exported to, known before it has weights: one answer for each library."""
    targets = []
    for library in LIBRARIES:
        if not any(name == library for name, _ in formats_of(family, library)):
            continue
        try:
            plan = best_plan(family, config, library)
        except InputError as error:
            targets.append(ExportTarget(library, "", error.what))
            continue
        name = plan.data.get("architecture") or plan.data["architectures"][0]
        lost = ", ".join(f"{key} = {ours!r} (there: {said!r})" for key, (ours, said) in plan.lost.items())
        targets.append(ExportTarget(library, name, lost))
    return targets


def best_plan(family: str, config: Any, to: str | None) -> ExportPlan:
    """The format that loses least; of several, the first. What matters only in training counts last."""
    formats = formats_of(family, to)
    if not formats:
        known = [name for name in dict.fromkeys(x.family for x in CHECKPOINT_FORMATS.values()) if formats_of(name, to)]
        raise InputError(
            f"a {family} model cannot be exported to this format",
            got=family if to is None else f"{family} to {to}",
            expected=", ".join(known),
        )
    state = empty_net(family, config).state_dict()
    plans, refusals = [], []
    for library, kind in formats:
        try:
            plans.append(planned(library, kind, config, state))
        except InputError as error:
            refusals.append(error)
    if refusals and all(plan.lost for plan in plans):
        raise refusals[0]
    return min(plans, key=lambda plan: (len(plan.lost), len(plan.untrained)))


def planned(library: str, kind: CheckpointFormat, config: Any, state: Mapping[str, Tensor]) -> ExportPlan:
    restated = kind.restate(config, state)
    lost = lost_settings(kind, restated)
    untrained = {key: lost.pop(key) for key in TRAINING if key in lost}
    return ExportPlan(library, kind, kind.export_config(restated.config), lost, untrained)


def lost_settings(kind: CheckpointFormat, model: Restated) -> Lost:
    """What a format cannot represent of a config."""
    names = export_tensors(model.state, kind.rules(model.config, None)).out
    foreign = ForeignConfig(kind.export_config(model.config))
    ours, back = config_data(model.config), config_data(kind.complete(kind.config(foreign), names))
    ours |= {key: simplest_choice(ours[key]) for key in ("attention", "cross") if key in ours}
    return {key: (ours.get(key), back.get(key)) for key in ours | back if ours.get(key) != back.get(key)}
