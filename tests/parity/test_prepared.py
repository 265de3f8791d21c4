"""Images are cut and scaled as the library of a checkpoint does it, to the pixel."""

import numpy as np
import pytest
import torch
from PIL import Image

from regard.interop import image_preparation
from regard.modalities.images.processor import Images
from tests.parity.theirs import transformers

NOISE = np.random.default_rng(0).integers(0, 256, (60, 60, 3), np.uint8)
NUMBERS = {"image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.25, 0.3], "resample": 0}


@pytest.mark.parametrize("sides", [(19, 16), (16, 23), (21, 20), (27, 19)])
def test_the_middle_is_theirs_to_the_pixel(sides: tuple[int, int]) -> None:
    """A margin of 3 or 7 pixels has no middle: transformers takes the pixel before it, timm the even one."""
    image = Image.fromarray(NOISE).resize(sides, Image.Resampling.NEAREST)
    said = {"size": {"shortest_edge": min(sides)}, "crop_size": 16} | NUMBERS
    told = image_preparation.from_transformers(said | {"image_processor_type": "CLIPImageProcessor"}, 3)
    assert told is not None
    theirs = transformers.CLIPImageProcessorPil(**said)(image, return_tensors="pt")["pixel_values"][0]
    ours = Images.from_data(told, "")
    torch.testing.assert_close(ours.normalise(ours.prepare(image)), theirs)
    both = Images(size=16, fit="crop", shorter=min(sides), filter="nearest")  # as timm's
    left, top = (round((side - 16) / 2) for side in sides)
    cut = np.asarray(image.crop((left, top, left + 16, top + 16)))
    assert np.array_equal(both.prepare(image).permute(1, 2, 0).numpy(), cut)
