"""How detected objects are shown."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import InputError
from regard.look.terminal import terminal_text
from regard.modalities.verb import AnswerView

if TYPE_CHECKING:
    from .detector import Detections

LARGEST = {".jpg": 65500, ".jpeg": 65500, ".webp": 16383}  # pixels a side that these files can hold


def box_data(one: "Detections") -> dict[str, Any]:
    """Boxes in pixels of the image as it was."""
    boxes = [
        {"label": thing.label, "score": thing.score, "box": [round(x, 2) for x in thing.box]} for thing in one.things
    ]
    return {"image": one.image, "width": one.size[0], "height": one.size[1], "boxes": boxes}


def box_lines(answers: "Sequence[Detections]") -> list[str]:
    """A line for each image, and one for each object in it."""
    lines = []
    for one in answers:
        many = f"{len(one.things)} detected" if one.things else "nothing detected"
        lines.append(f"{terminal_text(one.image)}  {one.size[0]} x {one.size[1]}  {many}")
        wide = max((len(terminal_text(thing.label)) for thing in one.things), default=0)
        for thing in one.things:
            left, top, right, bottom = (f"{x:.0f}" for x in thing.box)
            place = f"{left}, {top} to {right}, {bottom}"
            lines.append(f"  {terminal_text(thing.label):<{wide}}  {thing.score:6.1%}  {place}")
    return lines


def draw(answers: "Sequence[Detections]", path: Path) -> None:
    """The boxes of one image over it."""
    from .detector import open_image
    from .drawing import draw_boxes

    (one,) = answers
    large = draw_boxes(open_image(one.image), one.things)
    if max(large.size) > (most := LARGEST.get(path.suffix.lower(), max(large.size))):
        raise InputError(
            f"a {path.suffix} file cannot hold an image of this size",
            where=str(path),
            got=f"{large.width} x {large.height} pixels",
            expected=f"at most {most} pixels per side",
            fix="write a .png file",
        )
    large.save(path)


def box_fields(one: "Detections") -> dict[str, Any]:
    return {name: value for name, value in box_data(one).items() if name != "image"}


BOXES = AnswerView(box_data, box_lines, draw, box_fields)
