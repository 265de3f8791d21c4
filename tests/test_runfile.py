"""The run file: read strictly, each problem with its line; written in full, and read again the same."""

import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.cli.init import run as init
from regard.errors import ConfigError
from regard.nn.config import MANY, positive, shares
from regard.train.places import DEEPEST, scan
from regard.train.runfile import BIGGEST, read, read_file, required, setting
from regard.train.runtext import write


@dataclass(frozen=True)
class Deep:
    ratio: float = setting(0.5, "some share")
    letters: tuple[str, ...] = setting(("a",), "some letters")

    def __post_init__(self) -> None:
        shares(self, "ratio")


@dataclass(frozen=True)
class Train:
    steps: int = setting(1000, "how many updates")
    clip: float | None = setting(1.0, "the largest norm of the gradients")
    patience: int | None = setting(None, "how long to wait")
    precision: Literal["float32", "bfloat16"] = setting("float32", "how exact")
    compiled: bool = setting(False, "whether to compile")
    deep: Deep = setting(Deep(ratio=0.25), "a table in a table")

    def __post_init__(self) -> None:
        positive(self, "steps", "patience")
        if self.patience is not None and self.patience > self.steps:
            raise ValueError("patience is longer than all steps")


@dataclass(frozen=True)
class AdamW:
    kind: Literal["adamw"] = "adamw"
    rate: float = setting(1e-3, "how fast")
    betas: tuple[float, ...] = setting((0.9, 0.999), "how long it remembers")


@dataclass(frozen=True)
class SGD:
    kind: Literal["sgd"] = "sgd"
    rate: float = setting(0.1, "how fast")
    momentum: float = setting(0.0, "how heavy")


@dataclass(frozen=True)
class Smoke:
    factor: float = required("below which share of its start the loss must fall")
    steps: int = setting(20, "how many updates")


@dataclass(frozen=True)
class Data:
    train: str = required("the file to learn from")
    attention: str | Mapping[str, Any] | tuple[Any, ...] = setting("softmax", "a name, a table or a list")
    note: str | None = setting(None, "anything")


@dataclass(frozen=True)
class Run:
    name: str = setting("run", "what it is called")
    seed: int = setting(0, "where all chance begins")
    train: Train = setting(Train(), "how it is trained")
    data: Data = required("what it learns from")
    model: Mapping[str, Any] = setting({"dim": 64}, "what differs from the named model")
    optimizer: AdamW | SGD = setting(AdamW(rate=3e-4), "how the weights move")
    smoke: Smoke | None = setting(None, "a short run that shows whether learning works")

    def __post_init__(self) -> None:
        if self.train.steps < self.seed:  # a check of two tables; it has to live with a table that could not be read
            raise ValueError("seed = is above all steps")


LEAST = 'data.train = "a.tsv"\n'


def problems(text: str, *overrides: str, kind: type = Run) -> list[str]:
    """The lines that an error has, without the first, which counts them, and without what to do."""
    with pytest.raises(ConfigError) as caught:
        read(kind, text, "run.toml", overrides)
    head, *lines = caught.value.what.split("\n")
    count = len(lines) if len(lines) <= MANY else MANY + int(lines[-1].split()[1])
    assert head == f"run.toml: {count} problem{'s' if count > 1 else ''}"
    assert "regard init" in caught.value.fix
    return lines


def complaint(text: str) -> str:
    """The one line of a file that is not even TOML."""
    with pytest.raises(ConfigError) as caught:
        read(Run, text, "run.toml")
    assert "\n" not in caught.value.what
    return caught.value.what


# ---------------------------------------------------------------------------------------------------------------- lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", {}),
        ("a = 1\nb = 2", {("a",): 1, ("b",): 2}),
        ("# [x]\n\n  a = 1 # b = 2\n", {("a",): 3}),
        ("a = 1\r\n[t]\r\nb = 2\r\n", {("a",): 1, ("t",): 2, ("t", "b"): 3}),
        ("[t]\n[t.u]\nk = 1", {("t",): 1, ("t", "u"): 2, ("t", "u", "k"): 3}),
        ("[t.u]\n[t]\nk = 1", {("t",): 2, ("t", "u"): 1, ("t", "k"): 3}),
        ("[ t . 'u' ] # x", {("t",): 1, ("t", "u"): 1}),
        ("a.b.c = 1\na.d = 2", {("a",): 1, ("a", "b"): 1, ("a", "b", "c"): 1, ("a", "d"): 2}),
        ("\"a.b\" = 1\n'c d'.\"\\u0065\" = 2", {("a.b",): 1, ("c d",): 2, ("c d", "e"): 2}),
        ("a = {b = 1, c.d = {}}\ne = 1", {("a",): 1, ("a", "b"): 1, ("a", "c"): 1, ("a", "c", "d"): 1, ("e",): 2}),
        ('a = """\n[x]\nb = 1\n"""\nc = 1', {("a",): 1, ("c",): 5}),
        ("a = '''\n[x]\n\"\"\"'''\nc = 1", {("a",): 1, ("c",): 4}),
        ('a = """x\\"""\n[x]"""""\nc = 1', {("a",): 1, ("c",): 3}),
        ('a = "[x] # \\" {" # "\nc = 1', {("a",): 1, ("c",): 2}),
        ("a = [\n  1, # ]\n  '''\n''', [\n2,],\n]\nc = 1", {
            ("a",): 1, ("a", 0): 2, ("a", 1): 3, ("a", 2): 4, ("a", 2, 0): 5, ("c",): 7,
        }),
        ("a = [\n{b = 1},\n{b = 2}]", {("a",): 1, ("a", 0): 2, ("a", 0, "b"): 2, ("a", 1): 3, ("a", 1, "b"): 3}),
        ("[[a]]\nb = 1\n[[a]]\nb = 2\n[a.c]\nd = 1\n[[a.e]]\n", {
            ("a",): 1, ("a", 0): 1, ("a", 0, "b"): 2, ("a", 1): 3, ("a", 1, "b"): 4, ("a", 1, "c"): 5,
            ("a", 1, "c", "d"): 6, ("a", 1, "e"): 7, ("a", 1, "e", 0): 7,
        }),
        ("a = 1979-05-27 07:32:00 # when\nb = 1", {("a",): 1, ("b",): 2}),
    ],
)  # fmt: skip
def test_lines(text: str, lines: dict[tuple[str | int, ...], int]) -> None:
    tomllib.loads(text)
    assert scan(text, "run.toml") == lines


SPELLINGS = ["{}", '"{}"', "'{}'", '"\\u005f{}"']
SCALARS = [
    ("1", 0),
    ("-1.5e3", 0),
    ("true", 0),
    ("1979-05-27 07:32:00", 0),
    ('"[x] # \\" \\\\"', 0),
    ("'{x = \"'", 0),
    ('"""\n[x]\ny = 1 # \'\'\'\n"""', 3),
    ('"""a "" \\""" b"""""', 0),
    ("'''\n[[x]]\n'' \"\"\"''''", 2),
    ("''", 0),
    ('""', 0),
]
GAPS = st.sampled_from(["", " ", "\n", "\r\n", "  # ] [x] }\n", "\n\n\t"])


class Written:
    """A document that grows, and knows the lines of its keys by construction."""

    def __init__(self) -> None:
        self.text = ""
        self.lines: dict[tuple[str | int, ...], int] = {}

    def add(self, text: str) -> None:
        self.text += text

    def note(self, path: tuple[str | int, ...]) -> tuple[str | int, ...]:
        self.lines[path] = self.text.count("\n") + 1
        return path


def grow_value(document: Written, draw: st.DrawFn, path: tuple[str | int, ...], depth: int) -> None:
    shape = draw(st.sampled_from(["scalar", "list", "table"])) if depth else "scalar"
    if shape == "scalar":
        document.add(draw(st.sampled_from(SCALARS))[0])
    elif shape == "list":
        document.add("[")
        for i in range(draw(st.integers(0, 3))):
            document.add(("," if i else "") + draw(GAPS))
            grow_value(document, draw, document.note((*path, i)), depth - 1)
            document.add(draw(GAPS))
        document.add(draw(GAPS) + "]")
    else:
        document.add("{")
        for i in range(draw(st.integers(0, 3))):
            document.add(" , " if i else " ")
            grow_pair(document, draw, path, f"k{i}", depth - 1)
        document.add(" }")


def grow_pair(document: Written, draw: st.DrawFn, path: tuple[str | int, ...], name: str, depth: int) -> None:
    for i in range(draw(st.integers(0, 2))):  # a dotted key
        document.add(f"{name}{i} . ")
        path = document.note((*path, f"{name}{i}"))
    spelling = draw(st.sampled_from(SPELLINGS))
    path = document.note((*path, "_" + name if "\\u" in spelling else name))
    document.add(f"{spelling.format(name)} = ")
    grow_value(document, draw, path, depth)


@st.composite
def documents(draw: st.DrawFn) -> Written:
    document = Written()
    table: tuple[str | int, ...] = ()
    lists = [-1, -1]
    for i in range(draw(st.integers(0, 8))):
        document.add(draw(GAPS).replace("\t", "") + "\n")
        shape = draw(st.sampled_from(["pair", "pair", "table", "list"]))
        if shape == "pair":
            grow_pair(document, draw, table, f"p{i}", 2)
        elif shape == "table":
            table = document.note((f"t{i}",))
            document.add(f"[ t{i} ]")
        else:
            which = draw(st.integers(0, 1))
            lists[which] += 1
            if not lists[which]:
                document.note((f"l{which}",))
            table = document.note((f"l{which}", lists[which]))
            document.add(f"[[l{which}]]")
    document.add("\n")
    return document


@settings(max_examples=80, deadline=None)
@given(documents())
def test_the_scan_finds_every_key_in_its_line(document: Written) -> None:
    assert scan(document.text, "run.toml") == document.lines
    assert set(paths(tomllib.loads(document.text))) == set(document.lines)


def paths(data: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else []
    return [found for key, item in items for found in [(*path, key), *paths(item, (*path, key))]]


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab.=[]{}\"'\\#,\n 1_", max_size=40))
def test_the_scan_stands_whatever_is_no_toml(text: str) -> None:
    lines = scan(text, "run.toml")
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    assert set(paths(data)) == set(lines)


# -------------------------------------------------------------------------------------------------------------- reading


def test_defaults_and_what_the_file_says() -> None:
    run = read(
        Run,
        """
        name = "ours"
        [train]
        steps = 5
        deep.letters = ["x", "y"]
        [data]
        train = "a.tsv"
        [model]
        depth = 3
        """,
        "run.toml",
    )
    assert run.name == "ours"
    assert run.train == Train(steps=5, deep=Deep(ratio=0.25, letters=("x", "y")))
    assert run.data == Data(train="a.tsv")
    assert run.model == {"dim": 64, "depth": 3}
    assert run.optimizer == AdamW(rate=3e-4)
    assert run.smoke is None


def test_whole_numbers_become_floats_and_lists_tuples() -> None:
    run = read(
        Run, LEAST + "optimizer.betas = [0, 1]\ntrain.clip = 2\ndata.attention = ['a', {kind = 'b'}]", "run.toml"
    )
    assert isinstance(run.optimizer, AdamW)
    assert [type(beta) for beta in run.optimizer.betas] == [float, float]
    assert type(run.train.clip) is float
    assert run.data.attention == ("a", {"kind": "b"})


def test_kinds() -> None:
    def optimizer(text: str, *overrides: str) -> AdamW | SGD:
        return read(Run, LEAST + text, "run.toml", overrides).optimizer

    assert optimizer("[optimizer]\nbetas = []") == AdamW(rate=3e-4, betas=())  # the default's kind, and what it says
    assert optimizer("[optimizer]\nkind = 'sgd'\nmomentum = 0.5") == SGD(momentum=0.5)
    assert optimizer("optimizer = 'sgd'") == SGD()
    assert optimizer("[optimizer]\nbetas = []", "optimizer=sgd", "optimizer.momentum=0.9") == SGD(momentum=0.9)
    assert problems(LEAST + "\n[optimizer]\nkind = 'adam'") == [
        "run.toml:4: optimizer.kind: 'adam' is not one of 'adamw', 'sgd'; did you mean 'adamw'?"
    ]
    assert problems(LEAST + "[optimizer]\nkind = 'sgd'\nbetas = []") == [
        "run.toml:4: optimizer.betas: unknown key; known are kind, rate, momentum"
    ]
    assert problems(LEAST + "optimizer = 5\n") == ["run.toml:2: optimizer: 5 is not a table"]
    assert problems(LEAST + "optimizer.kind = [1]\n") == [
        "run.toml:2: optimizer.kind: [1] is not one of 'adamw', 'sgd'"
    ]


def test_a_kind_without_default_must_be_named() -> None:
    @dataclass(frozen=True)
    class Bare:
        optimizer: AdamW | SGD = required("how the weights move")

    assert problems("[optimizer]\nrate = 1", kind=Bare) == [
        "run.toml:1: optimizer.kind: missing: one of 'adamw', 'sgd'"
    ]
    assert problems("", kind=Bare) == ["run.toml: optimizer: missing: a table; how the weights move"]


def test_none_where_it_is_allowed() -> None:
    run = read(
        Run, LEAST + 'train.clip = "none"\ndata.note = "none"', "run.toml", ["train.patience=none", "smoke=none"]
    )
    assert run.train.clip is None
    assert run.train.patience is None
    assert run.smoke is None
    assert run.data.note == "none"  # a text is a text
    assert problems(LEAST + 'seed = "none"') == ["run.toml:2: seed: 'none' is not a whole number"]
    assert problems(LEAST + 'train.clip = "nan"') == ["run.toml:2: train.clip: 'nan' is not a number"]


def test_all_problems_at_once_in_the_order_of_the_file() -> None:
    text = """\
        seed = "x"
        [train]
        stesp = 5
        steps = 0
        precision = "bfloat61"
        compiled = 1
        [train.deep]
        ratio = 1.5
        letters = ["a", 1]
        [smoke]
        [model]
        when = 2020-01-01
        list = [1,
            inf]
        [trian]
        """
    assert problems(text, "train.clip=fast", "seeds=3") == [
        "run.toml: data.train: missing: a text; the file to learn from",
        "run.toml:1: seed: 'x' is not a whole number",
        "run.toml:3: train.stesp: unknown key; did you mean 'steps'?",
        "run.toml:4: train: steps = 0 is not at least 1",
        "run.toml:5: train.precision: 'bfloat61' is not one of 'float32', 'bfloat16'; did you mean 'bfloat16'?",
        "run.toml:6: train.compiled: 1 is not true or false",
        "run.toml:8: train.deep: ratio = 1.5 is not a share from 0 to below 1",
        "run.toml:9: train.deep.letters: ['a', 1] is not a list of a text",
        "run.toml:10: smoke.factor: missing: a number; below which share of its start the loss must fall",
        "run.toml:12: model.when: 2020-01-01 is a date or a time; as a text it stands in quotes",
        "run.toml:14: model.list[1]: inf is not a finite number",
        "run.toml:15: trian: unknown key; did you mean 'train'?",
        "override seeds=3: seeds: unknown key; did you mean 'seed'?",
        "override train.clip=fast: train.clip: 'fast' is not a number",
    ]


def test_a_key_in_the_wrong_table() -> None:
    assert problems(LEAST + "[train]\nmomentum = 0.5\n") == [
        "run.toml:3: train.momentum: unknown key; did you mean 'optimizer.momentum'?"
    ]
    assert problems(LEAST + "[train]\nxyz = 0.5\n")[0].endswith(
        "unknown key; known are steps, clip, patience, precision, compiled, deep"
    )


def test_checks_of_a_table_and_of_several() -> None:
    assert problems(LEAST + "[train]\nsteps = 3\npatience = 4") == [
        "run.toml:4: train: patience is longer than all steps"
    ]
    assert problems(LEAST + "seed = 2000") == ["run.toml:2: seed = is above all steps"]
    # with the one table unread, the check of both is left out; what is wrong in the table is told
    assert problems(LEAST + "seed = 2000\ntrain.steps = 'x'") == ["run.toml:3: train.steps: 'x' is not a whole number"]


def test_a_fault_of_a_check_is_not_hidden() -> None:
    @dataclass(frozen=True)
    class Broken:
        size: int = setting(1, "a size")

        def __post_init__(self) -> None:
            self.size.nonsense()  # type: ignore[attr-defined]

    with pytest.raises(AttributeError):
        read(Broken, "", "run.toml")


def test_many_problems() -> None:
    lines = problems(LEAST + "".join(f"x{i} = 1\n" for i in range(150)))
    assert len(lines) == 101
    assert lines[99].startswith("run.toml:101: x99: unknown key; known are name, seed")
    assert lines[100] == "and 50 more"


# ------------------------------------------------------------------------------------------------------------ overrides


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("model.x=2000", "x", 2000),
        ("model.x=1_000", "x", 1000),
        ("model.x = 0.5", "x", 0.5),
        ("model.x=true", "x", True),
        ("model.x=performer", "x", "performer"),
        ("model.x=runs/a b.tsv", "x", "runs/a b.tsv"),
        ("model.x=a=b", "x", "a=b"),
        ("model.x=", "x", ""),
        ('model.x="2000"', "x", "2000"),
        ("model.x=[1, 2]", "x", [1, 2]),
        ('model.x={kind = "lsh", rounds = 4}', "x", {"kind": "lsh", "rounds": 4}),
        ('model."a=b"=1', "a=b", 1),
        ("model.x=1\n[train]\nsteps = 5", "x", "1\n[train]\nsteps = 5"),  # one value, not a way to write a file
        ("model.dim=7", "dim", 7),
    ],
)
def test_an_override(override: str, key: str, value: object) -> None:
    run = read(Run, LEAST + "[model]\nx = 'before'", "run.toml", [override])
    assert run.model == {"dim": 64, "x": "before"} | {key: value}
    assert run.train == Train()


def test_overrides_come_before_checks_and_the_last_one_counts() -> None:
    run = read(Run, LEAST + "train.steps = 'x'", "run.toml", ["train.steps=5", "train.steps=6", "data.train=b.tsv"])
    assert run.train.steps == 6
    assert run.data.train == "b.tsv"
    run = read(Run, LEAST, "run.toml", ["model.attention=performer", "model.attention.features=8"])
    assert run.model == {"dim": 64, "attention": {"kind": "performer", "features": 8}}
    run = read(Run, LEAST + "[train]\ndeep = {x = 1}", "run.toml", ["train.deep={}"])
    assert run.train.deep == Deep(ratio=0.25)


def test_a_text_may_look_like_a_number() -> None:
    run = read(Run, LEAST, "run.toml", ["name=2024", "data.note=2024-01-05"])
    assert (run.name, run.data.note) == ("2024", "2024-01-05")
    assert problems(LEAST + "name = 2024") == ["run.toml:2: name: 2024 is not a text"]  # a file says what it means


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("train.stesp=3", "override train.stesp=3: train.stesp: unknown key; did you mean 'steps'?"),
        ("steps=3", "override steps=3: steps: unknown key; did you mean 'train.steps'?"),
        ("train.steps=0", "override train.steps=0: train: steps = 0 is not at least 1"),
        ("train.steps", "override train.steps: this is not key=value, such as train.steps=2000"),
        ("=3", "override =3: this is not key=value, such as train.steps=2000"),
        ("a b=3", "override a b=3: this is not key=value, such as train.steps=2000"),
        ("a." * 40 + "b=3", f"override {'a.' * 40}b=3: this is not key=value, such as train.steps=2000"),
        ("seed.x=3", "override seed.x=3: seed.x: seed is not a table"),
        ("train=3", "override train=3: train: 3 is not a table"),
        ("train={stesp = 3}", "override train={stesp = 3}: train.stesp: unknown key; did you mean 'steps'?"),
        ("model.x=nan", "override model.x=nan: model.x: nan is not a finite number"),
        ("se\x1bd=3", r"override 'se\x1bd=3': this is not key=value, such as train.steps=2000"),
        ('"se\x1bd"=3', r"""override '"se\x1bd"=3': 'se\x1bd': unknown key; did you mean 'seed'?"""),
        ("name=\udcff", r"override 'name=\udcff': this is not Unicode text"),
    ],
)
def test_a_wrong_override(override: str, line: str) -> None:
    assert problems(LEAST + "seed = 1\n[train]\nsteps = 5", override) == [line]


@pytest.mark.parametrize("value", ["[softmax, performer]", '"open', "{kind = lsh}", "[" * 5000])
def test_an_override_that_is_no_toml(value: str) -> None:
    (line,) = problems(LEAST, f"model.attention={value}")
    assert line.startswith("override ")
    assert len(line) < 400
    assert line.endswith("; a text in a list or a table needs quotes")


# -------------------------------------------------------------------------------------------------------- hostile files


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a = 1\nb = = 2", 2, "Invalid value (at column 5)"),
        ("a = 1\na = 2", 2, "Cannot overwrite a value"),
        ('a = 1\nb = "x\n', 2, "Illegal character '\\n'"),
        ("a = 1\nb = [1,\n2\n", 3, "Unclosed array (at the end of the file)"),
        ("a = 1\n\n[t\n", 3, "Expected ']'"),
        ("a = 1\nb\x07 = 2", 2, "Expected '='"),
        ('a = "\x1b[31m"', 1, r"Illegal character '\x1b'"),
    ],
)
def test_what_is_no_toml(text: str, line: int, reason: str) -> None:
    what = complaint(text)
    assert what.startswith(f"run.toml:{line}: this is no TOML: ")
    assert reason in what
    assert what.isprintable()


@pytest.mark.parametrize(
    "nested",
    [
        "x = " + "[" * 100_000,
        "x = " + "[" * 40 + "]" * 40,
        "x = " + "{a=" * 40 + "1" + "}" * 40,
        "x = " + "{a=[" * 100_000,
        ".".join("a" * 100_000) + " = 1",
        "[" + ".".join("a" * 100_000) + "]",
        f"[{'.'.join('a' * 30)}]\n{'.'.join('a' * 30)} = 1",
    ],
    ids=["lists", "closed", "tables", "both", "key", "header", "together"],
)
def test_deep_nesting(nested: str) -> None:
    line = 2 + nested.count("\n")
    assert complaint(LEAST + nested) == f"run.toml:{line}: nested more than {DEEPEST} deep"


def test_endless_numbers() -> None:
    assert complaint("a = 1\nseed = " + "9" * 5000) == "run.toml:2: a value of 5000 characters without quotes around it"
    assert complaint("seed = 0x" + "f" * 5000).startswith("run.toml:1: a value of 5002 characters")
    assert problems(LEAST + "seed = 9999999999999999") == ["run.toml:2: seed: 9999999999999999 is too large a number"]
    assert problems(LEAST + "model.x = " + "9" * 30) == [f"run.toml:2: model.x: {'9' * 30} is too large a number"]
    assert problems(LEAST + "train.clip = 1e999") == ["run.toml:2: train.clip: inf is not a finite number"]
    assert problems(LEAST + "model.x = [{y = -nan}]") == ["run.toml:2: model.x[0].y: nan is not a finite number"]


def test_keys_are_shown_safely() -> None:
    (line,) = problems(LEAST + '[train]\n"\\u001b[31m\\n\\u202e" = 1\n')
    assert line.startswith(r"run.toml:3: train.'\x1b[31m\n\u202e': unknown key; known are")
    (line,) = problems(LEAST + f"[train]\n{'k' * 100_000} = 1")
    assert len(line) < 300
    (line,) = problems(LEAST + f"seed = '{'k' * 100_000}'")
    assert len(line) < 300


def test_a_large_file(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(LEAST + "#" * BIGGEST)
    with pytest.raises(ConfigError, match=r"run\.toml: too large for a run file"):
        read_file(Run, file)
    file.write_text(LEAST + "#" * (BIGGEST - len(LEAST)))
    assert read_file(Run, file) == read(Run, LEAST, "run.toml")


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"k{i} = 1" for i in range(20_000)),
        "x = [" + "1," * 50_000,
        'x = "' + '\\"' * 100_000,
        'x = """' + '""' + 'a""' * 100_000,
        "x = '''" + "'a" * 100_000,
        "# " * 100_000,
        "[[a]]\n" * 20_000,
        '"' + "\\\\" * 100_000,
        " " * 200_000,
        "x = " + "1" * 1_000_000,
    ],
)
def test_no_file_takes_for_ever(text: str) -> None:
    """A pattern that goes back and forth, or a list that is copied for each item, would not end."""
    with pytest.raises(ConfigError):
        read(Run, text, "run.toml")


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_bytes(b"\xef\xbb\xbf" + LEAST.encode())
    assert read_file(Run, file).data.train == "a.tsv"
    file.write_bytes(b"a = 1\nb = '\xe4'\n")
    with pytest.raises(ConfigError, match=r"run\.toml:2: this is not UTF-8 text\n  got: byte 0xe4"):
        read_file(Run, file)
    file.write_bytes(LEAST.encode("utf-16"))
    with pytest.raises(ConfigError, match="UTF-16"):
        read_file(Run, file)
    with pytest.raises(FileNotFoundError):
        read_file(Run, tmp_path / "none.toml")


# -------------------------------------------------------------------------------------------------------------- writing

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
    text = write(run)
    again = read(Run, text, "run.toml")
    assert again == run
    assert write(again) == text
    assert all(line.isprintable() for line in text.split("\n"))


CHANGES = st.tuples(st.integers(0, 10_000), st.integers(0, 8), st.text("[]{}=\"'.,#\n 19-einfax\x00\x1b", max_size=4))


@settings(max_examples=60, deadline=None)
@given(st.lists(CHANGES, min_size=1, max_size=4), st.lists(st.text("trainmodelsp.=[{\"'1 "), max_size=2))
def test_a_damaged_file_is_read_or_refused(changes: list[tuple[int, int, str]], overrides: list[str]) -> None:
    text = write(Run(data=Data(train="a.tsv"), smoke=Smoke(factor=0.5)))
    for at, length, instead in changes:
        at %= len(text)
        text = text[:at] + instead + text[at + length :]
    try:
        run, error = read(Run, text, "run.toml", overrides), ""
    except ConfigError as caught:
        run, error = None, str(caught)
    assert all(line.isprintable() for line in error.split("\n"))
    assert run is None or read(Run, write(run), "run.toml") == run


def test_how_a_file_reads() -> None:
    assert write(Run(data=Data(train="a.tsv"), train=Train(clip=None))) == (
        """\
name = "run"                  # what it is called
seed = 0                      # where all chance begins

# how it is trained
[train]
steps = 1000                  # how many updates
clip = "none"                 # the largest norm of the gradients (a number, or "none")
# patience = ...              # how long to wait (a whole number)
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
# note = ...                  # anything (a text)

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

    *above, line = write(Long()).splitlines()
    assert line == "size = 1"
    assert len(above) == 3
    assert all(text.startswith("# word word") and len(text) <= 120 for text in above)


@pytest.mark.parametrize(
    ("run", "named"),
    [
        (Run(data=Data(train="a"), name=5), "name: 5 is not a text"),  # type: ignore[arg-type]
        (Run(data=Data(train="a"), train=Train(clip=float("inf"))), "train.clip: inf is not a number"),
        (Run(data=Data(train="a"), model={"x": [float("nan")]}), "model.x[0]: nan cannot be written"),
        (Run(data=Data(train="a"), model={"x": {"y": None}}), "model.x.y: None cannot be written"),
        (Run(data=Data(train="a"), model={"x": Path("a")}), "model.x: "),
        (Run(data=Data(train="a"), model={}), "this value of model"),  # what is left out would be there again
        (Run(data=Data(train="a"), optimizer=Deep()), "optimizer: Deep("),  # type: ignore[arg-type]
        (Run(data=Data(train="\ud800")), "the run file as written"),
        (Run(data=Data(train="a"), train=Train(steps=2**41)), "train.steps: 2199023255552"),
    ],
)
def test_what_a_file_cannot_hold_is_not_written(run: Run, named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        write(run)
    assert named in str(caught.value)


def test_none_that_nothing_can_say_is_not_written() -> None:
    @dataclass(frozen=True)
    class Named:
        name: str | None = setting("x", "a text or none")

    assert read(Named, write(Named("y")), "run.toml") == Named("y")
    with pytest.raises(ConfigError, match="a run file cannot hold this value of name"):
        write(Named(None))


def test_a_default_table_is_not_shared() -> None:
    one, other = Run(data=Data(train="a")), Run(data=Data(train="a"))
    one.model["dim"] = 1  # type: ignore[index]
    assert other.model == {"dim": 64}


def test_fields_need_no_explanation() -> None:
    @dataclass(frozen=True)
    class Plain:
        size: int = 1
        free: Mapping[str, Any] = field(default_factory=dict)

    assert write(Plain()) == "size = 1\n\n[free]\n"


# ---------------------------------------------------------------------------------------------------------- regard init


def test_reading_needs_no_torch() -> None:
    program = "import sys, regard.train.runtext; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_init_prints_the_template(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    module = ModuleType("regard.run.templates")
    module.template = lambda task: f'task = "{task}"\n'  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "regard.run.templates", module)
    init("translate")
    assert capsys.readouterr().out == 'task = "translate"\n'
    init("translate", as_json=True)
    assert '"text": "task = \\"translate\\"\\n"' in capsys.readouterr().out
