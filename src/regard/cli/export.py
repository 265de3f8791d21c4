"""`regard export`."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Json
from regard.cli.outcome import written


def run(
    model: Annotated[str, typer.Argument(help="A model's name, or its folder (a path has a separator: ./mine).")],
    out: Annotated[Path, typer.Argument(help="The folder to write.")],
    to: Annotated[str, typer.Option("--to", help="The format: hf is Hugging Face's.")] = "hf",
    as_json: Json = False,
) -> None:
    """Write a model in another library's format.

    Numbers that are not finite are exported as they are, with a warning that names their tensors.

    Example: regard export runs/mine exported --to hf
    """
    from regard.model import export

    written({"model": model, "out": str(out), "to": to}, export(model, out, to), as_json)
