"""What each task calls on a net: a family without it is refused in words, and a net with nothing else is enough."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor, nn

import regard
from regard import plugins
from regard.contracts import reach
from regard.contracts.report import BrokenError
from regard.errors import InputError
from regard.modalities.goals import GOALS
from regard.modalities.net_needs import FORWARD, NetCall, needs_table, unmet_needs
from regard.models.family import Family
from regard.zoo import FAMILIES
from tests.plugins.conftest import DOCUMENT

# One family for each task and its inputs: the quickest.
LEARNERS = {
    ("classify", ("text",)): "recurrent",
    ("classify", ("image",)): "mlp",
    ("tag", ("text",)): "recurrent",
    ("answer", ("text",)): "bert",
    ("similar", ("text",)): "bert",
    ("masked", ("text",)): "bert",
    ("language", ("text",)): "gpt",
    ("translate", ("text", "text")): "transformer",
    ("spans", ("text", "text")): "t5",
    ("describe", ("image", "text")): "captioner",
    ("match", ("image", "text")): "clip",
    ("detect", ("image",)): "detr",
    ("forecast", ("series",)): "seriesrnn",
    ("imitate", ("noise",)): "convgan",
    ("draw", ("text", "noise")): "diffusion",
    ("reconstruct", ("image",)): "autoencoder",
}
QUICK = {"mlp", "seriesrnn"}


@dataclass(frozen=True, kw_only=True)
class BagConfig:
    vocab: int = 100
    classes: int = 2
    dim: int = 8


class Bag(nn.Module):
    """The mean of its words, and no more."""

    def __init__(self, config: BagConfig) -> None:
        super().__init__()
        self.config = config
        self.words, self.head = nn.Embedding(config.vocab, config.dim), nn.Linear(config.dim, config.classes)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.words(ids).mean(1))

    def axes(self, ids: Tensor) -> dict[str, Any]:
        return {}


class PositionalBag(Bag):
    def labelled(self, ids: Tensor) -> Tensor:
        return self(ids)


class LayeredBag(Bag):
    """What a class lacks, a layer of the net may be."""

    def __init__(self, config: BagConfig) -> None:
        super().__init__(config)
        self.labelled = nn.Linear(config.dim, config.classes)


def family(**changes: Any) -> Family:
    row = Family(
        config=BagConfig,
        net=Bag,
        presets={"bag-tiny": BagConfig()},
        axes={},
        paper="none",
        link="",
        takes=("text",),
        tasks=("classify",),
        verbs=lambda config, task: ("classify",),
        example=lambda: BagConfig(vocab=13),
    )
    return replace(row, **changes)


LABELLED = "task classify on text calls net.labelled(ids, segments=, keys=) -> logits (b, classes)"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, f"{LABELLED}; Bag has none"),
        ({"net": PositionalBag}, f"{LABELLED}; PositionalBag.labelled takes (self, ids: torch.Tensor) -> torch.Tensor"),
        (
            {"tasks": ("detect",), "takes": ("image",)},
            "task detect on image reads config.queries; BagConfig has no such",
        ),
        ({"tasks": ("detect",), "takes": ("image",)}, "task detect on image calls net(images, sizes) -> DETROutput"),
        ({"tasks": ("tag",)}, "task tag on text calls net.tagged(ids, segments=, keys=)"),
        ({"tasks": ("classify", "answer")}, "task answer on text calls net.spanned(ids, segments=, keys=)"),
        ({"tasks": ("language",)}, "task language on text calls net.score(states, wanted, real=, smoothing=)"),
    ],
)
def test_a_family_without_what_its_task_calls_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        regard.register(family(**changes), name="bag")
    assert words in caught.value.got
    assert "the model family 'bag' cannot learn the tasks that it names" in str(caught.value)
    assert "bag" not in FAMILIES


def test_a_task_without_needs_or_of_later_asks_for_nothing() -> None:
    regard.register(family(tasks=("mine",)), name="bag")
    assert "bag" in FAMILIES


def test_a_layer_may_stand_for_a_method() -> None:
    assert unmet_needs(family(net=LayeredBag), ("classify",)) == []


def test_only_the_verbs_of_a_family_count() -> None:
    mute, writing = family(tasks=("language",)), family(tasks=("language",), verbs=lambda config, task: ("generate",))
    assert not any("logits(states)" in words for words in unmet_needs(mute, ("language",)))
    assert any("net.logits(states)" in words for words in unmet_needs(writing, ("language",)))


def test_the_contract_says_so_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAMILIES.rows, "bag", family())
    with pytest.raises(BrokenError, match=r"calls net\.labelled\(ids, segments=, keys=\).*; Bag has none"):
        reach.trained("bag", "classify")


def test_the_example_of_the_document_is_refused_without_its_method(folder: Path) -> None:
    file = folder / "text_family.py"
    whole = file.read_text("utf-8")
    file.write_text(whole.replace("def labelled(", "def labels_of("), "utf-8")
    with pytest.raises(InputError, match=r"net\.labelled\(ids, segments=, keys=\).*; Bag has none"):
        plugins.load_file(file)
    file.write_text(whole, "utf-8")
    plugins.load_file(file)
    assert FAMILIES["bag"].tasks == ("classify",)


@pytest.mark.parametrize("name", FAMILIES)
def test_families_have_what_their_tasks_call(name: str) -> None:
    assert unmet_needs(FAMILIES[name], FAMILIES[name].tasks) == []


def test_every_task_says_what_it_calls() -> None:
    taken = {(task, row.takes) for row in FAMILIES.values() for task in row.tasks}
    assert taken == {(task, media) for task, goal in GOALS.items() for media in goal.needs}
    assert taken == LEARNERS.keys()


def test_the_document_has_the_table_of_the_rows() -> None:
    assert "\n".join(needs_table(GOALS)) in DOCUMENT.read_text("utf-8")


def delegate(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def asked(self: Any, *given: Any, **named: Any) -> Any:
        return getattr(self.inner, name)(*given, **named)

    return asked


def narrowed(row: Family, calls: Mapping[str, object]) -> Family:
    """The family, of whose net a task sees these methods and nothing else."""

    def begin(self: Any, config: Any) -> None:
        nn.Module.__init__(self)
        self.config, self.inner = config, row.net(config)

    methods = {name: delegate(name, getattr(row.net, name)) for name in {*calls, "axes", FORWARD}}
    net = type("Narrow", (nn.Module,), {"__init__": begin, **methods})
    presets = {f"narrow-{name}": config for name, config in row.presets.items()}
    return replace(row, net=net, presets=presets, axes={}, lens=None, offered={}, compared="")


def by_speed(cases: Mapping[Any, str]) -> list[Any]:
    """Others are for the slow tests: all families are trained by those of reach too."""
    return [case if name in QUICK else pytest.param(*case, marks=pytest.mark.slow) for case, name in cases.items()]


@pytest.fixture(scope="module", autouse=True)
def rows() -> None:
    """Imported before any test, whose time they would be counted in."""
    assert all(row.verbs for row in FAMILIES.values())
    assert all(goal.settings for goal in GOALS.values())
    assert reach.shelf_of(Path())


@pytest.mark.parametrize(("task", "media"), by_speed(LEARNERS))
def test_a_net_with_nothing_else_can_be_trained_and_asked(
    task: str, media: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = {call.name: call for call in GOALS[task].needs[media].calls}
    row = narrowed(FAMILIES[LEARNERS[task, media]], calls)
    monkeypatch.setitem(FAMILIES.rows, "narrow", replace(row, tasks=(task,)))
    reach.trained("narrow", task)


def verbs_of(task: str, media: tuple[str, ...]) -> tuple[str, ...]:
    row = FAMILIES[LEARNERS[task, media]]
    return row.verbs(row.example(), task)


NEEDED = [
    (task, media, call.name)
    for task, media in LEARNERS
    for call in GOALS[task].needs[media].calls
    if not call.when and call.name != FORWARD and (not call.verb or call.verb in verbs_of(task, media))
]


@pytest.mark.slow
@pytest.mark.parametrize(("task", "media", "name"), sorted(set(NEEDED)))
def test_each_method_of_the_table_is_called(
    task: str, media: tuple[str, ...], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: dict[str, NetCall] = {call.name: call for call in GOALS[task].needs[media].calls if call.name != name}
    row = narrowed(FAMILIES[LEARNERS[task, media]], calls)
    monkeypatch.setitem(FAMILIES.rows, "narrow", replace(row, tasks=(task,)))
    monkeypatch.setattr(reach, "unmet_needs", lambda row, tasks: [])
    with pytest.raises(AttributeError, match=name):
        reach.trained("narrow", task)


def test_the_table_names_parameters_that_exist() -> None:
    """By name and by place, of the net of each family; a signature is not read by its text."""
    for (task, media), name in LEARNERS.items():
        for call in GOALS[task].needs[media].calls:
            method = getattr(FAMILIES[name].net, call.name, None)
            if method is not None and not call.when:
                assert call.accepted_by(method, bound=False), (call.words(), inspect.signature(method))


def test_a_refused_family_leaves_no_trace() -> None:
    with pytest.raises(InputError):
        regard.register(family(), name="bag")
    assert not [one for one in plugins.REGISTERED if one.name == "bag"]
