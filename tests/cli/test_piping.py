"""Lines of standard input: in their order, as soon as they are there, whatever bytes they are."""

import io
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from regard.cli import piping
from regard.cli.piping import Follow, chunks


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Standard input is a pipe, and this is its other end."""
    reader, writer = os.pipe()
    with os.fdopen(reader) as source:
        monkeypatch.setattr(sys, "stdin", source)
        yield writer


def test_a_pipe_that_pauses_is_not_waited_for(pipe: int) -> None:
    closing = threading.Timer(20, os.close, [pipe])  # else a wrong program would wait for ever
    closing.start()
    found = chunks()
    for sent, wanted in ((b"one\ntwo\nth", ["one", "two"]), (b"ree\r\n\nfour\n", ["three", "", "four"])):
        began = time.monotonic()
        os.write(pipe, sent)
        assert next(found) == wanted
        assert time.monotonic() - began < 10
    os.write(pipe, b"no end")
    closing.cancel()
    os.close(pipe)
    assert list(found) == [["no end"]]


def test_a_pipe_that_drips_is_not_waited_for(pipe: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that come faster than a pause, one by one without an end, do not hold back the first."""

    def drip() -> None:
        for i in range(60):
            os.write(pipe, b"%d\n" % i)
            time.sleep(0.02)
        os.close(pipe)

    dripping = threading.Thread(target=drip)
    dripping.start()
    found = list(chunks())
    dripping.join()
    assert len(found) > 2
    assert [line for some in found for line in some] == [str(i) for i in range(60)]


@pytest.mark.parametrize("kind", ["pipe", "file"])
def test_many_at_a_time(kind: str, pipe: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = b"".join(b"%d\n" % i for i in range(600))
    os.write(pipe, raw)
    os.close(pipe)
    if kind == "file":
        (tmp_path / "lines").write_bytes(raw)
        monkeypatch.setattr(sys, "stdin", open(tmp_path / "lines"))  # noqa: SIM115
    found = list(chunks())
    assert [len(some) for some in found] == [256, 256, 88]
    assert [line for some in found for line in some] == [str(i) for i in range(600)]


def piped(raw: bytes, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
    return [line for some in chunks() for line in some]


def test_a_byte_order_mark_is_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = "\ufeff".encode()
    monkeypatch.setattr(piping, "TOGETHER", 1)
    assert piped(mark + b"one\n" + mark + b"two\n", monkeypatch) == ["one", "\ufefftwo"]


def test_what_is_no_text_is_told_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(piping, "TOGETHER", 2)
    assert piped("one\nä\n".encode() + b"gr\xfc\xdf\nthree\n\xff", monkeypatch) == [
        "one",
        "ä",
        "gr\ufffd\ufffd",
        "three",
        "\ufffd",
    ]
    assert capsys.readouterr().err == (
        "regard: 2 lines are not valid UTF-8, starting with line 3: invalid bytes were replaced with U+FFFD\n"
    )
    piped("ä\n\ufffd".encode(), monkeypatch)
    assert capsys.readouterr().err == ""


def test_a_sign_ahead_of_long_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    piped(b"short\n" + b"one two " * 10_000 + b"\n" + b"a" * 60_000, monkeypatch)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("regard: text 2 has 80,000 characters: ")
    assert second.startswith("regard: text 3 has 60,000 characters, 60,000 of them in a single word: ")


def test_how_far_it_is_within_a_line() -> None:
    now, out = [0.0], io.StringIO()
    follow = Follow(out, 0, lambda: now[0])
    follow.within(3, 400)
    assert out.getvalue() == ""
    now[0] = 11.0
    follow.within(30, 400)
    assert out.getvalue() == "30 of 400 sentences in this batch\n"
    now[0] = 20.0
    follow.add(2, 9)
    follow.close()
    assert out.getvalue().splitlines()[1:] == ["2 lines  0.1 lines/s"]


def test_nothing_is_said_where_nobody_hears(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert piped(b"one\n\xff\n", monkeypatch) == ["one", "\ufffd"]
