"""`regard models`."""

import dataclasses
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import Json
from regard.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table


def run(
    pattern: Annotated[str, typer.Argument(help='Name or pattern with * and ?, such as "gpt*".')] = "*",
    as_json: Json = False,
) -> None:
    """List the available models with their sizes, papers and reference implementations.

    Example: regard models "gpt*" --json
    """
    from regard.zoo import catalog

    rows = [dataclasses.asdict(row) for row in catalog(pattern)]
    if not rows:
        got, fix = f"{pattern}{closest_model(pattern)}", "run `regard models` to list all models"
        raise InputError("no model matches this name", got=got, fix=fix)
    if as_json:
        print(json.dumps(rows, indent=2))
    elif sys.stdout.isatty():
        from rich.console import Console

        Console().print(table(rows))
    else:
        for row in rows:
            print("\t".join(cells(row)))


def closest_model(pattern: str) -> str:
    """A hint: a name, or a pattern for all names with the same beginning."""
    from regard.nn.config import closest_name
    from regard.zoo import PRESETS, shipped_names

    names = [*PRESETS, *shipped_names()]
    heads = {name.partition("-")[0] for name in names}
    return closest_name(pattern, names) or closest_name(pattern, heads - set(names)).replace("'?", "*'?")


def table(rows: list[dict[str, Any]]) -> "Table":
    from rich import box
    from rich.table import Table

    shown = Table("name", "sizes", "paper", "checked against", box=box.SIMPLE_HEAD)
    for row in rows:
        shown.add_row(*cells(row))
    return shown


def cells(row: dict[str, Any]) -> list[str]:
    sizes = ", ".join(f"{name} {amount(value)}" for name, value in row["sizes"].items())
    if row["shipped"]:
        sizes = f"trained: {sizes}"
    return [row["name"], sizes, f"{row['paper']} {row['link']}".strip(), evidence(row["verified_against"])]


def amount(value: int | float | Sequence[int]) -> str:
    """124439808 -> 124.4M; sizes below ten thousand stay as they are. Of a net in stages, each: 96/192/384/768."""
    if isinstance(value, Sequence):
        return "/".join(map(amount, value))
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= max(unit, 1e4):
            return f"{value / unit:.1f}{letter}"
    return f"{value:g}"


def evidence(found: object) -> str:
    """What the reference was, and how far we are from it."""
    if found is None:
        return "not checked"
    if isinstance(found, dict):
        return ", ".join(
            f"{name} {value:.1e}" if isinstance(value, float) else str(value) for name, value in found.items()
        )
    return str(found)
