"""`regard tag`."""

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import Json, plain
from regard.cli.piping import chunks, given

if TYPE_CHECKING:
    from regard.modalities.text.text_model import TaggedText


def run(
    model: Annotated[str, typer.Argument(help="Path to a run or model folder.")],
    texts: Annotated[list[str] | None, typer.Argument(help="Texts; lines of standard input if omitted or -.")] = None,
    spaces: Annotated[
        bool, typer.Option("--spaces", help="Split words at spaces only; the texts are already tokenized.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Tag the words of texts: one word, a tab and its tag per line, and a blank line after each text.

    Example: regard tag ./runs/tags "She reads the book."
    """
    from regard.building import prepare
    from regard.cli.single_thread import use_one_thread
    from regard.run.named import named_model

    loaded = prepare(named_model(model))
    texts = given(texts)
    if texts:
        use_one_thread()
    for some in [texts] if texts else chunks():
        for one in loaded.tag([text.split() if spaces else text for text in some]):
            show(one, as_json)
        sys.stdout.flush()


def show(one: "TaggedText", as_json: bool) -> None:
    if as_json:
        told = {"words": list(one.words), "tags": list(one.tags), "probabilities": list(one.probabilities)}
        print(json.dumps(told, ensure_ascii=False))
        return
    for word, tag in zip(one.words, one.tags, strict=True):
        print(f"{plain(word)}\t{plain(tag) or '?'}")
    print()
