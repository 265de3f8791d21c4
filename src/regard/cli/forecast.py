"""`regard forecast`."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import Json, plain

if TYPE_CHECKING:
    from regard.modalities.series.forecaster import SeriesForecast

KINDS = (".png", ".svg", ".csv")


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
        Path | None, typer.Option(help="Write a plot (.png, .svg) or the numbers (.csv) to this file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Forecast the next values of the time series in a csv file: medians and intervals; optionally draw them.

    Example: regard forecast ./runs/weather weather.csv --steps 24 --out plot.png
    """
    writable(out, file)
    from regard.building import prepare
    from regard.cli.single_thread import use_one_thread
    from regard.modalities.series.times import counted
    from regard.run.named import named_model

    loaded = prepare(named_model(model))
    use_one_thread()
    found = chosen(loaded.forecast(file, steps=steps), series or [])
    for note in dict.fromkeys(note for one in found for note in one.notes):
        print(f"regard: {plain(note)}", file=sys.stderr)
    if out is not None:
        write(found, out)
    if as_json:
        told = {"file": str(file), "out": None if out is None else str(out), "series": [one.data() for one in found]}
        print(json.dumps(told, ensure_ascii=False))
    elif out is not None:
        done = "written to" if out.suffix.lower() == ".csv" else "drawn to"
        ahead = counted(len(found[0].moments), "step")
        print(f"{len(found)} series, {ahead} ahead, {done} {plain(str(out))}")
    else:
        print("\n\n".join("\n".join(table(one)) for one in found))


def writable(out: Path | None, file: Path) -> None:
    """Found out before any work is done."""
    from regard.errors import InputError

    if out is None:
        return
    if out.suffix.lower() not in KINDS:
        raise InputError("unsupported output format", got=f"--out {out}", expected=" or ".join(KINDS))
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


def write(found: "Sequence[SeriesForecast]", out: Path) -> None:
    """Whole or not at all."""
    part = out.with_name(f".{out.stem}.part{out.suffix}")
    if out.suffix.lower() == ".csv":
        part.write_text(written(found), "utf-8")
    else:
        from regard import style
        from regard.modalities.series.drawing import draw_forecasts

        with style.font_family():
            kind = out.suffix.lower()[1:]
            draw_forecasts(found).savefig(part, format=kind, metadata=style.METADATA[kind])
    part.replace(out)


def written(found: "Sequence[SeriesForecast]") -> str:
    """In the long form: a line for each time of each series."""
    import csv
    import io

    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["series", "time", *(f"{q:g}" for q in found[0].quantiles)])
    for one in found:
        for time, row in zip(one.times, one.values.tolist(), strict=True):
            lines.writerow([one.name, time, *(f"{x:.10g}" for x in row)])
    return text.getvalue()


def table(one: "SeriesForecast") -> list[str]:
    """For a terminal."""
    rows = [[time, *(f"{x:.5g}" for x in row)] for time, row in zip(one.times, one.values.tolist(), strict=True)]
    rows = [["time", *("median" if q == 0.5 else f"{q:g}" for q in one.quantiles)], *rows]
    wide = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join([row[0].ljust(wide[0]), *(x.rjust(w) for x, w in zip(row[1:], wide[1:], strict=True))])
        for row in rows
    ]
    return [*([plain(one.name)] if one.name else []), *lines]
