"""`regard evaluate`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Json


def run(
    folder: Annotated[Path, typer.Argument(help="The folder of a run.")],
    split: Annotated[str, typer.Option(help="train, held_out or test.")] = "held_out",
    as_json: Json = False,
) -> None:
    """Measure a run's best weights on one part of its data.

    Example: regard evaluate runs/en-de --split test
    """
    from regard.cli.memory import tune

    tune()  # before torch is loaded
    from regard.run.start import measure
    from regard.train.progress import Silent

    metrics = measure(folder, split, Silent())
    if as_json:
        print(json.dumps({"run": str(folder), "split": split, "metrics": metrics}, indent=2))
        return
    for name, value in metrics.items():
        print(f"{name}\t{value:.6g}")
