"""`regard contract`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Json


def run(
    file: Annotated[Path, typer.Argument(help="Python plug-in file that calls regard.register.")],
    as_json: Json = False,
) -> None:
    """Test what a plug-in file registers against the library's contracts, and report failures.

    These are the contracts of the library's own components: output = weights @ values, masks, gradients, cache,
    padding, attention maps, saving and loading, training, serving and inspection. Exit code 1 if one fails.

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
