"""What a user sees while training, wherever it is shown; and that showing it never stops a run."""

import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from mmap import PAGESIZE, mmap

import pytest
from hypothesis import given
from hypothesis import strategies as some
from rich.cells import cell_len

from regard.train import formatting, progress
from regard.train.progress import (
    Bar,
    JsonLines,
    LineReporter,
    Pace,
    Reporter,
    SafeStream,
    SilentReporter,
    Status,
    make_reporter,
    process_memory,
)

STATUS = Status(1200, 20000, 3.2142, 3.1, 12345.6, "tokens", 1_234_000_000, 3723.0, 130.0, {"bleu": 12.34567})
LONG = Status(19_999_999, 20_000_000, -12345.678, 1e-7, 1.2e6, "samples", 123_456_000_000, 2e6, 9999.0, {"accuracy": 1})
CODES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Terminal(io.StringIO):
    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__()
        self.named = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.named

    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        """All that was ever drawn, without colours and movements."""
        return CODES.sub("", self.getvalue().replace("\r", "\n")).split("\n")


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLORTERM", "LINES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")


# Which one


def test_each_place_has_its_reporter(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(make_reporter(True, Terminal()), JsonLines)
    assert isinstance(make_reporter(False, io.StringIO()), LineReporter)
    assert isinstance(make_reporter(False, Terminal()), Bar)
    monkeypatch.setenv("TERM", "dumb")  # it cannot move its cursor
    assert isinstance(make_reporter(False, Terminal()), LineReporter)
    closed = Terminal()
    closed.close()
    assert isinstance(make_reporter(False, closed), (Bar, LineReporter))


def test_stdout_unless_told(capsys: pytest.CaptureFixture[str]) -> None:
    told = make_reporter(False)
    told.note("hello")
    told.close()
    assert capsys.readouterr().out == "hello\n"


def test_rich_is_imported_for_a_bar_alone() -> None:
    program = (
        "import sys\nfrom regard.train.progress import *\n"
        "for machine in (True, False):\n"
        "    r = make_reporter(machine)\n    r.note('x')\n    r.close()\n"
        "sys.exit(bool({'rich', 'torch'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE).returncode == 0


# Plain lines


def test_a_plain_line_says_all() -> None:
    out = io.StringIO()
    LineReporter(SafeStream(out)).update(STATUS)
    said = (
        "step 1,200/20,000  loss 3.2142  best 3.1000  12.3k tokens/s  1.2 GB  saved 2 min ago  1:02:03 left  bleu 12.35"
    )
    assert out.getvalue() == said + "\n"


def test_what_is_not_known_is_not_said() -> None:
    out = io.StringIO()
    LineReporter(SafeStream(out)).update(Status(1, 10, 2.0, None, 0.0, "samples", 5_000_000, None, None))
    assert out.getvalue() == "step 1/10  loss 2.0000  0.0 samples/s  5 MB  not saved yet\n"


@pytest.mark.parametrize("kind", [LineReporter, JsonLines])
def test_the_first_the_last_and_now_and_then(kind: type[LineReporter] | type[JsonLines]) -> None:
    out, clock = io.StringIO(), Clock()
    told = kind(SafeStream(out), every=10.0, clock=clock)
    for step in range(1, 31):
        told.update(replace(STATUS, step=step, steps=30))
        clock.now += 1.0
    shown = out.getvalue()
    steps = [int(re.search(r'step"?:? (\d+)', line)[1]) for line in shown.splitlines()]
    assert steps == [1, 11, 21, 30]
    told.close()
    assert out.getvalue() == shown


@pytest.mark.parametrize("kind", [LineReporter, JsonLines])
def test_a_run_that_ends_early_shows_its_last_step_once(kind: type[LineReporter] | type[JsonLines]) -> None:
    out = io.StringIO()
    told = kind(SafeStream(out), every=10.0, clock=Clock())
    for step in (1, 2, 3):
        told.update(replace(STATUS, step=step))
    told.close()
    told.close()
    steps = [int(re.search(r'step"?:? (\d+)', line)[1]) for line in out.getvalue().splitlines()]
    assert steps == [1, 3]


# JSON lines


def test_json_lines_hold_everything() -> None:
    out = io.StringIO()
    told = JsonLines(SafeStream(out))
    told.update(replace(STATUS, loss=float("nan"), extra={"a": float("inf"), "b": 1.5}))
    told.note('two\nlines, "quoted", ü')
    first, second = map(json.loads, out.getvalue().splitlines())
    assert first == {
        "event": "step",
        **{"step": 1200, "steps": 20000, "loss": None, "best": 3.1, "speed": 12345.6, "unit": "tokens"},
        **{"memory": 1_234_000_000, "left": 3723.0, "saved_age": 130.0, "extra": {"a": None, "b": 1.5}},
    }
    assert second == {"event": "note", "text": 'two\nlines, "quoted", ü'}


# On a terminal


def test_eighty_columns_have_room_for_all() -> None:
    out = Terminal()
    bar = Bar(SafeStream(out))
    bar.update(STATUS)
    bar.close()
    first, second = [line for line in out.lines() if line][-2:]
    assert re.fullmatch(r"step 1,200/20,000 ━+╸?─+ 6% 1:02:03 left", first)
    assert second == "loss 3.2142  best 3.1000  12.3k tokens/s  1.2 GB  saved 2 min ago  bleu 12.35"
    assert len(first) == 79


@pytest.mark.parametrize("status", [STATUS, LONG, replace(STATUS, step=20000), replace(STATUS, steps=0)])
@pytest.mark.parametrize("columns", [10, 20, 40, 60, 80, 200])
def test_no_line_of_the_bar_is_wider_than_the_terminal(
    columns: int, status: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    out = Terminal()
    bar = Bar(SafeStream(out), every=0.0)
    bar.update(status)
    bar.update(replace(status, extra={"日本語" * (columns // 24): 1.0, "short": 2.0}))
    bar.close()
    drawn = [line for line in out.lines() if line]
    assert max(map(cell_len, drawn)) < columns
    assert len(drawn) % 2 == 0  # two lines each time
    if columns >= 40:
        assert f"loss {formatting.number(status.loss)}" in drawn[-1]
        assert progress.count(status) in drawn[-2]


def test_forty_columns_keep_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    out = Terminal()
    bar = Bar(SafeStream(out))
    bar.update(STATUS)
    bar.close()
    first, second = [line for line in out.lines() if line][-2:]
    assert re.fullmatch(r"1,200/20,000 ━*╸?─+ 6% 1:02:03", first)
    assert second == "loss 3.2142  best 3.1000  12.3k/s"


@given(step=some.integers(0, 1000))
def test_the_bar_is_as_long_as_the_share_that_is_done(step: int) -> None:
    bar = Bar(SafeStream(Terminal()))
    first = bar.draw(replace(STATUS, step=step, steps=1000), 79)[0].plain
    done = first.count("━") + first.count("╸") / 2
    room = done + first.count("╸") / 2 + first.count("─")
    assert done / room == pytest.approx(step / 1000, abs=0.5 / room)
    assert f" {step // 10}%" in first


def test_the_same_two_lines_are_drawn_over_and_notes_stand_above() -> None:
    out, clock = Terminal(), Clock()
    bar = Bar(SafeStream(out), clock=clock)
    bar.note("before")
    bar.update(STATUS)
    clock.now += 0.01
    bar.update(replace(STATUS, step=1201))  # too soon to be seen
    clock.now += 1
    bar.update(replace(STATUS, step=1202))
    bar.note("a note")
    bar.close()
    text = out.getvalue()
    assert "1,201/" not in text
    assert text.index("before") < text.index("1,200/") < text.index("1,202/") < text.index("a note")
    assert text.rindex("1,202/") > text.index("a note")  # it is drawn again below
    rise = "\x1b[2K\x1b[1A\x1b[2K"  # clear a line, go up one, clear it: each drawing replaces the one before
    assert text.count(rise) == sum("loss" in line for line in out.lines()) - 1


def test_a_long_note_is_not_broken() -> None:
    out = Terminal()
    bar = Bar(SafeStream(out))
    bar.update(STATUS)
    bar.note("saved " + "folder/" * 40)
    bar.close()
    assert "saved " + "folder/" * 40 in out.lines()


@pytest.mark.parametrize("make", [LineReporter, Bar])
def test_a_note_is_text_and_never_a_command(make: type[LineReporter] | type[Bar]) -> None:
    out = Terminal()
    told = make(SafeStream(out))
    told.note("[bold]x[/bold] :smile: \x1b[31mred\x07\x9b2J\ta\r\nnext \x7f")
    told.close()
    assert "[bold]x[/bold] :smile: �[31mred��2J a \nnext �\n" in out.getvalue()
    assert "\x1b[31m" not in out.getvalue()


def test_no_colour_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn() -> str:
        out = Terminal()
        bar = Bar(SafeStream(out))
        bar.update(STATUS)
        bar.close()
        return out.getvalue()

    assert "\x1b[36m" in drawn()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[(\d+;)*[34]\d", drawn())


@pytest.mark.parametrize("make", [LineReporter, Bar])
def test_a_terminal_without_unicode(make: type[LineReporter] | type[Bar]) -> None:
    out = Terminal("ascii")
    told = make(SafeStream(out))
    told.update(STATUS)
    told.note("ein schöner Satz")
    told.close()
    assert out.getvalue().isascii()
    assert "ein sch?ner Satz" in out.getvalue()
    assert "━" not in out.getvalue()


def test_a_closed_bar_gives_the_terminal_back_and_stays_closed() -> None:
    out, before = Terminal(), (sys.stdout, sys.stderr)
    bar = Bar(SafeStream(out))
    bar.close()
    assert out.getvalue() == ""  # nothing was shown, so there is nothing to give back
    bar = Bar(SafeStream(out))
    bar.update(STATUS)
    bar.close()
    bar.close()
    assert out.getvalue().endswith("\x1b[?25h")  # the cursor
    assert (sys.stdout, sys.stderr) == before
    bar.update(replace(STATUS, step=20000))
    assert "20,000/20,000" not in out.getvalue()


# Nobody reads


class Broken(Terminal):
    tried = 0

    def write(self, text: str) -> int:
        self.tried += 1
        raise BrokenPipeError

    def flush(self) -> None:
        raise OSError(5, "the terminal is gone")


@pytest.mark.parametrize("make", [LineReporter, JsonLines, Bar])
@pytest.mark.parametrize("closed", [False, True])
def test_a_reader_who_has_left_stops_nothing(make: type[LineReporter], closed: bool) -> None:
    stream = Broken()
    if closed:
        stream.close()
    told: Reporter = make(SafeStream(stream), every=0.0)
    for step in range(3):
        told.update(replace(STATUS, step=step))
        told.note("still here")
    told.close()
    assert stream.tried == 1  # and then never again


def test_a_real_pipe_that_closes() -> None:
    program = """
import sys
from regard.train.progress import Status, make_reporter
told = make_reporter({machine})
for step in range(20_000):
    told.update(Status(20_000, 20_000, 1.0, None, 1.0, "tokens", 1, None, None))
told.note("the end")
told.close()
print("more")
sys.stderr.write("trained to the end")
"""
    for machine in (False, True):
        words = [sys.executable, "-c", program.replace("{machine}", str(machine))]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.readline()
            process.stdout.close()
            assert process.stderr.read() == b"trained to the end"
        assert process.returncode == 0


def test_a_slow_reader_is_waited_for() -> None:
    class Slow(Terminal):
        slow = True

        def flush(self) -> None:
            if self.slow:
                raise BlockingIOError

    stream = Slow()
    told = LineReporter(SafeStream(stream))
    told.note("one")
    stream.slow = False
    told.note("two")
    assert stream.getvalue() == "one\ntwo\n"


def test_silence(capsys: pytest.CaptureFixture[str]) -> None:
    told: Reporter = SilentReporter()
    told.update(STATUS)
    told.note("x")
    told.close()
    assert capsys.readouterr() == ("", "")


# Words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0:00"),
        (59.6, "1:00"),
        (187, "3:07"),
        (7387, "2:03:07"),
        (266_580, "3 d 02:03"),
        (float("inf"), "?"),
        (-1, "0:00"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert formatting.format_duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(3.21421, "3.2142"), (0, "0.0000"), (1e-4, "1.00e-04"), (-12345.0, "-1.23e+04"), (float("nan"), "nan")],
)
def test_numbers(value: float, text: str) -> None:
    assert formatting.number(value) == text


def test_amounts_sizes_ages() -> None:
    assert [formatting.format_count(x) for x in (0.0, 0, 82, 9.87, 123.4, 1234, 5e6, 5e9)] == [
        "0.0",
        "0",
        "82",
        "9.9",
        "123",
        "1.2k",
        "5.0M",
        "5.0G",
    ]
    assert [formatting.format_bytes(x) for x in (12_000, 34_000_000, 5_670_000_000)] == ["12 kB", "34 MB", "5.7 GB"]
    assert [formatting.format_age(x) for x in (-1, 42, 130, 6120)] == ["0 s", "42 s", "2 min", "1.7 h"]


# Measures


def test_pace_is_a_mean_of_recent_steps() -> None:
    clock = Clock()
    pace = Pace(1000, memory=10, clock=clock)
    assert pace.left(0) is None
    assert pace.speed == 0.0
    for _ in range(100):
        clock.now += 5.0
        pace.tick(10)
    assert pace.left(100) == pytest.approx(900 * 5.0)
    assert pace.speed == pytest.approx(2.0)
    for _ in range(100):  # it becomes ten times as fast, and the old pace is soon forgotten
        clock.now += 0.5
        pace.tick(10)
    assert pace.left(200) == pytest.approx(800 * 0.5, rel=1e-3)
    assert pace.speed == pytest.approx(20.0, rel=1e-3)
    assert pace.measured()["elapsed"] == pytest.approx(550.0)


def test_a_slow_first_step_weighs_no_more_than_others() -> None:
    clock = Clock()
    pace = Pace(100, memory=50, clock=clock)
    for seconds in (10.0, 1.0, 1.0, 1.0):
        clock.now += seconds
        pace.tick(1)
    assert pace.left(99) == pytest.approx(13 / 4, rel=0.1)


def test_time_beside_the_steps_does_not_count() -> None:
    clock = Clock()
    pace = Pace(10, clock=clock)
    for _ in range(5):
        clock.now += 2.0
        pace.tick(1)
        clock.now += 1000.0
        pace.rest()
    assert pace.left(5) == pytest.approx(10.0)


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="this system has no /proc")
def test_memory_grows_with_what_is_held() -> None:
    """Of the system itself: an allocator may have as much left from before."""
    before = process_memory()
    with mmap(-1, 50_000_000) as held:
        for place in range(0, len(held), PAGESIZE):
            held[place] = 1
        assert 40e6 < process_memory() - before < 120e6
