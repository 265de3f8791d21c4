"""Tables as people have them: their encoding, delimiter and header are found, told, and can be said."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.encodings import encoding_of
from regard.data.files import pair_rows, table_rows
from regard.data.table_format import BEFORE, TableFormat, TableOptions, find_format
from regard.data.table_reading import reading_of
from regard.errors import InputError

ROLES = ("text", "label")
ROWS = [
    (f"text {i} says{', so' * (i % 3)}, in words; that it is {'gut' if i % 2 else 'böse'}", "ab"[i % 2])
    for i in range(40)
]
ONCE = TableOptions(**BEFORE)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


def write(
    folder: Path,
    rows: list[tuple[str, ...]],
    *,
    name: str = "x.csv",
    delimiter: str = ",",
    encoding: str = "utf-8",
    header: tuple[str, ...] = ("text", "label"),
) -> Path:
    told = io.StringIO()
    csv.writer(told, delimiter=delimiter, lineterminator="\r\n").writerows([*([header] if header else []), *rows])
    path = folder / name
    path.write_bytes(told.getvalue().encode(encoding))
    return path


def read(path: Path, options: TableOptions = TableOptions()) -> list[tuple[str, ...]]:  # noqa: B008
    rows = table_rows(path, [1, 2], ROLES, options)
    assert not rows.faults
    return [rows[i] for i in range(len(rows))]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.txt"])
@pytest.mark.parametrize("header", [("text", "label"), ()])
def test_a_table_is_read_as_it_is_written(
    tmp_path: Path, encoding: str, delimiter: str, name: str, header: tuple[str, ...]
) -> None:
    path = write(tmp_path, ROWS, name=name, delimiter=delimiter, encoding=encoding, header=header)
    assert read(path) == ROWS
    found = find_format(path, [1, 2], ROLES)
    assert found.delimiter == delimiter
    assert found.names == (header or None)


def test_what_was_found_is_told_in_words(tmp_path: Path) -> None:
    path = write(tmp_path, ROWS, delimiter=";", encoding="latin-1")
    assert find_format(path, [1, 2], ROLES).words() == "semicolon-separated, latin-1, a header"


def test_bytes_of_windows_are_no_latin_1(tmp_path: Path) -> None:
    rows = [(f"„so“ – {i} für €5", "ab"[i % 2]) for i in range(30)]
    path = write(tmp_path, rows, encoding="cp1252")
    assert encoding_of(path) == "cp1252"
    assert read(path) == rows


@pytest.mark.parametrize("text", ["привет мир", "你好，世界", "こんにちは"])
@pytest.mark.parametrize("encoding", ["cp1251", "koi8-r", "gb18030", "shift_jis"])
def test_letters_that_are_not_western_are_not_guessed(tmp_path: Path, text: str, encoding: str) -> None:
    """Wrong letters would be read without a word; as UTF-8 each line is a bad row, which stops the run."""
    path = tmp_path / "x.csv"
    path.write_bytes(b"text,label\n" + "".join(f"{text} {i},a\n" for i in range(30)).encode(encoding, "ignore"))
    assert encoding_of(path) == "utf-8"


def test_some_broken_bytes_are_no_other_encoding(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    good = "".join(f"schön {i},a\n" for i in range(20)).encode()
    path.write_bytes(good + "schön,b\n".encode("latin-1"))
    assert encoding_of(path) == "utf-8"
    path.write_bytes(b"a,b\n\xff\xfe\xfd,c\n")
    assert encoding_of(path) == "utf-8"


def test_lines_keep_their_numbers_in_any_encoding(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes('text,label\n"two\nlines",a\nbad\nschön,b\n'.encode("utf-16"))
    rows = table_rows(path, ["text", "label"])
    assert [rows[i] for i in range(len(rows))] == [("two\nlines", "a"), ("schön", "b")]
    assert [(fault.file, fault.line) for fault in rows.faults] == [(str(path), 4)]
    assert rows.where(1) == f"{path}:5"


def test_each_can_be_said(tmp_path: Path) -> None:
    path = write(tmp_path, ROWS, delimiter="^", encoding="cp1250", header=())
    assert read(path, TableOptions("no", "^", "cp1250")) == ROWS
    assert read(path, TableOptions("yes", "^", "cp1250")) == ROWS[1:]
    with pytest.raises(InputError, match="no column names") as caught:
        table_rows(path, ["text"], options=TableOptions("no", "^"))
    assert "give the columns by their numbers" in caught.value.fix
    path = tmp_path / "x.jsonl"
    path.write_text('{"text": "a"}\n')
    with pytest.raises(InputError, match="a jsonl file has keys"):
        table_rows(path, ["text"], options=TableOptions(delimiter=";"))


@pytest.mark.parametrize(
    "header",
    [
        ("Text", "Label"),
        ("review", "sentiment"),
        ("Kommentar", "Klasse"),
        ("sentence", "unheard of"),
        ("my words", "stuff"),  # no names that people use, but no label and no text like these
    ],
)
def test_headers_of_many_names(tmp_path: Path, header: tuple[str, str]) -> None:
    path = write(tmp_path, ROWS, header=header)
    assert find_format(path, [1, 2], ROLES).names == header


def test_a_column_of_numbers_begins_with_a_word(tmp_path: Path) -> None:
    rows = [(f"t{i}", str(i % 3)) for i in range(6)]
    assert find_format(write(tmp_path, rows, header=("Foo", "Bar")), [1, 2], ROLES).names == ("Foo", "Bar")
    rows = [(str(i), text, label) for i, (text, label) in enumerate(ROWS)]
    path = write(tmp_path, rows, header=("", "Foo", "Bar"))
    assert find_format(path, [2, 3], ROLES).names == ("", "Foo", "Bar")
    path = write(tmp_path, rows, header=("nr", "Foo", "Bar"))
    assert find_format(path, [2, 3], ROLES).names == ("nr", "Foo", "Bar")


@pytest.mark.parametrize(
    "first",
    [
        ("Great!", "a"),  # its label is that of others
        ("Great film. I liked it.", "label"),  # a sentence
        ("text", "b"),
        ("12", "label"),
        ("good", "c"),  # a text that is as long as others
    ],
)
def test_a_first_row_that_is_a_row(tmp_path: Path, first: tuple[str, str]) -> None:
    rows = [("fine", "a"), ("bad", "b"), ("so", "a"), ("a long text that goes on", "b")] * 10
    path = write(tmp_path, [first, *rows], header=())
    assert find_format(path, [1, 2], ROLES).names is None
    assert read(path)[0] == first


@pytest.mark.parametrize(
    ("first", "header"),
    [
        (("source", "target"), True),
        (("en", "de"), True),
        (("English", "Deutsch"), True),
        (("German", "Deutsch"), False),  # a row of a dictionary
        (("Hi.", "Hallo!"), False),
        (("dog", "Hund"), False),
        (("to", "zu"), False),
    ],
)
def test_headers_of_pairs(tmp_path: Path, first: tuple[str, str], header: bool) -> None:
    path = write(tmp_path, [("cat", "Katze"), ("house", "Haus"), ("table", "Tisch")], name="x.tsv", delimiter="\t")
    path.write_text("\t".join(first) + "\n" + path.read_text().partition("\n")[2])
    assert len(pair_rows([path], [1, 2])) == 3 + (not header)


FIELD = st.text(st.sampled_from("ab ,;|'ä1.\""), min_size=1, max_size=12).filter(lambda text: bool(text.strip()))


@given(
    rows=st.lists(st.tuples(FIELD, st.sampled_from(["x", "y", "z,z"])), min_size=2, max_size=12),
    form=st.sampled_from([("x.csv", ","), ("x.tsv", "\t")]),
)
def test_a_file_that_could_be_read_before_is_read_alike(
    rows: list[tuple[str, str]], form: tuple[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Without a header, and written as its name says."""
    name, delimiter = form
    path = tmp_path_factory.mktemp("law") / name
    if name == "x.csv":
        write(path.parent, rows, name=name, header=())
    else:
        path.write_text("".join(f"{a}\t{b}\n" for a, b in rows), "utf-8")
    before = table_rows(path, [1, 2], ROLES, ONCE)
    assert len(before) == len(rows)
    found = find_format(path, [1, 2], ROLES)
    assert found == TableFormat("csv" if name == "x.csv" else "tsv", "utf-8", delimiter)
    assert read(path) == [before[i] for i in range(len(before))]


def test_commas_in_texts_do_not_make_a_file_of_commas(tmp_path: Path) -> None:
    rows = [(f"one, two {i}", "a, b") for i in range(30)]
    path = tmp_path / "x.csv"
    path.write_text("text;label\n" + "".join(f"{a};{b}\n" for a, b in rows))
    assert read(path) == rows
    path.write_text("".join(f"{a};{b}\n" for a, b in rows))  # and no header: as many commas in each row
    assert find_format(path, [1, 2], ROLES).delimiter == ","


def test_a_recoded_file_is_made_once(tmp_path: Path) -> None:
    path = write(tmp_path, ROWS, encoding="utf-16")
    read(path)
    made = sorted((tmp_path / "cache" / "unpacked").iterdir())
    assert len(made) == 1
    stamp = made[0].stat().st_mtime_ns
    read(path)
    assert [one.stat().st_mtime_ns for one in (tmp_path / "cache" / "unpacked").iterdir()] == [stamp]


def test_what_is_not_in_the_encoding_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"a,b\n\x81\xff,c\n")
    with pytest.raises(InputError, match="is not shift_jis text"):
        table_rows(path, [1, 2], options=TableOptions(encoding="shift_jis"))


def test_quotes_around_each_field_of_a_tsv_are_no_letters(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("".join(f'"{a}"\t"{b}"\n' for a, b in ROWS), "utf-8")
    assert read(path) == ROWS
    assert read(path, ONCE)[0] == tuple(f'"{cell}"' for cell in ROWS[0])
    path.write_text('"so" he said\ta\n"a ""b"""\tb\nc\ta\n' * 3)
    found = find_format(path, [1, 2], ROLES)
    assert (found.kind, found.quotes) == ("tsv", pytest.approx(1 / 6))
    assert read(path)[1] == ('"a ""b"""', "b")
    rows = table_rows(path, [1, 2], ROLES)
    (note,) = reading_of("train", path, found, rows, [1, 2], ROLES).notes
    assert "17% of the first fields of x.tsv stand in quotes" in note
