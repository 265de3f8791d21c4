"""Csv files of series: both forms, and every fault with its line."""

from pathlib import Path

import numpy as np
import pytest

from regard.errors import InputError
from regard.modalities.series.reading import SeriesColumns, read_series


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
        ("t,x\n1,2\n", SeriesColumns(values=("y",)), "unknown column", ":1"),
        ("t,x\n", SeriesColumns(), "no rows below the header", ""),
        ("", SeriesColumns(), "the csv file has no header", ":1"),
    ],
)
def test_every_fault_is_told_with_its_line(
    tmp_path: Path, text: str, columns: SeriesColumns, what: str, line: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=what) as error:
        read_series(path, columns)
    assert error.value.where == f"{path}{line}"


def test_a_column_of_names_is_told_to_be_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="series = 'city'"):
        read_series(written(tmp_path, "t,city,x\n1,Bonn,2\n1,Kiel,3\n"), SeriesColumns())


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
