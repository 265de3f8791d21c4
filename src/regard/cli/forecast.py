"""`regard forecast`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.inputs import GivenInputs
from regard.cli.options import Json
from regard.cli.predictions import destination
from regard.cli.printing import as_line, draw_answers, print_answers

if TYPE_CHECKING:
    from regard.modalities.series.forecaster import SeriesForecast
    from regard.modalities.verb import AnswerView

OUTPUT_SUFFIXES = (".png", ".svg", ".csv", ".jsonl")


def run(
    model: Annotated[str, typer.Argument(help="Path to a run or model folder.")],
    file: Annotated[
        Path, typer.Argument(help="CSV file of time series, with the columns that the model was trained on.")
    ],
    steps: Annotated[
        int | None, typer.Option(help="Forecast horizon in time steps; the model's own horizon if omitted.")
    ] = None,
    series: Annotated[
        list[str] | None, typer.Option(help="Forecast only the series of this name; may be repeated.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write a plot (.png, .svg) or the numbers (.csv, .jsonl) to this file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Forecast the next values of the time series in a csv file: medians and intervals; optionally draw them.

    Example: regard forecast ./runs/weather weather.csv --steps 24 --out plot.png
    """
    writable(out, file)
    from regard.building import prepare
    from regard.cli.single_thread import use_one_thread
    from regard.folders import load
    from regard.look.terminal import terminal_text
    from regard.modalities.series.times import quantity
    from regard.modalities.verbs import answer_view

    loaded = prepare(load(model))
    use_one_thread()
    found = chosen(loaded.forecast(file, steps=steps), series or [])
    for note in dict.fromkeys(note for one in found for note in one.notes):
        print(f"regard: {terminal_text(note)}", file=sys.stderr)
    view = answer_view(loaded, "forecast")
    if out is not None and out.suffix.lower() == ".jsonl":
        write_lines(view, found, out)
    elif out is not None:
        draw_answers(view, found, out)
    if as_json:
        series_data = [view.data(one) for one in found]
        print(as_line({"file": str(file), "out": None if out is None else str(out), "series": series_data}))
    elif out is not None:
        done = "written to" if out.suffix.lower() in (".csv", ".jsonl") else "drawn to"
        ahead = quantity(len(found[0].moments), "step")
        print(f"{len(found)} series, {ahead} ahead, {done} {terminal_text(str(out))}")
    else:
        print_answers(view, found, as_json)


def write_lines(view: "AnswerView", found: "Sequence[SeriesForecast]", out: Path) -> None:
    """A line for each series."""
    from regard.data.input_rows import InputRow

    with destination(out, GivenInputs([], []), view, False, None) as tell:
        for number, one in enumerate(found, 1):
            tell(InputRow(number, {}, (), ""), one)


def writable(out: Path | None, file: Path) -> None:
    """Found out before any work is done."""
    from regard.errors import InputError

    if out is None:
        return
    if out.suffix.lower() not in OUTPUT_SUFFIXES:
        raise InputError("unsupported output format", got=f"--out {out}", expected=" or ".join(OUTPUT_SUFFIXES))
    if not out.absolute().parent.is_dir():
        raise InputError("folder not found", where=str(out.absolute().parent), got=f"--out {out}")
    if out.exists() and file.exists() and out.samefile(file):
        raise InputError("the input file would be overwritten", where=str(out), fix="choose another name")


def chosen(found: "list[SeriesForecast]", names: Sequence[str]) -> "list[SeriesForecast]":
    from regard.errors import InputError

    known = [one.name for one in found]
    if odd := [name for name in names if name not in known]:
        raise InputError("unknown series", got=odd[0], expected=", ".join(known[:20]))
    return [one for one in found if not names or one.name in names]
