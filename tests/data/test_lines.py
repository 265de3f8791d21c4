"""Lines by number, whatever their ends, from any process."""

import copy
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data import lines as module
from regard.data.lines import Lines
from regard.errors import InputError


def lines_of(folder: Path, content: bytes) -> Lines:
    path = folder / "text"
    path.write_bytes(content)
    return Lines(path)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\nb", [b"a", b"b"]),
        (b"a\n\nb\n", [b"a", b"", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"a\rb\r", [b"a\rb"]),
        (b"\r\n", [b""]),
        (b"\xef\xbb\xbf", []),
        (b"\xef\xbb\xbf\n", [b""]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb", [b"a", b"\xef\xbb\xbfb"]),  # a mark is one only at the beginning
        (b"\xef\xbb", [b"\xef\xbb"]),
    ],
)
def test_lines_end_where_they_should(tmp_path: Path, content: bytes, expected: list[bytes]) -> None:
    found = lines_of(tmp_path, content)
    assert list(found) == expected
    assert len(found) == len(expected)


@given(content=st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\xc3\xa4", b"bc"]), max_size=40).map(b"".join))
def test_chunks_leave_no_seam(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    folder = tmp_path_factory.mktemp("lines")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK", 3)
        found = list(lines_of(folder, content))
    parts = content.split(b"\n")
    expected = parts if parts[-1] else parts[:-1]
    assert found == [line.removesuffix(b"\r") for line in expected]


def test_only_numbers_are_held(tmp_path: Path) -> None:
    found = lines_of(tmp_path, b"some words in a line\n" * 1000)
    assert found.starts.dtype == np.int64
    assert found.starts.nbytes == 8 * 1001


def test_a_number_that_no_line_has(tmp_path: Path) -> None:
    found = lines_of(tmp_path, b"a\nb\n")
    for i in (2, -1):
        with pytest.raises(IndexError, match="2 lines"):
            found[i]


def test_forked_processes_and_threads_read_each_their_own(tmp_path: Path) -> None:
    """With a shared position in the file they would read each other's lines."""
    count = 3000
    found = lines_of(tmp_path, b"".join(b"line %d\n" % i for i in range(count)))
    children = []
    for child in range(2):
        if (pid := os.fork()) == 0:
            wrong = sum(found[i] != b"line %d" % i for i in range(child, count, 2))
            os._exit(min(wrong, 100))
        children.append(pid)
    wrong: list[int] = []
    threads = [
        threading.Thread(target=lambda: wrong.extend(i for i in range(count) if found[i] != b"line %d" % i))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0, 0]
    assert wrong == []


def test_a_copy_opens_the_file_itself(tmp_path: Path) -> None:
    found = lines_of(tmp_path, b"a\nb\n")
    other = copy.copy(found)
    assert other.opened is None
    assert other[1] == b"b"


def test_a_file_that_changed_is_refused(tmp_path: Path) -> None:
    """Its index would give parts of lines."""
    found = lines_of(tmp_path, b"first\nsecond\n")
    other = copy.copy(found)
    (tmp_path / "text").write_bytes(b"1st\n")
    with pytest.raises(InputError, match="has changed"):
        found[1]  # open already, and now too short
    (tmp_path / "text").write_bytes(b"much longer\n" * 5)
    with pytest.raises(InputError, match="has changed"):
        other[0]  # to be opened, and no longer the same


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        Lines(tmp_path / "nowhere")
