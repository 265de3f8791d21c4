"""Checkpoints: whole or not at all, to the bit, and the newest whole one is found again whatever happened to it."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.errors import CheckpointError
from regard.storage import atomic as writing
from regard.train import checkpoint
from regard.train.checkpoint import Checkpoint, Checkpoints, find_damage, read_checkpoint, throw_away
from regard.train.distribution import ALONE, World
from regard.train.shards import plain_tensor


def tables() -> dict[str, dict[str, Tensor]]:
    """Every kind of tensor that a run may have to remember."""
    torch.manual_seed(0)
    shared = torch.randn(6)
    return {
        "net": {
            "weight": torch.randn(3, 4),
            "half": torch.randn(5).bfloat16(),
            "number": torch.tensor(3.5),
            "count": torch.tensor(7, dtype=torch.int64),
            "flags": torch.tensor([True, False]),
            "nothing": torch.zeros(0, 4),
            "turned": torch.randn(4, 3).T,
            "first": shared[:3],
            "all": shared,
            "odd": torch.tensor([float("inf"), -0.0, 1e-45, float("nan")]),
        },
        "net.optimizer": {"exp_avg/a.b.weight": torch.randn(2, 2).double(), "step/a.b.weight": torch.tensor(9.0)},
        "task": {},
    }


DATA = {"best": 0.1, "window": {"sum loss": 1 / 3}, "kept": [3, 4], "finished": "", "nothing": None, "name": "naïve 😀"}


def saved(folder: Path, *steps: int) -> Checkpoints:
    found = Checkpoints(folder, ALONE)
    for step in steps:
        found.save(Checkpoint(step, dict(DATA), tables()))
    return found


def loaded(path: Path) -> Checkpoint:
    return read_checkpoint(path, lambda _, name, shape, dtype: plain_tensor(name, shape, dtype))


def bits(x: Tensor) -> bytes:
    return bytes(x.contiguous().view(torch.uint8).flatten().tolist()) if x.dim() and x.numel() else repr(x).encode()


def same(one: dict[str, dict[str, Tensor]], two: dict[str, dict[str, Tensor]]) -> None:
    assert one.keys() == two.keys()
    for name, table in one.items():
        assert table.keys() == two[name].keys()
        for key, x in table.items():
            assert (x.dtype, x.shape) == (two[name][key].dtype, two[name][key].shape), key
            assert bits(x) == bits(two[name][key]), key


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_read_is_what_was_saved(tmp_path: Path) -> None:
    saved(tmp_path / "c", 12)
    found = loaded(tmp_path / "c" / "step-000012")
    assert (found.step, found.data) == (12, DATA)
    same(found.tensors, tables())


def test_the_manifest_names_every_file(tmp_path: Path) -> None:
    saved(tmp_path, 12)
    path = tmp_path / "step-000012"
    files = json.loads((path / "manifest.json").read_text())["files"]
    assert sorted(files) == ["net.optimizer.safetensors", "net.safetensors", "state.json", "task.safetensors"]
    assert all(len(wanted) == 64 for wanted in files.values())
    assert sorted([*files, "manifest.json"]) == names(path)
    assert find_damage(path) == ""


def test_the_newest_is_the_one_of_the_most_steps(tmp_path: Path) -> None:
    found = saved(tmp_path, 9, 1_000_001, 999_999)
    (tmp_path / "step-x").mkdir()
    (tmp_path / "notes").mkdir()
    assert [step for step, _ in found.all()] == [9, 999_999, 1_000_001]
    assert found.newest() == tmp_path / "step-1000001"


def test_where_there_is_none(tmp_path: Path) -> None:
    found = Checkpoints(tmp_path / "nowhere", ALONE)
    assert (found.all(), found.newest()) == ([], None)
    found.sweep()
    found.keep(set())


def flip(path: Path) -> None:
    raw = bytearray((path / "net.safetensors").read_bytes())
    raw[-5] ^= 1
    (path / "net.safetensors").write_bytes(raw)


def truncate(path: Path) -> None:
    os.truncate(path / "net.optimizer.safetensors", (path / "net.optimizer.safetensors").stat().st_size - 1)


def no_list(path: Path) -> None:
    (path / "manifest.json").write_text('{"files": ["net.safetensors"]}')


def a_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("not a folder")


def empty(path: Path) -> None:
    shutil.rmtree(path)
    path.mkdir()


def hollow(path: Path) -> None:
    (path / "net.safetensors").unlink()
    (path / "net.safetensors").mkdir()


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "flipped": (flip, "'net.safetensors' does not match its SHA-256"),
    "truncated": (truncate, "'net.optimizer.safetensors' does not match its SHA-256"),
    "missing": (lambda path: (path / "net.safetensors").unlink(), "missing or unexpected files: 'net.safetensors'"),
    "no state": (lambda path: (path / "state.json").unlink(), "missing or unexpected files: 'state.json'"),
    "extra": (
        lambda path: (path / "more.safetensors").write_bytes(b""),
        "missing or unexpected files: 'more.safetensors'",
    ),
    "a folder for a file": (hollow, "missing or unexpected files: 'net.safetensors'"),
    "no manifest": (lambda path: (path / "manifest.json").unlink(), "manifest.json cannot be read"),
    "manifest no JSON": (lambda path: (path / "manifest.json").write_text("{"), "manifest.json cannot be read"),
    "manifest a list": (lambda path: (path / "manifest.json").write_text("[]"), "manifest.json cannot be read"),
    "manifest empty": (lambda path: (path / "manifest.json").write_text(""), "manifest.json cannot be read"),
    "manifest without files": (lambda path: (path / "manifest.json").write_text("{}"), "has no list of files"),
    "files no table": (no_list, "has no list of files"),
    "empty folder": (empty, "manifest.json cannot be read"),
    "a file": (a_file, "manifest.json cannot be read"),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_one_is_named_and_passed_over(tmp_path: Path, kind: str) -> None:
    found = saved(tmp_path, 5, 10)
    spoil, reason = DAMAGES[kind]
    spoil(tmp_path / "step-000010")
    told: list[str] = []
    assert found.newest(told.append) == tmp_path / "step-000005"
    assert len(told) == 1
    assert str(tmp_path / "step-000010") in told[0]
    assert "damaged and is skipped" in told[0]
    assert reason in told[0]
    # and the same step can be saved again, over it
    found.save(Checkpoint(10, {"again": True}, tables()))
    assert found.newest() == tmp_path / "step-000010"
    assert loaded(tmp_path / "step-000010").data == {"again": True}
    assert names(tmp_path) == ["step-000005", "step-000010"]


def test_when_all_are_damaged_there_is_none(tmp_path: Path) -> None:
    found = saved(tmp_path, 5, 10)
    flip(tmp_path / "step-000005")
    truncate(tmp_path / "step-000010")
    told: list[str] = []
    assert found.newest(told.append) is None
    assert [line.split()[0] for line in told] == [str(tmp_path / "step-000010"), str(tmp_path / "step-000005")]


def test_what_is_half_written_is_never_taken(tmp_path: Path) -> None:
    """Not even when all of its files are there: it has not been renamed."""
    found = saved(tmp_path, 5, 10)
    hidden = tmp_path / ".step-000015.x1y2"
    hidden.mkdir()
    os.rename(tmp_path / "step-000010", hidden / "new")
    shutil.copytree(hidden / "new", tmp_path / ".step-000020")
    assert [step for step, _ in found.all()] == [5]
    assert found.newest() == tmp_path / "step-000005"


def test_keep_throws_the_others_away(tmp_path: Path) -> None:
    found = saved(tmp_path, 5, 10, 15, 20)
    (tmp_path / "mine.txt").write_text("stays")
    found.keep({10, 20, 99})
    assert names(tmp_path) == ["mine.txt", "step-000010", "step-000020"]
    Checkpoints(tmp_path, World(rank=1, size=2)).keep(set())  # the first process alone does that
    assert len(found.all()) == 2


def test_one_that_cannot_be_thrown_away_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = saved(tmp_path, 5, 10, 15)
    plain = os.replace

    def replace(old: Path, new: Path) -> None:
        if old.name == "step-000005":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        plain(old, new)

    monkeypatch.setattr(checkpoint.os, "replace", replace)
    found.keep({15})
    assert names(tmp_path) == ["step-000005", "step-000015"]


def test_sweep_removes_what_a_crash_left(tmp_path: Path) -> None:
    found = saved(tmp_path, 5)
    (tmp_path / ".step-000010.abc" / "new").mkdir(parents=True)
    (tmp_path / ".step-000010.abc" / "new" / "net.safetensors").write_bytes(b"half")
    (tmp_path / ".step-of-a-file").write_text("it was a file where a checkpoint should be")
    (tmp_path / ".other").mkdir()
    Checkpoints(tmp_path, World(rank=1, size=2)).sweep()
    assert len(names(tmp_path)) == 4
    found.sweep()
    assert names(tmp_path) == [".other", "step-000005"]


def test_throwing_away_hides_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed while it is being removed, it is no longer there under its name."""
    saved(tmp_path, 5)
    monkeypatch.setattr(checkpoint.shutil, "rmtree", lambda *_, **__: None)  # "killed" before the first file
    throw_away(tmp_path / "step-000005")
    assert Checkpoints(tmp_path, ALONE).all() == []
    assert [name[:6] for name in names(tmp_path)] == [".step-"]


FILES = ("net.safetensors", "net.optimizer.safetensors", "task.safetensors", "state.json", "manifest.json")


@pytest.mark.parametrize("file", [*FILES, "sync", "rename"])
def test_a_write_that_fails_leaves_the_earlier_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    """The disk is full at each of the files, and at the end: nothing is left but what was there."""
    found = saved(tmp_path, 5)
    before = {path.name: path.read_bytes() for path in (tmp_path / "step-000005").iterdir()}

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def write(path: Path, value: Any) -> None:
        if path.name == file:
            path.write_bytes(b"half of it")
            full()
        writing.write_file(path, value)

    if file == "sync":
        monkeypatch.setattr(writing, "sync_to_disk", lambda path: full() if path.name == "new" else None)
    elif file == "rename":
        monkeypatch.setattr(writing.os, "replace", full)
    else:
        monkeypatch.setattr(checkpoint, "write_file", write)
    with pytest.raises(CheckpointError) as error:
        found.save(Checkpoint(10, dict(DATA), tables()))
    assert str(tmp_path / "step-000010") in error.value.where
    assert error.value.got == "No space left on device"
    total = sum(x.nbytes for table in tables().values() for x in table.values())
    assert f"{total} bytes free" in error.value.expected
    assert names(tmp_path) == ["step-000005"]
    assert found.newest() == tmp_path / "step-000005"
    assert {path.name: path.read_bytes() for path in (tmp_path / "step-000005").iterdir()} == before


def test_a_folder_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> str:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(writing.tempfile, "mkdtemp", refused)
    with pytest.raises(CheckpointError, match="Permission denied"):
        saved(tmp_path, 5)
    assert names(tmp_path) == []


def test_data_that_is_no_json_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be written as JSON"):
        Checkpoints(tmp_path, ALONE).save(Checkpoint(5, {"best": float("nan")}, tables()))
    assert names(tmp_path) == []


def test_other_processes_write_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(World, "least", lambda self, number: number)
    Checkpoints(tmp_path, World(rank=1, size=2)).save(Checkpoint(5, {}, tables()))
    assert names(tmp_path) == []


def test_all_hear_of_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that fails says so to the others, which would wait for ever."""
    heard: list[int] = []
    monkeypatch.setattr(World, "least", lambda self, number: heard.append(number) or number)
    monkeypatch.setattr(
        checkpoint, "write_file", lambda path, value: (_ for _ in ()).throw(OSError(errno.EIO, "broken"))
    )
    with pytest.raises(CheckpointError):
        Checkpoints(tmp_path, World(size=2)).save(Checkpoint(5, {}, tables()))
    assert heard == [0]  # its rank; 2 if all were well
