"""What models answer: alone, in a batch, and as it is written."""

import json

import pytest

import regard
from regard.decode.beam import Beam
from regard.decode.settings import Decoding
from regard.errors import InputError
from regard.look.changes import Temperature
from regard.serve.responses import answer, answers, decoding_of
from regard.serve.schema import DecodingFields
from tests.verbs.readers import model

from .conftest import API, INPUTS, check_clean, look
from .pictures import digit, shown

SENTENCES = [
    "Where are my keys?",
    "I like it.",
    "She has never seen such a big dog in her life. Come here!",
    "",
    "Tom!",
]


def ran(client, name, given, **more):
    answer = client.post(f"{API}/run", json={"model": name, "input": given, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()["answer"]


def events(text):
    return [json.loads(line.removeprefix("data: ")) for line in text.split("\n\n") if line]


@pytest.mark.parametrize("name", ["tatoeba-en-de", "recall", "shakespeare"])
def test_an_answer_is_that_of_the_look(client, name) -> None:
    wanted, got = look(client, name)["answer"], ran(client, name, INPUTS[name])
    assert got["kind"] == wanted["kind"]
    if got["kind"] == "text":
        assert got["text"] == wanted["text"]
        pairs = zip(got["tokens"], wanted["tokens"], strict=True)
        assert all(x["text"] == y["text"] and x["logp"] == pytest.approx(y["logp"], abs=1e-6) for x, y in pairs)
    else:
        assert [x[0] for x in got["tokens"]] == [x[0] for x in wanted["tokens"]]
        assert [x[1] for x in got["tokens"]] == pytest.approx([x[1] for x in wanted["tokens"]], abs=1e-6)


def test_labels(client) -> None:
    got = ran(client, "digits", shown())
    wanted = regard.load("digits").classify(digit())
    assert got["labels"][0][0] == wanted.label
    assert [x[1] for x in got["labels"]] == pytest.approx([x[1] for x in wanted.ranked], abs=1e-6)


def test_a_translation_is_that_of_model_translate(client) -> None:
    model = regard.load("tatoeba-en-de")
    for beam in (1, 3):
        wanted = model.translate(SENTENCES[2], decoding=Decoding(beam=Beam(beams=beam)))
        got = ran(client, "tatoeba-en-de", {"kind": "text", "text": SENTENCES[2]}, settings={"beam": beam})
        assert got["text"] == wanted.text
        assert sum(token["logp"] for token in got["tokens"]) == pytest.approx(wanted.nbest[0].logp, abs=1e-3)
    assert ran(client, "tatoeba-en-de", {"kind": "text", "text": "  "}) == {"kind": "text", "text": "", "tokens": []}


def near(one, other) -> bool:
    """The same but for rounding."""
    if isinstance(one, float):
        return one == pytest.approx(other, abs=1e-5)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(near(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(near, one, other))
    return one == other


@pytest.mark.parametrize(
    "settings", [None, DecodingFields(longest=5), DecodingFields(temperature=0.8, seed=3, longest=6)]
)
def test_a_batch_answers_as_each_alone(settings) -> None:
    cases = {
        "tatoeba-en-de": [(text,) for text in SENTENCES],
        "recall": [("Anna sings . Anna",), ("Boris",), ("Boris paints . Boris",), ("Anna sings . Anna",)],
        "digits": [(digit(),), (digit().rotate(90),), (digit().resize((9, 30)),)],
    }
    for name, several in cases.items():
        if settings is not None and name == "digits":
            continue
        if settings is not None and settings.temperature:
            continue  # chance goes by a text's number in its batch: such requests share none
        model = regard.load(name)
        together = answers(model, several, settings)
        for one, own in zip(several, together, strict=True):
            assert near(own, answers(model, [one], settings)[0]), (name, one)


def test_a_decoder_goes_on_if_it_is_told_how(client) -> None:
    got = ran(client, "recall", INPUTS["recall"], settings={"longest": 3})
    wanted = regard.load("recall").generate(INPUTS["recall"]["text"], decoding=decoding_of(DecodingFields(longest=3)))
    assert got == {"kind": "text", "text": wanted.text, "tokens": []}
    drawn = [
        ran(client, "shakespeare", INPUTS["shakespeare"], settings={"temperature": 1.0, "seed": seed, "longest": 8})
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("name", ["tatoeba-en-de", "recall", "shakespeare"])
def test_a_stream_is_the_text_piece_by_piece(client, name) -> None:
    request = {"model": name, "input": INPUTS[name], "settings": {"longest": 24}}
    answer = client.post(f"{API}/stream", json=request)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    *pieces, last = events(answer.text)
    wanted = "".join(regard.load(name).stream(INPUTS[name]["text"], decoding=decoding_of(DecodingFields(longest=24))))
    assert "".join(piece["text"] for piece in pieces) == last["answer"]["text"] == wanted
    assert last["done"] is True
    if name == "tatoeba-en-de":
        assert last["answer"]["tokens"] == look(client, name)["answer"]["tokens"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("run", {"model": "digits", "input": INPUTS["recall"]}),
        ("run", {"model": "recall", "input": shown()}),
        ("run", {"model": "recall", "input": {"kind": "pair", "source": "Anna", "target": "sings"}}),
        ("run", {"model": "recall", "input": {"kind": "text", "text": ""}}),
        ("run", {"model": "recall", "input": {"kind": "text", "text": "Nobody knows this"}}),
        ("run", {"model": "digits", "input": shown(), "settings": {"beam": 4}}),
        ("run", {"model": "recall", "input": INPUTS["recall"], "settings": {"beam": 2, "temperature": 1.0}}),
        ("run", {"model": "recall", "input": INPUTS["recall"], "settings": {"top_k": 2}}),
        ("stream", {"model": "digits", "input": INPUTS["recall"]}),
        ("stream", {"model": "recall", "input": INPUTS["recall"], "settings": {"beam": 2}}),
        ("stream", {"model": "tatoeba-en-de", "input": {"kind": "pair", "source": "Tom", "target": "Tom"}}),
        ("look", {"model": "tatoeba-en-de", "input": {"kind": "text", "text": ""}}),
        ("look", {"model": "recall", "input": INPUTS["recall"],
                  "changes": [{"kind": "head", "site": "blocks.0.mixer", "head": 99}]}),
        ("look", {"model": "recall", "input": INPUTS["recall"],
                  "changes": [{"kind": "head", "site": "nowhere", "head": 0}]}),
        ("look", {"model": "recall", "input": INPUTS["recall"],
                  "changes": [{"kind": "token", "axis": "source", "position": 0}]}),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_words(client, path, body) -> None:
    answer = client.post(f"{API}/{path}", json=body)
    assert answer.status_code == 422, answer.text
    check_clean(answer)


@pytest.mark.filterwarnings("ignore::regard.errors.Notice")
def test_letters_that_a_model_never_read_are_remarked(client) -> None:
    for text, told in (("Где мои ключи?", True), (SENTENCES[0], False)):
        given = {"kind": "text", "text": text}
        for got in (look(client, "tatoeba-en-de", given)["answer"], ran(client, "tatoeba-en-de", given)):
            assert ("100% of the letters are unknown to this model" in got.get("remark", "")) == told


def test_a_verb_is_asked_for_by_its_name(client) -> None:
    """One that a model has besides its first; another, or an unknown one, gets the error of every verb."""
    reader = model("label")
    assert reader.verbs() == ("classify", "embed")
    given = [("w1 w2",), ("w3",)]
    vectors = answers(reader, given, None, "embed")
    for got, wanted in zip(vectors, reader.embed(["w1 w2", "w3"]).tolist(), strict=True):
        assert got["kind"] == "embedding"
        assert got["vector"] == pytest.approx(wanted, abs=1e-6)
    assert answers(reader, given, None, "classify") == answers(reader, given, None)
    with pytest.raises(InputError, match="first verb"):
        answer(reader, given[0], [Temperature(2.0)], None, "embed")
    body = {"model": "recall", "input": INPUTS["recall"]}
    assert ran(client, "recall", INPUTS["recall"], verb="generate") == ran(client, "recall", INPUTS["recall"])
    for verb, what in (("sing", "unknown verb"), ("embed", "this gpt has no sentence embeddings")):
        refused = client.post(f"{API}/run", json=body | {"verb": verb})
        assert (refused.status_code, refused.json()["error"]["what"]) == (422, what)


def test_an_unknown_field_is_told_in_words(client) -> None:
    refused = client.post(f"{API}/run", json={"model": "recall", "input": INPUTS["recall"], "wordy": 1})
    assert (refused.status_code, refused.json()["error"]["what"]) == (422, "no such field: wordy")
