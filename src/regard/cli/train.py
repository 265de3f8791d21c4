"""`regard train`."""

from typing import Annotated

import typer

from regard.cli.options import Json
from regard.cli.outcome import report_run


def run(
    name: Annotated[str, typer.Argument(help="A run file, or the name of a shipped recipe.")],
    changes: Annotated[list[str] | None, typer.Argument(help="Settings to override, such as train.steps=2000.")] = None,
    smoke: Annotated[
        bool,
        typer.Option(
            "--smoke", help="Run the short test variant of a recipe; exit with 1 if the loss does not decrease enough."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Train a model from a run file; write metrics, curves, samples and checkpoints to the run folder.

    Example: regard train run.toml train.steps=2000
    """
    from regard.cli.memory import tune

    tune()  # before torch is loaded
    from regard.run.training import find_run, train_run
    from regard.train.progress import make_reporter

    report_run(
        lambda reports: train_run(find_run(name), tuple(changes or ()), reports, smoke=smoke), make_reporter(as_json)
    )
