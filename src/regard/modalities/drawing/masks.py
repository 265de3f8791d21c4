"""A mask: a picture that is white where an image is drawn anew.

Shapes: H, W of the image.
"""

import torch
from PIL import Image
from torch import Tensor

from regard.data.faults import DamagedError
from regard.errors import InputError
from regard.modalities.images.classifier import image_path
from regard.modalities.images.pixels import check_and_load, load_image, upright
from regard.modalities.inputs import Picture

WHITE = 128  # from this level on, a pixel is white


def mask_of(mask: Picture, rows: int, columns: int) -> Tensor:
    """At the size of the image, by the nearest pixel, so that no edge is soft.  -> (1, 1, H, W) bool"""
    grey = picture_of(mask).convert("L").resize((columns, rows), Image.Resampling.NEAREST)
    levels = torch.frombuffer(bytearray(grey.tobytes()), dtype=torch.uint8)
    redraw = (levels >= WHITE).view(1, 1, rows, columns)
    if not redraw.any():
        raise InputError(
            "the mask has no white pixels, so nothing would be drawn",
            expected="white where the image is drawn anew, black where it stays",
        )
    return redraw


def picture_of(mask: Picture) -> Image.Image:
    if isinstance(mask, Image.Image):
        return check_and_load(mask)
    path = image_path(mask)
    if not path.is_file():
        raise InputError("file not found", got=str(path), expected="an image file, white where it is drawn anew")
    try:
        return upright(load_image(path.read_bytes()))
    except DamagedError as error:
        raise InputError("the mask cannot be read as an image", where=str(path), got=str(error)) from None
