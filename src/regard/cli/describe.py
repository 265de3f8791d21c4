"""`regard describe`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.inputs import rows_given
from regard.cli.options import Column, Json, Out
from regard.cli.predictions import answer_rows, check_out
from regard.cli.printing import print_answers

if TYPE_CHECKING:
    from regard.data.input_rows import InputRow


def run(
    model: Annotated[str, typer.Argument(help="Path to the run or model folder of an image captioning model.")],
    images: Annotated[
        list[str], typer.Argument(help="Images and folders of images; or a table (.csv, .tsv, .jsonl, .txt) of images.")
    ],
    beam: Annotated[int, typer.Option(help="Number of beams; 1 is greedy decoding.")] = 4,
    nbest: Annotated[int, typer.Option(help="Number of captions per image, best first.")] = 1,
    column: Column = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Write a caption for each image.

    Example: regard describe ./runs/scenes drawing.png
    """
    from regard.building import prepare
    from regard.cli.single_thread import use_one_thread
    from regard.decode.beam import Beam
    from regard.decode.settings import Decoding
    from regard.errors import InputError
    from regard.folders import load
    from regard.look.terminal import terminal_text
    from regard.modalities.verbs import answer_view, require_verb

    check_out(out, *images)
    try:
        decoding = Decoding(beam=Beam(beams=beam), nbest=nbest)
    except ValueError as error:
        raise InputError("invalid decoding options", got=str(error)) from None
    loaded = prepare(load(model))
    use_one_thread()
    require_verb(loaded, "describe")

    def lines(row: "InputRow", one: Any) -> list[str]:
        return [f"{terminal_text(row.inputs[0])}  {line}" for line in answer_view(loaded, "describe").lines([one])]

    def ask(some: "Sequence[InputRow]") -> "Sequence[Any]":
        found: Any = loaded.describe([row.inputs[0] for row in some], decoding=decoding)
        return list(found)

    rows = rows_given(loaded, "describe", model, images, column, out)
    if rows is not None:
        answer_rows(answer_view(loaded, "describe"), rows, ask, out, as_json, lines)
        return
    for name in images:
        if name == "-":
            raise InputError("images cannot be read from standard input", got="standard input", fix="pass file names")
        (found,) = loaded.describe([name], decoding=decoding)  # type: ignore[misc]
        view = answer_view(loaded, "describe")
        if as_json or len(images) == 1:
            print_answers(view, [found], as_json)
        else:
            print("\n".join(f"{terminal_text(name)}  {line}" for line in view.lines([found])), flush=True)
