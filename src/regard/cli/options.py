"""Options that several verbs share."""

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def plain(text: str) -> str:
    """What cannot harm a terminal: a sign for what does not print."""
    return "".join(x if x.isprintable() else "·" for x in text)
