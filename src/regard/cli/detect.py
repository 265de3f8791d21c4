"""`regard detect`."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import Json, plain

if TYPE_CHECKING:
    from regard.modalities.boxes.detector import Detections

PICTURES = (".png", ".jpg", ".jpeg", ".webp")
LONGEST = {".jpg": 65500, ".jpeg": 65500, ".webp": 16383}  # pixels a side that these files can hold


def run(
    model: Annotated[str, typer.Argument(help="Path to a run or model folder.")],
    images: Annotated[list[str], typer.Argument(help="Image files.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Draw the boxes to this image file (a folder for several images); small images are enlarged."
        ),
    ] = None,
    threshold: Annotated[float, typer.Option(help="Confidence threshold, from 0 to 1.")] = 0.5,
    as_json: Json = False,
) -> None:
    """Detect objects in images: labels, scores and bounding boxes in pixels; optionally draw them.

    Example: regard detect ./runs/bccd cells.jpg --out annotated.png --threshold 0.7
    """
    places = writable(out, images)
    from regard.building import prepare
    from regard.cli.single_thread import use_one_thread
    from regard.run.named import named_model

    loaded = prepare(named_model(model))
    use_one_thread()
    for image in images:  # one by one, so that the first is told before the last is read
        (one,) = loaded.detect([image], threshold=threshold)
        if (place := places.get(image)) is not None:
            draw(one, place)
        show(one, place, as_json)


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


def draw(one: "Detections", place: Path) -> None:
    """Whole or not at all."""
    from regard.errors import InputError
    from regard.modalities.boxes.detector import open_image
    from regard.modalities.boxes.drawing import draw_boxes

    part = place.with_name(f".{place.stem}.part{place.suffix}")
    large = draw_boxes(open_image(one.image), one.things)
    if max(large.size) > (most := LONGEST.get(place.suffix.lower(), max(large.size))):
        raise InputError(
            f"a {place.suffix} file cannot hold an image of this size",
            where=str(place),
            got=f"{large.width} x {large.height} pixels",
            expected=f"at most {most} pixels per side",
            fix="write a .png file",
        )
    large.save(part)
    part.replace(place)


def show(one: "Detections", place: Path | None, as_json: bool) -> None:
    if as_json:
        print(json.dumps(data(one) | ({} if place is None else drawn(one, place)), ensure_ascii=False), flush=True)
        return
    many = f"{len(one.things)} detected" if one.things else "nothing detected"
    print(f"{plain(one.image)}  {one.size[0]} x {one.size[1]}  {many}{'' if place is None else f', drawn to {place}'}")
    wide = max((len(plain(thing.label)) for thing in one.things), default=0)
    for thing in one.things:
        left, top, right, bottom = (f"{x:.0f}" for x in thing.box)
        print(f"  {plain(thing.label):<{wide}}  {thing.score:6.1%}  {left}, {top} to {right}, {bottom}", flush=True)


def drawn(one: "Detections", place: Path) -> dict[str, Any]:
    """Boxes are told in pixels of the image as it was; the scale is how much larger it was drawn."""
    from regard.modalities.boxes.drawing import drawing_zoom

    return {"out": str(place), "scale": round(drawing_zoom(one.size), 4)}


def data(one: "Detections") -> dict[str, Any]:
    boxes = [
        {"label": thing.label, "score": thing.score, "box": [round(x, 2) for x in thing.box]} for thing in one.things
    ]
    return {"image": one.image, "width": one.size[0], "height": one.size[1], "boxes": boxes}
