"""`regard convert`."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Json

SHOWN = 20  # names of tensors; all of them may be a whole model's


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
    from regard.model import convert

    odd = convert(source, out)
    if as_json:
        strange = {"tensors": len(odd), "names": odd[:SHOWN]}
        print(json.dumps({"source": str(source), "out": str(out), "not_finite": strange}, indent=2))
        return
    print(f"wrote {out}")
    if odd:
        names = ", ".join(odd[:SHOWN]) + (f" and {len(odd) - SHOWN} more" if len(odd) > SHOWN else "")
        warning = "regard: warning: the checkpoint holds numbers that are not finite, converted as they are"
        print(f"{warning}\n  got: NaN or infinity in {len(odd)} of the tensors: {names}", file=sys.stderr)
