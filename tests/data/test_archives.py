"""Packed files are unpacked once, whole or not at all."""

import gzip
import lzma
import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from regard.data import archives
from regard.data.archives import cache_folder, unpacked_file
from regard.errors import InputError

TEXT = b"".join(b"line %d of some text\n" % i for i in range(20_000))
PACKERS = {".gz": gzip.compress, ".xz": lambda text: lzma.compress(text, preset=0)}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "unpacked"


def packed(folder: Path, suffix: str, text: bytes = TEXT) -> Path:
    path = folder / f"text.tsv{suffix}"
    path.write_bytes(PACKERS[suffix](text))
    return path


def forbidden(*_: object) -> None:
    raise AssertionError("it was unpacked again")


@pytest.mark.parametrize("suffix", PACKERS)
def test_unpacked_once(tmp_path: Path, cache: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = packed(tmp_path, suffix)
    plain = unpacked_file(path)
    assert plain.read_bytes() == TEXT
    assert list(cache.iterdir()) == [plain]
    monkeypatch.setattr(archives, "unpack_into", forbidden)
    monkeypatch.chdir(tmp_path)
    assert unpacked_file(Path(path.name)) == plain  # by whatever name


@pytest.mark.parametrize("suffix", PACKERS)
def test_all_of_several_streams_is_read(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"text{suffix}"
    one, two = PACKERS[suffix](b"a\n"), PACKERS[suffix](b"b\n")
    path.write_bytes(one + two)
    assert unpacked_file(path).read_bytes() == b"a\nb\n"
    path.write_bytes(one + two[:5])
    with pytest.raises(InputError, match="truncated"):
        unpacked_file(path)


def test_a_plain_file_is_itself(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "text.tsv"
    path.write_bytes(TEXT)
    assert unpacked_file(path) == path
    assert not cache.exists()


def test_it_is_on_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, done = packed(tmp_path, ".gz"), []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (done.append(os.fstat(handle).st_size), sync(handle)))
    monkeypatch.setattr(os, "replace", lambda one, two: (done.append("named"), replace(one, two)))
    unpacked_file(path)
    assert done[:2] == [len(TEXT), "named"]


def test_it_has_the_time_of_its_source(tmp_path: Path) -> None:
    """So that it looks the same to a process that has it open, if another should write it again."""
    path = packed(tmp_path, ".gz")
    assert unpacked_file(path).stat().st_mtime_ns == path.stat().st_mtime_ns


def test_who_comes_second_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, calls, work = packed(tmp_path, ".gz"), [], archives.unpack_into
    monkeypatch.setattr(archives, "unpack_into", lambda *given: (calls.append(1), time.sleep(0.3), work(*given)))
    threads = [threading.Thread(target=unpacked_file, args=(path,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1


def test_another_content_is_unpacked_anew(tmp_path: Path) -> None:
    path = packed(tmp_path, ".gz", b"one\n")
    before = unpacked_file(path)
    os.utime(packed(tmp_path, ".gz", b"two\n"), ns=(1, 1))
    after = unpacked_file(path)
    assert (before.read_bytes(), after.read_bytes()) == (b"one\n", b"two\n")


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("harm", ["cut", "bit", "empty", "other", "tail"])
def test_a_damaged_archive_is_named_and_leaves_nothing(tmp_path: Path, cache: Path, suffix: str, harm: str) -> None:
    path = packed(tmp_path, suffix)
    raw = path.read_bytes()
    flipped = bytearray(raw)
    flipped[len(raw) // 2] ^= 16
    harmed = {"cut": raw[:-9], "bit": bytes(flipped), "empty": b"", "other": TEXT, "tail": raw + b"junk"}
    path.write_bytes(harmed[harm])
    with pytest.raises(InputError, match="corrupt or truncated") as caught:
        unpacked_file(path)
    assert caught.value.where == str(path)
    assert list(cache.iterdir()) == []


def test_a_full_disk_is_named_and_leaves_nothing(tmp_path: Path, cache: Path) -> None:
    """A limit on the size of files fails in the same call as a full disk."""
    path = packed(tmp_path, ".gz", TEXT * 10)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, before[1]))
    try:
        with pytest.raises(InputError, match="could not be decompressed") as caught:
            unpacked_file(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert str(cache) in caught.value.where
    assert f"{3 << 20} bytes" in caught.value.got
    assert list(cache.iterdir()) == []
    assert unpacked_file(path).stat().st_size == 10 * len(TEXT)  # and now there is room


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "file"))
    with pytest.raises(InputError, match="REGARD_CACHE") as caught:
        unpacked_file(packed(tmp_path, ".gz"))
    assert str(tmp_path / "file") in caught.value.where


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gz")
    for name, word in (("nowhere.gz", "cannot be read"), ("pipe.gz", "regular"), (".", "regular")):
        with pytest.raises(InputError, match=word):
            unpacked_file(tmp_path / name)


def test_processes_at_once_do_not_harm_each_other(tmp_path: Path, cache: Path) -> None:
    path = packed(tmp_path, ".xz", TEXT * 8)
    code = "import sys, pathlib, hashlib; from regard.data.archives import unpacked_file\n"
    code += "sys.stdin.readline(); plain = unpacked_file(pathlib.Path(sys.argv[1]))\n"
    code += "print(hashlib.sha256(plain.read_bytes()).hexdigest())"
    command = [sys.executable, "-c", code, str(path)]
    running = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    time.sleep(0.2)
    for process in running:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    found = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len(set(found)) == 1
    assert unpacked_file(path).read_bytes() == TEXT * 8
    assert len(list(cache.iterdir())) == 1


def test_what_a_killed_process_left_goes(tmp_path: Path, cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / ".old.part").write_bytes(b"half")
    (cache / ".new.part").write_bytes(b"half")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archives.time, "time", lambda clock=time.time: clock() + 2 * archives.STALE)
        (cache / ".new.part").write_bytes(b"half")
        os.utime(cache / ".new.part", (time.time(), time.time()))
        unpacked_file(packed(tmp_path, ".gz"))
    assert sorted(path.name for path in cache.iterdir() if path.name.startswith(".")) == [".new.part"]


def test_the_place_of_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("REGARD_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    assert cache_folder() == tmp_path / "user" / "regard"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "regard"
