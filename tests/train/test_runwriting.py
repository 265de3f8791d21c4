"""Run files are written so that what is read again is the same, and `regard init` explains every key."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.cli.init import run as init
from regard.errors import ConfigError
from regard.train.runfile import read, setting
from regard.train.runfile_text import run_file_text
from tests.train.runfiles import SGD, AdamW, Data, Deep, Run, Smoke, Train

WORDS = st.text(max_size=12)


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


PLAIN = st.recursive(
    st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | NUMBERS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


RUNS = st.builds(
    Run,
    name=WORDS,
    seed=st.integers(0, 9),
    train=st.builds(
        Train,
        steps=st.integers(10, 2**40),
        clip=st.none() | NUMBERS,
        patience=st.none() | st.integers(1, 10),
        precision=st.sampled_from(["float32", "bfloat16"]),
        compiled=st.booleans(),
        deep=st.builds(Deep, ratio=st.floats(0, 0.9), letters=st.lists(WORDS, max_size=3).map(tuple)),
    ),
    data=st.builds(
        Data,
        train=WORDS,
        attention=WORDS
        | st.dictionaries(WORDS, PLAIN, max_size=3)
        | st.lists(WORDS | st.dictionaries(WORDS, PLAIN, max_size=2), max_size=3).map(tuple),
        note=st.none() | WORDS,
    ),
    model=st.dictionaries(WORDS, PLAIN, max_size=3).map(lambda model: {"dim": 1} | model),
    optimizer=st.builds(AdamW, rate=NUMBERS, betas=st.lists(NUMBERS, max_size=3).map(tuple))
    | st.builds(SGD, rate=NUMBERS, momentum=NUMBERS),
    smoke=st.none() | st.builds(Smoke, factor=NUMBERS, steps=st.integers(-5, 5)),
)


@settings(max_examples=40, deadline=None)
@given(RUNS)
def test_what_is_written_is_read_again(run: Run) -> None:
    text = run_file_text(run)
    again = read(Run, text, "run.toml")
    assert again == run
    assert run_file_text(again) == text
    assert all(line.isprintable() for line in text.split("\n"))


CHANGES = st.tuples(st.integers(0, 10_000), st.integers(0, 8), st.text("[]{}=\"'.,#\n 19-einfax\x00\x1b", max_size=4))


@settings(max_examples=60, deadline=None)
@given(st.lists(CHANGES, min_size=1, max_size=4), st.lists(st.text("trainmodelsp.=[{\"'1 "), max_size=2))
def test_a_damaged_file_is_read_or_refused(changes: list[tuple[int, int, str]], overrides: list[str]) -> None:
    text = run_file_text(Run(data=Data(train="a.tsv"), smoke=Smoke(factor=0.5)))
    for at, length, instead in changes:
        at %= len(text)
        text = text[:at] + instead + text[at + length :]
    try:
        run, error = read(Run, text, "run.toml", overrides), ""
    except ConfigError as caught:
        run, error = None, str(caught)
    assert all(line.isprintable() for line in error.split("\n"))
    assert run is None or read(Run, run_file_text(run), "run.toml") == run


def test_how_a_file_reads() -> None:
    assert run_file_text(Run(data=Data(train="a.tsv"), train=Train(clip=None))) == (
        """\
name = "run"                  # what it is called
seed = 0                      # where all chance begins

# how it is trained
[train]
steps = 1000                  # how many updates
clip = "none"                 # the largest norm of the gradients (a number, or "none")
# patience = ...              # how long to wait (an integer)
precision = "float32"         # how exact (one of "float32", "bfloat16")
compiled = false              # whether to compile

# a table in a table
[train.deep]
ratio = 0.25                  # some share
letters = ["a"]               # some letters

# what it learns from
[data]
train = "a.tsv"               # the file to learn from
attention = "softmax"         # a name, a table or a list
# note = ...                  # anything (a string)

# what differs from the named model
[model]
dim = 64

# how the weights move (kind: one of "adamw", "sgd")
[optimizer]
kind = "adamw"
rate = 0.0003                 # how fast
betas = [0.9, 0.999]          # how long it remembers

# a short run that shows whether learning works
# [smoke]
# factor = ...                # below which share of its start the loss must fall (a number)
# steps = 20                    # how many updates
"""
    )


def test_a_long_explanation_stands_above() -> None:
    @dataclass(frozen=True)
    class Long:
        size: int = setting(1, "word\n" * 60)

    *above, line = run_file_text(Long()).splitlines()
    assert line == "size = 1"
    assert len(above) == 3
    assert all(text.startswith("# word word") and len(text) <= 120 for text in above)


@pytest.mark.parametrize(
    ("run", "named"),
    [
        (Run(data=Data(train="a"), name=5), "name: 5 is not a string"),  # type: ignore[arg-type]
        (Run(data=Data(train="a"), train=Train(clip=float("inf"))), "train.clip: inf is not a number"),
        (Run(data=Data(train="a"), model={"x": [float("nan")]}), "model.x[0]: nan cannot be written"),
        (Run(data=Data(train="a"), model={"x": {"y": None}}), "model.x.y: None cannot be written"),
        (Run(data=Data(train="a"), model={"x": Path("a")}), "model.x: "),
        (Run(data=Data(train="a"), model={}), "this value of model"),  # what is left out would be there again
        (Run(data=Data(train="a"), optimizer=Deep()), "optimizer: Deep("),  # type: ignore[arg-type]
        (Run(data=Data(train="\ud800")), "the generated run file"),
        (Run(data=Data(train="a"), train=Train(steps=2**41)), "train.steps: 2199023255552"),
    ],
)
def test_what_a_file_cannot_hold_is_not_written(run: Run, named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        run_file_text(run)
    assert named in str(caught.value)


def test_none_that_nothing_can_say_is_not_written() -> None:
    @dataclass(frozen=True)
    class Named:
        name: str | None = setting("x", "a text or none")

    assert read(Named, run_file_text(Named("y")), "run.toml") == Named("y")
    with pytest.raises(ConfigError, match="a run file cannot represent this value of name"):
        run_file_text(Named(None))


def test_a_default_table_is_not_shared() -> None:
    one, other = Run(data=Data(train="a")), Run(data=Data(train="a"))
    one.model["dim"] = 1  # type: ignore[index]
    assert other.model == {"dim": 64}


def test_fields_need_no_explanation() -> None:
    @dataclass(frozen=True)
    class Plain:
        size: int = 1
        free: Mapping[str, Any] = field(default_factory=dict)

    assert run_file_text(Plain()) == "size = 1\n\n[free]\n"


def test_reading_needs_no_torch() -> None:
    program = "import sys, regard.train.runfile_text; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_init_prints_the_template(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    module = ModuleType("regard.run.templates")
    module.run_template = lambda task: f'task = "{task}"\n'  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "regard.run.templates", module)
    init("translate")
    assert capsys.readouterr().out == 'task = "translate"\n'
    init("translate", as_json=True)
    assert '"text": "task = \\"translate\\"\\n"' in capsys.readouterr().out
