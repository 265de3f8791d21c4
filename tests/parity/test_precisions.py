"""A checkpoint in float64 keeps every bit, and its images enter in its precision."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from tests.parity.references import reference
from tests.parity.twins import saved

SEEN = {"image_processor_type": "ViTImageProcessor", "size": 12}
FOUND = {"image_processor_type": "DetrImageProcessor", "size": {"shortest_edge": 20, "longest_edge": 30}}
NUMBERS = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}


@pytest.mark.parametrize("case", ["vit", "resnet", "swin", "perceiver-learned", "detr"])
def test_images_for_weights_in_float64(case: str, tmp_path: Path) -> None:
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 24, 3), np.uint8))
    narrow, wide = (saved(reference(case).to(x), tmp_path / str(x)) for x in (torch.float32, torch.float64))
    for folder in (narrow, wide):
        side = 6 if case == "perceiver-learned" else 12
        said = FOUND if case == "detr" else SEEN | {"size": side}
        (folder / "preprocessor_config.json").write_text(json.dumps(said | NUMBERS))
    models = [regard.load(folder) for folder in (narrow, wide)]
    assert {x.dtype for x in models[1].parameters()} == {torch.float64}
    if case == "detr":
        one, two = (model.detect(image, threshold=0.0).things for model in models)
        found = [[(thing.kind, thing.score) for thing in things] for things in (one, two)]
    else:
        found = [list(model.classify(image).ranked) for model in models]
    for (label, chance), (other, likely) in zip(*found, strict=True):
        assert label == other
        assert chance == pytest.approx(likely, abs=1e-5)
    if case in ("vit", "swin", "detr"):
        assert models[1].look(image).maps
