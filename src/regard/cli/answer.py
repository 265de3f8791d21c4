"""`regard answer`."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Json, plain


def run(
    model: Annotated[str, typer.Argument(help="Path to a run or model folder, or the name of a shipped model.")],
    question: Annotated[str, typer.Argument(help="The question.")],
    context: Annotated[
        str | None, typer.Argument(help="The text that contains the answer; standard input if omitted or -.")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="Read the text from this file.")] = None,
    as_json: Json = False,
) -> None:
    """Find the answer to a question in a text.

    Example: regard answer ./runs/answers "Who sings?" "Anna sings and Ben plays."
    """
    from regard.errors import InputError

    if context is not None and file is not None:
        raise InputError("the text was given twice, as an argument and as a file", got=f"an argument and --file {file}")
    from regard.building import prepare
    from regard.cli.single_thread import use_one_thread
    from regard.run.named import named_model

    text = read(context, file)
    loaded = prepare(named_model(model))
    use_one_thread()
    found = loaded.answer(question, text)
    if as_json:
        print(json.dumps({"question": question} | asdict(found), ensure_ascii=False))
    else:
        print(f"{plain(found.text)}  {found.probability:.1%}")


def read(context: str | None, file: Path | None) -> str:
    """The whole text, from wherever it is."""
    if context not in (None, "-"):
        return context
    from regard.errors import InputError

    if file is None and sys.stdin is None:
        raise InputError("standard input is not available", fix="pass the text as an argument")
    raw = sys.stdin.buffer.read() if file is None else file.read_bytes()
    try:
        return raw.decode("utf-8-sig")  # a mark before the text is none of its letters
    except UnicodeDecodeError as error:
        where = "standard input" if file is None else str(file)
        raise InputError(
            "the text is not valid UTF-8", where=where, got=f"an invalid byte at position {error.start + 1}"
        ) from None
