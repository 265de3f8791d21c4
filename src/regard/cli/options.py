"""Options that several verbs share."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print machine-readable JSON.")]

# Of many inputs at once.
Out = Annotated[
    Path | None, typer.Option(help="Write the answers beside their inputs, row by row, to this .csv or .jsonl file.")
]
Column = Annotated[
    list[str] | None,
    typer.Option(help="Column of a table to read, by name or number; as in training if omitted; may be repeated."),
]

# Of what is written.
Shortest = Annotated[int, typer.Option(help="Minimum number of new tokens.")]
NoRepeat = Annotated[int, typer.Option(help="Never repeat an n-gram of this many tokens; 0 disables this.")]
TopK = Annotated[int, typer.Option(help="Top-k sampling: sample from the k most likely tokens; 0 disables this.")]
TopP = Annotated[
    float, typer.Option(help="Top-p (nucleus) sampling: cumulative probability of the tokens to sample from.")
]
Typical = Annotated[
    float, typer.Option(help="Typical sampling: cumulative probability of the typical tokens to sample from.")
]
Seed = Annotated[int, typer.Option(help="Random seed for sampling.")]
Groups = Annotated[int, typer.Option(help="Number of beam groups for diverse beam search.")]
Diversity = Annotated[
    float, typer.Option(help="Diversity penalty for a token, per beam group that has already chosen it.")
]

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
            "sampling and beam search options cannot be combined",
            got=" ".join([*drawing, *searching]),
            fix=f"remove {' '.join(searching)}, or {' '.join(drawing)}",
        )
    if drawing and not draws:
        raise InputError("sampling options require sampling", got=" ".join(drawing), fix="set --temperature above 0")
    if searching and draws:
        raise InputError("beam search options require beam search", got=" ".join(searching), fix="set --beam above 0")
    if context.params["groups"] == 1 and given_options(context, "diversity"):
        raise InputError("--diversity requires several beam groups", got="--diversity", fix="set --groups above 1")


def as_typed(problems: str, names: Mapping[str, str]) -> str:
    """What is wrong with settings, each by the option that gives it: `longest = 0` as `--tokens 0`."""

    def option(found: re.Match[str]) -> str:
        return f"--{names.get(found[1], found[1]).replace('_', '-')} "

    return re.sub(r"\b([a-z_]+) = ", option, problems)
