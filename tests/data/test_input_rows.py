"""The rows that a model is asked about: which column is read, and every row in its place."""

import json
from pathlib import Path

import pytest

from regard.data.input_columns import open_inputs
from regard.errors import InputError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


def written(folder: Path, text: str, name: str = "x.csv", encoding: str = "utf-8") -> Path:
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


def texts(path: Path, *given: object, roles: tuple[str, ...] = ("text",)) -> list[tuple[str, ...]]:
    return [row.inputs for row in open_inputs(path, roles, *given)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "trained", "wanted"),
    [
        ("id,review\n1,good\n2,bad\n", ["review"], ["good", "bad"]),  # as in training
        ("id,review\n1,good\n2,bad\n", [], ["good", "bad"]),  # the usual name
        ("id;review\n1;good\n2;bad\n", ["review"], ["good", "bad"]),
        ("id,text,words\n1,one,good\n2,two,bad\n", ["words"], ["good", "bad"]),  # the name comes before the usual one
        ("good,a\nbad,b\n", [1], ["good", "bad"]),  # the number, where there are no names
        ("a,good\nb,bad\n", [2], ["good", "bad"]),
        ("id,text\n1,good\n2,bad\n", [1], ["good", "bad"]),  # column 1 is not the text here
        ("good\nbad\n", [], ["good", "bad"]),  # the only column
        ("good\nbad\n", ["review"], ["good", "bad"]),
        ("review\ngood\nbad\n", [], ["good", "bad"]),
        ('text\n"good\nindeed"\nbad\n', [], ["good\nindeed", "bad"]),
    ],
)
def test_the_column_that_is_read(tmp_path: Path, text: str, trained: list[int | str], wanted: list[str]) -> None:
    assert texts(written(tmp_path, text), (), trained) == [(one,) for one in wanted]


@pytest.mark.parametrize(
    ("text", "trained"), [("a,b\nc,d\n", []), ("x1,x2\n1,2\n", ["review"]), ("", []), ("text,review\na,b\n", [])]
)
def test_what_nobody_can_know_is_asked(tmp_path: Path, text: str, trained: list[str]) -> None:
    with pytest.raises(InputError, match="which column") as caught:
        texts(written(tmp_path, text), (), trained)
    assert "--column" in caught.value.fix


def test_what_is_asked_for_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, "text,other\na,b\n")
    assert texts(path, ["other"]) == [("b",)]
    assert texts(path, [2]) == [("b",)]
    with pytest.raises(InputError, match="no column 'othr'"):
        texts(path, ["othr"])


def test_two_columns(tmp_path: Path) -> None:
    path = written(tmp_path, "id,question,context\n1,who,Anna sings\n")
    assert texts(path, roles=("question", "context")) == [("who", "Anna sings")]
    path = written(tmp_path, "sentence1,sentence2\na,b\n")
    assert texts(path, (), ["sentence1", "sentence2"]) == [("a", "b")]


def test_every_row_keeps_its_place(tmp_path: Path) -> None:
    path = written(tmp_path, 'id,text\n1,good\n2\n3,\n4,"x" y\n\n5,fine\n')
    found = list(open_inputs(path, ["text"]))
    assert [(row.line, row.inputs, row.fields.get("id")) for row in found] == [
        (2, ("good",), "1"),
        (3, (), "2"),
        (4, (), "3"),
        (5, (), None),
        (7, ("fine",), "5"),
    ]
    assert [row.fault for row in found][1:3] == ["1 columns instead of 2", "the text is empty"]


def test_lines_of_json_and_of_text(tmp_path: Path) -> None:
    rows = [{"id": 1, "text": "ä"}, {"id": 2}, {"id": 3, "text": "c", "more": [1]}]
    path = written(tmp_path, "\n".join(map(json.dumps, rows)) + "\n{no\n", "x.jsonl")
    found = list(open_inputs(path, ["text"]))
    assert [row.inputs for row in found] == [("ä",), (), ("c",), ()]
    assert [row.fields for row in found] == [*rows, {}]
    path = written(tmp_path, "one, two\n\nthree\n", "x.txt", "utf-16")
    assert texts(path) == [("one, two",), (), ("three",)]
