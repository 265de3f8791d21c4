"""Times, as a file writes them: ISO dates, dates with a time of day, months, or plain numbers; and how far one is from
the next. A gap, a time that stands twice, an order that is none: each is told with its place.
"""

import re
from calendar import monthrange
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Literal

from regard.errors import InputError

Moment = datetime | float
Unit = Literal["number", "seconds", "months", "weekdays"]

DAY = 86400.0
NAMED = ((7 * DAY, "week"), (DAY, "day"), (3600.0, "hour"), (60.0, "minute"), (1.0, "second"))
SET, TRAINED = "set", "use a model trained with"  # what can be done with a setting: in a run file, or later
CLOSE = 1e-6  # of a step, by which two may differ and still be the same
MOST = 1e300  # a number that is a time: sums of these are finite


def moment_of(text: str) -> Moment | None:
    """None, where this is no time."""
    text = text.strip()
    if not re.fullmatch(r"\d{8}", text):  # else a date without hyphens
        try:
            number = float(text)
            return number if abs(number) <= MOST else None  # nor is nan
        except ValueError:
            pass
    if re.fullmatch(r"\d{4}-\d{2}", text):
        text += "-01"
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return float(text) if text.isdecimal() else None


@dataclass(frozen=True)
class Spacing:
    """How far a time is from the next one."""

    unit: Unit
    size: float
    day: int = 31  # of the month, where months are counted; a shorter month has its last day instead

    def after(self, moment: Moment, steps: int) -> Moment:
        if not isinstance(moment, datetime):
            return moment + steps * self.size
        try:
            if self.unit == "months":
                return months_after(moment, steps * int(self.size), self.day)
            if self.unit == "weekdays":
                return weekdays_after(moment, steps * int(self.size))
            return moment + timedelta(seconds=steps * self.size)
        except (ValueError, OverflowError):
            got = f"{quantity(steps, 'step')} of {self} after {moment}"
            raise InputError(
                "the times would pass the year 9999", got=got, fix="check the dates, or use fewer steps"
            ) from None

    def __str__(self) -> str:
        if self.unit == "number":
            return f"{self.size:.10g}"
        if self.unit == "weekdays":
            return quantity(self.size, "working day")
        if self.unit == "months":
            return quantity(self.size / 12, "year") if self.size % 12 == 0 else quantity(self.size, "month")
        size, name = next((one for one in NAMED if self.size % one[0] == 0), (1.0, "second"))
        return quantity(self.size / size, name)


def quantity(size: float, name: str) -> str:
    return f"{size:.10g} {name}{'' if size == 1 else 's'}"


def months_after(moment: datetime, months: int, day: int) -> datetime:
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    return moment.replace(year=year, month=month + 1, day=min(day, days_in(year, month + 1)))


def days_in(year: int, month: int) -> int:
    return monthrange(year, month)[1]


def weekdays_after(moment: datetime, days: int) -> datetime:
    weeks, rest = divmod(moment.weekday() + days, 5)
    return moment + timedelta(days=7 * weeks + rest - moment.weekday())


@dataclass(frozen=True, eq=False)
class Times:
    """The times of one series, in order."""

    moments: Sequence[Moment]
    spacing: Spacing
    given: bool = True  # not merely counted

    def after(self, steps: int) -> list[Moment]:
        """Those that follow the last."""
        return [self.spacing.after(self.moments[-1], step + 1) for step in range(steps)]

    def text(self, moment: Moment) -> str:
        """As short as the spacing allows."""
        if not isinstance(moment, datetime):
            return f"{moment:.10g}"
        if self.spacing.unit == "months" and moment.day == 1:
            return moment.strftime("%Y-%m")
        midnight = (moment.hour, moment.minute, moment.second, moment.microsecond) == (0, 0, 0, 0)
        if midnight and (self.spacing.unit in ("months", "weekdays") or self.spacing.size % DAY == 0):
            return moment.date().isoformat()
        return moment.isoformat(sep=" ", timespec="minutes" if self.spacing.size % 60 == 0 else "auto")


def numbered(count: int) -> Times:
    """Of values without times: 0, 1, 2 ..."""
    return Times([float(i) for i in range(count)], Spacing("number", 1.0), given=False)


def times_of(
    moments: Sequence[Moment], where: Callable[[int], str], *, ordered: bool = False, advice: str = SET
) -> Times:
    """Regular times, or an error that says where they are not; if they are only ``ordered``, gaps are none."""
    kinds = [(isinstance(one, datetime), isinstance(one, datetime) and one.tzinfo is not None) for one in moments]
    if odd := [i for i, kind in enumerate(kinds) if kind != kinds[0]]:
        got = f"{moments[odd[0]]}, but {moments[0]} in the first row"
        expected = "one kind per file: numbers, dates, or dates with a time zone"
        raise InputError("the times are of different kinds", where=where(odd[0]), got=got, expected=expected)
    if len(moments) < 2:
        raise InputError("a series needs at least two times", where=where(0), got=str(len(moments)))
    steps = [distance(one, other) for one, other in pairwise(moments)]
    for i, step in enumerate(steps):
        if step <= 0:
            what = "duplicate time" if step == 0 else "the times are not in ascending order"
            several = f'if the file has several series, {advice} data.series = "NAME", the column that identifies them'
            fix = f"remove the duplicate; {several}"
            got = f"{moments[i + 1]} after {moments[i]}"
            raise InputError(what, where=where(i + 1), got=got, fix="sort the rows by time" if step < 0 else fix)
    day = day_of(moments)
    unit = unit_of(moments, steps, day)
    if unit in ("months", "weekdays"):
        steps = [in_unit(one, other, unit) for one, other in pairwise(moments)]
    usual = Counter(round(step, 6) for step in steps).most_common(1)[0][0]
    usual = next(step for step in steps if abs(step - usual) <= 1e-6)
    spacing = Spacing(unit, usual, day)
    if ordered:
        return Times(moments, spacing)
    if 2 * sum(abs(step - usual) <= CLOSE * usual for step in steps) < len(steps):
        raise never_regular(where(0), spacing, steps, advice)
    for i, step in enumerate(steps):
        if abs(step - usual) > CLOSE * usual:
            raise irregular(where(i + 1), moments[i], moments[i + 1], step / usual, spacing, advice)
    return Times(moments, spacing)


def distance(one: Moment, other: Moment) -> float:
    step = other - one  # type: ignore[operator]
    return step.total_seconds() if isinstance(step, timedelta) else float(step)


def unit_of(moments: Sequence[Moment], steps: Sequence[float], day: int) -> Unit:
    """What the times count: where seconds differ, perhaps months or working days do not."""
    if not isinstance(moments[0], datetime):
        return "number"
    dates = [one for one in moments if isinstance(one, datetime)]
    if len({one.time() for one in dates}) > 1:
        return "seconds"
    if min(steps) >= 28 * DAY and all(one.day == min(day, days_in(one.year, one.month)) for one in dates):
        return "months"
    if len(set(steps)) == 1:
        return "seconds"
    daily = Counter(steps).most_common(1)[0][0] == DAY
    return "weekdays" if daily and all(one.weekday() < 5 for one in dates) else "seconds"


def day_of(moments: Sequence[Moment]) -> int:
    """The latest day of a month; 31 if each is the last of its month."""
    dates = [one for one in moments if isinstance(one, datetime)]
    ends = all(one.day == days_in(one.year, one.month) for one in dates)
    return 31 if ends else max(one.day for one in dates)


def in_unit(one: Moment, other: Moment, unit: Unit) -> float:
    """Of dates, in months or working days."""
    assert isinstance(one, datetime)
    assert isinstance(other, datetime)
    if unit == "months":
        return float((other.year - one.year) * 12 + other.month - one.month)
    weeks = (other - timedelta(days=other.weekday()) - one + timedelta(days=one.weekday())).days // 7
    return float(5 * weeks + other.weekday() - one.weekday())


def never_regular(where: str, spacing: Spacing, steps: Sequence[float], advice: str) -> InputError:
    """Of times of which no spacing is that of most: what is longer is no gap in it."""
    least, most = (Spacing(spacing.unit, size) for size in (min(steps), max(steps)))
    return InputError(
        "the times are irregular: no spacing is that of at least half of them",
        where=where,
        got=f"steps from {least} to {most}",
        expected="times at equal distances",
        fix=f"resample the series, or {ordered_advice(advice)}",
    )


def ordered_advice(advice: str) -> str:
    return f'{advice} data.times = "ordered" if only the order matters, as for trading days'


def irregular(where: str, one: Moment, other: Moment, many: float, spacing: Spacing, advice: str) -> InputError:
    missing = round(many) - 1
    gap = missing > 0 and abs(many - round(many)) < CLOSE
    what = (
        f"the series has a gap: {quantity(missing, 'value')} missing" if gap else "the times are not regularly spaced"
    )
    return InputError(
        what,
        where=where,
        got=f"{other} after {one}",
        expected=f"{spacing.after(one, 1)}: the usual spacing is {spacing}",
        fix=f"fill in the missing values, or {ordered_advice(advice)}",
    )
