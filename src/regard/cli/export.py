"""`regard export`."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Json
from regard.cli.outcome import report_folder


def run(
    model: Annotated[str, typer.Argument(help="A shipped model, a run's folder, or a model's.")],
    out: Annotated[Path, typer.Argument(help="The folder to write.")],
    to: Annotated[str, typer.Option("--to", help="The format: hf is Hugging Face's, timm is timm's.")] = "hf",
    as_json: Json = False,
) -> None:
    """Write a model in another library's format.

    Numbers that are not finite are exported as they are, with a warning that names their tensors.

    Example: regard export runs/mine exported --to hf
    """
    from regard.folders import export
    from regard.run.named import named_model

    report_folder({"model": model, "out": str(out), "to": to}, export(named_model(model), out, to), as_json)
