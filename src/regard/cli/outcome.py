"""How a run that was watched ends on the command line."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from regard.run.start import Ended
    from regard.train.progress import Reporter


def told(work: "Callable[[Reporter], Ended]", reports: "Reporter") -> None:
    """Say where everything is; when the run was interrupted, how to go on."""
    try:
        ended = work(reports)
        if ended.finished:
            reports.note(f"{ended.finished}; the model is in {ended.folder / 'model'}")
        else:
            reports.note(f"stopped after step {ended.step}, nothing is lost. Go on with: regard resume {ended.folder}")
        if ended.broken:
            reports.note(ended.broken)
    finally:
        reports.close()
    if ended.broken:
        raise typer.Exit(1)
    if not ended.finished:
        raise typer.Exit(130)
