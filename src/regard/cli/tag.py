"""`regard tag`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.inputs import rows_given
from regard.cli.options import Column, Json, Out
from regard.cli.piping import chunks, given
from regard.cli.predictions import answer_rows, check_out
from regard.cli.printing import print_answers

if TYPE_CHECKING:
    from regard.modalities.text.text_model import TaggedText


def run(
    model: Annotated[str, typer.Argument(help="Path to a run or model folder.")],
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="Texts, or a table (.csv, .tsv, .jsonl, .txt); lines of standard input if omitted or -."),
    ] = None,
    spaces: Annotated[
        bool, typer.Option("--spaces", help="Split words at spaces only; the texts are already tokenized.")
    ] = False,
    column: Column = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Tag the words of texts: one word, a tab and its tag per line, and a blank line after each text.

    Example: regard tag ./runs/tags "She reads the book."
    """
    check_out(out, *(texts or ()))
    from regard.building import prepare
    from regard.cli.single_thread import use_one_thread
    from regard.folders import load
    from regard.modalities.verbs import answer_view, require_verb

    loaded = prepare(load(model))
    require_verb(loaded, "tag")
    texts = given(texts)

    def ask(some: "Sequence[str]") -> "Sequence[TaggedText]":
        found = loaded.tag([text.split() if spaces else text for text in some])
        assert isinstance(found, list)
        return found

    rows = rows_given(loaded, "tag", model, texts, column, out)
    if rows is not None:
        answer_rows(answer_view(loaded, "tag"), rows, lambda some: ask([row.inputs[0] for row in some]), out, as_json)
        return
    if texts:
        use_one_thread()
    for some in [texts] if texts else chunks():
        print_answers(answer_view(loaded, "tag"), ask(some), as_json)
