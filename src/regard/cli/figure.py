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
    ids: Annotated[list[str] | None, typer.Argument(help="Which figures: 1.11 10.5b")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the figures and draw nothing.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Every figure whose data is here.")] = False,
    below: Annotated[float | None, typer.Option(help="With --all: only what takes fewer seconds; else 2000.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Tell the verdict; fail unless it is confirmed.")] = False,
    out: Annotated[Path, typer.Option("--out", help="The folder to draw into.")] = Path("figures"),
    as_json: Json = False,
) -> None:
    """Draw a figure of the lectures, or check that a paper's claim holds.

    Example: regard figure 1.11 --check --out figures
    """
    from regard import figures

    if listed:
        rows = figures.figure_rows()
        print(json.dumps(rows, indent=2) if as_json else "\n".join(map(line, rows)))
        return
    if below is not None and not everything:
        raise InputError("only of all figures some can be left out by their cost", got="--below", fix="add --all")
    homes = figures.figure_homes()
    names = chosen(ids or [], everything, list(homes))
    if everything:
        names = [name for name in names if homes[name].cost(name) < (LONG if below is None else below)]
        if not names:
            raise InputError("no figure takes so little", got=f"--below {below:g}")
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
        raise InputError("all figures, or some?", got=f"--all {' '.join(ids)}", fix="leave out one of the two")
    if everything:
        return list(known)
    if not ids:
        raise InputError("no figure was named", fix="name some (regard figure 1.11), or see regard figure --list")
    wrong = [name for name in ids if name not in known]
    if wrong:
        near = [match for name in wrong for match in get_close_matches(name, known, n=2)]
        expected = f"perhaps {', '.join(near)}" if near else ""
        raise InputError("no such figure", got=", ".join(wrong), expected=expected, fix="see regard figure --list")
    return ids


def line(row: Mapping[str, object]) -> str:
    return f"{row['id']}\t{row['title']}\t{row['last']}" + ("\tstale" if row["stale"] else "")


def summary(result: Mapping[str, Any], out: Path, check: bool) -> str:
    """With the verdict, and each check that does not hold, if that was asked for."""
    if "left_out" in result:
        return f"{result['id']}\tleft out\t{result['left_out']}"
    if not check:
        return f"{result['id']}\tdrawn\t{out / result['id']}.png"
    starts = f" ({result['agreement']} starts)" if result["agreement"] else ""
    failed = "".join(f"\n\t{name}" for name in result["failed"])
    return f"{result['id']}\t{result['verdict'] or 'quoted'}{starts}\t{out / result['id']}.png{failed}"
