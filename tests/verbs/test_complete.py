"""Completing: all completions by brute force, keys by the shortest way, what a terminal is given, what is refused."""

import gzip
import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.cli import keyboard
from regard.cli.app import main
from regard.cli.complete import MEASURED, Session, some
from regard.look.terminal import text_width
from regard.modalities.text import completion as completing
from regard.modalities.text.completion import Completing, Completion, in_word

LINES = ["ab, cab", "cab ab", "abc ab ba", "c-ab", "bab cab abba", "ab", "cc, ab"]
TEXT = "\n".join(["My lord, where is the king?", "My lords, good night.", "My lord is at the door.", "Good night!"] * 5)


# Search -----------------------------------------------------------------------------------------


def every(model: Completing, typed: str, words: int, longest: int) -> list[Completion]:
    """All completions of so many letters at most, each by itself."""
    found = []
    for size in range(1, longest + 1):
        for letters in product(model.letters, repeat=size):
            text = "".join(letters)
            if well_formed(typed, text, words):
                found.append(Completion(text, chance(model, typed, text)))
    return sorted((one for one in found if one.probability > 0), key=lambda one: (-one.probability, one.text))


def well_formed(typed: str, text: str, words: int) -> bool:
    """It ends with a letter of a word, and so many words end in it, that which was begun among them."""
    if not in_word(text[-1]):
        return False
    marks = [in_word(letter) for letter in typed[-1:] + text]
    return sum(here and not after for here, after in zip(marks, [*marks[1:], False], strict=True)) == words


def chance(model: Completing, typed: str, text: str) -> float:
    """Of each letter after all before it, and of whatever ends the word."""
    found = 1.0
    for i, letter in enumerate(text):
        found *= model.model.foretold(model.numbers(typed + text[:i]))[model.ids[letter]]
    after = model.model.foretold(model.numbers(typed + text))
    return float(found * sum(p for p, inner in zip(after, model.inner, strict=True) if not inner))


@pytest.mark.parametrize("words", [1, 2])
@pytest.mark.parametrize("typed", ["", "a", "ab", "cab ", "ab,", "zz", "c-"])
@pytest.mark.parametrize("order", [1, 2, 4])
def test_all_completions_by_brute_force(typed: str, words: int, order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completing, "LONGEST", 5)
    model = Completing(LINES, order, beams=10_000)
    wanted, found = every(model, typed, words, 5)[:8], model.complete(typed, 8, words)
    assert [one.probability for one in found] == pytest.approx([one.probability for one in wanted])
    assert len({one.text for one in found}) == len(found) == 8
    for one in found:
        assert well_formed(typed, one.text, words)
        assert one.probability == pytest.approx(chance(model, typed, one.text))


@given(st.lists(st.text("ab ", max_size=6), min_size=1, max_size=5), st.text("abz ", max_size=4), st.integers(1, 3))
@settings(max_examples=40)
def test_a_narrow_beam_finds_true_probabilities(lines: list[str], typed: str, order: int) -> None:
    """Perhaps not the best, but none that is wrong, in order; what comes before the history makes no difference."""
    narrow, wide = Completing(lines, order, beams=2), Completing(lines, order, beams=500)
    found, best = narrow.complete(typed, 3), wide.complete(typed, 3)
    assert [one.probability for one in found] == sorted((one.probability for one in found), reverse=True)
    for one, other in zip(found, best, strict=False):
        assert one.probability == pytest.approx(chance(narrow, typed, one.text))
        assert one.probability <= other.probability * (1 + 1e-9)
    assert [one.text for one in wide.complete("ab " * 7 + "a" * order, 3)] == [
        one.text for one in wide.complete("b" + "a" * order, 3)
    ]


def test_words_end_where_they_end() -> None:
    assert all(map(in_word, "aZé9'’ß中" + "\u0308"))
    assert not any(map(in_word, " -,.\n\t\x1b_\u200b"))
    model = Completing(["don't don't don't", "naïve", "中文 中文"], 4)
    assert model.complete("do")[0].text == "n't"
    assert model.complete("na")[0].text == "ïve"
    assert model.complete("中")[0].text == "文"


def test_what_is_known_is_not_changed_by_who_asks() -> None:
    model = Completing(LINES, 3)
    wanted = model.complete("a")
    model.complete("a").clear()
    assert model.complete("a") == wanted
    assert len(model.complete("a", 2)) == 2


def test_a_word_that_never_ends() -> None:
    """Search stops all the same."""
    found = Completing(["a" * 500], 3).complete("a")
    assert all(len(one.text) <= completing.LONGEST for one in found)


# Keys -------------------------------------------------------------------------------------------


def fewest(model: Completing, line: str, top: int) -> int:
    """By the shortest way through all places of a line."""
    keys = [0] + [len(line)] * len(line)
    for i in range(len(line)):
        keys[i + 1] = min(keys[i + 1], keys[i] + 1)
        for one in model.complete(line[:i], top):
            end = i + len(one.text)
            if line[i:end] == one.text and (end == len(line) or not in_word(line[end])):
                keys[end] = min(keys[end], keys[i] + 1)
    return keys[-1]


@pytest.mark.parametrize("top", [1, 3])
def test_keys_are_the_fewest(top: int) -> None:
    model = Completing(LINES, 3)
    lines = ["ab cab abba", "zzz", "", "cab, ab ab", "abcab"]
    found = model.typing(lines, top)
    assert found.letters == sum(map(len, lines))
    assert found.keys == sum(fewest(model, line, top) for line in lines)
    assert 0 < found.saved < 1
    assert found.saved == pytest.approx(1 - found.keys / found.letters)
    assert model.typing([]).saved == 0


def test_more_history_saves_more_keys() -> None:
    lines = TEXT.splitlines()
    saved = [Completing(lines, order).typing(lines[:4], 3).saved for order in (1, 2, 4)]
    assert saved[0] < saved[1] < saved[2]


def test_a_key_is_answered_at_once() -> None:
    model = Completing(TEXT.splitlines() * 20, 6)
    model.complete("warm")
    start = time.perf_counter()
    for typed in ("My", "My lo", "My lord, w", "go", "Good "):
        model.complete(typed)
    assert time.perf_counter() - start < 5 * 0.25, "five times the time that it may take on a quiet machine"


# The command line -------------------------------------------------------------------------------


@pytest.fixture
def play(tmp_path: Path) -> Path:
    path = tmp_path / "play.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_as_arguments(play: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["complete", str(play), "My lo", "go", "--top", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    wanted = Completing(TEXT.splitlines(), 6)
    told = [
        f"{100 * one.probability:5.1f} %  {typed}{one.text}"
        for typed in ("My lo", "go")
        for one in wanted.complete(typed, 2)
    ]
    assert lines == told
    assert lines[0].endswith("  My lord")


def test_for_machines(play: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["complete", str(play), "My ", "--words", "2", "--order", "8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["typed"] == "My "
    assert found["completions"][0]["text"] in ("lord, where", "lord is", "lords, good")
    chances = [one["probability"] for one in found["completions"]]
    assert chances == sorted(chances, reverse=True)


def piped(raw: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    class Input:
        buffer = io.BytesIO(raw)

        @staticmethod
        def isatty() -> bool:
            return False

    monkeypatch.setattr(sys, "stdin", Input)


HOSTILE = [b"My lo", b"", b"\x1b[2J\x07Go", b"\xff\xfe\x00", b"x" * 5000, "\x9b31mGo\u202e".encode(), b"My\tlo"]


@pytest.mark.parametrize("machine", [False, True])
def test_a_pipe(play: Path, machine: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each line, and nothing in it is an order to a terminal."""
    piped(b"\n".join(HOSTILE), monkeypatch)
    assert main(["complete", str(play), *(["--json"] if machine else [])]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert len(lines) == len(HOSTILE) + 1
    assert all(letter.isprintable() or letter == "\t" for line in lines for letter in line)
    if machine:
        assert [json.loads(line)["typed"] for line in lines[:3]] == ["My lo", "", "\x1b[2J\x07Go"]
    else:
        assert lines[0].split("\t")[0] == "My lord"
        assert lines[2].split("\t")[0] == "·[2J·Good"


def test_orders_in_the_text_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are between words, and never part of a completion."""
    path = tmp_path / "evil.txt"
    path.write_text("ab\x1b[31mcd ab\x1b[31mcd\n" * 9, encoding="utf-8")
    assert main(["complete", str(path), "a", "\x1b]0;a", "--words", "2"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_packed_and_marked_files(play: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    packed, marked = tmp_path / "play.txt.gz", tmp_path / "marked.txt"
    packed.write_bytes(gzip.compress(TEXT.encode()))
    marked.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n\r\n").encode())
    said = []
    for path in (play, packed, marked):
        assert main(["complete", str(path), "Go", ""]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] == said[2]


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (None, "No such file"),
        (b"", "contains no text"),
        (b" \n\t\n\n", "contains no text"),
        (b"good\n\xff\xfe\x00bad", "invalid data at byte 5"),
        (b"good\n\x00bad", "invalid data at byte 5"),
        ("süß".encode("latin-1"), "UTF-8"),
        (os.urandom(4096) + b"\xff", "is not a text file"),
        (b"x" * 2000, "too large"),
    ],
)
def test_what_is_no_text(
    raw: bytes | None, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("regard.data.plain_text.LARGEST_TEXT", 2000 - (told == "too large"))
    if told == "is not a text file":
        monkeypatch.setattr("regard.data.plain_text.LARGEST_TEXT", 5000)
    path = tmp_path / "text.txt"
    if raw is not None:
        path.write_bytes(raw)
    assert main(["complete", str(path), "a"]) == 2
    out, lines = capsys.readouterr()
    assert out == ""
    assert told in lines
    assert str(path) in lines
    assert "Traceback" not in lines


@pytest.mark.parametrize(
    "words",
    [
        ["--order", "0"],
        ["--order", "1000000000000"],
        ["--order", "-3"],
        ["--top", "0"],
        ["--top", "51"],
        ["--words", "0"],
        ["--words", "6"],
        ["--measure", "My lo"],
        ["--measure", "--words", "2"],
        ["--order", "many"],
    ],
)
def test_what_cannot_be_asked(words: list[str], play: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["complete", str(play), *words]) == 2
    assert words[0] in capsys.readouterr().err
    assert main(["complete", str(play), *words, "--json"]) == 2
    assert words[0] in json.loads(capsys.readouterr().out)["error"]["what"]


def test_other_bad_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cut.gz").write_bytes(gzip.compress(TEXT.encode())[:40])
    for path in (tmp_path, tmp_path / "cut.gz"):
        assert main(["complete", str(path), "a"]) == 2
        assert "regard: " in capsys.readouterr().err
    assert main(["complete", ".", "a"]) == 2
    assert capsys.readouterr().err.startswith("regard: . is not a regular file")


def test_measuring(play: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On lines that were not counted."""
    lines = TEXT.splitlines()
    wanted = Completing(lines[:18], 4).typing(lines[18:], 3)
    assert main(["complete", str(play), "--measure", "--order", "4", "--top", "3", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    facts = {"letters": wanted.letters, "keys": wanted.keys, "saved": wanted.saved}
    assert found == facts | {"held_out": wanted.letters, "order": 4, "top": 3}
    assert main(["complete", str(play), "--measure"]) == 0
    assert "% saved" in capsys.readouterr().out
    (tmp_path / "one.txt").write_text("only one line")
    assert main(["complete", str(tmp_path / "one.txt"), "--measure"]) == 2
    assert "too short" in capsys.readouterr().err


def test_as_much_is_measured_as_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a last tenth of any size, about as many letters, spread over all of it."""
    help_of = " ".join(capsys.readouterr().out.split()) if main(["complete", "--help"]) == 0 else ""
    assert f"{MEASURED:,}" in help_of
    for count in (30, 45, 75, 130, 1000):
        lines = [f"{i:04d} {'ab ' * 31}".ljust(100) for i in range(count)]
        found = some(lines)
        assert sum(map(len, found)) == pytest.approx(min(100 * count, MEASURED), rel=0.03)
        assert found == sorted(set(found))
        assert int(found[-1][:4]) >= count - 1 - count // len(found)
    (tmp_path / "long.txt").write_text("\n".join(lines))
    assert main(["complete", str(tmp_path / "long.txt"), "--measure", "--order", "2"]) == 0
    assert "4,000 of 10,000 letters that were not counted" in capsys.readouterr().out


# As you type ------------------------------------------------------------------------------------


def test_a_session() -> None:
    session = Session(Completing(TEXT.splitlines(), 6), top=3, words=1)
    for key in "My lo":
        session.press(key)
    assert session.below()[0].endswith("My lord")
    assert session.below()[0].startswith(">")
    session.press(keyboard.DOWN)
    assert session.below()[1].startswith(">")
    session.press(keyboard.UP)
    session.press(keyboard.TAKE)
    assert (session.text, session.letters, session.keys) == ("My lord", 7, 8)
    for key in ", where i":
        session.press(key)
    second = session.found[0].text
    session.press(keyboard.PICKS[0])
    assert session.text == "My lord, where i" + second
    before = session.text
    session.press(keyboard.PICKS[8])  # there is no ninth
    assert session.text == before
    session.press(keyboard.BACK)
    assert session.text == before[:-1]
    keys, letters = session.keys, session.letters
    assert letters == len(session.text)
    session.press(keyboard.ENTER)
    assert (session.text, session.keys, session.letters) == ("", keys, letters)
    session.press(keyboard.BACK)
    assert session.letters == letters
    assert len(session.below()) == 4
    for key in ("z", "q", "中"):
        session.press(key)
        assert len(session.below()) == 4


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("aé中", ["a", "é", "中"]),
        ("\t\x7f\r\n\x04", ["take", "back", "enter", "enter", "leave"]),
        ("\x1b[A\x1b[B\x1bOC", ["up", "down", "take"]),
        ("\x1b", ["leave"]),
        ("\x1b3x", ["pick 3", "x"]),
        ("\x1b[5~\x1b[1;5D\x1b[200~a\x01\x0c", ["a"]),
    ],
)
def test_names_of_keys(text: str, keys: list[str]) -> None:
    assert list(keyboard.named(text)) == keys


def test_a_screen_has_no_orders_but_its_own() -> None:
    written = keyboard.screen("a\x1b[2J" + "中" * 50, ["\x07bell", "b" * 300], 40)
    assert "\x1b[2J" not in written
    assert "\x07" not in written
    rows = [row.split("\x1b")[0] for row in written.split("\r\n")[1:]]
    assert [len(row) for row in rows] == [5, 39]
    assert text_width("a中\u0308") == 3
    line = written.split("\r> ")[1].split("\r")[0]
    assert text_width(line) <= 37


def test_in_a_terminal(play: Path) -> None:
    """Keys go in, completions come out, and the terminal is left as it was found."""
    above, below = pty.openpty()
    before = termios.tcgetattr(below)
    program = [sys.executable, "-m", "regard", "complete", str(play)]
    with begun(program, below) as process:
        assert "tab takes" in until(above, "escape leaves")
        os.write(above, b"My lo")
        assert "My lords" in until(above, "5 letters, 5 keys")
        os.write(above, b"\t")
        assert "14% saved" in until(above, "saved")
        os.write(above, b"\x1b")
        assert process.wait(20) == 0
        assert "> My lord\r\n" in until(above, "> My lord\r\n")
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert termios.tcgetattr(below) == before
    with begun(program, below) as process:
        until(above, "escape leaves")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert termios.tcgetattr(below) == before
    os.close(above)
    os.close(below)


@contextmanager
def begun(program: list[str], terminal: int) -> Iterator[subprocess.Popen[bytes]]:
    """At this terminal, where an interrupt counts, also if these tests run in the background; and never left behind."""

    def heed() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    with subprocess.Popen(program, stdin=terminal, stdout=terminal, stderr=subprocess.PIPE, preexec_fn=heed) as process:
        try:
            yield process
        finally:
            process.kill()


def until(terminal: int, wanted: str) -> str:
    """What comes, up to this."""
    said = ""
    while wanted not in said:
        assert select.select([terminal], [], [], 60)[0], f"{wanted!r} did not come, but {said!r}"
        said += os.read(terminal, 4096).decode("utf-8", "replace")
    return said
