"""Images made for the tests, and places for them."""

import io
import resource
from pathlib import Path

import numpy as np
from PIL import Image

from regard.modalities.images.processor import Images

NOISE = np.random.default_rng(0).integers(0, 256, (24, 40, 3)).astype(np.uint8)


PICTURE = Image.fromarray(NOISE)


GREY = PICTURE.convert("L")


def packed(image: Image.Image, kind: str = "PNG", exif: Image.Exif | None = None, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **(options | ({"exif": exif} if exif else {})))
    return file.getvalue()


WHOLE = {
    "png": packed(PICTURE),
    "grey.png": packed(GREY),
    "jpg": packed(PICTURE, "JPEG"),
    "flat.jpg": packed(Image.new("RGB", (40, 24), "red"), "JPEG"),
    "progressive.jpg": packed(PICTURE, "JPEG", progressive=True),
    "webp": packed(PICTURE, "WEBP"),
    "lossless.webp": packed(PICTURE, "WEBP", lossless=True),
    "gif": packed(PICTURE.convert("P"), "GIF"),
    "bmp": packed(PICTURE, "BMP"),
    "tif": packed(PICTURE, "TIFF"),
    "zip.tif": packed(PICTURE, "TIFF", compression="tiff_adobe_deflate"),
    "ppm": packed(PICTURE, "PPM"),
}


def peak(path: str) -> int:
    """Kilobytes that reading an image takes at most, in a process that has only just begun."""
    images = Images(size=32)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    images.read(Path(path))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
