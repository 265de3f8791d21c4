"""Csv files of series: both forms, and every fault with its line."""

from pathlib import Path

import numpy as np
import pytest

from regard.errors import InputError
from regard.modalities.series.reading import SeriesColumns, read_series
from regard.modalities.series.times import SET, TRAINED


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "series.csv"
    path.write_text(text)
    return path


def test_the_wide_form(tmp_path: Path) -> None:
    one, two = read_series(written(tmp_path, "day,rain,sun\n2024-01-01,1,9\n2024-01-02,2.5,8\n"), SeriesColumns())
    assert (one.name, two.name) == ("rain", "sun")
    np.testing.assert_array_equal(one.values, [1, 2.5])
    np.testing.assert_array_equal(two.values, [9, 8])
    assert str(one.times.spacing) == "1 day"


def test_the_long_form_with_series_of_different_lengths(tmp_path: Path) -> None:
    text = "city;t;heat\nBonn;1;10\nBonn;2;11\nKiel;1;5\nBonn;3;12\nKiel;2;6\n"
    bonn, kiel = read_series(written(tmp_path, text), SeriesColumns(time="t", series="city"))
    assert (bonn.name, kiel.name) == ("Bonn", "Kiel")
    assert bonn.values.tolist() == [10, 11, 12]
    assert kiel.values.tolist() == [5, 6]


def test_columns_by_their_names(tmp_path: Path) -> None:
    text = "note,rain,day\nx,1,2024-01-01\ny,2,2024-01-02\n"
    (one,) = read_series(written(tmp_path, text), SeriesColumns(time="day", values=("rain",)))
    assert one.values.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "columns", "what", "line"),
    [
        ("t,x\n1,1\n2,\n3,nan\n", SeriesColumns(), "non-numeric cells", ":3"),
        ("t,x\n1,1\n2,inf\n3,1\n", SeriesColumns(), "non-numeric cells", ":3"),
        ("t,x\n1,1\n2,2\n4,3\n5,4\n6,5\n", SeriesColumns(), "the series has a gap: 1 value missing", ":4"),
        ("t,x\n1,1\n3,2\n2,3\n", SeriesColumns(), "the times are not in ascending order", ":4"),
        ("t,x\n1,1\n2,2\n2,3\n", SeriesColumns(), "duplicate time", ":4"),
        ("t,x\n1,1\nsoon,2\n", SeriesColumns(), "invalid time", ":3"),
        ("t,x\n1,1\n\n2,2,3\n", SeriesColumns(), "the number of columns differs from the header", ":4"),
        ("1,2\n2,3\n", SeriesColumns(), "the csv file has no header", ":1"),
        ("t,x,x\n1,2,3\n", SeriesColumns(), "duplicate column name", ":1"),
        ('t,x\n1,1\n2,"2\n3,3\n', SeriesColumns(), "a row cannot be read", ":3"),
        ('t,x\n1,1\n2,2\n3,"3\n' + "4,4\n" * 40_000, SeriesColumns(), "a row cannot be read", ":4"),
        (f"t,x\n1,{'1' * 200_000}\n", SeriesColumns(), "a row cannot be read", ":2"),
        ('t,"x\n1,1\n', SeriesColumns(), "a row cannot be read", ":1"),
        ('t,"x"\n1,"1\n', SeriesColumns(), "a row cannot be read", ":2"),
        ("\nt,x\n1,1\n", SeriesColumns(), "the csv file has no header", ":1"),
        ("t,x\n1,2\n", SeriesColumns(values=("y",)), "unknown column", ":1"),
        ("t,x\n", SeriesColumns(), "no rows below the header", ""),
        ("", SeriesColumns(), "the file is empty", ""),
        ("\n \n", SeriesColumns(), "the file is empty", ""),
        ("heat\n1\n2\n", SeriesColumns(), "the file needs a time column and a value column; found 1 column", ":1"),
        ("t x\n2024-01-01 00:00 1\n", SeriesColumns(), "the columns are separated by an unsupported character", ":1"),
    ],
)
def test_every_fault_is_told_with_its_line(
    tmp_path: Path, text: str, columns: SeriesColumns, what: str, line: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=what) as error:
        read_series(path, columns)
    assert error.value.where == f"{path}{line}"


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("t,city,x\n1,Bonn,2\n1,Kiel,3\n", 'if this column names the series of each line, {} data.series = "city"'),
        ("t;x\n1;10,283\n2;11,5\n", "use a decimal point, and no separator between thousands: 10283.5"),
        ("t;x\n1;9\n2;-1.234,5\n", "use a decimal point, and no separator between thousands: 10283.5"),
        ('t,x\n1,"1,234,567"\n2,"1,234"\n', "use a decimal point, and no separator between thousands: 10283.5"),
        ("x,time\n1,2024-01-01\n2,2024-01-02\n", 'if this is the time column, {} data.time = "time"'),
        ("t,x\n1,31.01.2024\n2,01.02.2024\n", 'if this column names the series of each line, {} data.series = "x"'),
        ("city,day,x\nBonn,2024-01-01,2\n", 'if the times are in another column, {} data.time = "day"'),
        ("t,x,y\n1,,2\n2,3,4\n", 'fill in the missing values, or {} data.values = ["y"]'),
        ("t,x\n1,\n2,3\n", "fill in the missing values"),
        (
            "t,x\n1,1\n2,1\n4,1\n",
            'fill in the missing values, or {} data.times = "ordered" if only the order matters, as for trading days',
        ),
        (
            "t,x\n1,1\n1,1\n",
            "remove the duplicate; if the file has several series, "
            '{} data.series = "NAME", the column that identifies them',
        ),
    ],
)
def test_what_to_do_is_told_with_keys_that_exist(tmp_path: Path, text: str, fix: str) -> None:
    """Of a run file; where there is none, a model that was trained so."""
    for advice in (SET, TRAINED):
        with pytest.raises(InputError) as error:
            read_series(written(tmp_path, text), SeriesColumns(), advice)
        assert error.value.fix == fix.format(advice)


def test_other_encodings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "series.csv"
    path.write_bytes("t,тепло\n1,2\n".encode("koi8-r"))  # only western letters are guessed
    with pytest.raises(InputError, match="not UTF-8") as error:
        read_series(path, SeriesColumns())
    assert error.value.fix == "save it as UTF-8"


@pytest.mark.parametrize(
    ("values", "told"), [((1, -2e300, 3e300), "-2e+300 at time 2"), ((0, 2e-300), "2e-300 at time 2")]
)
def test_values_that_a_net_cannot_take_are_named(tmp_path: Path, values: tuple[float, ...], told: str) -> None:
    path = written(tmp_path, "t,x\n" + "".join(f"{i},{x}\n" for i, x in enumerate(values, 1)))
    with pytest.raises(InputError, match="the values of the series 'x' are too") as error:
        read_series(path, SeriesColumns())
    assert error.value.where == f"{path}: x"
    assert error.value.got == told


def test_all_bad_cells_are_counted(tmp_path: Path) -> None:
    text = "t,x\n" + "".join(f"{i},{'' if i > 2 else i}\n" for i in range(12))
    with pytest.raises(InputError) as error:
        read_series(written(tmp_path, text), SeriesColumns())
    assert "line 5: an empty cell" in error.value.got
    assert "and 4 more" in error.value.got


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1", "utf-8-sig"])
@pytest.mark.parametrize("sign", [";", "|", "\t"])
def test_files_of_spreadsheets(tmp_path: Path, encoding: str, sign: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As tables of texts are read: the encoding and the sign between columns are found."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    rows = [f"2024-01-0{day}{sign}{day}.5" for day in range(1, 8)]
    (tmp_path / "x.csv").write_bytes("\n".join([f"Tag{sign}Höhe", *rows]).encode(encoding))
    (one,) = read_series(tmp_path / "x.csv", SeriesColumns())
    assert (one.name, one.values.tolist()) == ("Höhe", [day + 0.5 for day in range(1, 8)])
