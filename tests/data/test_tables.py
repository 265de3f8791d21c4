"""Rows of text from plain files, columns and JSON lines; every bad line is found and named."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data import tables
from regard.data.faults import Fault, check_fault_share
from regard.data.lines import Lines
from regard.data.rows import Subset, split_held_out
from regard.data.tables import (
    Form,
    JsonKeys,
    TabColumns,
    TableFile,
    TextTable,
    UnfitError,
    Whole,
    open_jsonl,
    open_plain,
    open_tsv,
)
from regard.errors import InputError


def write(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def reasons(table: TextTable) -> dict[int, str]:
    return {fault.line: fault.reason for fault in table.faults}


def test_plain_text_is_an_example_a_line(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "one\n\n zwei ä \r\n   \nthree".encode())
    table = open_plain(path)
    assert [table[i] for i in range(len(table))] == [("one",), (" zwei ä ",), ("three",)]
    assert table.lengths.tolist() == [[3], [9], [5]]
    assert len(table.faults) == 0  # a blank line is no example


def test_parallel_files_belong_together(tmp_path: Path) -> None:
    one = write(tmp_path, "a.en", b"one\n\nthree\n\nfive\n")
    two = write(tmp_path, "a.de", b"eins\n\n\nvier\nf\xfcnf\n")
    table = open_plain(one, two)
    assert list(table) == [("one", "eins")]
    assert [str(fault) for fault in table.faults] == [
        f"{two}:3: the line is empty",
        f"{one}:4: the line is empty",
        f"{two}:5: invalid UTF-8 at byte 2",
    ]


def test_parallel_files_must_be_as_long(tmp_path: Path) -> None:
    one, two = write(tmp_path, "a.en", b"1\n2\n"), write(tmp_path, "a.de", b"1\n2\n3\n")
    with pytest.raises(InputError, match="different numbers of lines") as caught:
        open_plain(one, two)
    assert f"2 lines in {one}, 3 lines in {two}" in caught.value.got


def test_columns_by_number(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", "a\tbb\tccc\r\nä\töö\tüüü\n".encode())
    table = open_tsv(path, [3, 1])
    assert list(table) == [("ccc", "a"), ("üüü", "ä")]
    assert table.lengths.tolist() == [[3, 1], [6, 2]]
    assert list(open_tsv(path, [2], header=True)) == [("öö",)]


def test_columns_by_name(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", b"\xef\xbb\xbfid\tgerman\tenglish\n1\teins\tone\n2\tzwei\ttwo\n")
    assert list(open_tsv(path, ["english", "german"])) == [("one", "eins"), ("two", "zwei")]
    assert list(open_tsv(path, ["id", 3])) == [("1", "one"), ("2", "two")]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ([0], "column 0 does not exist"),
        ([4], "3 columns"),
        ([-1], "column -1 does not exist"),
        (["englsh"], "did you mean 'english'"),
        (["other"], "'id', 'english', 'english'"),
        (["english"], "more than one column 'english'"),
    ],
)
def test_a_column_that_is_not_there_is_named(tmp_path: Path, columns: list[int | str], words: str) -> None:
    path = write(tmp_path, "a.tsv", b"id\tenglish\tenglish\n1\tone\teins\n")
    with pytest.raises(InputError, match=words):
        open_tsv(path, columns)


def test_every_bad_row_of_a_tsv_is_named(tmp_path: Path) -> None:
    lines = [b"one\teins\tx", b"two", b"\tdrei\tx", b"four\t  \tx", b"f\xff\tf\tx", b"a\tb\tc\td", b"s\0x\ts\tx"]
    lines += [b"sieben\tseven\t", b"x\t" + b"y" * 11 + b"\tz", b"", b"ten\tzehn\tx"]
    path = write(tmp_path, "a.tsv", b"\n".join(lines))
    table = open_tsv(path, [1, 2], longest=10)
    assert list(table) == [("one", "eins"), ("sieben", "seven"), ("ten", "zehn")]  # column 3 was not asked for
    assert reasons(table) == {
        2: "1 columns instead of 3",
        3: "column 1 is empty",
        4: "column 2 is empty",
        5: "invalid UTF-8 at byte 2",
        6: "4 columns instead of 3",
        7: "the line contains a NUL byte, so it is not text",
        9: "column 2 has 11 bytes, more than the limit of 10",
    }


def test_keys_of_json_lines(tmp_path: Path) -> None:
    lines = [{"text": "ä", "label": 1, "more": [2]}, {"label": -3, "text": "b\tc"}]
    path = write(tmp_path, "a.jsonl", "\n\n".join(json.dumps(line) for line in lines).encode())
    table = open_jsonl(path, ["text", "label"])
    assert list(table) == [("ä", "1"), ("b\tc", "-3")]
    assert table.lengths.tolist() == [[2, 1], [3, 2]]
    assert len(table.faults) == 0


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text": "a"', "invalid JSON at character 13"),
        (b'["a"]', "a JSON array instead of an object"),
        (b'{"other": "a"}', "missing key 'text'"),
        (b'{"text": null}', "has a JSON null instead of a string"),
        (b'{"text": true}', "has a JSON boolean instead of a string"),
        (b'{"text": 1.5}', "has a JSON number instead of a string"),
        (b'{"text": " "}', "key 'text' is empty"),
        (b'{"text": "\\ud800"}', "an unpaired surrogate"),
        (b'{"text": "a\\u0000b"}', "NUL"),
        (b'{"text": "\xe4"}', "invalid UTF-8 at byte 11"),
        (b'{"text": "' + b"a" * 21 + b'"}', "21 bytes, more than the limit of 20"),
        (b'{"text": ' + b"1" * 5000 + b"}", "too many digits"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_every_bad_json_line_is_named(tmp_path: Path, line: bytes, reason: str) -> None:
    path = write(tmp_path, "a.jsonl", b'{"text": "good"}\n' + line + b'\n{"text": "good too"}\n')
    table = open_jsonl(path, ["text"], longest=20)
    assert list(table) == [("good",), ("good too",)]
    assert [fault.line for fault in table.faults] == [2]
    assert reason in table.faults[0].reason


FORMS: list[Form] = [
    Whole(longest=6),
    TabColumns((0,), ("column 1",), count=1, longest=6),
    TabColumns((1, 0), ("column 2", "column 1"), count=2, longest=4),
    TabColumns((2,), ("column 3",), count=3, longest=4),
    JsonKeys(("a",), longest=4),
]
BITS = [b"\n", b"\r", b"\t", b"\t", b" ", b"\0", b"a", b"bcd", b"\xc3\xa4", b"\xe4", b"\x1f", b'{"a":"x"}', b'{"a":"']


@pytest.mark.parametrize("form", FORMS, ids=repr)
@given(bits=st.lists(st.sampled_from(BITS), max_size=40), block=st.sampled_from([1, 7, 1000]))
def test_the_fast_way_finds_what_the_definition_says(
    tmp_path_factory: pytest.TempPathFactory, form: Form, bits: list[bytes], block: int
) -> None:
    path = write(tmp_path_factory.getbasetemp(), "law", b"".join(bits))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "BLOCK", block)
        table = TextTable([TableFile(Lines(path), form)])
    good, bad = [], []
    for number, line in enumerate(Lines(path)):
        try:
            good.append(form.split(line))
        except UnfitError as reason:
            if line.strip():
                bad.append(Fault(str(path), number + 1, str(reason)))
    assert list(table) == good
    assert list(table.faults) == bad
    assert table.lengths.tolist() == [[len(field.encode()) for field in row] for row in good]


def test_a_huge_line_is_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BLOCK", 16)
    monkeypatch.setattr(tables, "LONGEST_LINE", 64)
    path = write(tmp_path, "a.txt", b"one\n" + b"x" * 100 + b"\ntwo\n")
    read: list[int] = []
    block = Lines.block
    monkeypatch.setattr(Lines, "block", lambda self, i, j: read.append(len(out := block(self, i, j))) or out)
    table = open_plain(path)
    assert list(table) == [("one",), ("two",)]
    assert reasons(table) == {2: "the line has 101 bytes, more than the limit of 64"}
    assert max(read) < 64


def test_faults_take_no_room_until_they_are_read(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", b"a\tb\n" + b"bad\n" * 1000)
    faults = open_tsv(path, [1, 2]).faults
    assert len(faults) == 1000
    assert faults.numbers.nbytes == 8000
    assert faults[-1] == Fault(str(path), 1001, "1 columns instead of 2")
    assert [fault.line for fault in faults[1:3]] == [3, 4]


def test_packed_files_are_named_by_their_own_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    path = write(tmp_path, "a.tsv.gz", gzip.compress(b"a\tb\nc\n"))
    table = open_tsv(path, [2])
    assert list(table) == [("b",)]
    assert str(table.faults[0]) == f"{path}:2: 1 columns instead of 2"


def test_empty_files_have_no_rows(tmp_path: Path) -> None:
    path = write(tmp_path, "a", b"\n\n")
    for table in (open_plain(path), open_plain(path, path), open_jsonl(path, ["a"])):
        assert (len(table), len(table.faults), len(table.lengths)) == (0, 0, 0)
    with pytest.raises(InputError, match="the file has no rows"):
        open_tsv(path, [1])


def test_one_row_too_many_is_too_many() -> None:
    faults = [Fault("a.tsv", i, "bad") for i in range(1, 13)]
    check_fault_share(faults[:10], 1000)
    with pytest.raises(InputError, match="11 of 1000 rows are bad") as caught:
        check_fault_share(faults[:11], 1000)
    assert "a.tsv:10: bad" in str(caught.value)
    assert "a.tsv:11: bad" not in str(caught.value)
    assert "1 more" in str(caught.value)
    check_fault_share(faults, 24, share=0.5)
    with pytest.raises(InputError, match="the data has no valid row"):
        check_fault_share(faults, 12, share=1.0)
    with pytest.raises(InputError, match="the data has no valid row"):
        check_fault_share([], 0)


def test_a_fault_of_a_whole_file_has_no_line() -> None:
    assert str(Fault("a.png", 0, "cut off")) == "a.png: cut off"


def test_a_part_is_held_out(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", b"".join(b"x" * (1 + i % 7) + b"%d\n" % i for i in range(200)) + b"\xff\n")
    table = open_plain(path)
    train, valid = split_held_out(table, 0.1, seed=3)
    assert (len(train), len(valid)) == (180, 20)
    assert sorted([*train, *valid]) == sorted(table)
    for part in (train, valid):
        assert part.lengths is not None
        assert part.lengths[:, 0].tolist() == [len(row[0]) for row in part]
    assert (len(train.faults), len(valid.faults)) == (1, 0)
    again, other = split_held_out(table, 20, seed=3)[1], split_held_out(table, 20, seed=4)[1]
    assert list(again) == list(valid)
    assert list(other) != list(valid)


@pytest.mark.parametrize("size", [0, 3, -1, 1.0, 5])
def test_nothing_is_left_on_one_side(tmp_path: Path, size: float) -> None:
    table = open_plain(write(tmp_path, "a.txt", b"a\nb\nc\n"))
    with pytest.raises(InputError, match="both the training split and the held-out split"):
        split_held_out(table, size, seed=0)


def test_a_view_has_no_other_rows(tmp_path: Path) -> None:
    table = open_plain(write(tmp_path, "a.txt", b"a\nb\nc\n"))
    some = Subset(table, np.array([2, 0]))
    assert list(some) == [("c",), ("a",)]
    with pytest.raises(IndexError):
        some[-1]
