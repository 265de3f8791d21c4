"""Files of tensors are written whole."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.errors import InputError
from regard.storage import atomic as writing
from regard.storage.atomic import save_folder
from regard.storage.documents import read_json
from regard.storage.tensors import open_weights
from tests.interop.filed import refused, same


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    return tmp_path / "model"


CONTENT: dict[str, Any] = {
    "model.safetensors": {"x": torch.ones(5)},
    "regard.json": b'{"format": 1}\n',
    "card.md": b"hi",
}


def tree(folder: Path) -> dict[str, bytes]:
    return {str(x.relative_to(folder)): x.read_bytes() for x in sorted(folder.rglob("*")) if x.is_file()}


def test_a_folder_is_written_whole(tmp_path: Path) -> None:
    save_folder(tmp_path / "deep" / "er" / "m", CONTENT)
    assert sorted(x.name for x in (tmp_path / "deep" / "er").iterdir()) == ["m"]
    assert sorted(tree(tmp_path / "deep" / "er" / "m")) == ["card.md", "model.safetensors", "regard.json"]
    assert read_json(tmp_path / "deep" / "er" / "m" / "regard.json") == {"format": 1}


def test_the_same_tensors_give_the_same_bytes(tmp_path: Path) -> None:
    state = {"b": torch.arange(3.0), "a": torch.arange(4)}
    save_folder(tmp_path / "one", {"model.safetensors": state})
    save_folder(tmp_path / "two", {"model.safetensors": dict(reversed(state.items()))})
    assert tree(tmp_path / "one") == tree(tmp_path / "two")


def test_others_may_read_what_the_umask_lets_them(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        save_folder(tmp_path / "m", CONTENT)
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(x.stat().st_mode) for x in (tmp_path / "m").iterdir()}
    assert modes == {0o644}
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o755


def test_views_and_tied_tensors_are_written_in_full(tmp_path: Path) -> None:
    x = torch.arange(24.0).reshape(4, 6)
    q, k, v = x.chunk(3, 1)
    top, bottom = x.chunk(2)
    state = {"x": x, "tied": x, "T": x.T, "q": q, "k": k, "v": v, "top": top, "bottom": bottom, "last": x[3, 5]}
    state |= {"wide": torch.ones(1).expand(3, 2), "parameter": torch.nn.Parameter(torch.ones(2))}
    state |= {"conjugate": torch.tensor([1 + 2j]).conj(), "none": torch.empty(0), "none again": torch.empty(0)}
    save_folder(tmp_path / "m", {"model.safetensors": state})
    found = open_weights(tmp_path / "m").read()
    assert same(found, {name: tensor.detach() for name, tensor in state.items()})


@pytest.mark.parametrize(
    "tensors",
    [
        {"x": torch.empty(2, device="meta")},
        {"x": torch.eye(2).to_sparse()},
        {"x": torch.ones(2, dtype=torch.complex128)},
        {"__metadata__": torch.ones(1)},
        {"": torch.ones(1)},
    ],
    ids=["meta", "sparse", "dtype", "metadata", "no name"],
)
def test_what_the_format_cannot_hold_is_refused_before_writing(tmp_path: Path, tensors: dict[str, Tensor]) -> None:
    with pytest.raises(InputError, match="tensor"):
        save_folder(tmp_path / "m", {"model.safetensors": tensors})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "..", "a\\b", "a\0b", "/x"])
def test_a_file_is_written_only_inside_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="plain file name"):
        save_folder(tmp_path / "m", {name: b""})
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_files_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    save_folder(tmp_path / "m", CONTENT)  # an empty folder is a fine place
    before = tree(tmp_path)
    text = refused(lambda: save_folder(tmp_path / "m", CONTENT))
    assert "not empty" in text
    assert "'card.md'" in text
    assert tree(tmp_path) == before
    (tmp_path / "file").write_bytes(b"x")
    assert str(tmp_path / "file") in refused(lambda: save_folder(tmp_path / "file", CONTENT))
    assert (tmp_path / "file").read_bytes() == b"x"


def test_replace_swaps_the_whole_folder_and_loses_no_other_file(tmp_path: Path) -> None:
    save_folder(tmp_path / "m", CONTENT)
    save_folder(tmp_path / "m", CONTENT | {"card.md": b"new", "more.txt": b""}, replace=True)
    assert tree(tmp_path / "m")["card.md"] == b"new"
    assert sorted(x.name for x in tmp_path.iterdir()) == ["m"]
    before = tree(tmp_path)
    assert "'more.txt'" in refused(lambda: save_folder(tmp_path / "m", CONTENT, replace=True))
    (tmp_path / "m" / "card.md").unlink()
    (tmp_path / "m" / "card.md").mkdir()
    assert "'card.md'" in refused(lambda: save_folder(tmp_path / "m", CONTENT | {"more.txt": b""}, replace=True))
    (tmp_path / "m" / "card.md").rmdir()
    assert tree(tmp_path) == {name: data for name, data in before.items() if name != "m/card.md"}


def test_a_link_to_a_folder_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    save_folder(tmp_path / "link", CONTENT)
    save_folder(tmp_path / "link", CONTENT | {"card.md": b"new"}, replace=True)
    assert (tmp_path / "link").is_symlink()
    assert tree(tmp_path / "real")["card.md"] == b"new"


def failing(call: Callable[..., Any], at: int, error: BaseException) -> Callable[..., Any]:
    """The same call, but the ``at``-th one fails."""
    count = iter(range(1000))

    def wrapped(*arguments: Any, **options: Any) -> Any:
        if next(count) == at:
            raise error
        return call(*arguments, **options)

    return wrapped


FULL = OSError(errno.ENOSPC, "No space left on device")


def points() -> Iterator[tuple[str, int]]:
    yield from (("fsync", at) for at in range(4))  # three files and the folder
    yield from (("chmod", 0), ("mkdtemp", 0), ("save_file", 0), ("open", 0), ("open", 2), ("rename", 0))


@pytest.mark.parametrize("replace", [False, True], ids=["new", "replace"])
@pytest.mark.parametrize(("what", "at"), list(points()))
def test_a_full_disk_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, at: int, replace: bool
) -> None:
    (tmp_path / "other").write_bytes(b"x")
    if replace:
        save_folder(tmp_path / "m", CONTENT)
    before = tree(tmp_path)
    places = {
        "fsync": (os, "fsync"),
        "chmod": (os, "chmod"),
        "mkdtemp": (writing.tempfile, "mkdtemp"),
        "save_file": (writing, "save_file"),
        "open": (os, "open"),
        "rename": (writing, "exchange") if replace else (os, "replace"),
    }
    home, name = places[what]
    with monkeypatch.context() as patch:
        patch.setattr(home, name, failing(getattr(home, name), at, FULL))
        text = refused(lambda: save_folder(tmp_path / "m", CONTENT | {"card.md": b"new"}, replace=replace))
    assert "No space left on device" in text
    assert str(tmp_path / "m") in text
    assert f"{20 + 14 + 3} bytes" in text
    assert tree(tmp_path) == before
    assert sorted(x.name for x in tmp_path.iterdir()) == (["m", "other"] if replace else ["other"])
    save_folder(tmp_path / "m", CONTENT | {"card.md": b"new"}, replace=replace)  # and the next attempt succeeds
    assert tree(tmp_path / "m")["card.md"] == b"new"


def test_an_error_of_the_safetensors_library_is_reported_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = writing.SafetensorError("I/O error: No space left on device (os error 28)")
    monkeypatch.setattr(writing, "save_file", failing(writing.save_file, 0, error))
    assert "No space left on device" in refused(lambda: save_folder(tmp_path / "m", CONTENT))
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_leaves_no_trace_and_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", failing(os.fsync, 1, KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        save_folder(tmp_path / "m", CONTENT)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_sync_of_the_parent_comes_too_late_to_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", failing(os.fsync, 4, FULL))
    save_folder(tmp_path / "m", CONTENT)
    assert same(open_weights(tmp_path / "m").read(), CONTENT["model.safetensors"])


def test_every_file_is_synced_before_the_folder_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    fsync, rename = os.fsync, os.replace
    monkeypatch.setattr(
        os, "fsync", lambda fd: (events.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name), fsync(fd))
    )
    monkeypatch.setattr(os, "replace", lambda a, b: (events.append("rename"), rename(a, b)))
    save_folder(tmp_path / "m", CONTENT)
    assert sorted(events[:3]) == ["card.md", "model.safetensors", "regard.json"]
    assert events[3:] == ["new", "rename", tmp_path.name]


def test_a_system_that_cannot_swap_folders_refuses_to_replace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_folder(tmp_path / "m", CONTENT)
    before = tree(tmp_path)
    monkeypatch.setattr(writing.sys, "platform", "other")
    assert "atomically" in refused(lambda: save_folder(tmp_path / "m", CONTENT | {"card.md": b"new"}, replace=True))
    assert tree(tmp_path) == before
