"""Images that code draws, each with a sentence that says what is on it: what a captioner can learn on any machine.

    a large red circle above a small blue square

One or two shapes of a colour and a size. The one on the left, or the upper one, is named first, so that each image has
one right sentence.
"""

import numpy as np
from PIL import Image, ImageDraw

from regard.data.counter_rng import uniform_samples
from regard.data.faults import Fault
from regard.modalities.images.processor import Images

from .processor import Described

SCENE_SIDE = 32
SCALE = 4  # drawn so much larger, and made smaller: edges are smooth then
COLOURS = {"red": (214, 48, 49), "green": (39, 154, 70), "blue": (41, 98, 218), "yellow": (240, 196, 25)}
SHAPES = ("circle", "square", "triangle")
SIZES = {"small": 4, "large": 7}  # half of a side
RELATIONS = {"left of": (-1, 0), "above": (0, -1)}  # where the first one is
APART = 8  # from the middle


class Scenes:
    """Rows: each follows from the seed and its number alone."""

    lengths = None  # all images are of one size
    faults: tuple[Fault, ...] = ()

    def __init__(self, count: int, images: Images, seed: int) -> None:
        self.count, self.images, self.seed = count, images, seed

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> Described:
        if not 0 <= i < self.count:
            raise IndexError(f"scene index {i} is out of range for {self.count} scenes")
        image, caption = draw_scene(np.random.Philox(key=np.array([self.seed, i], np.uint64)))
        return Described(self.images.prepare(image), caption)

    def where(self, i: int) -> str:
        return f"generated scene {i}"


def draw_scene(numbers: np.random.Philox) -> tuple[Image.Image, str]:
    """An image of SIDE x SIDE, and its sentence."""
    two, which, *drawn = uniform_samples(numbers, 12).tolist()
    image = Image.new("RGB", (SCENE_SIDE * SCALE, SCENE_SIDE * SCALE), "white")
    ink = ImageDraw.Draw(image)
    where = list(RELATIONS)[int(which * len(RELATIONS))]
    places = [(0, 0)] if two < 0.3 else [RELATIONS[where], tuple(-x for x in RELATIONS[where])]
    told = []
    for place, (colour, shape, size, across, down) in zip(places, (drawn[:5], drawn[5:]), strict=False):
        names = pick(SIZES, size), pick(COLOURS, colour), pick(SHAPES, shape)
        middle = [
            SCENE_SIDE / 2 + APART * x + 2 * (chance - 0.5) for x, chance in zip(place, (across, down), strict=True)
        ]
        draw(ink, *names, middle)
        told.append(f"a {' '.join(names)}")
    return image.resize((SCENE_SIDE, SCENE_SIDE), Image.Resampling.BOX), f" {where} ".join(told)


def pick(words: "tuple[str, ...] | dict[str, int] | dict[str, tuple[int, int, int]]", chance: float) -> str:
    return list(words)[int(chance * len(words))]


def draw(ink: ImageDraw.ImageDraw, size: str, colour: str, shape: str, middle: list[float]) -> None:
    half = SIZES[size] * SCALE
    x, y = (SCALE * place for place in middle)
    box, fill = (x - half, y - half, x + half, y + half), COLOURS[colour]
    if shape == "circle":
        ink.ellipse(box, fill)
    elif shape == "square":
        ink.rectangle(box, fill)
    else:
        ink.polygon([(x, y - half), (x - half, y + half), (x + half, y + half)], fill)
