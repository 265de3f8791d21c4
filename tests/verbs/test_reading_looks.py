"""What a reader of texts answers when it is looked at, asked by HTTP or changed: the same as by its verb."""

import json
from typing import Any

import pytest
import torch

from regard.errors import InputError
from regard.look.analyses import AnalysisRequest, run_analysis
from regard.look.answers import answer_data
from regard.look.changes import Token
from regard.modalities.page_answers import PAGE_ANSWERS
from regard.model import Model
from regard.serve.responses import answers
from tests.verbs.readers import TEXTS, WORDS, model

CONTEXT = " ".join(WORDS[3:12])


def told(made: Model, *given: str, **more: Any) -> dict[str, Any]:
    """As JSON, in the form that the API documents."""
    if "mixer" not in " ".join(name for name, _ in made.named_modules()):  # nothing to look at, but an answer
        (data,) = answers(made, [given], None)
    else:
        data = answer_data(made.look(*given, **more).answer)
    data = json.loads(json.dumps(data))
    return PAGE_ANSWERS[data["kind"]].model_validate(data, extra="forbid").model_dump()


@pytest.mark.parametrize("name", ["bert-tiny", "bilstm"])
def test_a_look_at_labels(name: str) -> None:
    made = model("label", name)
    assert told(made, TEXTS[0])["labels"] == [pytest.approx(one) for one in made.classify(TEXTS[0]).ranked]


def test_a_look_at_two_texts_has_their_segments() -> None:
    made = model("label")
    both = made.classify([("w1 w2", "w3")])[0]
    assert told(made, "w1 w2", "w3")["labels"] == [pytest.approx(one) for one in both.ranked]
    with pytest.raises(InputError, match="wrong number of inputs"):
        made.look("w1", "w2", "w3")


@pytest.mark.parametrize("name", ["bert-tiny", "bilstm"])
def test_a_look_at_tags(name: str) -> None:
    made = model("tags", name)
    wanted = made.tag("w1 unheard w3")
    words = told(made, "w1 unheard w3")["words"]
    assert [(one["word"], one["tag"]) for one in words] == list(zip(wanted.words, wanted.tags, strict=True))
    assert [one["probability"] for one in words] == pytest.approx(wanted.probabilities, abs=1e-6)


def test_a_look_at_an_answer_reads_the_part_that_has_it() -> None:
    """The context is longer than the net: parts of it are read, and the best is looked at."""
    made = model("span", length=16)
    long = " ".join(WORDS)
    wanted = made.answer("w1 w2", long)
    assert told(made, "w1 w2", long) == {
        "kind": "span",
        "text": wanted.text,
        "start": wanted.start,
        "end": wanted.end,
        "probability": pytest.approx(wanted.probability, abs=1e-6),
    }
    labels = made.look("w1 w2", long).sites["blocks.0.mixer"].rows.labels or ()
    assert wanted.text.split()[0] in labels
    assert len(labels) == 16


def test_a_look_at_an_embedding() -> None:
    made = model("none")
    wanted = made.embed(TEXTS[:2])
    alone, beside = told(made, TEXTS[0]), told(made, TEXTS[0], TEXTS[1])
    assert alone["vector"] == pytest.approx(wanted[0].tolist(), abs=1e-6)
    assert alone["similarity"] is None
    assert beside["similarity"] == pytest.approx(float(wanted[0] @ wanted[1]), abs=1e-6)


def test_an_embedding_is_also_that_of_a_model_with_a_head() -> None:
    made = model("span")
    assert told(made, TEXTS[0])["vector"] == pytest.approx(made.embed(TEXTS[0])[0].tolist(), abs=1e-6)


@pytest.mark.parametrize(("head", "given"), [("label", TEXTS[:1]), ("tags", TEXTS[:1]), ("span", ["w1 w2", CONTEXT])])
def test_masking_and_importance(head: str, given: list[str]) -> None:
    """A masked word changes the answer, and each head has its share in it."""
    made = model(head)
    found = made.look(*given)
    assert answer_data(made.look(*given, changes=[Token("tokens", 1)]).answer) != answer_data(found.answer)
    heads = run_analysis(found, "importance", AnalysisRequest())["sites"]["blocks.0.mixer"]
    assert any(abs(lost) > 1e-4 for lost in heads)


@pytest.mark.parametrize(
    ("head", "several"),
    [
        ("label", [("w1 w2", "w3"), ("w1 w2 w3",), ("w4 w5", "w6"), ("w4",)]),
        ("tags", [("w1 w2",), ("w3 w4",), ("w5",)]),
        ("span", [("w1 w2", CONTEXT), ("w2 w1", CONTEXT)]),
        ("none", [("w1 w2",), ("w3 w4",), ("w1", "w2")]),
    ],
)
def test_several_at_once_are_answered_as_each_alone(head: str, several: list[tuple[str, ...]]) -> None:
    made = model(head)
    with torch.inference_mode():
        together = answers(made, several, None)
    for one, given in zip(together, several, strict=True):
        alone = told(made, *given)
        assert one["kind"] == alone["kind"]
        if "vector" in one:
            assert list(one["vector"]) == pytest.approx(alone["vector"], abs=1e-5)
        elif "words" in one:
            assert [(x["word"], x["tag"]) for x in one["words"]] == [(x["word"], x["tag"]) for x in alone["words"]]
        elif "labels" in one:
            assert [list(x) for x in one["labels"]] == [
                [name, pytest.approx(p, abs=1e-5)] for name, p in alone["labels"]
            ]
        else:
            assert (one["start"], one["end"]) == (alone["start"], alone["end"])


@pytest.mark.parametrize("text", ["", "   "])
def test_nothing_to_read_is_refused(text: str) -> None:
    for head in ("label", "tags", "none"):
        with pytest.raises(InputError, match="empty"):
            model(head).look(text)


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(InputError, match="longer than the model's maximum length"):
        model("label").look(" ".join(WORDS))
