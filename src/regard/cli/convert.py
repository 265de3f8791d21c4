"""`regard convert`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Json


def run(
    source: Annotated[Path, typer.Argument(help="A folder with a published checkpoint.")],
    out: Annotated[Path, typer.Argument(help="The folder to write.")],
    as_json: Json = False,
) -> None:
    """Turn a published checkpoint into a folder that regard loads.

    Every tensor must be accounted for; if one is not, nothing is written.

    Example: regard convert downloads/gpt2 models/gpt2
    """
    from regard.model import convert

    convert(source, out)
    print(json.dumps({"source": str(source), "out": str(out)}, indent=2) if as_json else f"wrote {out}")
