"""How forecasts are shown: a table, a file of numbers, a plot."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.look.terminal import terminal_text
from regard.modalities.verb import AnswerView

if TYPE_CHECKING:
    from .forecaster import SeriesForecast


def forecast_data(one: "SeriesForecast") -> dict[str, Any]:
    return one.data()


def forecast_lines(answers: "Sequence[SeriesForecast]") -> list[str]:
    """A table for each series, with a blank line between."""
    lines: list[str] = []
    for one in answers:
        lines += [*([""] if lines else []), *table_lines(one)]
    return lines


def table_lines(one: "SeriesForecast") -> list[str]:
    rows = [[time, *(f"{x:.5g}" for x in row)] for time, row in zip(one.times, one.values.tolist(), strict=True)]
    rows = [["time", *("median" if q == 0.5 else f"{q:g}" for q in one.quantiles)], *rows]
    wide = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join([row[0].ljust(wide[0]), *(x.rjust(w) for x, w in zip(row[1:], wide[1:], strict=True))])
        for row in rows
    ]
    return [*([terminal_text(one.name)] if one.name else []), *lines]


def draw(answers: "Sequence[SeriesForecast]", path: Path) -> None:
    """All series in one plot, or as numbers in a .csv file."""
    if path.suffix.lower() == ".csv":
        path.write_text(long_table(answers), "utf-8")
        return
    from regard import style
    from regard.glyphs import supply_glyphs

    from .drawing import draw_forecasts

    with style.font_family():
        kind = path.suffix.lower()[1:]
        figure = draw_forecasts(answers)
        supply_glyphs(figure)
        figure.savefig(path, format=kind, metadata=style.METADATA[kind])


def long_table(answers: "Sequence[SeriesForecast]") -> str:
    """In the long form: a line for each time of each series."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["series", "time", *(f"{q:g}" for q in answers[0].quantiles)])
    for one in answers:
        for time, row in zip(one.times, one.values.tolist(), strict=True):
            lines.writerow([one.name, time, *(f"{x:.10g}" for x in row)])
    return text.getvalue()


FORECASTS = AnswerView(forecast_data, forecast_lines, draw)
