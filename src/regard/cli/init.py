"""`regard init`."""

import json
from typing import Annotated

import typer

from regard.cli.options import Json


def run(
    task: Annotated[str, typer.Argument(help="Name of the task, such as translate.")],
    as_json: Json = False,
) -> None:
    """Print a run file for a task, with every default value and an explanation of every key.

    Example: regard init translate > run.toml
    """
    from regard.run.templates import run_template

    text = run_template(task)
    print(json.dumps({"task": task, "text": text}, indent=2) if as_json else text.rstrip("\n"))
