"""`regard classify`."""

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import Json, plain
from regard.cli.piping import chunks, given, note, note_unknown

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
    number = 0
    cut: dict[int, int] = {}
    unknown: dict[str, None] = {}
    for some in [texts] if texts else chunks():
        several = [(text, beside) if beside is not None else text if texts else parted(text) for text in some]
        for one in loaded.classify(several):
            number += 1
            cut |= {number: one.unread} if one.unread else {}
            unknown |= dict.fromkeys(one.unknown)
            show(one, top, as_json)
        sys.stdout.flush()
    note_cut(cut)
    note_unknown(list(unknown))


def note_cut(cut: dict[int, int]) -> None:
    """The tokens that were not read, by the number of their text."""
    if len(cut) == 1:
        ((number, unread),) = cut.items()
        note(f"text {number} is longer than what can be read at once: its last {unread:,} tokens are not read")
    elif cut:
        many = f"{len(cut):,} texts are longer than what can be read at once, text {min(cut)} first"
        note(f"{many}: {sum(cut.values()):,} tokens at their ends are not read")


def parted(line: str) -> str | tuple[str, str]:
    first, tab, second = line.partition("\t")
    return (first, second) if tab else line


def show(one: "Labelled", top: int, as_json: bool) -> None:
    if as_json:
        print(json.dumps(data(one, top), ensure_ascii=False))
    else:
        print("  ".join(f"{plain(name)} {chance:.1%}" for name, chance in one.ranked[:top]))


def data(one: "Labelled", top: int) -> dict[str, Any]:
    ranked = [{"label": name, "probability": chance} for name, chance in one.ranked[:top]]
    unread = {"unread": one.unread, "unknown": list(one.unknown)}
    return {"texts": list(one.texts), "label": one.label, "probability": one.probability, "ranked": ranked} | unread
