"""Times: which are read, which spacing they have, how they go on, and which are refused, where."""

from calendar import monthrange
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import InputError
from regard.modalities.series.times import Moment, moment_of, times_of


def moments(*texts: str) -> list[Moment]:
    found = [moment_of(text) for text in texts]
    assert None not in found
    return found  # type: ignore[return-value]


def where(i: int) -> str:
    return f"line {i}"


def days(start: str, count: int, step: float = 1.0) -> list[Moment]:
    return [datetime.fromisoformat(start) + timedelta(days=i * step) for i in range(count)]


@pytest.mark.parametrize(
    ("texts", "spacing", "after"),
    [
        (("2024-01-01 00:00", "2024-01-01 01:00", "2024-01-01 02:00"), "1 hour", "2024-01-01 03:00"),
        (("2024-02-27", "2024-02-28", "2024-02-29"), "1 day", "2024-03-01"),
        (("20240227", "20240228", "20240229"), "1 day", "2024-03-01"),
        (("2024-01-01", "2024-01-08", "2024-01-15"), "1 week", "2024-01-22"),
        (("2023-11", "2023-12", "2024-01", "2024-02"), "1 month", "2024-03"),
        (("2023-12-31", "2024-01-31", "2024-02-29"), "1 month", "2024-03-31"),
        (("2020-01-01", "2021-01-01", "2022-01-01"), "1 year", "2023-01"),
        (("2023-07-01", "2023-08-01", "2023-09-01"), "1 month", "2023-10"),  # both months have 31 days
        (("2024-01-04", "2024-01-05", "2024-01-08", "2024-01-09"), "1 working day", "2024-01-10"),
        (("2024-01-10", "2024-01-11", "2024-01-12"), "1 day", "2024-01-13"),
        (("0", "0.1", "0.2", "0.30000000000000004"), "0.1", "0.4"),
        (("1990", "1991", "1992"), "1", "1993"),
        (("2024-01-01T00:00:30", "2024-01-01T00:00:45", "2024-01-01T00:01:00"), "15 seconds", "2024-01-01 00:01:15"),
    ],
)
def test_spacing_and_what_follows(texts: tuple[str, ...], spacing: str, after: str) -> None:
    times = times_of(moments(*texts), where)
    assert str(times.spacing) == spacing
    assert times.text(times.after(1)[0]) == after


def test_working_days_pass_the_weekend() -> None:
    times = times_of(moments("2024-01-04", "2024-01-05", "2024-01-08"), where)
    assert [times.text(x) for x in times.after(6)] == [
        *("2024-01-09", "2024-01-10", "2024-01-11", "2024-01-12", "2024-01-15", "2024-01-16"),
    ]


@pytest.mark.parametrize(
    ("texts", "following"),
    [
        (("2023-08-30", "2023-09-30", "2023-10-30", "2023-11-30"), ("2023-12-30", "2024-01-30", "2024-02-29")),
        (("2023-12-30", "2024-01-30", "2024-02-29"), ("2024-03-30", "2024-04-30", "2024-05-30")),  # what was forecast
        (("2022-12-28", "2023-01-28", "2023-02-28"), ("2023-03-28", "2023-04-28")),
        (("2023-12-29", "2024-01-29", "2024-02-29"), ("2024-03-29", "2024-04-29")),
        (("2022-11-30", "2022-12-31", "2023-01-31", "2023-02-28"), ("2023-03-31", "2023-04-30")),
        (("2022-02-28", "2022-05-31", "2022-08-31"), ("2022-11-30", "2023-02-28")),
        (("2019-02-28", "2020-02-28", "2021-02-28"), ("2022-02-28", "2023-02-28", "2024-02-28")),
        (("2016-02-29", "2017-02-28", "2018-02-28", "2019-02-28"), ("2020-02-29", "2021-02-28")),
    ],
)
def test_months_keep_their_day(texts: tuple[str, ...], following: tuple[str, ...]) -> None:
    """That of all times, and not of the last alone; where a month is too short, its last day."""
    times = times_of(moments(*texts), where)
    assert str(times.spacing) in ("1 month", "3 months", "1 year")
    assert [times.text(x) for x in times.after(len(following))] == list(following)


@given(
    day=st.integers(1, 31),
    size=st.sampled_from((1, 2, 3, 6, 12)),
    first=st.integers(1900 * 12, 2100 * 12),
    count=st.integers(9, 30),
    steps=st.integers(1, 40),
)
def test_months_go_on_as_they_began(day: int, size: int, first: int, count: int, steps: int) -> None:
    every: list[Moment] = []
    for i in range(count + steps):
        year, month = divmod(first + i * size, 12)
        every.append(datetime(year, month + 1, min(day, monthrange(year, month + 1)[1])))
    assert times_of(every[:count], where).after(steps) == every[count:]


@pytest.mark.parametrize(
    "texts",
    [
        ("9996-01-01", "9997-01-01", "9998-01-01", "9999-01-01"),
        ("9999-10-31", "9999-11-30", "9999-12-31"),
        ("9999-12-30", "9999-12-31"),
        ("9999-12-27", "9999-12-28", "9999-12-29", "9999-12-30", "9999-12-31"),
        ("9999-12-23", "9999-12-24", "9999-12-27", "9999-12-28", "9999-12-29"),
    ],
)
def test_no_time_is_later_than_a_date_can_be(texts: tuple[str, ...]) -> None:
    times = times_of(moments(*texts), where)
    with pytest.raises(InputError, match="year 9999") as error:
        times.after(100)
    assert "99" in error.value.got


def test_a_change_of_the_clock_is_no_gap() -> None:
    """An hour apart, though the offset from UTC changes between them."""
    texts = ("2024-03-31T00:00+01:00", "2024-03-31T01:00+01:00", "2024-03-31T03:00+02:00", "2024-03-31T04:00+02:00")
    assert str(times_of(moments(*texts), where).spacing) == "1 hour"


@pytest.mark.parametrize(
    ("given", "what", "line"),
    [
        ([*days("2024-01-01", 4), *days("2024-01-07", 3)], "the series has a gap: 2 values missing", "line 4"),
        (moments("1", "2", "2", "3"), "duplicate time", "line 2"),
        (moments("1", "2", "4", "3"), "the times are not in ascending order", "line 3"),
        (moments("1", "2", "3.5", "4.5", "5.5"), "the times are not regularly spaced", "line 2"),
        ([float(i * i) for i in range(12)], "the times are irregular", "line 0"),
        ([datetime(2024, 1, 1) + timedelta(minutes=i * i) for i in range(12)], "the times are irregular", "line 0"),
        (moments("2023-01", "2023-02", "2023-03", "2023-06"), "the series has a gap: 2 values missing", "line 3"),
        (
            moments("2024-01-04", "2024-01-05", "2024-01-08", "2024-01-10"),
            "the series has a gap: 1 value missing",
            "line 3",
        ),
        (moments("1", "2024-01-05"), "the times are of different kinds", "line 1"),
        (moments("2024-01-04", "2024-01-05T00:00+01:00"), "the times are of different kinds", "line 1"),
        (moments("1"), "at least two times", "line 0"),
    ],
)
def test_what_is_refused(given: list[Moment], what: str, line: str) -> None:
    with pytest.raises(InputError, match=what) as error:
        times_of(given, where)
    assert error.value.where == line


def test_where_only_the_order_counts_a_gap_is_none() -> None:
    holiday = moments("2024-12-23", "2024-12-24", "2024-12-27", "2024-12-30", "2024-12-31")
    times = times_of(holiday, where, ordered=True)
    assert str(times.spacing) == "1 working day"
    with pytest.raises(InputError, match="not in ascending order"):
        times_of(holiday[::-1], where, ordered=True)


@pytest.mark.parametrize("text", ["", "yesterday", "2024-13-01", "nan", "inf", "1e308"])
def test_what_is_no_time(text: str) -> None:
    assert moment_of(text) is None
