"""Run files, line by line: where each key stands, whatever else the text is."""

import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.train.toml_lines import scan


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
