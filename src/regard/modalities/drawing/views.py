"""How drawn images are shown: shades in a terminal, JSON, a grid of them in a file."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch.nn.functional as F

from regard.errors import InputError
from regard.modalities.verb import AnswerView

if TYPE_CHECKING:
    from PIL import Image

    from .drawer import DrawnImage

SHADES = " .:-=+*#%@"  # from dark to light, as ink of a terminal is light
WIDEST = 32  # pixels of an image that stand side by side in a terminal, two characters each
SHOWN = 4  # images in a terminal
GAP = 1  # pixels between the images of a grid
LARGEST_FILE_SIDE = 65_000  # pixels


def drawing_data(one: "DrawnImage") -> dict[str, Any]:
    return one.data()


def drawing_fields(one: "DrawnImage") -> dict[str, Any]:
    """Without the image itself, which no table holds."""
    return {"number": one.number, "width": one.pixels.shape[2], "height": one.pixels.shape[1]}


def drawing_lines(answers: "Sequence[DrawnImage]") -> list[str]:
    """The first few, in shades."""
    lines: list[str] = []
    for one in answers[:SHOWN]:
        lines += [*([""] if lines else []), f"seed {one.seed}, image {one.number}", *shade_lines(one)]
    left = len(answers) - SHOWN
    return [*lines, "", f"and {left} more; write all of them to a file with --out"] if left > 0 else lines


def shade_lines(one: "DrawnImage") -> list[str]:
    """Its mean over channels; a large one is made smaller."""
    grey = one.pixels.float().mean(0, keepdim=True) / 255
    height, width = grey.shape[1:]
    if width > WIDEST:
        grey = F.adaptive_avg_pool2d(grey, (max(round(height * WIDEST / width), 1), WIDEST))
    return ["".join(SHADES[round(x * (len(SHADES) - 1))] * 2 for x in row).rstrip() for row in grey[0].tolist()]


def grid_image(answers: "Sequence[DrawnImage]") -> "Image.Image":
    """All in rows, as square as it goes, the first at the top left; one alone is itself."""
    from PIL import Image

    first = answers[0].image
    columns = math.ceil(math.sqrt(len(answers)))
    rows = math.ceil(len(answers) / columns)
    size = columns * (first.width + GAP) - GAP, rows * (first.height + GAP) - GAP
    if max(size) > LARGEST_FILE_SIDE:
        raise InputError("the grid of images is too large", got=f"{size[0]} x {size[1]} pixels", fix="lower --n")
    sheet = Image.new(first.mode, size)
    for place, one in enumerate(answers):
        row, column = divmod(place, columns)
        sheet.paste(one.image, (column * (first.width + GAP), row * (first.height + GAP)))
    return sheet


def draw(answers: "Sequence[DrawnImage]", path: Path) -> None:
    """A grid of all; or a line of JSON for each, which holds the image as a data address."""
    if path.suffix.lower() == ".jsonl":
        path.write_text("".join(f"{json.dumps(one.data())}\n" for one in answers), "utf-8")
        return
    grid_image(answers).save(path, lossless=True)  # of which a .png knows nothing else


DRAWINGS = AnswerView(drawing_data, drawing_lines, draw, drawing_fields)
