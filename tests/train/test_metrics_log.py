"""A run's journal: exact, cut back exactly, and whole after a crash."""

import errno
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from regard.errors import CheckpointError, InputError
from regard.train import metrics_log
from regard.train.metrics_log import Journal

FINITE = some.floats(allow_nan=False, allow_infinity=False)


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in ("metrics.jsonl", "timing.jsonl")}


@given(line=some.dictionaries(some.text(), some.one_of(FINITE, some.integers(), some.text(), some.none())))
def test_every_number_comes_back_to_the_bit(line: dict[str, object], tmp_path_factory: pytest.TempPathFactory) -> None:
    kept = Journal(tmp_path_factory.mktemp("run"))
    try:
        json.dumps(line, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:  # half of a surrogate pair is no text
        return
    kept.record(line)
    assert repr(kept.lines()) == repr([line])  # repr tells -0.0 from 0.0, and the order of the keys


def test_lines_are_bytes_that_depend_on_nothing_else(tmp_path: Path) -> None:
    kept = Journal(tmp_path)
    kept.record({"step": 1, "loss": 0.1 + 0.2, "held_out": {"bleu": 1e-300, "words": (1, 2)}, "note": "schön"})
    text = '{"step": 1, "loss": 0.30000000000000004, "held_out": {"bleu": 1e-300, "words": [1, 2]}, "note": "schön"}\n'
    assert (tmp_path / "metrics.jsonl").read_text("utf-8") == text
    assert not (tmp_path / "timing.jsonl").exists()


def test_what_is_no_number_is_null(tmp_path: Path) -> None:
    kept = Journal(tmp_path)
    kept.record({"a": float("nan"), "b": {"c": float("inf")}, "d": [float("-inf"), 1.5]})
    assert kept.lines() == [{"a": None, "b": {"c": None}, "d": [None, 1.5]}]


def test_the_two_files_are_apart(tmp_path: Path) -> None:
    kept = Journal(tmp_path / "not" / "yet")
    kept.record({"step": 1})
    kept.time({"seconds": 2.0})
    kept.time({"seconds": 3.0})
    assert bytes_of(kept.folder) == {
        "metrics.jsonl": b'{"step": 1}\n',
        "timing.jsonl": b'{"seconds": 2.0}\n{"seconds": 3.0}\n',
    }
    assert kept.position() == {name: len(raw) for name, raw in bytes_of(kept.folder).items()}


def test_an_empty_journal_has_a_position(tmp_path: Path) -> None:
    kept = Journal(tmp_path)
    assert kept.position() == {"metrics.jsonl": 0, "timing.jsonl": 0}
    assert kept.lines() == []
    kept.cut({})
    kept.cut(kept.position())
    assert list(tmp_path.iterdir()) == []


def test_cut_back_and_written_again_it_is_the_same(tmp_path: Path) -> None:
    first, second = Journal(tmp_path / "a"), Journal(tmp_path / "b")
    for kept in (first, second):
        for step in range(5):
            kept.record({"step": step, "loss": step / 3})
            kept.time({"step": step})
    here = second.position()
    for step in range(5, 9):
        first.record({"step": step, "loss": step / 3})
        first.time({"step": step})
        second.record({"step": step, "loss": -1.0})
        second.time({"step": -step})
    again = Journal(tmp_path / "b")
    for _ in range(2):  # doing it twice is doing it once
        again.cut(here)
        assert again.position() == here
    for step in range(5, 9):
        again.record({"step": step, "loss": step / 3})
        again.time({"step": step})
    assert bytes_of(tmp_path / "a") == bytes_of(tmp_path / "b")


def test_what_a_position_does_not_name_is_emptied(tmp_path: Path) -> None:
    kept = Journal(tmp_path)
    kept.record({"step": 1})
    kept.time({"step": 1})
    kept.cut({"metrics.jsonl": 12})
    assert bytes_of(tmp_path) == {"metrics.jsonl": b'{"step": 1}\n', "timing.jsonl": b""}


@pytest.mark.parametrize("gone", [False, True])
def test_timings_that_are_lost_are_no_reason_to_stop(gone: bool, tmp_path: Path) -> None:
    kept = Journal(tmp_path)
    kept.record({"step": 1})
    kept.time({"step": 1})
    here = kept.position()
    kept.record({"step": 2})
    os.truncate(tmp_path / "timing.jsonl", 5)
    if gone:
        (tmp_path / "timing.jsonl").unlink()
    kept = Journal(tmp_path)
    kept.cut(here)
    kept.time({"step": 2})
    assert bytes_of(tmp_path)["metrics.jsonl"] == b'{"step": 1}\n'
    assert bytes_of(tmp_path)["timing.jsonl"] == b'{"step": 2}\n'


def test_a_file_that_lost_lines_is_named_and_nothing_is_cut(tmp_path: Path) -> None:
    short = "metrics.jsonl"
    kept = Journal(tmp_path)
    kept.record({"step": 1})
    kept.time({"step": 1})
    here = kept.position()
    kept.record({"step": 2})
    kept.time({"step": 2})
    os.truncate(tmp_path / short, 5)
    other = "timing.jsonl"
    before = (tmp_path / other).read_bytes()
    with pytest.raises(CheckpointError) as raised:
        Journal(tmp_path).cut(here)
    assert raised.value.where == str(tmp_path / short)
    assert raised.value.got == "5 bytes"
    assert raised.value.expected == "at least 12 bytes"
    assert (tmp_path / other).read_bytes() == before


def test_a_position_within_a_line_is_refused(tmp_path: Path) -> None:
    kept = Journal(tmp_path)
    kept.record({"step": 1})
    with pytest.raises(CheckpointError, match="no line ends at byte 7"):
        kept.cut({"metrics.jsonl": 7})
    assert kept.lines() == [{"step": 1}]


@pytest.mark.parametrize("half", [b'{"step": 3, "lo', b"{", '{"word": "ü'.encode()[:-1], b"\0" * 100_000])
@pytest.mark.parametrize("before", [b"", b'{"step": 1}\n{"step": 2}\n'])
def test_half_a_line_is_forgotten(before: bytes, half: bytes, tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(before + half)
    kept = Journal(tmp_path)
    assert [line["step"] for line in kept.lines()] == [1, 2][: before.count(b"\n")]
    assert (tmp_path / "metrics.jsonl").read_bytes() == before + half  # reading changes nothing
    kept.record({"step": 3})
    assert (tmp_path / "metrics.jsonl").read_bytes() == before + b'{"step": 3}\n'


@pytest.mark.parametrize("broken", [b"nothing", b"[1]", b'{"a": ', b"\xff\xfe"])
def test_a_broken_line_within_is_named(broken: bytes, tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(b'{"step": 1}\n' + broken + b'\n{"step": 3}\n')
    with pytest.raises(CheckpointError) as raised:
        Journal(tmp_path).lines()
    assert raised.value.where == f"{tmp_path / 'metrics.jsonl'}:2"


def test_a_full_disk_leaves_whole_lines_and_says_where(tmp_path: Path) -> None:
    kept = Journal(tmp_path)
    kept.record({"step": 1})
    before = (tmp_path / "metrics.jsonl").read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, hard))  # the second line would end at byte 24
    try:
        with pytest.raises(InputError) as raised:
            kept.record({"step": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert raised.value.where == str(tmp_path / "metrics.jsonl")
    assert "12 bytes" in raised.value.expected
    assert raised.value.got == os.strerror(errno.ENOSPC)
    assert (tmp_path / "metrics.jsonl").read_bytes() == before
    kept.record({"step": 3})
    assert kept.lines() == [{"step": 1}, {"step": 3}]


def test_a_folder_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError) as raised:
        Journal(tmp_path / "file" / "run").record({"step": 1})
    assert str(tmp_path / "file" / "run") in raised.value.where


def test_a_position_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Journal(tmp_path)
    kept.record({"step": 1})
    kept.time({"step": 1})
    synced: list[str] = []
    monkeypatch.setattr(metrics_log, "sync_to_disk", lambda path: synced.append(path.name))
    kept.position()
    assert synced == ["metrics.jsonl", "timing.jsonl"]


def test_what_was_recorded_outlives_a_killed_process(tmp_path: Path) -> None:
    program = f"""
import os, signal
from pathlib import Path
from regard.train.metrics_log import Journal
kept = Journal(Path({str(tmp_path)!r}))
for step in range(100):
    kept.record({{"step": step}})
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode == -signal.SIGKILL
    assert [line["step"] for line in Journal(tmp_path).lines()] == list(range(100))


def test_a_file_that_is_gone_begins_anew(tmp_path: Path) -> None:
    kept = Journal(tmp_path)
    kept.record({"step": 1})
    kept.time({"step": 1})
    here = kept.position()
    (tmp_path / "metrics.jsonl").unlink()
    after = Journal(tmp_path)
    assert "metrics.jsonl is missing" in after.cut(here)
    after.record({"step": 2})
    assert after.lines() == [{"step": 2}]
    assert (tmp_path / "timing.jsonl").read_bytes() == b"", "the two go together"
