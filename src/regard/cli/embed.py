"""`regard embed`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.inputs import Source, rows_given
from regard.cli.options import Column, Json
from regard.cli.piping import chunks, given
from regard.cli.predictions import answer_rows, check_out, is_table
from regard.cli.printing import print_answers

if TYPE_CHECKING:
    from torch import Tensor

    from regard.data.input_rows import InputRow


def run(
    model: Annotated[str, typer.Argument(help="Path to a run or model folder.")],
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="Texts, or a table (.csv, .tsv, .jsonl, .txt); lines of standard input if omitted or -."),
    ] = None,
    column: Column = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the embeddings to this .npy file, or beside their texts to a .csv or .jsonl file."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Embed texts as vectors of length 1. For a few texts, print a table of their cosine similarities.

    Example: regard embed ./minilm "a dog runs" "a puppy is running" "stock prices fell"
    """
    check_out(out, *(texts or ()), others=(".npy",))
    from regard.building import prepare
    from regard.cli.single_thread import use_one_thread
    from regard.folders import load
    from regard.modalities.text.text_model import EmbeddedText
    from regard.modalities.verbs import answer_view, require_verb

    loaded = prepare(load(model))
    require_verb(loaded, "embed")
    texts, view, every = given(texts), answer_view(loaded, "embed"), list[EmbeddedText]()

    def ask(some: Sequence[str]) -> list[EmbeddedText]:
        return [EmbeddedText(*one) for one in zip(some, loaded.embed(some), strict=True)]

    rows = rows_given(loaded, "embed", model, texts, column, out if is_table(out) else None)
    if rows is not None and (is_table(out) or as_json):
        answer_rows(view, rows, lambda some: ask([row.inputs[0] for row in some]), out, as_json)
        return
    if rows is not None:
        every = ask([row.inputs[0] for row in answerable(rows)])
    elif texts:
        use_one_thread()
    for some in () if rows is not None else [texts] if texts else chunks():
        found = ask(some)
        if as_json:
            print_answers(view, found, as_json)
        if out is not None or not as_json:
            every += found
    if every and out is not None:
        save_vectors([one.vector for one in every], out)
    if every and out is None and not as_json:
        print_answers(view, every, as_json)


def answerable(rows: "Source") -> "list[InputRow]":
    """All rows of a table, each of which has to have a vector: in an array, none can be left out."""
    from regard.errors import InputError

    found = list(rows)
    if odd := next((row for row in found if not row.inputs), None):
        fix = "correct the row, or write to a .csv or .jsonl file, which keeps its place"
        raise InputError("a row has no text to embed", got=f"line {odd.line}: {odd.fault}", fix=fix)
    return found


def save_vectors(vectors: "list[Tensor]", out: Path) -> None:
    import numpy as np
    import torch

    part = out.with_name(f".{out.name}.part")
    with open(part, "wb") as file:
        np.save(file, torch.stack(vectors).numpy(), allow_pickle=False)
    part.replace(out)
