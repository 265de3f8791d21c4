"""The command line: its help, its errors, its exit codes."""

import dataclasses
import importlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import regard
import regard.figures
import regard.zoo
from regard.cli.app import commands, main
from regard.errors import InputError


@dataclasses.dataclass
class Evidence:
    reference: str
    version: str
    difference: float


@dataclasses.dataclass
class Row:
    name: str
    paper: str
    link: str
    sizes: dict[str, int | float]
    verified_against: Evidence | None
    shipped: bool = False


ROWS = [
    Row("gpt2", "Radford et al., 2019", "https://example.org", {"parameters": 124_439_808, "depth": 12}, None),
    Row("gpt2-tiny", "", "", {"parameters": 9_999}, Evidence("somebody", "1.2", 3e-7)),
]


@pytest.fixture
def zoo(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Stands in for the zoo, so that a verb can be made to fail in any way."""
    module = ModuleType("regard.zoo")
    module.catalog = lambda pattern: [row for row in ROWS if pattern in ("*", row.name)]
    monkeypatch.setitem(sys.modules, "regard.zoo", module)
    return module


def failing(error: BaseException):
    def catalog(pattern: str) -> list[Row]:
        raise error

    return catalog


@pytest.mark.parametrize("verb", commands())
def test_a_verb_has_one_summary_an_example_and_json(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = importlib.import_module(f"regard.cli.{verb}").run.__doc__
    assert text.splitlines()[0] == commands()[verb][0]
    assert main([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Example: regard {verb}" in shown
    assert "--json" in shown


OTHERS = {
    "__init__",
    "app",
    "inputs",
    "keyboard",
    "memory",
    "options",
    "outcome",
    "piping",
    "predictions",
    "printing",
    "recall_demo",
    "single_thread",
}


def test_every_verb_has_a_file_and_every_file_is_a_verb() -> None:
    files = {path.stem for path in Path(regard.__file__).parent.joinpath("cli").glob("*.py")}
    assert files - OTHERS == set(commands())


def test_importing_and_helping_leave_heavy_modules_alone() -> None:
    program = f"""
import sys
import regard
import regard.zoo
from regard.cli.app import main
dir(regard)
codes = [main([*verb, "--help"]) for verb in ([], *([verb] for verb in {list(commands())}))]
heavy = {{"torch", "numpy", "scipy", "matplotlib", "transformers", "rich"}} & set(sys.modules)
sys.exit(f"codes {{codes}}, loaded {{heavy}}" if heavy or any(codes) else 0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert all(verb in done.stdout for verb in commands())


@pytest.mark.parametrize(("processes", "late"), [("1", ["late"]), ("2", [])])
def test_one_process_of_several_ends_at_once(processes: str, late: list[str]) -> None:
    """With its exit code and all that it said, but without what the interpreter does at its end."""
    program = "import atexit; from regard.cli.app import leave; atexit.register(print, 'late'); print('said'); leave(3)"
    environment = {**os.environ, "WORLD_SIZE": processes}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout.split()) == (3, ["said", *late])


def test_a_stray_rank_does_not_silence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setenv("RANK", "1")
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"regard {regard.__version__}\n"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"regard {regard.__version__}\n"


def test_nothing_asked_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "Usage: regard" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["modls"], "modls"),
        (["models", "--colour"], "--colour"),
        (["convert", "only-one"], "out"),
        (["models", "a", "b"], "b"),
    ],
)
def test_a_wrong_command_line(words: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    out, lines = capsys.readouterr()
    assert out == ""
    assert lines.startswith("regard: ")
    assert named in lines
    assert "fix: see regard" in lines
    assert main([*words, "--json"]) == 2
    out, lines = capsys.readouterr()
    assert named in json.loads(out)["error"]["what"]
    assert lines == ""


def test_models_for_machines(zoo: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [dataclasses.asdict(row) for row in ROWS]
    assert main(["models", "gpt2-tiny", "--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == ["gpt2-tiny"]


def test_models_in_plain_lines(zoo: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "gpt2\tparameters 124.4M, depth 12\tRadford et al., 2019 https://example.org\tnot checked"
    assert second == "gpt2-tiny\tparameters 9999\t\tsomebody, 1.2, difference 3.0e-07"


def test_models_in_a_terminal(
    zoo: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["models"]) == 0
    shown = capsys.readouterr().out
    assert "checked" in shown
    assert "gpt2-tiny" in shown


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("zzzzzz", "got: zzzzzz\n"),
        ("bret", "got: bret; did you mean 'bert*'?"),
        ("bert", "did you mean 'bert*'?"),
        ("resnet50", "did you mean 'resnet-50'?"),
        ("tatoeba-de-fr", "did you mean 'tatoeba-de-en'?"),
    ],
)
def test_no_such_model(name: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", name]) == 2
    assert told in capsys.readouterr().err


@pytest.fixture(scope="module")
def real() -> list[regard.zoo.CatalogRow]:
    """All rows; to count the weights of all models takes seconds."""
    return regard.catalog()


def test_a_model_that_ships_is_listed_by_the_name_that_loads_it(
    real: list[regard.zoo.CatalogRow], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models", "recall", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["family"], row["shipped"]) == ("recall", "gpt", True)
    assert row["sizes"]["parameters"] == sum(x.numel() for x in regard.load("recall").parameters())
    assert main(["models", "recall"]) == 0
    assert capsys.readouterr().out.startswith("recall\ttrained: parameters 72.8k")
    shipped = [row.name for row in real if row.shipped]
    assert shipped == ["digits", "recall", "shakespeare", "tatoeba-de-en", "tatoeba-en-de"]


def test_every_real_model_is_listed_in_full(
    real: list[regard.zoo.CatalogRow], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.zoo.catalog", lambda pattern: real)
    assert main(["models", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == len(real) > 0
    for row in rows:
        assert {"name", "paper", "link", "sizes", "verified_against"} <= row.keys()
        assert row["paper"]
        assert row["sizes"]


@pytest.mark.parametrize("terminal", [False, True], ids=["lines", "table"])
def test_every_real_model_is_shown(
    terminal: bool,
    real: list[regard.zoo.CatalogRow],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nets in stages have a tuple where others have a number."""
    monkeypatch.setattr("regard.zoo.catalog", lambda pattern: real)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    monkeypatch.setenv("COLUMNS", "400")
    assert main(["models"]) == 0
    shown = capsys.readouterr().out
    for row in real:
        assert re.search(rf"^ *{re.escape(row.name)}\s", shown, re.MULTILINE), row.name
    (swin,) = (line for line in shown.splitlines() if re.match(r" *swin-tiny\s", line))
    assert "dim 96" in swin
    assert "depth 2/2/6/2" in shown
    assert "heads 3/6/12/24" in shown


def test_bad_input_has_one_form(zoo: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    zoo.catalog = failing(InputError("bad weights", where="a/b", got="2", expected="3", fix="try 3"))
    assert main(["models"]) == 2
    out, lines = capsys.readouterr()
    assert out == ""
    assert lines == "regard: bad weights\n  where: a/b\n  got: 2\n  expected: 3\n  fix: try 3\n"
    assert main(["models", "--json"]) == 2
    out, lines = capsys.readouterr()
    expected = {"what": "bad weights", "where": "a/b", "got": "2", "expected": "3", "fix": "try 3"}
    assert json.loads(out) == {"error": expected}
    assert lines == ""


def test_a_missing_file_is_bad_input(zoo: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    zoo.catalog = failing(FileNotFoundError(2, "No such file or directory", "weights.bin"))
    assert main(["models"]) == 2
    assert capsys.readouterr().err == "regard: No such file or directory\n  where: weights.bin\n"


def test_a_fault_of_ours_is_one_line_and_a_way_to_report_it(
    zoo: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REGARD_DEBUG", raising=False)
    zoo.catalog = failing(RuntimeError("boom\nmore"))
    assert main(["models"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "regard: RuntimeError: boom"
    assert "REGARD_DEBUG=1" in lines[1]
    assert len(lines) == 2
    monkeypatch.setenv("REGARD_DEBUG", "1")
    with pytest.raises(RuntimeError, match="boom"):
        main(["models"])


def test_an_interrupt_is_quiet(zoo: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    zoo.catalog = failing(KeyboardInterrupt())
    assert main(["models"]) == 130
    assert capsys.readouterr() == ("", "")


# A long catalog in place of the real one, for which torch would be imported.
PROGRAM = """
import dataclasses, sys
from types import ModuleType
from regard.cli.app import program
row = dataclasses.make_dataclass("Row", ["name", "paper"])
sys.modules["regard.zoo"] = ModuleType("regard.zoo")
sys.modules["regard.zoo"].catalog = lambda pattern: [row(str(i), "x" * 100) for i in range(5000)]
program()
"""


@pytest.mark.parametrize("words", [["--help"], ["models", "--json"]], ids=["little", "much"])
def test_a_reader_who_has_left_is_no_fault(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert done.returncode == 1
    assert done.stderr == ""


def test_no_standard_output(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It was closed by whoever started this process."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        code = main(["models", "--json"])
    assert code == 2
    assert capsys.readouterr().err == "regard: standard output is not available\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_an_output_that_lacks_letters(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    paper = "Żółw, 🙂"
    for words in (["models"], ["models", "--json"]):
        raw = io.BytesIO()
        out = io.TextIOWrapper(raw, encoding=encoding)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", out)
            patch.setattr("regard.cli.app.call", lambda words: print(said(words, paper)) or 0)
            assert main(words) == 0
        found = raw.getvalue().decode(encoding)
        if "--json" in words:
            assert json.loads(found) == {"paper": paper}
        else:
            assert "w, ?" in found


def said(words: list[str], text: str) -> str:
    return json.dumps({"paper": text}, ensure_ascii=False) if "--json" in words else text


@pytest.mark.parametrize(("words", "told"), [(["models"], "process less input"), (["train", "a"], "data.budget")])
def test_too_little_memory(
    words: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def call(words: list[str]) -> int:
        raise MemoryError

    monkeypatch.delenv("REGARD_DEBUG", raising=False)
    monkeypatch.setattr("regard.cli.app.call", call)
    assert main(words) == 2
    assert told in capsys.readouterr().err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a file that is always full")
@pytest.mark.parametrize("words", [["--version"], ["models", "--json"]], ids=["little", "much"])
def test_an_output_that_is_full_is_no_fault_of_ours(words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-c", PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "regard: cannot write the output: No space left on device\n"


ROWS_OF_FIGURES = [
    {"id": "1.1", "title": "One", "last": "confirmed (4 of 5 starts)", "stale": False},
    {"id": "2.2", "title": "Two", "last": "partly: 1 of 2 checks", "stale": True},
]


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Path, bool]]:
    """Stands in for the table of figures; gives the list of what was drawn."""
    drawn: list[tuple[str, Path, bool]] = []
    module = ModuleType("collection")

    def run(name: str, out: Path, check: bool) -> dict[str, object]:
        if name == "3.3":
            raise InputError("a file is not there", where="words.txt")
        drawn.append((name, out, check))
        found = (
            {"verdict": "partly", "failed": ["slope"], "agreement": "2 of 3"}
            if name == "2.2"
            else {"verdict": "confirmed"}
        )
        told = {"id": name, "failed": [], "agreement": ""} | found
        return told | {"holds": told["verdict"] == "confirmed" if check else None}

    module.names = lambda: ["1.1", "2.2"]
    module.cost = lambda name: float(name[0])
    module.rows = lambda: ROWS_OF_FIGURES
    module.run = run
    monkeypatch.setattr("regard.figures.collections", lambda: (module,))
    return drawn


def test_without_figures_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("regard.figures.entry_points", lambda group: [])
    monkeypatch.setattr("regard.figures.installed", regard.figures.installed.__wrapped__)
    for words in (["--list"], ["1.1"], ["--all"]):
        assert main(["figure", *words]) == 2
        told = capsys.readouterr().err
        assert "no figures are installed" in told
        assert "regard-lectures" in told


def test_two_collections_may_not_share_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    one = SimpleNamespace(names=lambda: ["1.1"])
    monkeypatch.setattr("regard.figures.collections", lambda: (one, one))
    assert main(["figure", "1.1"]) == 2


def test_figures_are_drawn_as_asked(figures: list[tuple[str, Path, bool]], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figure", "1.1", "--out", "here", "--json"]) == 0
    assert figures == [("1.1", Path("here"), False)]
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["id"], told["holds"], told["verdict"]) == ("1.1", None, "confirmed")
    assert main(["figure", "--list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == ROWS_OF_FIGURES
    assert main(["figure", "--list"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "1.1\tOne\tconfirmed (4 of 5 starts)",
        "2.2\tTwo\tpartly: 1 of 2 checks\tstale",
    ]
    assert len(figures) == 1


def test_a_claim_that_does_not_hold_fails_the_check(
    figures: list[tuple[str, Path, bool]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["figure", "--all"]) == 0
    assert main(["figure", "1.1", "--check"]) == 0
    capsys.readouterr()
    assert main(["figure", "--all", "--check"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "1.1\tconfirmed\tfigures/1.1.png",
        "2.2\tpartly (2 of 3 starts)\tfigures/2.2.png",
        "\tslope",
    ]
    assert [name for name, _, _ in figures] == ["1.1", "2.2", "1.1", "1.1", "2.2"]


def test_all_that_can_be_drawn(
    figures: list[tuple[str, Path, bool]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All those that are cheap enough; what lacks its data is left out in words, but refused when it is asked for."""
    monkeypatch.setattr(regard.figures.collections()[0], "names", lambda: ["1.1", "2.2", "3.3"])
    assert main(["figure", "--all", "--below", "2", "--check"]) == 0
    assert [name for name, _, _ in figures] == ["1.1"]
    capsys.readouterr()
    assert main(["figure", "--all"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "3.3\tskipped\ta file is not there"
    assert main(["figure", "3.3"]) == 2
    assert "words.txt" in capsys.readouterr().err


def test_figures_that_take_hours_are_drawn_when_they_are_named(
    figures: list[tuple[str, Path, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regard.figures.collections()[0], "cost", lambda name: {"1.1": 1.0, "2.2": 7200.0}[name])
    assert main(["figure", "--all"]) == 0
    assert [name for name, _, _ in figures] == ["1.1"]
    assert main(["figure", "2.2"]) == 0
    assert main(["figure", "--all", "--below", "10000"]) == 0
    assert [name for name, _, _ in figures] == ["1.1", "2.2", "1.1", "2.2"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["1.1", "--below", "2"], "add --all"),
        (["1.1", "--all"], "remove one of the two"),
        (["--all", "--below", "0"], "no figure takes less time than --below"),
    ],
)
def test_what_would_be_ignored_of_a_figure_is_refused(
    words: list[str], told: str, figures: list[tuple[str, Path, bool]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["figure", *words]) == 2
    assert told in capsys.readouterr().err
    assert not figures


@pytest.mark.parametrize("words", [["1.1", "2.3"], []])
def test_a_wrong_figure_stops_before_anything_is_drawn(
    words: list[str], figures: list[tuple[str, Path, bool]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["figure", *words]) == 2
    assert figures == []
    assert "regard figure --list" in capsys.readouterr().err
