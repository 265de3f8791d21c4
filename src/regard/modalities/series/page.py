"""Series on the page and in the HTTP API: values with their times, or the text of a csv file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StringConstraints, model_validator

from regard.errors import InputError
from regard.modalities.page_input import InputContext, LookInput, PageGiven, PageInput

from .reading import SeriesColumns, TimeSeries, series_in
from .runners import forecaster_of, one_of
from .times import TRAINED
from .waves import wave

LETTERS = 1 << 20  # of a csv file
VALUES = 4096
FILE = Path("series.csv")  # what a text without a name is called in errors

Text = Annotated[str, StringConstraints(max_length=LETTERS)]
Name = Annotated[str, StringConstraints(max_length=200)]
Time = Annotated[str, StringConstraints(max_length=40)]


class SeriesInput(PageGiven):
    """Either ``csv``, with the ``name`` of a series if the file has several, or ``times`` and ``values``."""

    kind: Literal["series"]
    name: Name = ""
    csv: Text | None = None
    times: Annotated[list[Time], Field(default_factory=list, max_length=VALUES)]
    values: Annotated[list[float], Field(default_factory=list, max_length=VALUES)]

    @model_validator(mode="after")
    def one_source(self) -> "SeriesInput":
        if (self.csv is None) != bool(self.values) or len(self.times) != len(self.values):
            raise ValueError("give either csv, or times and values of equal length")
        return self

    def given(self, border: InputContext) -> LookInput:
        found: Any = self.series(forecaster_of(border.model).how.columns)
        return (found,)

    def series(self, columns: SeriesColumns) -> TimeSeries:
        """Times and values are read as a file would be, so that the same faults are told."""
        try:
            return self.read(columns)
        except InputError as error:  # the place is part of what was got: the server leaves out ``where``
            number = error.where.removeprefix(f"{FILE}:")
            if not number.isdecimal():
                raise
            place = f"line {number}: " if self.csv is not None else f"value {int(number) - 1}: "
            parts = error.as_dict() | {"got": error.got if error.got.startswith(place) else place + error.got}
            raise InputError(parts.pop("what"), **parts) from None

    def read(self, columns: SeriesColumns) -> TimeSeries:
        if self.csv is None:
            lines = [f"{time},{value!r}" for time, value in zip(self.times, self.values, strict=True)]
            (one,) = series_in("\n".join(["time,value", *lines]), FILE, SeriesColumns(times=columns.times), TRAINED)
            return TimeSeries(self.name, one.values, one.times)
        return one_of(series_in(self.csv, FILE, columns, TRAINED), self.name or None)


def series_example(name: str, verbs: Sequence[str]) -> dict[str, Any]:
    """A wave."""
    values = wave(1, 0, 192, (24, 24), 3, 0.05, 0.5).values
    return {
        "kind": "series",
        "name": "wave",
        "times": [str(i) for i in range(len(values))],
        "values": [round(x, 4) for x in values.tolist()],
    }


SERIES = PageInput((SeriesInput,), series_example)


class ForecastDocument(BaseModel):
    """The forecast values of each quantile, by quantile, at each future time."""

    kind: Literal["forecast"]
    series: str
    spacing: str
    times: list[str]
    quantiles: dict[str, list[float]]
