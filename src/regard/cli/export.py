"""`regard export`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Json


def run(
    model: Annotated[str, typer.Argument(help="A model's name, or its folder (a path has a separator: ./mine).")],
    out: Annotated[Path, typer.Argument(help="The folder to write.")],
    to: Annotated[str, typer.Option("--to", help="The format: hf is Hugging Face's.")] = "hf",
    as_json: Json = False,
) -> None:
    """Write a model in another library's format.

    Example: regard export runs/mine exported --to hf
    """
    from regard.model import export

    export(model, out, to)
    print(json.dumps({"model": model, "out": str(out), "to": to}, indent=2) if as_json else f"wrote {out}")
