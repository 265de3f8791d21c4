"""`regard detect`."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.inputs import is_table_name, rows_given
from regard.cli.options import Column, Json
from regard.cli.predictions import answer_rows, check_out, is_table
from regard.cli.printing import as_line, draw_answers

if TYPE_CHECKING:
    from regard.data.input_rows import InputRow

PICTURES = (".png", ".jpg", ".jpeg", ".webp")


def run(
    model: Annotated[str, typer.Argument(help="Path to a run or model folder.")],
    images: Annotated[
        list[str], typer.Argument(help="Images and folders of images; or a table (.csv, .tsv, .jsonl, .txt) of images.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Draw the boxes to this image file (a folder for several images; small ones are enlarged), or write "
            "them beside their images to a .csv or .jsonl file."
        ),
    ] = None,
    column: Column = None,
    threshold: Annotated[float, typer.Option(help="Confidence threshold, from 0 to 1.")] = 0.5,
    as_json: Json = False,
) -> None:
    """Detect objects in images: labels, scores and bounding boxes in pixels; optionally draw them.

    Example: regard detect ./runs/bccd cells.jpg --out annotated.png --threshold 0.7
    """
    several = any(Path(name).is_dir() or is_table_name(name) for name in images)
    places = {} if several or is_table(out) else writable(out, images)  # before any work is done
    if is_table(out):
        check_out(out, *images)
    from regard.building import prepare
    from regard.cli.single_thread import use_one_thread
    from regard.folders import load
    from regard.modalities.verbs import answer_view, require_verb

    loaded = prepare(load(model))
    require_verb(loaded, "detect")
    rows = rows_given(loaded, "detect", model, images, column, out if is_table(out) else None)
    if rows is not None and (is_table(out) or out is None):

        def ask(some: "Sequence[InputRow]") -> "Sequence[Any]":
            return loaded.detect([row.inputs[0] for row in some], threshold=threshold)

        answer_rows(answer_view(loaded, "detect"), rows, ask, out, as_json)
        return
    if rows is not None:
        images = [row.inputs[0] for row in rows if row.inputs]
        places = writable(out, images)
    use_one_thread()
    for image in images:  # one by one, so that the first is told before the last is read
        (one,) = loaded.detect([image], threshold=threshold)
        view, place = answer_view(loaded, "detect"), places.get(image)
        if place is not None:
            draw_answers(view, [one], place)
        if as_json:
            print(as_line(view.data(one) | ({} if place is None else drawn(one, place))), flush=True)
            continue
        first, *lines = view.lines([one])
        print("\n".join([first + ("" if place is None else f", drawn to {place}"), *lines]), flush=True)


def writable(out: Path | None, images: list[str]) -> dict[str, Path]:
    """Where each image goes, found out before any work is done."""
    from regard.errors import InputError

    if out is None:
        return {}
    if len(images) > 1 or out.is_dir():
        if out.exists() and not out.is_dir():
            raise InputError("--out must be a folder for several images", where=str(out), got="a file")
        places = {image: out / f"{Path(image).stem}.png" for image in images}
        if len(set(places.values())) < len(places):
            raise InputError("two images would be written to the same file", got=", ".join(images))
        spare(images, places.values())
        out.mkdir(parents=True, exist_ok=True)
        return places
    if out.suffix.lower() not in PICTURES:
        raise InputError("unsupported image format", got=f"--out {out}", expected=" or ".join(PICTURES))
    if not out.absolute().parent.is_dir():
        fix = "create it, or choose another"
        raise InputError("folder not found", where=str(out.absolute().parent), got=f"--out {out}", fix=fix)
    spare(images, [out])
    return {images[0]: out}


def spare(images: Iterable[str], places: Iterable[Path]) -> None:
    """What is drawn never replaces what was given: neither an image itself nor, in its folder, that of another."""
    from regard.errors import InputError

    given = [Path(image) for image in images if Path(image).exists()]
    for place in places:
        if place.exists() and any(place.samefile(image) for image in given):
            fix = "choose another name or folder"
            raise InputError("an input image would be overwritten", where=str(place), fix=fix)


def drawn(one: Any, place: Path) -> dict[str, Any]:
    """Boxes are told in pixels of the image as it was; the scale is how much larger it was drawn."""
    from regard.modalities.boxes.drawing import drawing_zoom

    return {"out": str(place), "scale": round(drawing_zoom(one.size), 4)}
