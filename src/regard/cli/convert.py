"""`regard convert`."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Json
from regard.cli.outcome import report_folder


def run(
    source: Annotated[Path, typer.Argument(help="Folder that contains the published checkpoint.")],
    out: Annotated[Path, typer.Argument(help="Folder to write.")],
    as_json: Json = False,
) -> None:
    """Convert a published checkpoint to a regard model folder.

    Every tensor must be matched; if one is missing or unexpected, nothing is written. Values that are not finite (NaN,
    infinity) are converted unchanged, with a warning that names their tensors.

    Example: regard convert downloads/gpt2 models/gpt2
    """
    from regard.folders import convert

    report_folder({"source": str(source), "out": str(out)}, convert(source, out), as_json)
