"""Folders of files of tensors, and the JSON beside them."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from regard.errors import CheckpointError, InputError
from regard.storage.documents import json_bytes, read_json
from regard.storage.tensors import Info, open_weights
from tests.interop.filed import quick, refused, same


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    return tmp_path / "model"


def test_the_one_safetensors_file_of_another_name_is_found(folder: Path) -> None:
    save_file({"x": torch.ones(1)}, folder / "diffusion.safetensors")
    assert open_weights(folder).header.keys() == {"x"}
    save_file({"y": torch.ones(1)}, folder / "adapter.safetensors")
    text = refused(lambda: open_weights(folder))
    assert "'adapter.safetensors', 'diffusion.safetensors'" in text
    assert "rename" in text
    save_file({"z": torch.ones(1)}, folder / "model.safetensors")
    assert open_weights(folder).header.keys() == {"z"}


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "last.ckpt", "tf_model.h5"])
def test_a_folder_of_pickles_is_never_read_silently(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"")
    text = refused(lambda: open_weights(folder))
    assert "never loaded automatically" in text
    assert f"'{name}'" in text
    assert f"regard convert {folder} OUT" in text


def test_a_folder_without_weights_or_no_folder_at_all(folder: Path) -> None:
    assert "no weights" in refused(lambda: open_weights(folder))
    assert "No such file" in refused(lambda: open_weights(folder / "missing"))
    (folder / "file").write_text("x")
    assert "Not a directory" in refused(lambda: open_weights(folder / "file"))
    (folder / "model.safetensors").mkdir()
    assert "not a regular file" in refused(lambda: open_weights(folder))


def test_a_pipe_is_refused_and_does_not_block(folder: Path) -> None:
    os.mkfifo(folder / "model.safetensors")
    assert "not a regular file" in refused(lambda: open_weights(folder))
    assert "not a regular file" in refused(lambda: read_json(folder / "model.safetensors"))


A, B = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


STATE = {"a": torch.ones(2), "b": torch.zeros(3), "c": torch.arange(4)}


@pytest.fixture
def sharded(folder: Path) -> Path:
    save_file({"a": STATE["a"], "b": STATE["b"]}, folder / A, {"format": "pt", "part": "1"})
    save_file({"c": STATE["c"]}, folder / B, {"format": "pt", "part": "2"})
    write_index(folder, {"a": A, "b": A, "c": B})
    return folder


def write_index(folder: Path, weight_map: Any) -> None:
    index = {"metadata": {"total_size": 52}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def test_shards_are_read_as_one(sharded: Path) -> None:
    weights = open_weights(sharded)
    assert same(weights.read(), STATE)
    assert weights.header["c"] == Info(torch.int64, (4,))
    assert weights.metadata == {"format": "pt"}
    assert list(weights.header) == ["a", "b", "c"]


def test_all_disagreements_of_an_index_come_in_one_error(sharded: Path) -> None:
    save_file({"a": STATE["a"], "c": STATE["c"], "extra": STATE["b"]}, sharded / B)
    text = refused(lambda: open_weights(sharded))
    assert f"'a': in {B}, but the index says {A}" in text
    assert f"'extra': in {B}, but not in the index" in text
    write_index(sharded, {"a": B, "b": A, "c": B, "extra": A, "d": A})
    text = refused(lambda: open_weights(sharded))
    assert f"'extra': missing from {A}" in text
    assert f"'d': missing from {A}" in text
    assert f"'a': in {A}, but the index says {B}" in text
    assert "4 problems" in text


@pytest.mark.parametrize(
    "name",
    [
        "../secret.safetensors",
        "sub/x.safetensors",
        "sub\\x.safetensors",
        "..\\secret.safetensors",
        "/etc/passwd",
        "/etc/x.safetensors",
        "C:x.safetensors",
        "\\\\host\\x.safetensors",
        "file:///x.safetensors",
        "..",
        ".",
        "",
        "x\0.safetensors",
        "x\n.safetensors",
        "model.bin",
        "config.json",
        "missing.safetensors",
        "folder.safetensors",
        "out.safetensors",
        "loop.safetensors",
        "broken.safetensors",
        "up.safetensors",
        "x" * 300 + ".safetensors",
        ".." + "/.." * 20 + "/etc/x.safetensors",
        "%2e%2e%2fsecret.safetensors",
    ],
)
def test_a_shard_outside_the_folder_or_of_no_plain_name_is_refused(sharded: Path, name: str) -> None:
    save_file({"c": STATE["c"]}, sharded.parent / "secret.safetensors")
    (sharded / "sub").mkdir()
    save_file({"c": STATE["c"]}, sharded / "sub" / "x.safetensors")
    save_file({"c": STATE["c"]}, sharded / "sub\\x.safetensors")
    (sharded / "folder.safetensors").mkdir()
    (sharded / "out.safetensors").symlink_to(sharded.parent / "secret.safetensors")
    (sharded / "up.safetensors").symlink_to("../secret.safetensors")
    (sharded / "loop.safetensors").symlink_to("loop.safetensors")
    (sharded / "broken.safetensors").symlink_to("nowhere.safetensors")
    write_index(sharded, {"a": A, "b": A, "c": name})
    text = refused(lambda: open_weights(sharded))
    assert "the shard" in text
    assert "index.json" in text


def test_a_link_inside_the_folder_is_fine(sharded: Path) -> None:
    (sharded / "link.safetensors").symlink_to(B)
    write_index(sharded, {"a": A, "b": A, "c": "link.safetensors"})
    assert same(open_weights(sharded).read(), STATE)


@pytest.mark.parametrize("weight_map", [None, [], {}, "x", 1, {"a": 1}, {"a": None}, {"a": ["x"]}, {"a": {}}], ids=str)
def test_an_index_of_another_form_is_refused(sharded: Path, weight_map: Any) -> None:
    write_index(sharded, weight_map)
    assert "weight_map" in refused(lambda: open_weights(sharded))


def test_a_damaged_shard_is_named(sharded: Path) -> None:
    (sharded / B).write_bytes((sharded / B).read_bytes()[:-1])
    assert refused(lambda: open_weights(sharded)).startswith(B)


BAD_JSON: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "invalid JSON"),
    "space": (b"  \n", "invalid JSON"),
    "array": (b"[1]", "not an object"),
    "text": (b'"x"', "not an object"),
    "null": (b"null", "not an object"),
    "number": (b"3", "not an object"),
    "two objects": (b"{}{}", "invalid JSON"),
    "cut": (b'{"a": "b', "invalid JSON"),
    "single quotes": (b"{'a': 1}", "invalid JSON"),
    "NaN": (b'{"a": NaN}', "NaN"),
    "Infinity": (b'{"a": [Infinity]}', "Infinity"),
    "minus Infinity": (b'{"a": -Infinity}', "-Infinity"),
    "too large": (b'{"a": 1e400}', "too large"),
    "too small": (b'{"a": -1e400}', "too large"),
    "digits": (b'{"a": ' + b"9" * 10_000 + b"}", "invalid JSON"),
    "key twice": (b'{"a": 1, "a": 1}', "duplicate key 'a'"),
    "key twice below": (b'{"x": [{"b": {"a": 1, "a": 2}}]}', "duplicate key 'a'"),
    "latin-1": (b'{"a": "\xe9"}', "UTF-8"),
    "overlong": (b'{"a": "\xc0\xaf"}', "UTF-8"),
    "surrogate bytes": (b'{"a": "\xed\xa0\x80"}', "UTF-8"),
    "surrogate escape": (b'{"a": "\\udfff"}', "UTF-8"),
    "surrogate key": (b'{"\\ud834": 1}', "UTF-8"),
    "mark": (b"\xef\xbb\xbf{}", "invalid JSON"),
    "UTF-16": ("{}".encode("utf-16"), "UTF-8"),
    "UTF-32": ("{}".encode("utf-32-be"), "invalid JSON"),
    "control": (b'{"a": "\x01"}', "invalid JSON"),
    "deep list": (b'{"a":' + b"[" * 500_000, "nested deeper"),
    "deep object": (b'{"a":' * 500_000, "nested deeper"),
    "deep, closed": (b'{"a":' + b"[" * 70 + b"]" * 70 + b"}", "nested deeper"),
    "many": (b'{"a":[' + b"[]," * 1_500_000 + b"[]]}", "values"),
}


@pytest.mark.parametrize("name", BAD_JSON)
def test_bad_json_is_refused(tmp_path: Path, name: str) -> None:
    data, reason = BAD_JSON[name]
    path = tmp_path / "config.json"
    path.write_bytes(data)
    text = refused(lambda: read_json(path))
    assert reason in text
    assert str(path) in text


def test_json_has_a_limit_that_can_be_set(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b'{"a": 1}')
    assert read_json(path, limit=8) == {"a": 1}
    assert "more than 7 bytes" in refused(lambda: read_json(path, limit=7))
    with open(path, "wb") as file:
        file.truncate(20_000_000)  # sparse
    assert "more than 16000000 bytes" in refused(lambda: read_json(path))
    assert "No such file" in refused(lambda: read_json(tmp_path / "missing.json"))


def test_json_as_deep_as_people_write_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b'{"a":' + b"[" * 50 + b"]" * 50 + b"}")
    assert "a" in read_json(path)


plain_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | plain_text


values = st.recursive(
    scalars, lambda x: st.lists(x, max_size=4) | st.dictionaries(plain_text, x, max_size=4), max_leaves=20
)


@quick
@given(st.dictionaries(plain_text, values, max_size=5))
def test_json_written_is_json_read(tmp_path: Path, value: dict[str, Any]) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(json_bytes(value))
    found = read_json(path)
    assert found == value
    assert list(found) == list(value)


@quick
@given(st.binary(max_size=40) | st.text(st.sampled_from('{}[]",:ae1.-\\u0 '), max_size=40).map(str.encode))
def test_random_bytes_are_json_or_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(data)
    with suppress(CheckpointError):
        assert isinstance(read_json(path), dict)


def test_json_keeps_order_and_ends_with_a_newline() -> None:
    assert json_bytes({"b": 1, "a": "é"}) == '{\n  "b": 1,\n  "a": "é"\n}\n'.encode()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, torch.ones(1), b"x", "\ud800"], ids=repr)
def test_what_json_cannot_say_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="JSON"):
        json_bytes({"a": value})
