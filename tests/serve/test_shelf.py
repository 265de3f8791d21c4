"""Models by name: what is offered, what is not, what is loaded and what is dropped again."""

import shutil
from dataclasses import replace

import pytest
import torch

import regard
from regard.errors import InputError
from regard.modalities.processors import kind_for
from regard.serve.looks import Looks
from regard.serve.model_list import MOST, ModelShelf, offered, words_of
from regard.serve.refusals import RefusedError
from regard.serve.schema import LookRequest
from regard.zoo import FAMILIES, count_parameters, empty_net, find_preset, shipped_names

from .conftest import API, check_clean


def test_every_model_is_listed_with_an_input_that_it_takes(client) -> None:
    rows = client.get(f"{API}/models").json()
    names = [row["name"] for row in rows]
    assert set(names) == {*shipped_names(), "run:stories", "run:broken", *offered()}
    assert names[0] == "tatoeba-en-de"  # what a page opens with
    by_name = {row["name"]: row for row in rows}
    assert by_name["tatoeba-en-de"]["takes"] == "pair"
    assert by_name["digits"]["takes"] == "image"
    assert by_name["run:stories"] == by_name["recall"] | {
        "name": "run:stories", "title": "stories", "source": "run", "example": by_name["run:stories"]["example"],
    }  # fmt: skip
    assert by_name["recall"]["parameters"] == sum(x.numel() for x in regard.load("recall").parameters())
    for name in shipped_names():
        answer = client.post(f"{API}/run", json={"model": name, "input": by_name[name]["example"]})
        assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    "name", ["swin-cifar", "levit-cifar", "perceiver-mnist", "detr-small", "linformer-tiny", "fnet-tiny"]
)
def test_a_small_model_of_the_zoo_can_be_looked_into(client, name) -> None:
    row = next(row for row in client.get(f"{API}/models").json() if row["name"] == name)
    answer = client.post(f"{API}/look", json={"model": name, "input": row["example"]})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["sites"]
    assert found["model"]["parameters"] == row["parameters"]
    assert client.get(f"{API}/looks/{found['id']}/thumbnails").status_code == 200


def test_a_net_that_mixes_without_weights_is_looked_at_in_short_texts(client) -> None:
    body = {"model": "fnet-tiny", "input": {"kind": "text", "text": "a" * 200}}
    assert client.post(f"{API}/run", json=body).status_code == 200
    refused = client.post(f"{API}/look", json=body)
    assert refused.status_code == 422
    assert refused.json()["error"]["expected"] == "at most 160 tokens"


def test_runs_that_cannot_be_offered_are_told_with_the_reason(runs, tmp_path) -> None:
    for name in ("stories", "my run", "größe", "_old", "x" * 101):
        shutil.copytree(runs / "stories", tmp_path / "all" / name)
    (tmp_path / "all" / "not finished").mkdir()
    shutil.copytree(runs / "stories", tmp_path / "elsewhere")
    (tmp_path / "all" / "link").symlink_to(tmp_path / "elsewhere")
    shelf = ModelShelf(tmp_path / "all")
    assert [name for name, _ in shelf.finished()] == ["stories"]
    told = {line.split("'")[1]: line for line in shelf.left_out()}
    assert set(told) == {"my run", "größe", "_old", "x" * 101, "link"}
    assert "move it" in told.pop("link")
    assert all("rename it" in line for line in told.values())
    assert ModelShelf(tmp_path / "none").left_out() == ModelShelf().left_out() == []


def check_size(name: str) -> None:
    family, config = find_preset(name, words_of(name))
    assert count_parameters(empty_net(family, config)) == FAMILIES[family].offered[name] <= MOST


@pytest.mark.parametrize("name", ["gpt-tiny", "transformer-small", "vit-cifar", "levit-cifar", "detr-small"])
def test_the_zoo_has_the_sizes_that_it_states(name: str) -> None:
    check_size(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", offered())
def test_all_of_the_zoo_has_the_sizes_that_it_states(name: str) -> None:
    check_size(name)


@pytest.mark.parametrize("name", ["unfinished", "run:unfinished", "run:", "run:..", "nothing", "gpt-small"])
def test_what_is_not_there_is_not_found(client, name) -> None:
    answer = client.post(f"{API}/run", json={"model": name, "input": {"kind": "text", "text": "Anna"}})
    assert answer.status_code == 404
    check_clean(answer)


@pytest.mark.parametrize("name", ["run:broken", "run:torn"])
def test_a_broken_run_is_refused_and_says_nothing_of_its_folder(client, name) -> None:
    answer = client.post(f"{API}/run", json={"model": name, "input": {"kind": "text", "text": "Anna"}})
    assert answer.status_code == 422
    check_clean(answer)
    assert "model.safetensors" not in answer.text


def test_a_link_that_leads_out_of_the_folder_is_not_followed(tmp_path, runs) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "outside").symlink_to(runs / "stories")
    (tmp_path / "runs" / "with space").mkdir()
    assert ModelShelf(tmp_path / "runs").finished() == []
    assert ModelShelf(tmp_path / "nowhere").finished() == []
    assert [name for name, _ in ModelShelf(runs).finished()] == ["broken", "stories", "torn"]


def test_models_that_do_not_fit_are_dropped_with_their_looks() -> None:
    small = ModelShelf(room=1)
    looks = Looks(small)
    asked = LookRequest(model="recall", input={"kind": "text", "text": "Anna sings ."})
    first = looks.look(asked)
    assert looks.get(first.id) is first
    assert list(small.kept) == [("recall", None)]
    small.get("digits")
    assert list(small.kept) == [("digits", None)]
    with pytest.raises(RefusedError):
        looks.get(first.id)
    assert looks.look(asked).id == first.id


def test_another_attention_that_does_not_fit_is_refused_with_what_would(shelf) -> None:
    with pytest.raises(InputError, match="do not fit"):
        shelf.get("digits", "linformer")
    with pytest.raises(InputError, match="does not support this attention"):
        shelf.get("recall", "nonsense")
    with pytest.raises(InputError, match="does not support this attention"):
        shelf.get("recall", "local-p")  # which cannot be causal


def test_a_run_that_was_trained_anew_is_loaded_anew(tmp_path, runs) -> None:
    folder = tmp_path / "runs"
    shutil.copytree(runs / "stories", folder / "stories")
    shelf = ModelShelf(folder)
    looks = Looks(shelf)
    asked = LookRequest.model_validate({"model": "run:stories", "input": {"kind": "text", "text": "Anna sings . Anna"}})
    before = looks.look(asked)
    assert looks.look(asked) is before
    model = regard.load(folder / "stories" / "model")
    with torch.no_grad():
        for x in model.parameters():
            x.mul_(0.5)
    shutil.rmtree(folder / "stories" / "model")
    regard.save(model, folder / "stories" / "model")
    after = looks.look(asked)
    assert after is not before
    assert not torch.equal(after.trace.output, before.trace.output)


def test_a_family_without_a_form_of_input_is_not_offered(monkeypatch: pytest.MonkeyPatch, shelf: ModelShelf) -> None:
    strange = replace(FAMILIES["vit"], takes=("points",), offered={"vit-points": 10})
    monkeypatch.setitem(FAMILIES.rows, "pointed", strange)
    names = {row.name for row in shelf.rows()}
    assert "vit-points" not in names
    assert names
    with pytest.raises(InputError, match="no processor prepares") as caught:
        kind_for(strange)
    assert caught.value.got == "points"
