"""Options that several verbs share."""

import re
from collections.abc import Mapping
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]

# Of what is written.
Shortest = Annotated[int, typer.Option(help="Tokens at least.")]
NoRepeat = Annotated[int, typer.Option(help="No sequence of so many tokens twice; 0 for any.")]
TopK = Annotated[int, typer.Option(help="Only the k likeliest tokens; 0 for all.")]
TopP = Annotated[float, typer.Option(help="Only the likeliest that together have this probability.")]
Typical = Annotated[float, typer.Option(help="Only those as surprising as expected.")]
Seed = Annotated[int, typer.Option(help="Of the draws.")]
Groups = Annotated[int, typer.Option(help="Of beams, that say different things.")]
Diversity = Annotated[float, typer.Option(help="What a token costs for each group that has chosen it.")]

DRAWING = ("temperature", "top_k", "top_p", "typical")
SEARCHING = ("beam", "penalty", "groups", "diversity")


def given_options(context: typer.Context, *names: str) -> list[str]:
    """Those options that stand in the command line, as one writes them; a beam or temperature of 0 asks for nothing."""
    here = [name for name in names if name in context.params and is_given(context, name)]
    return [
        f"--{name.replace('_', '-')}" for name in here if context.params[name] or name not in ("beam", "temperature")
    ]


def is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def refuse_unused(context: typer.Context, draws: bool) -> None:
    """What would be ignored: all that is asked of draws where a search is made, and of a search where it draws."""
    from regard.errors import InputError

    searching, drawing = given_options(context, *SEARCHING), given_options(context, *DRAWING, "seed")
    if searching and drawing:
        raise InputError(
            "tokens are either drawn by chance or found by a search",
            got=" ".join([*drawing, *searching]),
            fix=f"leave out {' '.join(searching)}, or {' '.join(drawing)}",
        )
    if drawing and not draws:
        raise InputError("nothing is drawn by chance here", got=" ".join(drawing), fix="give --temperature above 0")
    if searching and draws:
        raise InputError("no search is made here", got=" ".join(searching), fix="give --beam above 0")
    if context.params["groups"] == 1 and given_options(context, "diversity"):
        raise InputError("one group of beams differs from no other", got="--diversity", fix="give --groups too")


def as_typed(problems: str, names: Mapping[str, str]) -> str:
    """What is wrong with settings, each by the option that gives it: `longest = 0` as `--tokens 0`."""

    def option(found: re.Match[str]) -> str:
        return f"--{names.get(found[1], found[1]).replace('_', '-')} "

    return re.sub(r"\b([a-z_]+) = ", option, problems)


def plain(text: str) -> str:
    """What cannot harm a terminal: a sign for what does not print."""
    return "".join(x if x.isprintable() else "·" for x in text)
