"""`regard look`, as a user types it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import regard
from regard.cli.app import main
from regard.look.changes import Change, Temperature, Token
from regard.look.document import (
    map_weights,
)
from regard.look.rollout import rolled_out
from regard.look.sheet import all_heads
from regard.look.trace import Trace, record_run
from regard.look.windows import joined_map
from regard.modalities.images.processor import Images
from regard.zoo import FAMILIES
from tests.contracts.families import net
from tests.look.insights import TEXT, seen_by


@pytest.fixture(scope="module")
def translated() -> Trace[Any]:
    return regard.load("tatoeba-en-de").look(TEXT)


@pytest.fixture
def windows() -> Trace[Any]:
    """Of a Swin whose second layer is shifted, and whose grid does not come out even."""
    model = net("swin", image=18, patch=2, window=4, depth=(2, 2))
    images = torch.randn(1, 2, 18, 18, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return seen_by(model, images, [])


def test_the_verb_tells_the_answer_and_a_map(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", "recall", "Anna sings . Boris paints . Anna", "--site", "blocks.1.mixer"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("sings, 100 %\n")
    assert "blocks.1.mixer, mean over heads:" in said
    assert "Sites: blocks.0.mixer (4 heads), blocks.1.mixer (4 heads)" in said


def test_the_verb_changes_things(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", "tatoeba-en-de", TEXT, "--without", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["before"]["text"] == "Wo sind meine Schlüssel?"
    assert "Schlüssel" not in told["answer"]["text"]
    assert told["changes"] == [{"kind": "token", "axis": "source", "position": 3}]
    assert main(["look", "recall", "Anna sings . Anna", "--silence", "blocks.0.mixer:1", "--temperature", "2"]) == 0
    assert capsys.readouterr().out.startswith("before  ")


def test_the_verb_says_where_patches_lie(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    Image.new("L", (20, 20), 90).save(tmp_path / "grey.png")
    net = regard.build("vit-cifar", image=8, patch=4, dim=16, depth=1, heads=2, hidden=32, pool="class", classes=2)
    regard.save(replace(net, processor=Images(size=8), task="classify", labels=("a", "b")), tmp_path / "vit")
    assert main(["look", str(tmp_path / "vit"), str(tmp_path / "grey.png"), "--json"]) == 0
    axes = [site[side] for site in json.loads(capsys.readouterr().out)["sites"] for side in ("rows", "columns")]
    assert axes
    assert {(axis["axis"], axis["size"], *axis["grid"], axis["special"]) for axis in axes} == {("patches", 5, 2, 2, 1)}
    assert main(["look", "recall", "Anna sings . Anna", "--json"]) == 0
    site = json.loads(capsys.readouterr().out)["sites"][0]
    assert (site["rows"]["grid"], site["rows"]["special"]) == (None, 0)


def test_the_verb_draws(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    Image.new("L", (20, 20), 90).save(tmp_path / "grey.png")
    assert main(["look", "digits", str(tmp_path / "grey.png"), "--out", str(tmp_path / "map.png")]) == 0
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    assert "map.png" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["recall", "Anna", "--without", "1"],
        ["recall", "Anna", "--without", "x"],
        ["recall", "Anna", "--without", "source:0"],
        ["recall", "Anna", "--silence", "blocks.0.mixer"],
        ["recall", "Anna", "--silence", "blocks.0.mixer:4"],
        ["recall", "Anna", "--temperature", "0"],
        ["recall", "Anna", "--site", "blocks.9.mixer"],
        ["recall", "Anna", "Boris"],
        ["recall", ""],
        ["digits", "nowhere.png"],
        ["tatoeba-en-de", "a " * 300],
        ["recall", "Anna", "--out", "map.pdf"],
        ["recall", "Anna", "--out", "map.png", "--head", "1"],
    ],
)
def test_the_verb_refuses(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["look", *words]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("regard: ")
    assert "Traceback" not in said.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("family", ["cait", "volo"])
def test_a_patch_is_crossed_out_on_every_axis_that_it_stands_on(family: str) -> None:
    """A class token that comes late looks at patches by other numbers than they have among themselves."""
    model = net(family, attention="softmax")
    images = torch.randn(1, 2, 16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    table, axes = FAMILIES[family].axes, model.axes(images)

    def weights(*changes: Change) -> dict[str, torch.Tensor]:
        found = record_run(model, "*", lambda: model(images), table=table, axes=axes, changes=changes)
        return {name: one.weights for name, one in found.maps.items()}

    for changes, late, early in (
        ((Token("patches", 2),), 3, 2),
        ((Token("tokens", 3),), 3, 2),
        ((Token("tokens", 0),), 0, None),
    ):
        found = weights(*changes)
        assert bool((found["looks.0.mixer"][..., late] == 0).all())
        blind = [i for i in range(axes["patches"].size) if bool((found["blocks.0.mixer"][..., i] == 0).all())]
        assert blind == ([] if early is None else [early])


def test_what_was_changed_can_still_be_taken_apart(translated: Trace[Any]) -> None:
    """A token crossed out is hidden, and a temperature divides the scores: each weight comes out as it is."""
    found = translated.change(Token("source", 2), Temperature(0.5))
    for name, site in found.sites.items():
        assert site.arithmetic, name
        weights = map_weights(found, name)
        for row, column in ((0, 0), (2, 2), (weights.shape[-2] - 1, 1)):
            one = site.cell(1, row, column)
            assert torch.equal(one.weights, weights[1, row])
            assert torch.allclose((one.scores / 0.5).softmax(-1), one.weights, atol=1e-5), (name, row)
            assert one.seen == bool(one.weights[column] > 0), (name, row, column)
        assert "weights" not in found.net.get_submodule(name).kernel.__dict__  # nobody listens any more
    assert not found.sites["decoder.0.cross"].cell(0, 1, 2).seen


def test_a_text_of_one_token_can_be_taken_apart() -> None:
    found = regard.load("recall").look("Anna")
    assert all(site.arithmetic for site in found.sites.values())
    assert found.sites["blocks.0.mixer"].cell(0, 0, 0).weights.tolist() == [1.0]


def test_a_rollout_goes_through_all_layers_of_its_positions(windows: Trace[Any]) -> None:
    """Of windows, those of one stage; of a layer that ran several times, every time."""
    first, second, *later = windows.sites
    told = windows.ask("rollout", site=second)
    assert told["layers"] == [first, second]
    expected = rolled_out([joined_map(windows.maps[name]) for name in told["layers"]]).weights[0, 0]
    assert torch.allclose(torch.tensor(told["map"], dtype=torch.float64), expected)
    assert windows.ask("rollout")["layers"] == later
    shared = net("bert", depth=3, shared=True)
    ids = torch.tensor([[1, 2, 3, 4]])
    found = record_run(shared, "*", lambda: shared(ids), table=FAMILIES["bert"].axes, axes=shared.axes(ids))
    assert found.ask("rollout")["layers"] == [f"blocks.0.mixer@{i}" for i in range(3)]
    assert found.ask("spectrum")["site"] == "blocks.0.mixer@0"
    assert set(found.ask("distance")["sites"]) == {f"blocks.0.mixer@{i}" for i in range(3)}


def test_names_on_a_page_of_heads_have_room_and_every_row_its_heads(windows: Trace[Any]) -> None:
    figure = all_heads(windows, "Swin", "a note")
    figure.draw_without_rendering()
    first = min(axes.get_window_extent().x0 for axes in figure.axes)
    names = [text for text in figure.texts if text.get_text() in windows.sites]
    assert len(names) == len(windows.sites)
    assert max(text.get_window_extent().x1 for text in names) < first
