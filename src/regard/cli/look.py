"""`regard look`."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.inputs import is_file_name
from regard.cli.options import Json
from regard.look.terminal import terminal_text

if TYPE_CHECKING:
    from regard.look.changes import Change
    from regard.look.trace import Trace
    from regard.model import Model
    from regard.nn.axis import Axis

AXES = ("source", "tokens", "patches", "pixels")  # what a position alone counts along, the first that there is


def run(
    model: Annotated[str, typer.Argument(help="Path to a run or model folder, or the name of a shipped model.")],
    given: Annotated[
        list[str],
        typer.Argument(
            help="The input: a text, a text and its translation, an image file, or a csv file and a series."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Write the attention maps to this file (.html, .png, .svg or .npz).")
    ] = None,
    site: Annotated[
        str | None,
        typer.Option(help="Attention site (layer) to show, such as decoder.1.cross; the last one if omitted."),
    ] = None,
    head: Annotated[int | None, typer.Option(help="Head to show; the mean over all heads if omitted.")] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(help="Mask a position, such as 3, or on a named axis, target:3; may be repeated."),
    ] = None,
    silence: Annotated[
        list[str] | None, typer.Option(help="Ablate a head, such as decoder.1.cross:2; may be repeated.")
    ] = None,
    temperature: Annotated[
        float, typer.Option(help="Divide the attention scores by this; values above 1 make attention more uniform.")
    ] = 1.0,
    as_json: Json = False,
) -> None:
    """Show a model's answer and the attention map of each head in each layer.

    Example: regard look tatoeba-en-de "Where are my keys?" --out keys.png
    """
    from regard.cli.single_thread import use_one_thread
    from regard.folders import load
    from regard.look.saving import picture_format
    from regard.modalities.media import MEDIA

    if out is not None:
        picture_format(out)  # before anything is computed
    loaded = load(model)
    if MEDIA[loaded.takes[0]].argument != "file":
        refuse_names(given)
    use_one_thread()
    plainly = loaded.look(*given)
    there(plainly, site, head)
    changes = changes_of_options(loaded, plainly, without or [], silence or [], temperature)
    found = plainly.change(*changes) if changes else plainly
    if out is not None:
        found.save(out, site, head)
    if as_json:
        print(json.dumps(data(plainly, found, out), ensure_ascii=False))
        return
    if changes:
        print(f"before  {headlined(plainly)}")
    print(f"{'after   ' if changes else ''}{headlined(found)}")
    if out is not None:
        print(f"{'written' if out.suffix.lower() == '.npz' else 'drawn'} to {terminal_text(str(out))}")
        return
    print("\n".join(["", *map_lines(found, site, head)]))


def refuse_names(given: list[str]) -> None:
    """The name of a file is no text, although it could be looked at as one."""
    from regard.errors import InputError

    for word in filter(is_file_name, given):
        raise InputError("`regard look` takes the text itself", got=f"the file {word}", expected="a text")


def there(found: "Trace[Any]", site: str | None, head: int | None) -> None:
    """Whether what shall be shown is there."""
    from regard.errors import InputError
    from regard.look.document import find_site

    one = found.sites[list(found.sites)[-1]] if site is None else find_site(found, site)[0]
    if head is not None and not 0 <= head < one.heads:
        raise InputError("the head does not exist", where=one.name, got=str(head), expected=f"0 to {one.heads - 1}")


def changes_of_options(
    loaded: "Model", found: "Trace[Any]", without: list[str], silence: list[str], temperature: float
) -> "list[Change]":
    from regard.errors import InputError
    from regard.look.changes import Head, Temperature, Token

    changes: list[Change] = []
    sizes = {
        axes[i]: (x.rows, x.columns)[i].size for x in found.sites.values() for i, axes in ((1, x.axes), (0, x.axes))
    }
    for text in without:
        axis, _, position = text.rpartition(":")
        axis = axis or next((name for name in AXES if name in sizes), "")
        if not position.isdecimal() or (axis in sizes and int(position) >= sizes[axis]):
            raise InputError(
                "the position does not exist", got=f"--without {text}", expected=f"0 to {sizes.get(axis, 1) - 1}"
            )
        changes.append(Token(axis, int(position)))
    for text in silence:
        place, _, number = text.rpartition(":")
        if not place or not number.isdecimal():
            raise InputError(
                "invalid head", got=f"--silence {text}", expected="site and head number, such as decoder.1.cross:2"
            )
        changes.append(Head(place, int(number)))
    return [*changes, *([Temperature(temperature)] if temperature != 1 else [])]


def headlined(found: "Trace[Any]") -> str:
    from regard.look.saving import headline

    return terminal_text(headline(found))


def map_lines(found: "Trace[Any]", site: str | None, head: int | None) -> list[str]:
    """One map for a terminal, of the last site unless another is asked for, and what else there is."""
    from regard.look.document import find_site, head_map, map_weights
    from regard.look.sheet import position_names
    from regard.look.terminal import column_ranges, heat_map_lines, map_width

    name = list(found.sites)[-1] if site is None else site
    one, _ = find_site(found, name)
    weights = head_map(map_weights(found, name), head)
    rows, columns = (
        [terminal_text(label) for label in position_names(axis.labels if axis.cut is None else None, size)]
        for axis, size in zip((one.rows, one.columns), weights.shape, strict=True)
    )
    which = "mean over heads" if head is None else f"head {head}"
    lines = [f"{name}, {which}:", ""]
    if len(column_ranges(rows, columns, map_width())) > 3 or len(rows) > 200:
        lines += [
            f"The map of {len(rows)} x {len(columns)} is too large for the terminal; write it to a file: --out map.png"
        ]
    else:
        colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        lines += heat_map_lines(weights.tolist(), rows, columns, colour=colour, width=map_width())
    every = [f"{place} ({x.heads} heads)" for place, x in found.sites.items()]
    return [*lines, "", f"Sites: {', '.join(every)}"]


def data(before: "Trace[Any]", found: "Trace[Any]", out: Path | None) -> dict[str, Any]:
    from regard.look.answers import answer_data
    from regard.look.document import change_data, example_of_trace

    changed = {"before": answer_data(before.answer)} if found.changes else {}
    return {
        "texts": list(example_of_trace(found).texts),
        "answer": answer_data(found.answer),
        **changed,
        "changes": [change_data(change) for change in found.changes],
        "sites": [
            {
                "name": name,
                "heads": x.heads,
                "rows": {"axis": x.axes[0], **axis_data(x.rows)},
                "columns": {"axis": x.axes[1], **axis_data(x.columns)},
                "kind": x.kind,
            }
            for name, x in found.sites.items()
        ],
        "out": None if out is None else str(out),
    }


def axis_data(axis: "Axis") -> dict[str, Any]:
    """``special`` positions (a class token) stand before those of the grid."""
    return {"size": axis.size, "labels": axis.labels, "grid": axis.grid, "special": axis.special}
