"""`regard figure`."""

import json
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.options import Json
from regard.errors import InputError

LONG = 2000.0  # seconds: figures whose models train for an hour are computed when they are named


def run(
    ids: Annotated[list[str] | None, typer.Argument(help="Figures to draw, such as 1.11 10.5b.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the figures without drawing them.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Draw every figure whose data is available.")] = False,
    below: Annotated[
        float | None,
        typer.Option(help="With --all: only figures that take fewer seconds than this (2000 if not given)."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Print the verdict; exit with 1 unless the claim is confirmed.")
    ] = False,
    out: Annotated[Path, typer.Option("--out", help="Output folder.")] = Path("figures"),
    as_json: Json = False,
) -> None:
    """Draw a figure from the lectures, or check the claim of a paper that it reproduces.

    Example: regard figure 1.11 --check --out figures
    """
    from regard import figures

    if listed:
        rows = figures.figure_rows()
        print(json.dumps(rows, indent=2) if as_json else "\n".join(map(line, rows)))
        return
    if below is not None and not everything:
        raise InputError("--below requires --all", got="--below", fix="add --all")
    homes = figures.figure_homes()
    names = chosen(ids or [], everything, list(homes))
    if everything:
        names = [name for name in names if homes[name].cost(name) < (LONG if below is None else below)]
        if not names:
            raise InputError("no figure takes less time than --below", got=f"--below {below:g}")
    results = []
    for name in names:
        try:
            results.append(homes[name].run(name, out, check))
        except InputError as error:
            if not everything:
                raise
            results.append({"id": name, "holds": None, "left_out": error.what})  # its data is not here
        if not as_json:
            print(summary(results[-1], out, check), flush=True)
    if as_json:
        print(json.dumps(results, indent=2))
    if check and any(result["holds"] is False for result in results):
        raise typer.Exit(1)


def chosen(ids: list[str], everything: bool, known: Sequence[str]) -> list[str]:
    """The figures to draw, all of them known: a wrong id at the end must not cost the hours of those before it."""
    if everything and ids:
        raise InputError(
            "--all cannot be combined with figure names", got=f"--all {' '.join(ids)}", fix="remove one of the two"
        )
    if everything:
        return list(known)
    if not ids:
        raise InputError(
            "no figure was given", fix="give one or more (regard figure 1.11); regard figure --list lists them"
        )
    wrong = [name for name in ids if name not in known]
    if wrong:
        near = [match for name in wrong for match in get_close_matches(name, known, n=2)]
        expected = f"did you mean {', '.join(near)}?" if near else ""
        raise InputError("unknown figure", got=", ".join(wrong), expected=expected, fix="see regard figure --list")
    return ids


def line(row: Mapping[str, object]) -> str:
    return f"{row['id']}\t{row['title']}\t{row['last']}" + ("\tstale" if row["stale"] else "")


def summary(result: Mapping[str, Any], out: Path, check: bool) -> str:
    """With the verdict, and each check that does not hold, if that was asked for."""
    if "left_out" in result:
        return f"{result['id']}\tskipped\t{result['left_out']}"
    if not check:
        return f"{result['id']}\tdrawn\t{out / result['id']}.png"
    starts = f" ({result['agreement']} starts)" if result["agreement"] else ""
    failed = "".join(f"\n\t{name}" for name in result["failed"])
    return f"{result['id']}\t{result['verdict'] or 'quoted'}{starts}\t{out / result['id']}.png{failed}"
