"""One contract over all families: each is built, saved, loaded, looked at, served, and trained to all that it names."""

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from regard.contracts import families, others, reach, runs
from regard.contracts.report import BrokenError, Contract, NothingError, Verdict, asked
from regard.interop.formats import CHECKPOINT_FORMATS
from regard.modalities.goals import GOALS
from regard.modalities.sources import SOURCES
from regard.models import vit
from regard.models.family import Family, no_verbs
from regard.zoo import FAMILIES
from tests.undrawn import undrawn

# What is known to be missing, each with its reason.
MISSING = {("perceiverlm", "its tasks exist"): "no task of a run teaches it yet; its weights come from others"}
TRAINED = [(family, task) for family, row in FAMILIES.items() for task in row.tasks]
# Runs of more than some tenths of a second: those who measure what they write, or are slow by themselves.
SLOW = {"detect", "spans"}
SLOWER = {"reformer", "switch", "t5", "levit", "switchlm"}
LARGE = {"shapes", "scenes"}  # kinds of data that measure on hundreds of images


def by_speed(cases: list[tuple[str, ...]], slow: set[str]) -> list[Any]:
    return [pytest.param(*case, marks=pytest.mark.slow) if slow & set(case) else case for case in cases]


def by_name(names: Iterable[str], slow: set[str]) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.slow) if name in slow else name for name in names]


@pytest.fixture
def no_pictures(request: pytest.FixtureRequest) -> Iterator[None]:
    """The slow runs draw their curves."""
    with nullcontext() if request.node.get_closest_marker("slow") else undrawn():
        yield


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_reached(family: str) -> None:
    contracts = [one for one in reach.contracts(family) if not one.says.startswith("a run of the task")]
    failed = {(family, one.contract): one.words for one in asked(family, contracts) if not one.holds}
    assert failed.keys() == {key for key in MISSING if key[0] == family}, failed


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize(("family", "task"), by_speed(TRAINED, SLOW | SLOWER))
def test_a_family_learns_what_it_names(family: str, task: str) -> None:
    reach.trained(family, task)


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("data", by_name([x for x in SOURCES if not SOURCES[x].describe], LARGE | {"boxes"}))
def test_every_kind_of_data_can_be_learned_from(data: str) -> None:
    for contract in runs.data_contracts(data):
        contract.check()


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("task", by_name(GOALS, SLOW | {"describe"}))
def test_every_task_is_resumed_to_the_same_end(task: str) -> None:
    runs.templates_read(task)
    runs.resumed(runs.learner_of(task), task)


def failing(row: Family, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What a row of the name vit2 fails, and in which words."""
    monkeypatch.setitem(FAMILIES.rows, "vit2", row)
    return {one.contract: one.words for one in asked("vit2", reach.contracts("vit2")) if not one.holds}


class ViT2(vit.ViT):
    """A class of its own."""


COPY = replace(FAMILIES["vit"], net=ViT2, presets={"vit2-small": vit.PRESETS["vit-small"]}, offered={})
RUN = "a run of the task 'classify' can be trained, evaluated, loaded and used"
OTHER_RUN = RUN.replace("classify", "language")


def test_a_copy_with_a_net_of_its_own_is_a_family(monkeypatch: pytest.MonkeyPatch) -> None:
    assert failing(COPY, monkeypatch) == {}


@pytest.mark.parametrize(
    ("changes", "contract", "words"),
    [
        ({"net": vit.ViT}, "its network class is not shared with another family", "class ViT belongs to vit"),
        ({"tasks": ()}, "its tasks exist", "declares no task"),
        ({"tasks": ("clasify",)}, "its tasks exist", "unknown task 'clasify'"),
        ({"tasks": ("language",)}, OTHER_RUN, "has the inputs of the family: image"),
        ({"verbs": no_verbs}, RUN, "the model trained for 'classify' does not support this verb; its verbs: none"),
        ({"verbs": lambda config, task: ("see",)}, "its verbs exist and accept its inputs", "unknown verb 'see'"),
        ({"takes": ("sound",)}, "attention maps can be traced", "no processor for its inputs, sound"),
        ({"takes": ("sound",)}, "it can be served on the web page", "the web page has no input form for sound"),
        ({"presets": {}}, RUN, "the family has no preset"),
        ({"offered": {"vit2-tiny": 1}}, "it can be served on the web page", "vit2-tiny, which is not a preset"),
        ({"lens": FAMILIES["swin"].lens}, "the logit lens after the last block equals the output", "raised"),
    ],
)  # fmt: skip
def test_a_copied_row_fails_in_words(
    changes: dict[str, Any], contract: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = failing(replace(COPY, **changes), monkeypatch)
    assert words in failed.get(contract, ""), failed


def test_a_verb_for_another_input_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = failing(replace(COPY, verbs=lambda config, task: ("classify", "translate")), monkeypatch)
    told = {"its verbs exist and accept its inputs": "the verb 'translate' takes text, but the family takes image"}
    assert failed == told


def test_a_checkpoint_table_without_its_family_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CHECKPOINT_FORMATS.rows, "lost", replace(CHECKPOINT_FORMATS["gpt2"], family="lost"))
    (told,) = asked("lost", others.checkpoint_contracts("lost"))
    assert told.words.startswith("unknown model family 'lost'; known families: ")


def test_verdicts() -> None:
    def broken() -> None:
        raise BrokenError("it is 3, expected 4")

    def nothing_asked() -> None:
        raise NothingError("it has no weights")

    def wrong() -> None:
        raise KeyError("odd")

    checks = {"a": broken, "b": nothing_asked, "c": wrong, "d": lambda: None}
    found = asked("attention 'mine'", [Contract(name, check) for name, check in checks.items()])
    assert [one.holds for one in found] == [False, True, False, True]
    assert found[0].line() == "FAILS  attention 'mine': a\n       it is 3, expected 4"
    assert found[1] == Verdict("attention 'mine'", "b", True, "it has no weights", tried=False)
    assert found[1].line() == "not tried  attention 'mine': b (it has no weights)"
    assert "KeyError: 'odd'" in found[2].words
    assert "test_reach.py:" in found[2].words
    assert found[3].line() == "holds  attention 'mine': d"


@pytest.mark.parametrize("family", ["gpt", "vit", "mlp", "serieslinear", "seriesrnn"])
def test_families_keep_the_contracts_that_plugins_are_asked(family: str) -> None:
    quick = [one for one in families.contracts(family) if "presets" not in one.says]
    assert [one.line() for one in asked(family, quick) if not one.holds] == []
