"""`regard answer`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.inputs import GivenInputs, is_file_name, is_table_name, refuse_files, rows_given
from regard.cli.options import Column, Json, Out
from regard.cli.predictions import answer_rows, check_out
from regard.cli.printing import as_line, print_answers


def run(
    model: Annotated[str, typer.Argument(help="Path to a run or model folder, or the name of a shipped model.")],
    question: Annotated[
        str, typer.Argument(help="The question, or a table (.csv, .tsv, .jsonl) of questions and their texts.")
    ],
    context: Annotated[
        str | None, typer.Argument(help="The text that contains the answer; standard input if omitted or -.")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="Read the text from this file.")] = None,
    column: Column = None,
    out: Out = None,
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
    from regard.folders import load
    from regard.modalities.text.runners import answer_several
    from regard.modalities.verbs import answer_view, require_verb

    check_out(out, question, *([str(file)] if file else []))
    loaded = prepare(load(model))
    require_verb(loaded, "answer")
    view = answer_view(loaded, "answer")
    use_one_thread()
    if is_table_name(question) and context is None and file is None:
        rows = rows_given(loaded, "answer", model, [question], column, out)
        assert rows is not None
        answer_rows(view, rows, lambda some: answer_several(loaded, [row.inputs[:2] for row in some]), out, as_json)
        return
    if column:
        raise InputError(
            "--column requires a table", got=f"--column {column[0]}", fix="give a .csv, .tsv or .jsonl file"
        )
    refuse_files([question], "answer")
    if context is not None and is_file_name(context):
        fix = f"give the file with --file {context}"
        raise InputError("the context must be a text, not a file", got=f"the file {context}", fix=fix)
    text = read(context, file)
    if out is not None:
        pair = GivenInputs(("question", "context"), [(question, text)])
        answer_rows(view, pair, lambda some: answer_several(loaded, [row.inputs[:2] for row in some]), out, as_json)
        return
    found = loaded.answer(question, text)
    if as_json:
        print(as_line({"question": question} | view.data(found)))
    else:
        print_answers(view, [found], as_json)


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
