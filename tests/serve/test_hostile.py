"""Bad input of every sort: refused with words, or answered; never a fault."""

import json
from pathlib import Path

import pytest

from .conftest import API, INPUTS, check_clean
from .pictures import hostile, shown

PICTURES = hostile()
USED = {"cmyk", "16 bit", "animated", "1 x 1", "one line", "transparent", "palette", "webp", "wrong name"}


@pytest.mark.parametrize("name", PICTURES)
def test_pictures(client, name) -> None:
    for path in ("run", "look"):
        body = {"model": "digits", "input": {"kind": "image", "png": PICTURES[name]}}
        answer = client.post(f"{API}/{path}", json=body)
        assert answer.status_code == (200 if name in USED else 422), answer.text[:300]
        check_clean(answer)


@pytest.mark.parametrize(
    "png",
    ["", "data:image/png;base64,", "data:image/png;base64,!!!", "http://127.0.0.1/x.png", "file:///etc/passwd",
     "data:text/html;base64,PGI+", "data:image/svg+xml;base64,PHN2Zz4=", "data:image/png;base64,A", "data:image/png,x",
     "/etc/passwd", 7, None, ["x"]],
)  # fmt: skip
def test_no_pictures(client, png) -> None:
    answer = client.post(f"{API}/run", json={"model": "digits", "input": {"kind": "image", "png": png}})
    assert answer.status_code == 422
    check_clean(answer)


TEXTS = {
    "half a pair": '"\\ud800"',
    "half a pair within": '"Where \\udc00 are"',
    "nul": '"Where \\u0000 are my keys?"',
    "a million letters": json.dumps("a" * 1_000_000),
    "4,097 letters": json.dumps("a" * 4097),
    "right to left": json.dumps("שלום \u202eevil\u202c"),
    "emoji": json.dumps("👩‍👩‍👧‍👦" * 3),
    "marks": json.dumps("e" + "\u0301" * 20),
    "controls": json.dumps("".join(map(chr, range(1, 32, 4)))),
    "special tokens": json.dumps("<end><begin><pad>[MASK]"),
    "spaces": json.dumps(" \n\t" * 100),
    "one word": json.dumps("x" * 4096),
    "html": json.dumps("<script>alert(1)</script>"),
    "a path": json.dumps(f"{Path.home()}/secret {Path.cwd()}"),
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("model", ["tatoeba-en-de", "recall", "shakespeare"])
def test_texts(client, name, model) -> None:
    for path in ("look",) if model == "shakespeare" else ("run", "look"):
        body = f'{{"model": "{model}", "input": {{"kind": "text", "text": {TEXTS[name]}}}}}'
        answer = client.post(f"{API}/{path}", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code in (200, 422), answer.text[:300]
        if name in ("a million letters", "4,097 letters", "half a pair", "half a pair within"):
            assert answer.status_code == 422
        if answer.status_code != 200 or name != "a path":
            check_clean(answer)


BODIES = [
    "", "{", "null", "[]", "7", '"x"', "{}", "[" * 100_000, '{"model":' * 5000, "NaN", "{'model': 1}", "\xff",
    "1" * 10_000,
    '{"model": "recall", "input": {"kind": "text", "text": "Anna"}, "more": 1}',
    '{"model": "recall", "input": {"kind": "text", "text": "Anna", "more": 1}}',
    '{"model": "recall", "input": {"kind": "nothing"}}',
    '{"model": "recall", "input": null}',
    '{"model": "../recall", "input": {"kind": "text", "text": "Anna"}}',
    '{"model": "/etc/passwd", "input": {"kind": "text", "text": "Anna"}}',
    '{"model": "recall\\n", "input": {"kind": "text", "text": "Anna"}}',
    '{"model": ["recall"], "input": {"kind": "text", "text": "Anna"}}',
]  # fmt: skip


@pytest.mark.parametrize("body", BODIES)
def test_bodies(client, body) -> None:
    for path in ("run", "look", "stream", "compare"):
        answer = client.post(
            f"{API}/{path}", content=body.encode("latin-1"), headers={"Content-Type": "application/json"}
        )
        assert answer.status_code in (400, 422)
        check_clean(answer)


def change(kind: str, field: str, value: str) -> str:
    good = {
        "token": {"kind": "token", "axis": "tokens", "position": 0},
        "head": {"kind": "head", "site": "blocks.0.mixer", "head": 0, "factor": 0.0},
        "temperature": {"kind": "temperature", "site": "*", "value": 1.0},
    }[kind]
    return json.dumps(good | {field: "@"}).replace('"@"', value)


NUMBERS = ["NaN", "Infinity", "-Infinity", "1e309", "-1", "1e30", "99999999999999999999", '"1"', "null", "true", "[]",
           "{}", "0.5e-320"]  # fmt: skip


@pytest.mark.parametrize("value", NUMBERS)
@pytest.mark.parametrize(
    ("kind", "field"), [("token", "position"), ("head", "head"), ("head", "factor"), ("temperature", "value")]
)
def test_numbers(client, kind, field, value) -> None:
    body = f'{{"model": "recall", "input": {json.dumps(INPUTS["recall"])}, "changes": [{change(kind, field, value)}]}}'
    answer = client.post(f"{API}/look", content=body, headers={"Content-Type": "application/json"})
    fine = field == "factor" and value in ("-1", "0.5e-320")
    assert answer.status_code == (200 if fine else 422), answer.text[:300]
    check_clean(answer)


def test_extreme_changes_still_give_numbers(client) -> None:
    for value in (0.01, 100.0):
        changes = [{"kind": "temperature", "value": value}] * 8
        answer = client.post(f"{API}/look", json={"model": "recall", "input": INPUTS["recall"], "changes": changes})
        assert answer.status_code == 200
        check_clean(answer)
    many = [{"kind": "token", "axis": "tokens", "position": i} for i in range(33)]
    assert (
        client.post(f"{API}/look", json={"model": "recall", "input": INPUTS["recall"], "changes": many}).status_code
        == 422
    )
    beyond = [{"kind": "token", "axis": "tokens", "position": 60_000}]
    answer = client.post(f"{API}/look", json={"model": "recall", "input": INPUTS["recall"], "changes": beyond})
    check_clean(answer)
    all_gone = [{"kind": "token", "axis": "tokens", "position": i} for i in range(7)]
    answer = client.post(f"{API}/look", json={"model": "recall", "input": INPUTS["recall"], "changes": all_gone})
    assert answer.status_code == 200
    check_clean(answer)


@pytest.mark.parametrize(
    "query",
    ["", "head=-1", "head=9999", "head=x", "head=1.5", "head=0&row=-1", "head=0&row=99999999999999999999",
     "head=0&row=NaN",
     "head=0&row=7&row=8", "head=0&row=1&column=1e3", "head=mean&row=0&column=0", "head=%00", "head=0&level=17",
     "head=0&level=-1", "head=0&level=x", "head=0&unknown=1", "head=0&head=1", "head=٣"],
)  # fmt: skip
def test_queries(client, query) -> None:
    found = client.post(f"{API}/look", json={"model": "recall", "input": INPUTS["recall"]}).json()
    for kind in ("maps", "rows", "cell"):
        answer = client.get(f"{API}/looks/{found['id']}/{kind}/blocks.0.mixer?{query}")
        assert answer.status_code in (200, 422), answer.text
        check_clean(answer)
    assert client.get(f"{API}/looks/{found['id']}/maps/nowhere?head=0").status_code == 422


def test_a_text_may_not_have_too_many_tokens(client, monkeypatch) -> None:
    from regard.modalities.text import page as module

    monkeypatch.setattr(module, "TOKENS", 3)
    monkeypatch.setattr(module, "REWEIGHTED", 2)
    body = {"model": "recall", "input": {"kind": "text", "text": "Anna sings ."}}
    assert client.post(f"{API}/run", json=body).status_code == 200
    assert (
        client.post(f"{API}/run", json=body | {"changes": [{"kind": "temperature", "value": 2.0}]}).status_code == 422
    )
    silent = [{"kind": "head", "site": "blocks.0.mixer", "head": 0}]
    assert client.post(f"{API}/run", json=body | {"changes": silent}).status_code == 200
    body["input"] = {"kind": "text", "text": "Anna sings . Anna"}
    assert client.post(f"{API}/run", json=body).status_code == 422


def test_a_picture_for_a_net_that_takes_it_as_it_is_may_not_be_large(client, shelf) -> None:
    from dataclasses import replace

    from PIL import Image

    from regard.errors import InputError
    from regard.modalities.images.page import ImageInput
    from regard.modalities.page_input import InputContext
    from regard.modalities.page_inputs import look_inputs

    model = shelf.get("digits").model
    free = replace(model, processor=replace(model.processor, size=None))
    large = ImageInput(**shown(Image.new("L", (1200, 1000))))
    assert look_inputs(large, InputContext(model))
    with pytest.raises(InputError, match="cannot be used"):
        look_inputs(large, InputContext(free))


def test_what_a_decoder_says_is_not_told(client) -> None:
    import base64

    raw = base64.b64decode(shown()["png"].partition(",")[2])
    cut = {"kind": "image", "png": "data:image/png;base64," + base64.b64encode(raw[:-30]).decode()}
    answer = client.post(f"{API}/run", json={"model": "digits", "input": cut})
    assert answer.status_code == 422
    assert answer.json()["error"]["got"] == "the image is corrupt"
