"""One image file from anywhere, as upright pixels of 8 bits; or the reason why it cannot be used.

Everything is decoded to the end: the header of a file that was cut off is as good as that of a whole one. Nothing in a
file is believed before it is checked, and what the decoder says of a bad one is told without addresses and the like.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError

from regard.data.faults import DamagedError, TransientError, printable

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")  # no more: each decoder is a door
PIXELS = 50_000_000  # of an image, which takes 4 bytes for each, and as much again where a copy is asked for
LARGE = 1 << 22  # pixels from which on nothing copies an image as a whole that only shall become small
STRIP = 1 << 20  # pixels of which so many are converted at a time

TURNS = {  # what undoes each way in which a camera may have been held
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


SIDEWAYS = (
    *(Image.Transpose.TRANSPOSE, Image.Transpose.ROTATE_270, Image.Transpose.TRANSVERSE, Image.Transpose.ROTATE_90),
)


def decoded(raw: bytes, largest: int = PIXELS) -> Image.Image:
    """The first frame of an image, upright, of mode L or RGB. What is transparent lies on white."""
    image = load_image(raw, largest)
    with in_words(largest):
        return upright(image)


def load_image(raw: bytes, largest: int = PIXELS) -> Image.Image:
    """The first frame of an image as it was stored, read to its end."""
    if not raw:
        raise DamagedError("the file is empty (0 bytes)")
    with in_words(largest):
        image: Image.Image = Image.open(io.BytesIO(raw), formats=FORMATS)
        check_size(image.width, image.height, largest)
        if image.format == "PNG":
            image.verify()  # its checksums, which the decoder does not read
            image = Image.open(io.BytesIO(raw), formats=FORMATS)
        return known(image)


def check_and_load(image: Image.Image, largest: int = PIXELS) -> Image.Image:
    """The same of an image that somebody else has opened."""
    with in_words(largest):
        check_size(image.width, image.height, largest)
        return known(image)


def known(image: Image.Image) -> Image.Image:
    """Read to its end, of a kind that can be made simple: the first pixel shows it."""
    image.load()
    simple(part(image, (0, 0, 1, 1)))
    return image


def told_pixels(raw: bytes) -> int:
    """What the header promises; 0 of what cannot be read."""
    try:
        with Image.open(io.BytesIO(raw), formats=FORMATS) as image:
            return image.width * image.height
    except Exception:  # a decoder may raise anything; who reads it all will say what
        return 0


def upright(image: Image.Image) -> Image.Image:
    """Turned as the camera was held, of mode L or RGB."""
    turn = TURNS.get(orientation(image))
    image = simple(image)
    return image if turn is None else image.transpose(turn)


def upright_size(image: Image.Image) -> tuple[int, int]:
    """Width and height, once it is turned."""
    sideways = TURNS.get(orientation(image)) in SIDEWAYS
    return (image.height, image.width) if sideways else image.size


def channel(image: Image.Image, mode: str, i: int) -> Image.Image:
    """One of the upright image in this mode, as L. It is made in strips, so that beside the image itself only this one
    stands in memory."""
    turn, rows = TURNS.get(orientation(image)), max(STRIP // image.width, 1)
    page = Image.new("L", image.size)
    for top in range(0, image.height, rows):
        strip = part(image, (0, top, image.width, min(top + rows, image.height)))
        page.paste(convert_mode(simple(strip), mode).getchannel(i), (0, top))
    return page if turn is None else page.transpose(turn)


def part(image: Image.Image, box: tuple[int, int, int, int]) -> Image.Image:
    """A part that still knows what file it is from."""
    found = image.crop(box)
    found.format = image.format
    return found


@contextmanager
def in_words(largest: int) -> Iterator[None]:
    """Whatever a decoder raises, as a reason."""
    try:
        yield
    except DamagedError:
        raise
    except UnidentifiedImageError:
        raise DamagedError(f"unsupported image format (supported: {', '.join(FORMATS)})") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise DamagedError(f"the image has more than {largest} pixels") from None
    except MemoryError:
        raise TransientError("not enough memory to decode the image") from None
    except Exception as error:  # a decoder may raise anything: struct.error, SyntaxError, IndexError ...
        raise DamagedError(f"the image is corrupt: {decode_error(error)}") from None


def check_size(width: int, height: int, largest: int) -> None:
    if width < 1 or height < 1:
        raise DamagedError(f"the image has {width} x {height} pixels")
    if width * height > largest:
        raise DamagedError(f"the image has {width} x {height} pixels, more than the limit of {largest}")


def orientation(image: Image.Image) -> int:
    """How the camera was held, 1 to 8. A file whose notes cannot be read is still an image: 1."""
    try:
        found = image.getexif().get(ExifTags.Base.Orientation)
    except Exception:  # as above
        return 1
    return found if isinstance(found, int) else 1


def is_simple(image: Image.Image) -> bool:
    """Whether ``upright`` has nothing to do."""
    return image.mode in ("L", "RGB") and "transparency" not in image.info and orientation(image) not in TURNS


def is_grey(image: Image.Image) -> bool:
    """Whether ``simple`` makes it L."""
    return image.mode in ("1", "L", "LA", "I", "F") or image.mode.startswith("I;16")


def simple(image: Image.Image) -> Image.Image:
    """Mode L or RGB, whatever it was."""
    if image.mode.startswith("I;16"):
        return high_byte(np.asarray(image))
    if image.mode == "I" and image.format in ("PNG", "PPM"):  # which have no more than 16 bits
        return high_byte(np.asarray(image))
    if image.mode in ("I", "F"):
        raise DamagedError(f"32-bit pixels (mode {image.mode}): the value of white is unknown")
    if image.mode in ("LA", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        ink = convert_mode(image, "RGBA")
        page = Image.new("RGB", image.size, "white")
        page.paste(ink, mask=ink.getchannel("A"))
        return convert_mode(page, "L" if is_grey(image) else "RGB")
    return convert_mode(image, "L" if is_grey(image) else "RGB")


def convert_mode(image: Image.Image, mode: str) -> Image.Image:
    """Without a copy where there is nothing to do."""
    return image if image.mode == mode else image.convert(mode)


def high_byte(values: np.ndarray) -> Image.Image:
    """16 bits to 8, as the decoder does it for colours; its own conversion of greys would cut them off at 255."""
    return Image.fromarray((values >> 8).astype(np.uint8))


def decode_error(error: Exception) -> str:
    text = (str(error).splitlines() or [""])[0][:100]
    return printable(text) if text and " at 0x" not in text else type(error).__name__
