"""A trace as data, and a trace in a file."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.errors import InputError
from regard.look.changes import Head, Temperature, Token
from regard.look.document import (
    About,
    document_data,
    downsample,
    downsampled_heads,
    embedded_document,
    explain_weight,
    find_site,
    float32_bytes,
    head_map,
    map_row,
    map_weights,
    shade_bytes,
    thumbnails,
    times,
)
from regard.look.saving import about
from regard.look.trace import Trace, record_run
from regard.look.windows import joined_map, unwound
from regard.model import Model
from regard.zoo import FAMILIES
from tests.contracts.families import net
from tests.look.insights import TEXT, seen_by

ABOUT = About("tatoeba-en-de", "transformer", "translate", 3_500_000, "pair")


@pytest.fixture(scope="module")
def translated() -> Trace[Any]:
    return regard.load("tatoeba-en-de").look(TEXT)


def test_a_document_tells_model_input_answer_axes_and_sites(translated: Trace[Any]) -> None:
    told = json.loads(json.dumps(document_data(translated, ABOUT)))
    assert told["input"] == {"kind": "pair", "source": TEXT, "target": "Wo sind meine Schlüssel?"}
    assert told["answer"]["text"] == "Wo sind meine Schlüssel?"
    assert [x["text"].strip() for x in told["answer"]["tokens"]] == told["axes"]["written"]["labels"]
    assert told["before"] is None
    assert [x["name"] for x in told["sites"]] == list(translated.sites)
    by_name = {x["name"]: x for x in told["sites"]}
    cross, own = by_name["decoder.1.cross"], by_name["decoder.1.mixer"]
    assert (cross["part"], cross["role"], cross["layer"], cross["heads"]) == ("decoder", "cross", 1, 4)
    assert (cross["rows"], cross["columns"]) == ("written", "source")
    assert (own["role"], own["rows"], own["columns"], own["arithmetic"]) == ("self", "written", "target", True)
    for site in told["sites"]:
        size = (site["heads"], *(told["axes"][site[side]]["size"] for side in ("rows", "columns")))
        assert map_weights(translated, site["name"]).shape == size


def test_the_same_look_has_the_same_address_and_another_has_another(translated: Trace[Any]) -> None:
    address = document_data(translated, ABOUT)["id"]
    assert document_data(regard.load("tatoeba-en-de").look(TEXT), ABOUT)["id"] == address
    changed = translated.change(Token("source", 3))
    told = document_data(changed, ABOUT, translated.answer)
    assert told["id"] != address
    assert told["changes"] == [{"kind": "token", "axis": "source", "position": 3}]
    assert told["before"]["text"] == translated.answer.text != told["answer"]["text"]


def test_what_was_not_prepared_by_a_model_cannot_be_shown(translated: Trace[Any]) -> None:
    with pytest.raises(InputError, match="this trace has no example"):
        document_data(Trace(translated.output, translated.sites, translated.net), ABOUT)


def test_an_image_is_shown_as_the_net_saw_it() -> None:
    image = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8) * 4)
    found = regard.load("digits").look(image)
    told = document_data(found, About("digits", "vit", "classify", 30_000, "image"))
    raw = base64.b64decode(told["input"]["png"].removeprefix("data:image/png;base64,"))
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(raw))), np.asarray(image))
    assert told["axes"]["patches"] == {"kind": "image", "size": 16, "labels": None, "grid": [4, 4], "special": 0}
    assert told["answer"]["labels"][0] == list(regard.load("digits").classify(image).ranked[0])


def test_halving_keeps_the_larger_and_odd_sides() -> None:
    weights = torch.tensor([[0.1, 0.2, 0.9], [0.3, 0.0, 0.4], [0.5, 0.6, 0.7]])
    assert torch.equal(downsample(weights, 1), torch.tensor([[0.3, 0.9], [0.6, 0.7]]))
    assert torch.equal(downsample(weights, 2), torch.tensor([[0.9]]))
    assert downsample(weights, 0) is weights
    assert [times(*size) for size in ((1, 1), (64, 64), (65, 2), (2, 128), (129, 1), (2048, 2048))] == [
        0,
        0,
        1,
        1,
        2,
        5,
    ]
    assert shade_bytes(torch.tensor([0.0, 0.25, 1.0, 7.0])) == bytes([0, 128, 255, 255])


def test_thumbnails_follow_each_other(translated: Trace[Any]) -> None:
    raw, start = np.frombuffer(thumbnails(translated), np.uint8), 0
    for name in translated.sites:
        weights = map_weights(translated, name)
        some = raw[start : start + weights.numel()].reshape(weights.shape)
        assert np.abs(some - 255 * weights.sqrt().numpy()).max() <= 0.5 + 1e-4
        start += weights.numel()
    assert start == len(raw)


def test_bytes_of_a_map_are_the_map(translated: Trace[Any]) -> None:
    weights = map_weights(translated, "decoder.1.cross")
    back = np.frombuffer(float32_bytes(head_map(weights, 2)), "<f4").reshape(weights.shape[1:])
    assert np.array_equal(back, weights[2].numpy())
    assert torch.equal(head_map(weights, None), weights.mean(0))
    with pytest.raises(InputError, match="head index out of range"):
        head_map(weights, 4)


def test_a_cell_tells_its_arithmetic(translated: Trace[Any]) -> None:
    told = explain_weight(translated, "decoder.1.mixer", 1, 2, 4)
    assert told["masked"]
    assert told["weight"] == 0
    assert told["scores"][4] is None
    told = explain_weight(translated, "decoder.1.cross", 1, 2, 4)
    row = np.exp([x for x in told["scores"]])
    assert told["weights"] == pytest.approx(list(row / row.sum()), abs=1e-6)
    assert told["score"] == pytest.approx(np.dot(told["query"], told["key"]) * told["scale"], abs=1e-5)
    with pytest.raises(InputError, match="row index out of range"):
        explain_weight(translated, "decoder.1.cross", 1, 60, 4)
    changed = explain_weight(translated.change(Temperature(2.0)), "decoder.1.cross", 1, 2, 4)
    row = np.exp(np.array(changed["scores"]) / 2)  # the scores are as they were, and warmer weights come of them
    assert changed["weights"] == pytest.approx(list(row / row.sum()), abs=1e-6)


@pytest.mark.parametrize("name", ["decoder.1", "decoder.1.cross@0", "decoder.1.cross@1", "", "@", "decoder.1.cross@x"])
def test_a_site_that_is_not_there(name: str, translated: Trace[Any]) -> None:
    with pytest.raises(InputError, match="unknown site"):
        find_site(translated, name)


def test_a_layer_that_runs_again_has_a_name_for_each_call() -> None:
    model, ids = net("bert", shared=True, depth=3), torch.randint(13, (1, 5))
    found = record_run(model, "*", lambda: model(ids), table=FAMILIES["bert"].axes, axes={})
    calls = found.calls["blocks.0.mixer"]
    assert len(calls) == 3
    for i, one in enumerate(calls):
        assert torch.equal(map_weights(found, f"blocks.0.mixer@{i}"), one.weights[0])
    with pytest.raises(InputError, match="unknown site"):
        find_site(found, "blocks.0.mixer")


def test_windows_are_one_map() -> None:
    model = Model("swin", net("swin"))
    images = torch.randn(1, 2, 8, 8, dtype=torch.float64)
    found = record_run(
        model.net, "*", lambda: model.net(images), table=FAMILIES["swin"].axes, axes=model.net.axes(images)
    )
    name = next(iter(found.sites))
    assert torch.equal(map_weights(found, name), joined_map(found.maps[name]).weights[0])
    assert map_weights(found, name).shape[-1] == int(np.prod(found.sites[name].rows.cut.grid))


def test_a_large_map_is_made_small_tile_by_tile(translated: Trace[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers, though the whole never stands there: with masks (the decoder's), and of every kernel."""
    before = [downsample(map_weights(translated, name), 1) for name in translated.sites]
    monkeypatch.setattr("regard.look.document.DENSE", 1)
    monkeypatch.setattr("regard.look.document.TALL", 2)
    for name, one in zip(translated.sites, before, strict=True):
        assert torch.allclose(downsampled_heads(translated, name, 1), one, atol=1e-7)


def test_a_row_is_that_of_its_map(translated: Trace[Any]) -> None:
    fresh = translated.again(()) if translated.again is not None else translated
    for name in fresh.sites:
        row = map_row(fresh, name, 2)
        assert name not in fresh.maps.kept
        assert torch.allclose(row, map_weights(fresh, name)[:, 2], atol=1e-7)


def test_a_lens_stands_over_what_was_written(translated: Trace[Any]) -> None:
    """Not over the source, however long that is."""
    found = translated.ask("lens")
    assert found["axis"] == "written"
    assert len(found["layers"][0]["tokens"]) == len(translated.example.words["written"])
    assert regard.load("recall").look("Anna sings .").ask("lens")["axis"] == "tokens"


def test_a_saved_look_knows_a_model_that_ships() -> None:
    model = regard.load("recall")
    assert about(model.look("Anna sings .")).name == "recall"
    assert about(model.look("Anna sings .").change(Temperature(2.0))).source == "shipped"
    assert about(regard.swapped(model, "local").look("Anna sings .")).source == ""


@pytest.mark.parametrize("value", [0.01, 0.05, 100.0])
def test_a_cold_softmax_still_sums_to_one(value: float) -> None:
    found = regard.load("recall").look("Anna sings . Boris paints . Anna").change(Temperature(value))
    for one in found.maps.values():
        assert torch.allclose(one.weights.sum(-1), torch.ones(one.weights.shape[:-1]), atol=1e-5)
    assert 0 < found.answer.choices[0][1] <= 1


@pytest.mark.parametrize(
    "change",
    [
        Token("tokens", 7),
        Token("tokens", 10**30),
        Token("tokens", 1.5),
        Token("tokens", True),
        Head("blocks.0.mixer", 0, float("nan")),
        Head("blocks.0.mixer", 0, float("inf")),
        Head("blocks.0.mixer", "1"),
        Temperature("warm"),
        Temperature(float("nan")),
        {"kind": "token"},
    ],
    ids=str,
)
def test_what_is_no_change_is_refused(change: Any) -> None:
    with pytest.raises(InputError):
        regard.load("recall").look("Anna sings . Boris paints . Anna").change(change)


@pytest.mark.parametrize("name", ["none/x.png", "folder.html"])
def test_where_nothing_can_be_written(translated: Trace[Any], tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(InputError) as refused:
        translated.save(tmp_path / name)
    assert str(tmp_path / name) in str(refused.value)


@pytest.fixture
def windows() -> Trace[Any]:
    """Of a Swin whose second layer is shifted, and whose grid does not come out even."""
    model = net("swin", image=18, patch=2, window=4, depth=(2, 2))
    images = torch.randn(1, 2, 18, 18, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return seen_by(model, images, [])


def test_a_weight_in_a_window_is_taken_apart(windows: Trace[Any]) -> None:
    """Rows and columns are those of the whole grid, shifted or not."""
    for name, site in windows.sites.items():
        weights = map_weights(windows, name)
        size = weights.shape[-1]
        for row, column in ((0, 0), (3, 7), (size - 1, size - 2), (size // 2, 0), (0, size - 1)):
            one = site.cell(1, row, column)
            assert torch.allclose(one.weights, weights[1, row], atol=1e-12), (name, row)
            assert one.seen == (float(weights[1, row, column]) > 0)
            assert one.score == pytest.approx(one.product * one.scale + one.bias)
            keys = unwound(site.records[-1].k, site.rows.cut)[0, 1]
            assert torch.equal(one.key, keys[column])
            assert torch.equal(one.query, unwound(site.records[-1].q, site.rows.cut)[0, 1, row])
            assert torch.allclose(one.mixed, weights[1, row] @ unwound(site.records[-1].v, site.rows.cut)[0, 1])


def test_a_patch_is_crossed_out_where_it_lies(windows: Trace[Any]) -> None:
    """In one window of one layer, and nowhere else; as if it were masked there."""
    images = torch.randn(1, 2, 18, 18, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for name in list(windows.sites)[:2]:
        before = map_weights(windows, name)
        after = map_weights(seen_by(windows.net, images, [Token(name, 40)]), name)
        hidden = before.clone()
        hidden[..., 40] = 0
        hidden = hidden / hidden.sum(-1, keepdim=True)
        assert torch.allclose(after, hidden, atol=1e-12)
        assert (after - before).abs().max() > 1e-3
    with pytest.raises(InputError, match="position out of range"):
        seen_by(windows.net, images, [Token(name, 81)])


def test_a_file_of_its_own_holds_all_numbers(translated: Trace[Any]) -> None:
    told = json.loads(json.dumps(embedded_document(translated, ABOUT)))
    assert told["document"] == json.loads(json.dumps(document_data(translated, ABOUT)))
    for site in told["document"]["sites"]:
        weights = map_weights(translated, site["name"])
        raw = np.frombuffer(base64.b64decode(told["maps"][site["name"]]), "<f2").reshape(weights.shape)
        assert np.abs(raw - weights.numpy()).max() < 1e-3
        q, k = (
            np.frombuffer(base64.b64decode(told["vectors"][site["name"]][name]), "<f4").reshape(4, -1, 48)
            for name in ("queries", "keys")
        )
        if "encoder" in site["name"]:
            scores = np.exp(q @ k.swapaxes(-1, -2) * site["scale"])
            assert np.allclose(scores / scores.sum(-1, keepdims=True), weights, atol=1e-5)


@pytest.mark.parametrize("name", ["a.png", "a.svg"])
def test_a_picture_of_all_heads_or_of_one(name: str, translated: Trace[Any], tmp_path: Path) -> None:
    sizes = []
    for i, chosen in enumerate([(), ("decoder.1.cross",), ("decoder.1.cross", 2)]):
        path = translated.save(tmp_path / f"{i}{name}", *chosen)
        raw = path.read_bytes()
        assert raw.startswith(b"\x89PNG") if name.endswith("png") else b"<svg" in raw[:500]
        sizes.append(len(raw))
    assert len(set(sizes)) == 3
    assert sorted(x.name for x in tmp_path.iterdir()) == sorted(f"{i}{name}" for i in range(3))


def test_numbers_of_all_sites(translated: Trace[Any], tmp_path: Path) -> None:
    translated.change(Head("decoder.1.cross", 2)).save(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz", allow_pickle=False) as found:
        about = json.loads(str(found["about"]))
        assert set(found) == {"about", *translated.sites}
        assert np.array_equal(found["encoder.0.mixer"], map_weights(translated, "encoder.0.mixer").numpy())
    assert about["changes"] == [{"kind": "head", "site": "decoder.1.cross", "head": 2, "factor": 0.0}]
    assert about["axes"]["encoder.0.mixer"]["rows"]["labels"][0] == " Where"
    translated.save(tmp_path / "b.npz", "encoder.0.mixer", 1)
    with np.load(tmp_path / "b.npz", allow_pickle=False) as found:
        assert found["encoder.0.mixer"].shape[0] == 1


def test_what_cannot_be_saved_leaves_nothing(translated: Trace[Any], tmp_path: Path) -> None:
    (tmp_path / "there.png").write_text("mine")
    for name, chosen, match in (
        ("a.pdf", (), "unsupported file type"),
        ("there.png", ("decoder.9.cross",), "unknown site"),
        ("there.png", ("decoder.1.cross", 9), "head index out of range"),
        ("there.png", (None, 1), "a head needs a site"),
    ):
        with pytest.raises(InputError, match=match):
            translated.save(tmp_path / name, *chosen)
    assert [x.name for x in tmp_path.iterdir()] == ["there.png"]
    assert (tmp_path / "there.png").read_text() == "mine"


def test_a_page_of_its_own(translated: Trace[Any], tmp_path: Path) -> None:
    text = translated.save(tmp_path / "keys.html").read_text("utf-8")
    inside = text.partition('id="regard-data">')[2].partition("</script>")[0]
    assert json.loads(inside)["document"]["answer"]["text"] == "Wo sind meine Schlüssel?"
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    with pytest.raises(InputError, match="always contains all sites"):
        translated.save(tmp_path / "keys.html", "decoder.1.cross")


def test_a_notebook_shows_the_same(translated: Trace[Any]) -> None:
    pytest.importorskip("anywidget", reason="needs the extra [notebook]")
    shown = translated.show()
    assert shown.data["document"]["input"]["source"] == TEXT
    assert set(shown.data["maps"]) == set(translated.sites)
    assert "export default" in str(shown._esm)
    heard: list[Any] = []
    shown.observe(lambda change: heard.append(change["new"]), "head")
    shown.head = 2
    assert heard == [2]
