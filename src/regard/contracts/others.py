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
from regard.interop.equivalents import Restated
from regard.interop.exporting import lost_settings
from regard.interop.formats import CHECKPOINT_FORMATS, CheckpointFormat, import_checkpoint
from regard.interop.rules import export_tensors
from regard.look.analyses import ANALYSES, AnalysisRequest, run_analysis
from regard.modalities.processor import ProcessorFolder
from regard.modalities.processors import PROCESSORS
from regard.modalities.verb import AnswerView
from regard.modalities.verb_table import VERBS
from regard.models.probing import as_floats, logits_of
from regard.zoo import FAMILIES

from .families import inputs
from .reach import model_of, one_of_each, trace_of
from .report import BrokenError, Contract, demand

# A checkpoint table ------------------------------------------------------------------------------


def there_and_back(name: str) -> None:
    """The family's example, exported and read again, is the same in its config and in every number."""
    kind, given = CHECKPOINT_FORMATS[name], restated_example(name)
    lost = lost_settings(kind, given)
    differing = ", ".join(f"{key} = {ours!r} is read back as {said!r}" for key, (ours, said) in lost.items())
    demand(not lost, f"the exported config loses settings of the {kind.family} example: {differing}")
    data, tensors = exported(name, given)
    demand(
        data.get("model_type", name) == name,
        f"model_type of the exported config is {data.get('model_type')!r}, expected {name!r}",
    )
    header = {key: tuple(x.shape) for key, x in tensors.items()}
    found = import_checkpoint(
        data, {}, header, lambda names: {key: tensors[key] for key in names if key in tensors}, Path()
    )
    demand(found.config == given.config, f"the config is read back as {found.config}, expected {given.config}")
    for key, x in given.state.items():
        demand(key in found.state, f"the tensor {key} is missing after the round trip")
        demand(torch.equal(found.state[key], x), f"the tensor {key} has different values after the round trip")


def same_answers(name: str) -> None:
    """What the format restates gives the same outputs as before."""
    kind = CHECKPOINT_FORMATS[name]
    row, given = FAMILIES[kind.family], restated_example(name)
    config = example_of(kind)
    first, second = row.net(config).eval(), row.net(given.config).eval()
    second.load_state_dict(kind.restate(config, first.state_dict()).state)
    asked = inputs(row, config)
    with torch.inference_mode():
        one, two = (logits_of(row, net(**as_floats(asked))) for net in (first, second))
    demand(torch.allclose(one, two, rtol=1e-4, atol=1e-5), "the restated model gives other outputs")


def example_of(kind: CheckpointFormat) -> Any:
    return FAMILIES[kind.family].example() if kind.example is None else kind.example()


def restated_example(name: str) -> Restated:
    kind = CHECKPOINT_FORMATS[name]
    config = example_of(kind)
    return kind.restate(config, FAMILIES[kind.family].net(config).state_dict())


def exported(name: str, given: Restated) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """The config as it stands in a file, and the tensors."""
    kind = CHECKPOINT_FORMATS[name]
    run = export_tensors(given.state, kind.rules(given.config, None))
    return json.loads(json.dumps(kind.export_config(given.config))), run.finish("the tensors cannot be exported")


def strict(name: str) -> None:
    """A tensor that is missing, and one that is too many, are refused by name."""
    data, tensors = exported(name, restated_example(name))
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


def has_family(name: str) -> None:
    family = CHECKPOINT_FORMATS[name].family
    demand(family in FAMILIES, f"unknown model family {family!r}; known families: {', '.join(FAMILIES)}")


def checkpoint_contracts(name: str) -> Iterator[Contract]:
    """Without its family there is nothing else to ask."""
    yield Contract("its model family exists", partial(has_family, name))
    if CHECKPOINT_FORMATS[name].family not in FAMILIES:
        return
    yield Contract("an exported checkpoint is read back unchanged", partial(there_and_back, name))
    yield Contract("the exported model answers as before", partial(same_answers, name))
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
    demand(
        verb.views.keys() == verb.runners.keys(), f"views are declared for {', '.join(verb.views)}, runners for {media}"
    )
    others = [*verb.examples.values(), *filter(None, (verb.reply, verb.stream, verb.written))]
    for place in (*verb.runners.values(), verb.command, *verb.answers.values(), *others):
        demand(callable(found_at(place)), f"the function {place} does not exist")
    for place in verb.views.values():
        demand(isinstance(found_at(place), AnswerView), f"there is no AnswerView {place}")


def found_at(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name, None)


def analysed_somewhere(name: str) -> None:
    """Of one kind of model at least, and what comes out is JSON. Others may refuse it in words."""
    one, refusals = ANALYSES[name], []
    demand(bool(one.equation) and bool(one.limit), "the analysis has no equation or no stated limit")
    for family in one_of_each(lambda row: bool(row.axes)):
        found = trace_of(model_of(family))
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
