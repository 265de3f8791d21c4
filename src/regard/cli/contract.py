"""`regard contract`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Json


def run(
    file: Annotated[Path, typer.Argument(help="A Python file that registers something.")],
    as_json: Json = False,
) -> None:
    """Ask of what a file of yours registers whether it keeps the library's contracts, and say what fails.

    The same contracts that the library's own rows are tested by: the law, masks, gradients, cache, padding, maps, save
    and load, and that a model can be trained, served and looked into. Exit code 1 if one fails.

    Example: regard contract my.py
    """
    from regard.contracts.all import run_contracts
    from regard.plugins import load_file

    verdicts = []
    for verdict in run_contracts(load_file(file)):
        verdicts.append(verdict)
        if not as_json:
            print(verdict.line(), flush=True)
    if as_json:
        print(json.dumps([verdict.data() for verdict in verdicts], indent=2))
    if not all(verdict.holds for verdict in verdicts):
        raise typer.Exit(1)
