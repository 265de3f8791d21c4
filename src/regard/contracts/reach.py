"""One contract over all families: each is reached by build, save, load, look, its lens, serve, and a small run of each
task that it names, after which it can be asked.

Without it a row could be listed and yet not be trained, served or read by a lens.
"""

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomlkit
import torch
from torch import Tensor

from regard.comparison.comparing import subject_of
from regard.folders import load
from regard.look.analyses import AnalysisRequest, run_analysis
from regard.look.document import model_title
from regard.look.examples import input_kind
from regard.look.lens import logit_lens
from regard.look.trace import Trace
from regard.modalities.goals import GOALS, batch_maker
from regard.modalities.media import MEDIA
from regard.modalities.net_needs import unmet_needs
from regard.modalities.page_inputs import PAGE_INPUTS
from regard.modalities.processors import PROCESSORS, kind_for
from regard.modalities.run_parts import Goal
from regard.modalities.sources import SOURCES
from regard.modalities.verb_table import VERBS
from regard.modalities.verbs import answer_view, verb_function
from regard.model import Model
from regard.models.family import Family
from regard.models.probing import logits_of, tensors
from regard.nn.config import parse
from regard.run.evaluation import evaluate_run
from regard.run.training import train_run
from regard.train.progress import SilentReporter
from regard.zoo import FAMILIES, config_data, family_of

from .families import inputs, saved_and_loaded
from .report import BrokenError, Contract, NothingError, demand, demand_close

if TYPE_CHECKING:
    from regard.serve.model_list import ModelShelf

FOLLOWS = (
    "vocab",
    "target_vocab",
    "classes",
    "head",
    "horizon",
    "quantiles",
    "length",
)  # keys that follow from the data, the task or the preset


def sample_inputs(row: Family) -> list[Any]:
    """One input of each medium."""
    if unknown := [medium for medium in row.takes if medium not in MEDIA]:
        raise NothingError(f"no example input for {', '.join(unknown)}")
    return [verb_function(MEDIA[medium].sample)() for medium in dict.fromkeys(row.takes)]


def one_of_each(asked: Callable[[Family], bool]) -> list[str]:
    """Of the families of which this holds, the first that takes and does what no one before does."""
    kinds: dict[Any, str] = {}
    for name, row in FAMILIES.items():
        if asked(row):
            kinds.setdefault((row.takes, row.verbs(row.example(), None)), name)
    return list(kinds.values())


def trace_of(model: Model) -> Trace[Any]:
    """Of a sample; what a translator writes to it follows."""
    return model.look(*sample_inputs(FAMILIES[model.family]))


def model_of(family: str) -> Model:
    """The family's example with random weights and the plainest processor."""
    row = FAMILIES[family]
    config, media = row.example(), set(row.takes)
    if not any(kind.media == media for kind in PROCESSORS.values()):
        known = "; ".join(", ".join(sorted(kind.media)) for kind in PROCESSORS.values())
        raise BrokenError(f"no processor for its inputs, {', '.join(row.takes)}; there are processors for: {known}")
    small = kind_for(row).small(row, config)
    return Model(family, row.net(config).eval(), small.processor, symbols=small.symbols)


def own_net(family: str) -> None:
    """A net tells its family, by which a lens is found: two rows cannot share one."""
    row = FAMILIES[family]
    found = family_of(row.net(row.example()))
    if found is not row:
        other = next((name for name, one in FAMILIES.items() if one is found), "no family")
        raise BrokenError(f"its network class {row.net.__name__} belongs to {other}: define a separate class")


def looked(family: str) -> None:
    row, model = FAMILIES[family], model_of(family)
    if not row.axes:
        raise NothingError("the family declares no axes, so it has no attention maps")
    found = trace_of(model)
    demand(bool(tensors(found.output)), "the output for an example input is empty")
    demand(bool(found.sites), f"the family declares axes, {', '.join(row.axes)}, but has no attention maps")


def lensed(family: str) -> None:
    """After the last block it is the net's own answer."""
    row = FAMILIES[family]
    if row.lens is None:
        raise NothingError("the family declares no lens")
    net: Any = row.net(row.example()).eval()
    if not row.lens.headed(net):
        raise NothingError("the example model has no head for the lens")
    given = {name: x.float() if x.is_floating_point() else x for name, x in inputs(row, row.example()).items()}
    layers = list(logit_lens(net, lambda: net(**given)))
    demand(bool(layers), "the lens finds no blocks")
    answer = logits_of(row, net(**given))
    if row.lens.beside is None and layers[-1].logits.shape == answer.shape:
        demand_close(
            layers[-1].logits, answer, "the lens output after the last block", "the output of the network", 1e-5
        )


def shelf_of(folder: Path) -> "ModelShelf | None":
    """The models that `regard serve` offers; None where its packages are not installed."""
    try:
        from regard.serve.model_list import ModelShelf
    except ModuleNotFoundError:
        return None
    return ModelShelf(folder)


def served(family: str) -> None:
    """The page has a form of input for it, and can show it."""
    row = FAMILIES[family]
    if shelf_of(Path()) is None:
        raise NothingError("the web page requires the extra [serve]")
    medium = input_kind(row.takes)
    demand(medium in PAGE_INPUTS, f"the web page has no input form for {medium}")
    demand(
        bool(PAGE_INPUTS[medium].example(family, row.verbs(row.example(), None))),
        f"the web page has no example input for {medium}",
    )
    model_of(family)
    for name in row.offered:
        demand(name in row.presets, f"the web page offers {name}, which is not a preset of the family")


def compared(family: str) -> None:
    """Its subject makes a batch that the net takes, and a task that can learn from it."""
    row = FAMILIES[family]
    if not row.compared:
        raise NothingError("the family declares no way to be compared")
    demand(row.has("attention"), "its config has no key 'attention', which a comparison changes")
    config = row.example()
    subject = subject_of(family, config, None, 0)
    length = subject.real(32)
    net = row.net(row.reconfigured(config, subject.changes(config, length))).eval()
    batch = subject.one(length)
    demand(bool(subject.outputs(net, batch).isfinite().all()), "the outputs of the comparison are not finite")
    demand(any(loss.terms for loss in subject.task(net).losses(batch, 0)), "the task of the comparison has no loss")


def verbs_known(family: str) -> None:
    """Each has a way for what it takes."""
    row = FAMILIES[family]
    for task in (None, *row.tasks):
        verbs = row.verbs(row.example(), task)
        for verb in verbs:
            demand(verb in VERBS, f"unknown verb {verb!r}; known verbs: {', '.join(VERBS)}")
            able = ", ".join(VERBS[verb].runners)
            demand(
                row.takes[0] in VERBS[verb].runners,
                f"the verb {verb!r} takes {able}, but the family takes {', '.join(row.takes)}",
            )


def names_tasks(family: str) -> None:
    row = FAMILIES[family]
    demand(bool(row.tasks), "the family declares no task, so it cannot be trained")
    for task in row.tasks:
        demand(task in GOALS, f"unknown task {task!r}; known tasks: {', '.join(GOALS)}")


def data_for(task: str, row: Family) -> list[str]:
    """The kinds of data that serve a goal and are of what a family takes; examples can be written of the first."""
    able = GOALS[task].can_read
    fitting = [name for name in batch_maker(task) if name in SOURCES and able(row.takes, SOURCES[name].media)]
    return sorted(fitting, key=lambda name: SOURCES[name].example is None)


def run_text(family: str, task: str, data: str, folder: Path, steps: int) -> str:
    """A run file of the family's example, on a little data that is written into the folder."""
    row, source = FAMILIES[family], SOURCES[data]
    assert source.example is not None
    settings = {key: x for key, x in config_data(row.example()).items() if key not in FOLLOWS}
    given = asked_of_data(GOALS[task], data) | source.example(folder) | source.example_for(row)
    document = {
        "folder": str(folder / "run"),
        "task": {"kind": task},
        "data": {"kind": data} | given,
        "model": {"name": nearest(row, settings)} | settings,
        "train": {"steps": steps, "evaluate": steps, "save": 2, "log": 1, "keep": 9},
        "optimizer": {"kind": "adamw", "rate": 0.001},
        "schedule": {"kind": "constant"},
    }
    return tomlkit.dumps(document)


def asked_of_data(goal: Goal, data: str) -> dict[str, Any]:
    """What a goal's own run file says of data of this kind, where that is no path and not the default."""
    said = next((one.data for one in goal.templates.values() if one.data.kind == data), None)
    if said is None:
        return {}
    usual = {one.name: one.default for one in fields(said)}
    plain = {key: x for key, x in vars(said).items() if isinstance(x, str | int | float | bool)}
    return {key: x for key, x in plain.items() if x != usual[key] and key not in SOURCES[data].paths}


def nearest(row: Family, settings: dict[str, Any]) -> str:
    """The preset from which these keys make the example: one that sets no other key."""
    demand(bool(row.presets), "the family has no preset, which a run file requires")
    for name, preset in row.presets.items():
        try:
            made: Any = parse(row.config, config_data(preset) | settings)
        except ValueError:
            continue
        if all(getattr(made, key) == x for key, x in vars(row.example()).items() if key not in FOLLOWS):
            return name
    return next(iter(row.presets))


def little_data(family: str, task: str) -> str:
    """A kind of data from which the family can learn the task, and which can write an example of itself."""
    row = FAMILIES[family]
    demand(task in GOALS, f"unknown task {task!r}")
    fitting = data_for(task, row)
    if not fitting:
        known = ", ".join(batch_maker(task))
        raise BrokenError(
            f"no kind of data for the task {task!r} ({known}) has the inputs of the family: {', '.join(row.takes)}"
        )
    demand(SOURCES[fitting[0]].example is not None, f"no kind of data for the task {task!r} has an example")
    return fitting[0]


def trained(family: str, task: str, data: str = "") -> None:
    """A run of two steps, measured; its model is loaded, offered by the shelf, looked at and asked."""
    row, data = FAMILIES[family], data or little_data(family, task)
    unmet = unmet_needs(row, (task,))
    demand(not unmet, "; ".join(unmet))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "run.toml"
        file.write_text(run_text(family, task, data, folder, 2), "utf-8")
        ended = train_run(file, (), SilentReporter())
        demand(bool(ended.finished), f"the run stopped at step {ended.step}")
        found = evaluate_run(ended.folder, "held_out", SilentReporter())
        demand(bool(found.metrics), "the evaluation returns no metrics")
        shelf = shelf_of(folder)
        model = load(ended.folder / "model") if shelf is None else shelf.get("run:run").model
        verbs = model.verbs()
        cannot = f"the model trained for {task!r} does not support this verb; its verbs: {', '.join(verbs) or 'none'}"
        demand(task not in VERBS or task in verbs, cannot)
        model = replace(model, labels=model.labels or ("a dog", "cat"))  # which some are told when they are asked
        for verb in verbs:
            asked(model, verb, row)
        if row.axes:
            demand(bool(trace_of(model).sites), "the trained model has no attention maps")


def asked(model: Model, verb: str, row: Family) -> None:
    """One of the library's verbs; others have arguments of their own. What comes out can be shown. That a verb does not
    exist or takes another input is told by the contract of verbs."""
    ask = getattr(model, verb, None)
    if ask is None or row.takes[0] not in VERBS[verb].runners:
        return
    given = (*VERBS[verb].before, *sample_inputs(row)[:1])
    with torch.inference_mode():
        found = ask(*given)
    demand(found is not None, f"the verb {verb!r} returns None")
    view = answer_view(model, verb)
    answers = found if isinstance(found, list) else [found]
    if not isinstance(found, Tensor):  # a vector, which is shown with what it stands for
        json.dumps([view.data(one) for one in answers])
        demand(bool(view.lines(answers)), f"the answer to the verb {verb!r} has no lines for a terminal")
        columns = [view.columns(one) for one in answers]
        json.dumps(columns)
        demand(all(columns), f"the answer to the verb {verb!r} has no columns for a table")


def analyses_of(family: str) -> None:
    """The spectrum needs nothing but a map; the smallest is enough."""
    model, row = model_of(family), FAMILIES[family]
    if not row.axes:
        raise NothingError("the family declares no axes")
    found = trace_of(model)
    sized = [(site.rows.size * site.columns.size, name) for name, site in found.sites.items() if site.kind == "weights"]
    if not sized:
        raise NothingError("no attention weight maps")
    smallest = found.sites[min(sized)[1]]
    run_analysis(found, "spectrum", AnalysisRequest(site=model_title(smallest.name, 0, smallest)))


def contracts(family: str) -> Iterator[Contract]:
    row = FAMILIES[family]
    yield Contract("a model can be built, saved and loaded", partial(saved_and_loaded, family, row, row.example()))
    yield Contract("its network class is not shared with another family", partial(own_net, family))
    yield Contract("attention maps can be traced", partial(looked, family))
    yield Contract("attention maps can be analysed", partial(analyses_of, family))
    yield Contract("the logit lens after the last block equals the output", partial(lensed, family))
    yield Contract("its attention mechanisms can be compared", partial(compared, family))
    yield Contract("it can be served on the web page", partial(served, family))
    yield Contract("its tasks exist", partial(names_tasks, family))
    yield Contract("its verbs exist and accept its inputs", partial(verbs_known, family))
    for task in row.tasks:
        yield Contract(
            f"a run of the task {task!r} can be trained, evaluated, loaded and used", partial(trained, family, task)
        )
