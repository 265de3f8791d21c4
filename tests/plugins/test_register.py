"""What is registered is known by its name and its source; what cannot be is refused in words."""

import hashlib
import importlib
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import regard
from regard import plugins
from regard.errors import InputError
from regard.interop.formats import CHECKPOINT_FORMATS
from regard.look.analyses import ANALYSES
from regard.modalities.goals import GOALS
from regard.modalities.processors import PROCESSORS
from regard.modalities.sources import SOURCES
from regard.modalities.verb_table import VERBS
from regard.nn.mechanisms import MECHANISMS, Mechanism, Plain
from regard.zoo import FAMILIES, PRESETS

ROW = MECHANISMS["dot"]


def registering(name: str) -> str:
    """The text of a plug-in."""
    row = 'regard.register(MECHANISMS["dot"], name='
    return f'import regard\nfrom regard.nn.mechanisms import MECHANISMS\n{row}"{name}")\n'


def test_a_row_goes_into_the_table_of_its_kind() -> None:
    rows: dict[str, tuple[Any, Any]] = {
        "mine": (MECHANISMS, ROW),
        "family": (FAMILIES, replace(FAMILIES["mlp"], presets={})),
        "kind": (CHECKPOINT_FORMATS, CHECKPOINT_FORMATS["gpt2"]),
        "processor": (PROCESSORS, PROCESSORS["text"]),
        "analysis": (ANALYSES, ANALYSES["flow"]),
    }
    for name, (table, row) in rows.items():
        regard.register(row, name=name)
        assert table[name] is row
        assert plugins.REGISTERED[-1].source.name == "test_register.py"
    plugins.forget("test_register.py")
    assert not [name for name, (table, _) in rows.items() if name in table]


@pytest.mark.parametrize(
    ("table", "name", "other"),
    [
        (MECHANISMS, "softmax", "dot"),
        (FAMILIES, "gpt", "mlp"),
        (CHECKPOINT_FORMATS, "gpt2", "bert"),
        (ANALYSES, "flow", "lens"),
    ],
)
def test_a_name_that_is_taken_is_refused(table: Any, name: str, other: str) -> None:
    row = replace(table[other], presets={}) if table is FAMILIES else table[other]
    with pytest.raises(InputError, match=r"^(this|an) .* already exists"):
        regard.register(row, name=name)
    assert table[name] is not row
    assert not plugins.REGISTERED


def test_what_cannot_be_registered_is_told() -> None:
    with pytest.raises(InputError, match="cannot be registered") as error:
        regard.register(3, name="three")
    for word in ("attention", "model family", "task", "kind of data", "analysis", "figure", "checkpoint table", "verb"):
        assert word in error.value.expected
    with pytest.raises(InputError, match="the class itself"):
        regard.register(Mechanism, name="mine")
    with pytest.raises(InputError, match="invalid name"):
        regard.register(ROW, name="two words")
    for row, name in ((GOALS["language"], "other"), (SOURCES["text"], "other"), (VERBS["tag"], "other")):
        with pytest.raises(InputError, match="two different names"):
            regard.register(row, name=name)
    with pytest.raises(InputError, match="gpt-tiny"):
        regard.register(replace(FAMILIES["gpt"]), name="gpt9")


def test_a_registered_attention_is_one_like_others() -> None:
    regard.register(Mechanism(Plain, ROW.build, "mine"), name="mine")
    assert regard.build("gpt-tiny", depth=1, attention="mine").config.attention == "mine"
    with pytest.raises(InputError, match="did you mean 'mine'"):
        regard.build("gpt-tiny", depth=1, attention="mein")


def test_what_a_module_registers_is_known_by_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        'import regard\nfrom regard.nn.mechanisms import MECHANISMS\nregard.register(MECHANISMS["dot"], name="one")\n'
    )
    (tmp_path / "my_rows_here.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("my_rows_here")
    source = plugins.plugin_of("attention", "one")
    assert source is not None
    assert source.data() == {"name": "my_rows_here.py", "sha256": hashlib.sha256(text.encode()).hexdigest()}
    assert plugins.plugin_of("attention", "softmax") is None
    del sys.modules["my_rows_here"]


def test_a_file_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    file = tmp_path / "half.py"
    file.write_text(registering("one") + "1 / 0\n")
    with pytest.raises(InputError, match="ZeroDivisionError") as error:
        plugins.load_file(file)
    assert error.value.where == f"{file}:4"
    assert "one" not in MECHANISMS
    assert "half" not in sys.modules
    file.write_text("def broken(:\n")
    with pytest.raises(InputError, match="SyntaxError"):
        plugins.load_file(file)


@pytest.mark.parametrize(
    ("name", "told"),
    [("none.py", "not found"), ("json.py", "another module"), ("rows.txt", r"must be a \.py file")],
)
def test_files_that_are_no_plugins(tmp_path: Path, name: str, told: str) -> None:
    if name != "none.py":
        (tmp_path / name).write_text("")
    with pytest.raises(InputError, match=told):
        plugins.load_file(tmp_path / name)


def test_a_changed_file_is_never_read_from_a_compiled_copy(tmp_path: Path) -> None:
    file = tmp_path / "turns.py"
    for word in ("one", "two"):
        file.write_text(registering(word))
        plugins.load_file(file)
        assert word in MECHANISMS
        plugins.forget("turns.py")
    assert not list(tmp_path.glob("**/*.pyc"))


class Point:
    """An entry point of a distribution, as importlib.metadata gives it."""

    def __init__(self, name: str, load: Any) -> None:
        self.name, self.value, self.module = name, f"{name}:rows", "json"
        self.dist = SimpleNamespace(name=f"regard-{name}", version="1.2")
        self.load = load


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows() -> None:
        regard.register(ROW, name="packaged")
        regard.register(replace(FAMILIES["mlp"], presets={"packed-mlp": FAMILIES["mlp"].example()}), name="packed")

    def broken() -> None:
        raise RuntimeError("this package is broken")

    points = [Point("bad", lambda: broken), Point("good", lambda: rows)]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points)
    monkeypatch.setattr(plugins, "ASKED", [])


@pytest.mark.usefixtures("packages")
def test_packages_are_asked_when_a_name_is_unknown() -> None:
    """Once; one that is broken is told by its name, and does not break the others."""
    assert "softmax" in MECHANISMS
    assert not plugins.REGISTERED
    with pytest.warns(UserWarning, match="regard-bad .* this package is broken"):
        assert "packaged" in MECHANISMS
    assert PRESETS["packed-mlp"] == "packed"
    source = plugins.plugin_of("attention", "packaged")
    assert source is not None
    assert (source.name, source.version, len(source.sha256)) == ("regard-good", "1.2", 64)


@pytest.mark.usefixtures("packages")
def test_the_command_line_loads_packages_first(capsys: pytest.CaptureFixture[str]) -> None:
    from regard.cli.app import main

    assert main(["models", "packed*"]) == 0
    told = capsys.readouterr()
    assert "packed-mlp" in told.out
    assert "regard-bad" in told.err
