"""`regard classify`."""

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import Json, plain
from regard.cli.piping import chunks, given

if TYPE_CHECKING:
    from regard.tasks.reading import Labelled


def run(
    model: Annotated[str, typer.Argument(help="A run's folder, or a model's.")],
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts; without any, or with -, the lines of standard input.")
    ] = None,
    beside: Annotated[str | None, typer.Option(help="A second text, for a model that judges two.")] = None,
    top: Annotated[int, typer.Option(help="So many of the likeliest labels.")] = 1,
    as_json: Json = False,
) -> None:
    """Give texts a label, or the lines of standard input; two texts of a line stand on both sides of a tab.

    Example: regard classify ./runs/reviews "a moving, funny film" --top 2
    """
    from regard.errors import InputError

    if top < 1:
        raise InputError("at least one label is told", got=f"--top {top}")
    from regard.cli.translate import alone
    from regard.model import prepare
    from regard.run.named import named_model

    loaded = prepare(named_model(model))
    texts = given(texts)
    if texts:
        alone()
        for one in loaded.classify([text if beside is None else (text, beside) for text in texts]):
            show(one, top, as_json)
        return
    for some in chunks():
        for one in loaded.classify([parted(line, beside) for line in some]):
            show(one, top, as_json)
        sys.stdout.flush()


def parted(line: str, beside: str | None) -> str | tuple[str, str]:
    if beside is not None:
        return line, beside
    first, tab, second = line.partition("\t")
    return (first, second) if tab else line


def show(one: "Labelled", top: int, as_json: bool) -> None:
    if as_json:
        print(json.dumps(data(one, top), ensure_ascii=False))
    else:
        print("  ".join(f"{plain(name)} {chance:.1%}" for name, chance in one.ranked[:top]))


def data(one: "Labelled", top: int) -> dict[str, Any]:
    ranked = [{"label": name, "probability": chance} for name, chance in one.ranked[:top]]
    return {"texts": list(one.texts), "label": one.label, "probability": one.probability, "ranked": ranked}
