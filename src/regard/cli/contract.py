"""`regard contract`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Json


def run(
    plugin: Annotated[
        str,
        typer.Argument(
            metavar="FILE|PACKAGE",
            help="Python plug-in file (.py) that calls regard.register, or an installed package whose entry points in "
            "the group regard.plugins do.",
        ),
    ],
    as_json: Json = False,
) -> None:
    """Test what a plug-in file or package registers against the library's contracts, and report failures.

    These are the contracts of the library's own components: output = weights @ values, masks, gradients, cache,
    padding, attention maps, saving and loading, training, serving and inspection. Exit code 1 if one fails.

    A name that ends in .py, or has a folder in it, is a file; any other is an installed package's.

    Example: regard contract my.py; regard contract my-package
    """
    from regard.contracts.all import run_contracts
    from regard.plugins import load_file, load_package

    path = Path(plugin)
    is_file = path.suffix == ".py" or path.name != plugin
    verdicts = []
    for verdict in run_contracts(plugin, [load_file(path)] if is_file else load_package(plugin)):
        verdicts.append(verdict)
        if not as_json:
            print(verdict.line(), flush=True)
    if as_json:
        print(json.dumps([verdict.data() for verdict in verdicts], indent=2))
    if not all(verdict.holds for verdict in verdicts):
        raise typer.Exit(1)
