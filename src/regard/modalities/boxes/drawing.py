"""What was found in an image, drawn into it: a box and a label for each thing, in the colour of its class."""

from collections.abc import Sequence
from functools import lru_cache

from matplotlib.font_manager import FontProperties, findfont
from PIL import Image, ImageDraw, ImageFont

from regard.modalities.images.pixels import convert_mode
from regard.style import SANS, colour

from .detector import Thing

LEAST = 640  # pixels of the longer side, so that a label finds room
GOLDEN = 137.508  # degrees from one hue to the next: no two classes that follow each other look alike

Rectangle = tuple[float, float, float, float]  # left, top, right, bottom


def class_colour(kind: int) -> str:
    """The colour of a class: strong enough for a line on any background, dark enough below white letters."""
    return colour(0.55, 0.2, (29 + GOLDEN * kind) % 360)


@lru_cache(8)
def letters(size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(findfont(FontProperties(family=SANS, weight="bold")), size)


def drawing_zoom(size: tuple[int, int]) -> float:
    """How much larger an image of this size is drawn: a label must find room."""
    return max(LEAST / max(size), 1.0)


def draw_boxes(image: Image.Image, things: Sequence[Thing]) -> Image.Image:
    """Draw the detections on a copy of the image; small images are enlarged. The highest score is drawn last, on
    top."""
    zoom = drawing_zoom(image.size)
    size = round(image.width * zoom), round(image.height * zoom)
    large = convert_mode(image, "RGB").resize(size, Image.Resampling.NEAREST if zoom > 4 else Image.Resampling.BICUBIC)
    large = large.copy() if large is image else large
    pen = ImageDraw.Draw(large)
    line, font = max(round(max(size) / 320), 2), letters(max(round(max(size) / 45), 11))
    boxes = {i: scaled(thing.box, zoom) for i, thing in enumerate(things)}
    for i, thing in reversed(list(enumerate(things))):
        left, top, right, bottom = boxes[i]
        pen.rectangle((left - 1, top - 1, right + 1, bottom + 1), outline="white", width=line + 2)
        pen.rectangle((left, top, right, bottom), outline=class_colour(thing.kind), width=line)
    taken: list[Rectangle] = []
    for i, thing in enumerate(things):  # the surest has the first choice of a place
        words = f"{thing.label} {100 * thing.score:.0f}%"
        place = room_for(pen.textbbox((0, 0), words, font), boxes[i], size, taken, line)
        taken.append(place)
        pen.rectangle(place, fill=class_colour(thing.kind), outline="white")
        middle = (place[0] + place[2]) / 2, (place[1] + place[3]) / 2
        pen.text(middle, words, fill="white", font=font, anchor="mm")
    return large


def scaled(box: Rectangle, zoom: float) -> Rectangle:
    return box[0] * zoom, box[1] * zoom, box[2] * zoom, box[3] * zoom


def room_for(
    words: tuple[float, float, float, float],
    box: Rectangle,
    size: tuple[int, int],
    taken: Sequence[Rectangle],
    line: int,
) -> Rectangle:
    """Above the box, below it, or within, wherever the image has room and the fewest other labels are hidden."""
    wide, high = words[2] - words[0] + 4 * line, words[3] - words[1] + 4 * line
    left, top, right, bottom = box
    corners = [(left, top - high), (left, bottom), (right - wide, top - high), (right - wide, bottom), (left, top)]
    tried = []
    for x, y in corners:
        x, y = min(max(x, 0.0), max(size[0] - wide - 1, 0.0)), min(max(y, 0.0), max(size[1] - high - 1, 0.0))
        place = x, y, x + wide, y + high
        tried.append((sum(hidden(place, other) for other in taken), place))
    return min(tried, key=lambda one: one[0])[1]


def hidden(one: Rectangle, two: Rectangle) -> float:
    """The area that is in both."""
    across, down = min(one[2], two[2]) - max(one[0], two[0]), min(one[3], two[3]) - max(one[1], two[1])
    return max(across, 0.0) * max(down, 0.0)
