"""Comma-separated values: Python's own reader over the whole file is the definition."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.records import open_csv
from regard.errors import InputError

FIELD = st.text(st.characters(codec="utf-8", exclude_characters="\0\r", exclude_categories=["Cs"]), min_size=1).filter(
    lambda text: bool(text.strip())
)


def write(path: Path, rows: list[list[str]]) -> Path:
    told = io.StringIO()
    csv.writer(told, lineterminator="\n").writerows(rows)
    path.write_bytes(told.getvalue().encode())
    return path


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(FIELD, FIELD), min_size=1, max_size=8))
def test_what_was_written_is_read(rows: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Commas, quotes and ends of lines inside of fields; rows by number, in any order."""
    path = write(tmp_path_factory.mktemp("csv") / "x.csv", [list(row) for row in rows])
    found = open_csv(path, [1, 2])
    assert not found.faults
    assert [found[i] for i in reversed(range(len(found)))] == list(reversed(rows))
    assert found.lengths.tolist() == [[len(a.encode()), len(b.encode())] for a, b in rows]


def test_columns_by_name(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.csv", [["id", "text", "label"], ["1", 'she said "no",\nthen left', "bad"], ["2", "b", "good"]]
    )
    found = open_csv(path, ["label", "text"])
    assert [found[0], found[1]] == [("bad", 'she said "no",\nthen left'), ("good", "b")]
    assert found.where(1) == f"{path}:4"
    with pytest.raises(InputError, match="the header has no column 'tezt'"):
        open_csv(path, ["tezt"])
    with pytest.raises(InputError, match="column 4 does not exist"):
        open_csv(path, [4])


def test_bad_records_are_named_and_the_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b'a,b\n1,2\n\nonly one\n3,"x" y\n4,\n5,\xff\n6,7\n')
    found = open_csv(path, ["a", "b"])
    assert [found[i] for i in range(len(found))] == [("1", "2"), ("6", "7")]
    told = {fault.line: fault.reason for fault in found.faults}
    assert sorted(told) == [4, 5, 6, 7]
    assert told[4] == "1 columns instead of 2"
    assert "expected after" in told[5]
    assert told[6] == "column 2 (b) is empty"
    assert "UTF-8" in told[7]


def test_a_quote_that_never_ends_costs_one_fault_and_little_time(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('a,b\n1,"' + "2,3\n" * 200_000)
    found = open_csv(path, [1, 2])
    assert 1 <= len(found.faults) < 200
    assert found[0] == ("a", "b")


def test_nothing_to_read(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("\n\n")
    with pytest.raises(InputError, match="no row"):
        open_csv(tmp_path / "x.csv", [1])


def test_a_file_that_changed_is_noticed(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", [["a", "b"], ["c", "d"]])
    found = open_csv(path, [1, 2])
    path.write_text("zzz\nyyy\n")
    with pytest.raises(InputError, match="changed"):
        found[0]


def test_lines_that_end_with_carriage_returns_alone(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"text,label\ra,b\rc,d\r")
    with pytest.raises(InputError, match="carriage returns") as caught:
        open_csv(tmp_path / "x.csv", [1])
    assert "line feeds" in caught.value.fix
