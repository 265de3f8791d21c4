"""`regard resume`."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Json
from regard.cli.outcome import report_run


def run(
    folder: Annotated[Path, typer.Argument(help="Path to the run folder.")],
    changes: Annotated[
        list[str] | None, typer.Argument(help="Settings to change, such as train.steps=2000 for a longer run.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Resume an interrupted run from its last checkpoint; the result is the same as without the interruption.

    Example: regard resume runs/en-de

    Example: regard resume runs/en-de train.steps=8000
    """
    from regard.cli.memory import tune

    tune()  # before torch is loaded
    from regard.run.training import resume_run
    from regard.train.progress import make_reporter

    report_run(lambda reports: resume_run(folder, reports, changes=tuple(changes or ())), make_reporter(as_json))
