"""`regard export`."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Json
from regard.cli.outcome import report_folder


def run(
    model: Annotated[str, typer.Argument(help="Path to a run or model folder, or the name of a shipped model.")],
    out: Annotated[Path, typer.Argument(help="Folder to write.")],
    to: Annotated[str, typer.Option("--to", help="Output format: hf (Hugging Face) or timm.")] = "hf",
    as_json: Json = False,
) -> None:
    """Export a model to another library's format.

    Values that are not finite (NaN, infinity) are exported unchanged, with a warning that names their tensors.

    Example: regard export runs/mine exported --to hf
    """
    from regard.folders import export
    from regard.run.named import named_model

    report_folder({"model": model, "out": str(out), "to": to}, export(named_model(model), out, to), as_json)
