"""Images as a medium."""

from typing import TYPE_CHECKING

from regard.modalities.medium import Medium

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".pgm", ".ppm", ".pbm")
IMAGE = Medium(
    "image",
    "images",
    example="regard.modalities.images.runners:example",
    sample="regard.modalities.images.medium:sample",
    argument="file",
    recognize="regard.modalities.images.storing:are_images",
    endings=SUFFIXES,
    student="regard.modalities.images.teaching:same_images",
)


def sample() -> "Image":
    from PIL import Image

    return Image.new("RGB", (24, 24), (196, 62, 40))
