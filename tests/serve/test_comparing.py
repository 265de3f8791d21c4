"""Two looks are compared where the same things are on both axes, and both models are asked about the same words."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

import regard
from tests.serve.conftest import API, INPUTS

DOG = {"kind": "text", "text": "She has never seen such a big dog in her life."}


def compared(client: TestClient, first: dict[str, Any], **second: Any) -> dict[str, Any]:
    answer = client.post(f"{API}/compare", json={"first": first, "second": first | second})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_the_second_model_is_given_what_the_first_wrote_and_its_own_answer_is_told(client: TestClient) -> None:
    first = {"model": "tatoeba-en-de", "input": DOG}
    found = compared(client, first, attention="strided")
    written = found["first"]["answer"]["text"]
    own = client.post(f"{API}/look", json=first | {"attention": "strided"}).json()["answer"]
    assert own["text"] != written, "the two models do not say the same: that is what the test is about"
    assert found["second"]["answer"]["text"] == written
    assert found["second"]["axes"] == found["first"]["axes"]
    assert found["answer"] == own
    assert len(found["sites"]) == len(found["first"]["sites"])


def test_what_was_given_by_both_inputs_stays(client: TestClient) -> None:
    first = {"model": "tatoeba-en-de", "input": DOG}
    other = {"kind": "pair", "source": DOG["text"], "target": "Ein Hund."}
    found = compared(client, first, input=other)
    assert found["second"]["answer"]["text"] == "Ein Hund."
    assert found["answer"] == found["second"]["answer"]


def test_maps_over_other_words_are_not_compared(client: TestClient) -> None:
    first = {"model": "recall", "input": INPUTS["recall"]}
    words = INPUTS["recall"]["text"].split()
    other = {"kind": "text", "text": " ".join(reversed(words))}
    found = compared(client, first, input=other)
    assert found["first"]["axes"]["tokens"]["size"] == found["second"]["axes"]["tokens"]["size"]
    assert found["sites"] == []


def test_a_language_model_has_the_answers_of_both(client: TestClient) -> None:
    found = compared(client, {"model": "recall", "input": INPUTS["recall"]}, attention="performer")
    assert found["answer"]["kind"] == "next"
    assert found["answer"] == found["second"]["answer"] != found["first"]["answer"]


@pytest.mark.parametrize("name", ["tatoeba-en-de"])
def test_the_numbers_are_those_of_the_library(client: TestClient, name: str) -> None:
    found = compared(client, {"model": name, "input": DOG}, attention="strided")
    model = regard.load(name)
    written = found["first"]["answer"]["text"]
    one = model.look(DOG["text"]).maps["decoder.1.cross"].weights[0, 2]
    two = regard.swapped(model, "strided", 0).look(DOG["text"], written).maps["decoder.1.cross"].weights[0, 2]
    row = next(site for site in found["sites"] if site["first"] == "decoder.1.cross")
    assert row["heads"][2]["largest"] == pytest.approx(float((one - two).abs().max()), abs=1e-5)
