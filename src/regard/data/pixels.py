"""One image file from anywhere, as upright pixels of 8 bits; or the reason why it cannot be used.

Everything is decoded to the end: the header of a file that was cut off is as good as that of a whole one. Nothing in a
file is believed before it is checked, and what the decoder says of a bad one is told without addresses and the like.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")  # no more: each decoder is a door
BYTES = 1 << 28  # of a file
PIXELS = 50_000_000  # of an image, which takes 4 bytes for each, and up to three times that while it is read

TURNS = {  # what undoes each way in which a camera may have been held
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class DamagedError(ValueError):
    """An image that cannot be used, and why."""


class PassingError(DamagedError):
    """One that may be gone the next time: a file that could not be read, or too little memory."""


def decoded(raw: bytes, largest: int = PIXELS) -> Image.Image:
    """The first frame of an image, upright, of mode L or RGB. What is transparent lies on white."""
    if not raw:
        raise DamagedError("the file has 0 bytes")
    with in_words(largest):
        image: Image.Image = Image.open(io.BytesIO(raw), formats=FORMATS)
        check_size(image.width, image.height, largest)
        if image.format == "PNG":
            image.verify()  # its checksums, which the decoder does not read
            image = Image.open(io.BytesIO(raw), formats=FORMATS)
        return upright(image)


def taken(image: Image.Image, largest: int = PIXELS) -> Image.Image:
    """The same of an image that somebody else has opened."""
    with in_words(largest):
        check_size(image.width, image.height, largest)
        return upright(image)


def upright(image: Image.Image) -> Image.Image:
    """Read to its end, turned as the camera was held, of mode L or RGB."""
    image.load()
    turn = TURNS.get(orientation(image))
    image = simple(image)
    return image if turn is None else image.transpose(turn)


@contextmanager
def in_words(largest: int) -> Iterator[None]:
    """Whatever a decoder raises, as a reason."""
    try:
        yield
    except DamagedError:
        raise
    except UnidentifiedImageError:
        raise DamagedError(f"no image of a kind that can be read ({', '.join(FORMATS)})") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise DamagedError(f"the image has more than {largest} pixels") from None
    except MemoryError:
        raise PassingError("there was not enough memory to decode the image") from None
    except Exception as error:  # a decoder may raise anything: struct.error, SyntaxError, IndexError ...
        raise DamagedError(f"the image is damaged: {told(error)}") from None


def check_size(width: int, height: int, largest: int) -> None:
    if width < 1 or height < 1:
        raise DamagedError(f"the image has {width} x {height} pixels")
    if width * height > largest:
        raise DamagedError(f"the image has {width} x {height} pixels, more than {largest} in all")


def orientation(image: Image.Image) -> int:
    """How the camera was held, 1 to 8. A file whose notes cannot be read is still an image: 1."""
    try:
        found = image.getexif().get(ExifTags.Base.Orientation)
    except Exception:  # as above
        return 1
    return found if isinstance(found, int) else 1


def simple(image: Image.Image) -> Image.Image:
    """Mode L or RGB, whatever it was."""
    if image.mode.startswith("I;16"):
        return high_byte(np.asarray(image))
    if image.mode == "I" and image.format in ("PNG", "PPM"):  # which have no more than 16 bits
        return high_byte(np.asarray(image))
    if image.mode in ("I", "F"):
        raise DamagedError(f"pixels of 32 bits (mode {image.mode}): which value is white is not known")
    if image.mode in ("LA", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        ink = in_mode(image, "RGBA")
        page = Image.new("RGB", image.size, "white")
        page.paste(ink, mask=ink.getchannel("A"))
        return in_mode(page, "L" if image.mode in ("1", "L", "LA") else "RGB")
    return in_mode(image, "L" if image.mode in ("1", "L") else "RGB")


def in_mode(image: Image.Image, mode: str) -> Image.Image:
    """Without a copy where there is nothing to do."""
    return image if image.mode == mode else image.convert(mode)


def high_byte(values: np.ndarray) -> Image.Image:
    """16 bits to 8, as the decoder does it for colours; its own conversion of greys would cut them off at 255."""
    return Image.fromarray((values >> 8).astype(np.uint8))


def told(error: Exception) -> str:
    text = (str(error).splitlines() or [""])[0][:100]
    return printable(text) if text and " at 0x" not in text else type(error).__name__


def printable(text: str) -> str:
    """A foreign text for one line of a report."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
