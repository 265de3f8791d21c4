"""What is asked of a checkpoint table, a processor, a verb, an analysis and a figure."""

import importlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from regard.errors import InputError
from regard.figures import Collection, figure_homes
from regard.interop.formats import KINDS, import_checkpoint, try_export
from regard.interop.rules import export_tensors
from regard.look.analyses import ANALYSES, AnalysisRequest, run_analysis
from regard.modalities.processor import ProcessorFolder
from regard.modalities.processors import PROCESSORS
from regard.modalities.verb_table import VERBS
from regard.zoo import FAMILIES

from .reach import model_of, shown
from .report import BrokenError, Contract, demand

SUBJECTS = ("bert", "gpt", "vit", "transformer")  # whose traces an analysis is asked about


# A checkpoint table ------------------------------------------------------------------------------


def there_and_back(name: str) -> None:
    """The family's example, exported and read again, is the same in its config and in every number."""
    kind = KINDS[name]
    demand(kind.family in FAMILIES, f"unknown model family {kind.family!r}")
    row = FAMILIES[kind.family]
    config = row.example() if kind.example is None else kind.example()
    state = row.net(config).state_dict()
    _, data, run, lost = try_export(kind, config, state)
    differing = ", ".join(f"{key} = {ours!r} is read back as {said!r}" for key, (ours, said) in lost.items())
    demand(not lost, f"the exported config loses settings of the {kind.family} example: {differing}")
    tensors = run.finish("the tensors cannot be exported")
    data = json.loads(json.dumps(data))
    demand(
        data.get("model_type", name) == name,
        f"model_type of the exported config is {data.get('model_type')!r}, expected {name!r}",
    )
    header = {key: tuple(x.shape) for key, x in tensors.items()}
    found = import_checkpoint(
        data, {}, header, lambda names: {key: tensors[key] for key in names if key in tensors}, Path()
    )
    demand(found.config == config, f"the config is read back as {found.config}, expected {config}")
    for key, x in state.items():
        demand(key in found.state, f"the tensor {key} is missing after the round trip")
        demand(torch.equal(found.state[key], x), f"the tensor {key} has different values after the round trip")


def strict(name: str) -> None:
    """A tensor that is missing, and one that is too many, are refused by name."""
    kind = KINDS[name]
    row = FAMILIES[kind.family]
    config = row.example() if kind.example is None else kind.example()
    data = json.loads(json.dumps(kind.export_config(config)))
    tensors = export_tensors(row.net(config).state_dict(), kind.rules(config, None)).finish(
        "the tensors cannot be exported"
    )
    gone = next(iter(tensors))
    for what, some in {
        "is missing": {key: x for key, x in tensors.items() if key != gone},
        "is unexpected": {**tensors, "surely.unknown": torch.zeros(2)},
    }.items():
        odd = gone if what == "is missing" else "surely.unknown"
        refused(data, some, f"the tensor {odd} {what}", odd)


def refused(data: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], what: str, name: str) -> None:
    header = {key: tuple(x.shape) for key, x in tensors.items()}
    try:
        import_checkpoint(
            data, {}, header, lambda names: {key: x for key, x in tensors.items() if key in names}, Path()
        )
    except InputError as error:
        demand(name in str(error), f"{what}, but the error does not name it: {error}")
        return
    raise BrokenError(f"{what}, but the checkpoint is accepted")


def checkpoint_contracts(name: str) -> Iterator[Contract]:
    yield Contract("an exported checkpoint is read back unchanged", partial(there_and_back, name))
    yield Contract("missing and unexpected tensors are rejected by name", partial(strict, name))


# The others --------------------------------------------------------------------------------------


def prepared(name: str) -> None:
    """Of a family of its media: the plainest one is written to a folder and read back."""
    kind = PROCESSORS[name]
    family = next((one for one, row in FAMILIES.items() if set(row.takes) == kind.media), None)
    demand(family is not None, f"no model family takes its media: {', '.join(sorted(kind.media))}")
    assert family is not None
    model = model_of(family)
    assert model.processor is not None
    data = json.loads(json.dumps(model.processor.to_data()))
    demand(data.get("kind") == name, f"to_data returns the kind {data.get('kind')!r}, expected {name!r}")
    with tempfile.TemporaryDirectory() as place:
        for file, content in model.processor.files().items():
            (Path(place) / file).write_bytes(content)
        again = kind.read(data, ProcessorFolder(Path(place), FAMILIES[family], model.config))
    demand(again.to_data() == model.processor.to_data(), "the processor read back differs from the one written")
    demand(set(again.media) == kind.media, f"its media are {', '.join(again.media)}, expected {', '.join(kind.media)}")


def runs_for(name: str) -> None:
    verb = VERBS[name]
    media, answered = ", ".join(verb.runners), ", ".join(verb.answers)
    demand(verb.answers.keys() == verb.runners.keys(), f"answers are declared for {answered}, runners for {media}")
    others = [place for place in (verb.example, verb.reply, verb.stream, verb.written) if place]
    for place in (*verb.runners.values(), verb.command, *verb.answers.values(), *others):
        module, _, function = place.partition(":")
        demand(
            callable(getattr(importlib.import_module(module), function, None)), f"the function {place} does not exist"
        )


def analysed_somewhere(name: str) -> None:
    """Of one of the usual models at least, and what comes out is JSON. Others may refuse it in words."""
    one, refusals = ANALYSES[name], []
    demand(bool(one.equation) and bool(one.limit), "the analysis has no equation or no stated limit")
    for family in SUBJECTS:
        row, model = FAMILIES[family], model_of(family)
        found = model.look(*shown(row)[: 1 if row.takes == ("text", "text") else None])
        try:
            told = run_analysis(found, name, AnalysisRequest())
        except InputError as error:
            refusals.append(f"{family}: {error.what}")
            continue
        json.dumps(told, allow_nan=False)
        return
    raise BrokenError(f"rejected by every model: {'; '.join(refusals)}")


def drawn(collection: Collection, name: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        result = collection.run(name, Path(place), True)
        json.dumps(result, allow_nan=False)
        for kind in ("png", "svg"):
            file = Path(place) / f"{name}.{kind}"
            demand(file.is_file() and file.stat().st_size > 0, f"{file.name} was not drawn")
    demand(result["holds"] is not False, f"checks that failed: {', '.join(result['failed'])}")


def figure_contracts(name: str) -> Iterator[Contract]:
    yield Contract("it can be computed, drawn and checked", lambda: drawn(figure_homes()[name], name))


def collection_contracts(collection: Collection) -> Iterator[Contract]:
    for name in collection.names():
        yield Contract(f"{name} can be computed, drawn and checked", partial(drawn, collection, name))


def processor_contracts(name: str) -> Iterator[Contract]:
    yield Contract("it can be written to a folder and read back", partial(prepared, name))


def verb_contracts(name: str) -> Iterator[Contract]:
    yield Contract("the functions that implement it exist", partial(runs_for, name))


def analysis_contracts(name: str) -> Iterator[Contract]:
    yield Contract("it runs on a model and returns JSON data", partial(analysed_somewhere, name))
