"""`regard convert`."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Json
from regard.cli.outcome import report_folder


def run(
    source: Annotated[Path, typer.Argument(help="A folder with a published checkpoint.")],
    out: Annotated[Path, typer.Argument(help="The folder to write.")],
    as_json: Json = False,
) -> None:
    """Turn a published checkpoint into a folder that regard loads.

    Every tensor must be accounted for; if one is not, nothing is written. Numbers that are not finite are converted as
    they are, with a warning that names their tensors.

    Example: regard convert downloads/gpt2 models/gpt2
    """
    from regard.folders import convert

    report_folder({"source": str(source), "out": str(out)}, convert(source, out), as_json)
