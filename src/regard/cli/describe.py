"""`regard describe`."""

import json
from typing import Annotated

import typer

from regard.cli.options import Json, plain


def run(
    model: Annotated[str, typer.Argument(help="Path to the run or model folder of an image captioning model.")],
    images: Annotated[list[str], typer.Argument(help="Image files.")],
    beam: Annotated[int, typer.Option(help="Number of beams; 1 is greedy decoding.")] = 4,
    nbest: Annotated[int, typer.Option(help="Number of captions per image, best first.")] = 1,
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
    from regard.run.named import named_model

    try:
        decoding = Decoding(beam=Beam(beams=beam), nbest=nbest)
    except ValueError as error:
        raise InputError("invalid decoding options", got=str(error)) from None
    loaded = prepare(named_model(model))
    use_one_thread()
    for name in images:
        if name == "-":
            raise InputError("images cannot be read from standard input", got="standard input", fix="pass file names")
        (found,) = loaded.describe([name], decoding=decoding)  # type: ignore[misc]
        if as_json:
            several = [{"text": one.text, "score": one.score} for one in found.nbest]
            print(json.dumps({"image": name, "text": found.text, "nbest": several}, ensure_ascii=False))
            continue
        for one in found.nbest:
            print("  ".join([*([plain(name)] if len(images) > 1 else []), plain(one.text)]), flush=True)
