"""Looks over HTTP: the same numbers as in Python, whole, halved, in rows and in cells; dropped ones; changed ones."""

import io
import math
from base64 import b64decode

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.look.analyses import ANALYSES
from regard.look.changes import Head, Temperature, Token
from regard.look.document import times
from regard.look.rollout import rolled_out
from regard.nn.mechanisms import MECHANISMS
from regard.serve.limits import Limits

from .conftest import API, INPUTS, check_clean, client_with, look
from .pictures import shown

NAMES = ["tatoeba-en-de", "recall", "shakespeare", "digits"]


def given(name):
    return INPUTS.get(name) or shown()


def opened(name):
    """The same input in Python."""
    if name == "digits":
        return Image.open(io.BytesIO(b64decode(shown()["png"].partition(",")[2])))
    return given(name)["text"]


@pytest.mark.parametrize("name", NAMES)
def test_a_look_has_the_numbers_of_model_look(client, name) -> None:
    found, trace = look(client, name, given(name)), regard.load(name).look(opened(name))
    assert found["format"] == 1
    assert found["before"] is None
    assert found["model"]["name"] == found["model"]["title"] == name
    assert [site["name"] for site in found["sites"]] == list(trace.sites)
    for site in found["sites"]:
        rows, columns = (found["axes"][site[axis]]["size"] for axis in ("rows", "columns"))
        wanted = trace.maps[site["name"]].weights[0]
        assert wanted.shape == (site["heads"], rows, columns)
        for head in (0, site["heads"] - 1, "mean"):
            raw = client.get(f"{API}/looks/{found['id']}/maps/{site['name']}?head={head}").content
            got = torch.from_numpy(np.frombuffer(raw, "<f4").reshape(rows, columns).copy())
            torch.testing.assert_close(got, wanted.mean(0) if head == "mean" else wanted[head], atol=1e-6, rtol=0)


def test_rows_levels_and_thumbnails_are_of_the_same_map(client) -> None:
    found = look(client, "tatoeba-en-de")
    site = found["sites"][-1]
    rows, columns = (found["axes"][site[axis]]["size"] for axis in ("rows", "columns"))
    base = f"{API}/looks/{found['id']}"
    whole = np.frombuffer(client.get(f"{base}/maps/{site['name']}?head=1").content, "<f4").reshape(rows, columns)
    row = np.frombuffer(client.get(f"{base}/rows/{site['name']}?head=1&row=2").content, "<f4")
    np.testing.assert_array_equal(row, whole[2])
    plain = client.get(f"{base}/maps/{site['name']}?head=1&level=0").content
    np.testing.assert_array_equal(np.frombuffer(plain, np.uint8), np.rint(255 * np.sqrt(whole)).ravel())
    half = np.frombuffer(client.get(f"{base}/maps/{site['name']}?head=1&level=1").content, np.uint8)
    assert half.size == math.ceil(rows / 2) * math.ceil(columns / 2)
    assert half.max() == np.rint(255 * np.sqrt(whole.max()))
    sizes = 0
    for one in found["sites"]:
        sides = [found["axes"][one[axis]]["size"] for axis in ("rows", "columns")]
        sizes += one["heads"] * math.prod(math.ceil(side / 2 ** times(*sides)) for side in sides)
    small = client.get(f"{base}/thumbnails")
    assert len(small.content) == sizes
    assert "max-age" in small.headers["cache-control"]


def test_a_cell_is_told_by_its_arithmetic(client) -> None:
    found = look(client, "recall")
    site = found["sites"][1]
    got = client.get(f"{API}/looks/{found['id']}/cell/{site['name']}?head=1&row=3&column=2").json()
    assert got["product"] == pytest.approx(float(np.dot(got["query"], got["key"])), abs=1e-4)
    assert got["score"] == pytest.approx(got["product"] * got["scale"] + got["bias"], abs=1e-5)
    assert got["scale"] == pytest.approx(site["scale"])
    scores = np.array([-np.inf if x is None else x for x in got["scores"]])
    weights = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    np.testing.assert_allclose(got["weights"], weights, atol=1e-6)
    assert got["weight"] == got["weights"][2]
    assert got["scores"][-1] is None  # the future
    assert not got["masked"]


def test_a_cell_without_arithmetic_has_an_equation(client) -> None:
    first = look(client, "recall", attention="performer")
    got = client.get(f"{API}/looks/{first['id']}/cell/{first['sites'][0]['name']}?head=0&row=3&column=2").json()
    assert set(got) == {"weights", "weight", "equation"}


CHANGES = [
    ([{"kind": "token", "axis": "tokens", "position": 1}], [Token("tokens", 1)]),
    ([{"kind": "head", "site": "blocks.1.mixer", "head": 2, "factor": 0.0}], [Head("blocks.1.mixer", 2, 0.0)]),
    ([{"kind": "temperature", "value": 0.5}, {"kind": "temperature", "value": 3.0, "site": "blocks.0.mixer"}],
     [Temperature(0.5), Temperature(3.0, "blocks.0.mixer")]),
]  # fmt: skip


@pytest.mark.parametrize(("sent", "made"), CHANGES)
def test_changes_change_what_they_change_in_python(client, sent, made) -> None:
    found = look(client, "recall", changes=sent)
    trace = regard.load("recall").look(INPUTS["recall"]["text"], changes=made)
    assert found["before"] == look(client, "recall")["answer"]
    everywhere = {"site": "*"}  # unless told
    assert found["changes"] == [(everywhere if one["kind"] == "temperature" else {}) | one for one in sent]
    for (word, chance), (wanted, likely) in zip(found["answer"]["tokens"], trace.answer.choices, strict=True):
        assert (word, pytest.approx(chance, abs=1e-6)) == (wanted, likely)
    ran = client.post(f"{API}/run", json={"model": "recall", "input": INPUTS["recall"], "changes": sent}).json()
    assert ran["answer"] == found["answer"]


def test_the_same_view_has_the_same_id_and_another_has_another(client) -> None:
    first = look(client, "recall")
    assert look(client, "recall", changes=[])["id"] == first["id"]
    others = [
        look(client, "recall", {"kind": "text", "text": "Anna sings ."}),
        look(client, "recall", changes=CHANGES[0][0]),
        look(client, "run:stories"),
        look(client, "recall", attention="performer"),
    ]
    assert len({first["id"], *(one["id"] for one in others)}) == 5
    assert others[3]["model"]["attention"] == "performer"


def test_a_translation_may_be_given(client) -> None:
    free = look(client, "tatoeba-en-de", {"kind": "pair", "source": "Where are my keys?"})
    assert free["input"]["kind"] == "pair"
    assert free["input"]["target"]
    own = look(client, "tatoeba-en-de", {"kind": "pair", "source": "Where are my keys?", "target": "Wo bin ich?"})
    assert own["answer"]["text"] == own["input"]["target"] == "Wo bin ich?"
    again = look(client, "tatoeba-en-de", free["input"])  # as it was answered
    assert again["answer"]["text"] == free["answer"]["text"]
    assert free["axes"]["source"]["labels"][0] == "Where"


def test_an_image_is_shown_as_the_net_saw_it(client) -> None:
    found = look(client, "digits", shown())
    assert (found["input"]["width"], found["input"]["height"]) == (8, 8)
    seen = Image.open(io.BytesIO(b64decode(found["input"]["png"].partition(",")[2])))
    assert seen.size == (8, 8)
    assert look(client, "digits", found["input"])["answer"] == found["answer"]  # width and height may stand there
    patches = found["axes"][found["sites"][0]["rows"]]
    assert patches["grid"] == [4, 4]


def test_dropped_looks_are_gone_and_come_back_by_the_same_id(shelf) -> None:
    with client_with(shelf, Limits(looks=1)) as client:
        first = look(client, "recall")
        assert client.get(f"{API}/looks/{first['id']}/thumbnails").status_code == 200
        look(client, "recall", {"kind": "text", "text": "Anna sings ."})
        gone = client.get(f"{API}/looks/{first['id']}/thumbnails")
        assert gone.status_code == 410
        check_clean(gone)
        assert look(client, "recall")["id"] == first["id"]
        assert client.get(f"{API}/looks/{first['id']}/thumbnails").status_code == 200
    assert client.get(f"{API}/looks/{'0' * 20}/thumbnails").status_code == 410
    assert client.get(f"{API}/looks/nonsense/thumbnails").status_code == 404


def test_analyses(client) -> None:
    found = look(client, "recall")
    base = f"{API}/looks/{found['id']}/analyses"
    trace = regard.load("recall").look(INPUTS["recall"]["text"])
    names = list(trace.sites)
    for name in ANALYSES:
        got = client.get(f"{base}/{name}").json()
        assert got["name"] == name
        assert got["equation"]
        assert got["limit"].endswith(".")
    rolled = client.get(f"{base}/rollout?site={names[0]}").json()
    wanted = rolled_out([trace.maps[names[0]]]).weights[0, 0]
    torch.testing.assert_close(torch.tensor(rolled["map"]), wanted, atol=1e-6, rtol=0)
    far = client.get(f"{base}/distance").json()
    assert far["unit"] == "tokens"
    weights = trace.maps[names[1]].weights[0]
    places = torch.arange(weights.shape[-1])
    wanted = (weights * (places[:, None] - places).abs()).sum(-1).mean(-1)
    assert far["sites"][names[1]] == pytest.approx(wanted.tolist(), abs=1e-5)
    worth = client.get(f"{base}/occlusion").json()
    assert worth["what"].strip() == "sings"
    assert min(worth["worth"][:2]) > 2 > 0.5 > max(worth["worth"][2:6])  # nats: Anna and her verb, nothing of Boris
    flow = client.get(f"{base}/flow?output=0").json()
    assert flow["flow"][0] == pytest.approx(1.0)
    for wrong in ("rollout?site=nothing", "rollout?head=x", "flow?output=999", "rollout?unknown=1"):
        answer = client.get(f"{base}/{wrong}")
        assert answer.status_code == 422
        check_clean(answer)
    assert client.get(f"{base}/nonsense").status_code == 404


def test_analyses_of_an_image_and_of_a_translation(client) -> None:
    seen = look(client, "digits", shown())
    base = f"{API}/looks/{seen['id']}/analyses"
    assert client.get(f"{base}/distance").json()["unit"] == "patches"
    worth = client.get(f"{base}/occlusion").json()
    assert np.array(worth["worth"]).shape == (4, 4)
    assert worth["what"] == seen["answer"]["labels"][0][0]
    said = look(client, "tatoeba-en-de")
    base = f"{API}/looks/{said['id']}/analyses"
    worth = client.get(f"{base}/occlusion").json()
    assert worth["what"] == said["answer"]["text"]
    assert len(worth["worth"]) == said["axes"]["source"]["size"]
    assert len(client.get(f"{base}/rollout?site=encoder.3.mixer").json()["map"]) == said["axes"]["source"]["size"]
    assert client.get(f"{base}/rollout?site=decoder.1.cross").status_code == 422


def test_a_flow_costs_what_its_own_layers_do(client, monkeypatch) -> None:
    """Four of the encoder; those of the decoder are not walked."""
    said = look(client, "tatoeba-en-de")
    address = f"{API}/looks/{said['id']}/analyses/flow?site=encoder.3.mixer"
    cost = 4 * said["axes"]["source"]["size"] ** 3
    for most, status in ((cost, 200), (cost - 1, 422)):
        monkeypatch.setattr("regard.serve.analyses.FLOWS", most)
        assert client.get(address).status_code == status


def test_the_slope_of_one_head_has_its_own_equation(client) -> None:
    found = look(client, "recall")
    base = f"{API}/looks/{found['id']}/analyses/gradient"
    assert "mean_h" in client.get(base).json()["equation"]
    assert "mean_h" not in client.get(f"{base}?head=1").json()["equation"]


def test_two_looks_are_compared(client) -> None:
    first = {"model": "recall", "input": INPUTS["recall"]}
    same = client.post(f"{API}/compare", json={"first": first, "second": first}).json()
    assert same["first"]["id"] == same["second"]["id"]
    assert len(same["sites"]) == 2
    for head in same["sites"][0]["heads"]:
        assert head["first"] == head["second"]
        assert head["divergence"] == pytest.approx(0, abs=1e-7)
        assert head["largest"] == 0
    second = first | {"changes": [{"kind": "temperature", "value": 4.0}]}
    found = client.post(f"{API}/compare", json={"first": first, "second": second}).json()
    one, two = (
        regard.load("recall").look(INPUTS["recall"]["text"], changes=c).maps["blocks.1.mixer"].weights[0, 3].double()
        for c in ((), [Temperature(4.0)])
    )
    mean = (one + two) / 2
    bits = [-(x * x.clamp(min=1e-300).log2()).sum(-1) for x in (mean, one, two)]
    got = found["sites"][1]["heads"][3]
    assert got["divergence"] == pytest.approx(float((bits[0] - (bits[1] + bits[2]) / 2).mean()), abs=1e-6)
    assert got["largest"] == pytest.approx(float((one - two).abs().max()), abs=1e-6)


def test_models_and_mechanisms_are_compared(client) -> None:
    first = {"model": "recall", "input": INPUTS["recall"]}
    found = client.post(f"{API}/compare", json={"first": first, "second": first | {"model": "run:stories"}}).json()
    assert [site["second"] for site in found["sites"]] == [site["first"] for site in found["sites"]]
    assert found["sites"][0]["heads"][0]["largest"] == 0  # it is a copy
    other = client.post(f"{API}/compare", json={"first": first, "second": first | {"attention": "performer"}}).json()
    assert other["second"]["sites"][0]["mechanism"] == "Performer"
    assert 0 < other["sites"][0]["heads"][0]["divergence"] < 1
    for name in ("linformer", "nonsense", "fourier"):
        refused = client.post(f"{API}/compare", json={"first": first, "second": first | {"attention": name}})
        assert refused.status_code == 422
        check_clean(refused)
    unlike = first | {"input": {"kind": "text", "text": "Anna sings ."}}
    assert client.post(f"{API}/compare", json={"first": first, "second": unlike}).json()["sites"] == []


def test_every_attention_that_is_offered_can_be_compared(client) -> None:
    """And what is not offered is refused: the list is that of the table, no other."""
    first = {"model": "recall", "input": INPUTS["recall"]}
    offered = client.get(f"{API}/models/recall/attentions").json()
    assert {"softmax", "local", "performer"} <= set(offered) < set(MECHANISMS)
    for name in MECHANISMS:
        got = client.post(f"{API}/compare", json={"first": first, "second": first | {"attention": name}})
        assert got.status_code == (200 if name in offered else 422), name
    assert client.get(f"{API}/models/nonsense/attentions").status_code == 404


def test_models_of_the_zoo_read_text_too(client) -> None:
    rows = {row["name"]: row for row in client.get(f"{API}/models").json() if row["source"] == "zoo"}
    assert {row["takes"] for row in rows.values()} == {"text", "pair", "image", "image+text"}
    for name in ("gpt-tiny", "switch-lm-tiny", "bert-tiny", "transformer-small"):
        found = client.post(f"{API}/look", json={"model": name, "input": rows[name]["example"]})
        assert found.status_code == 200, name
        assert found.json()["model"]["parameters"] == rows[name]["parameters"]
        assert found.json()["model"]["source"] == "zoo"
