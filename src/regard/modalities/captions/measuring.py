"""How good captions are, held against all that an image has."""

from dataclasses import asdict

import numpy as np
import torch

from regard.data.rows import Rows
from regard.decode.settings import Decoding
from regard.modalities.inputs import ModelView
from regard.modalities.run_parts import Scores
from regard.modalities.text.bleu import bleu_of_several
from regard.modalities.text.measuring import bleu_lines

from .captioned import CaptionedImages
from .runners import describer

TOGETHER = 32  # images that are described at once


def measure_captions(model: ModelView, rows: Rows, decoding: Decoding) -> Scores:
    """Of what the model says of each image, once, however many captions it has."""
    images, several = model.processor.images, [[i] for i in range(len(rows))]
    if isinstance(rows, CaptionedImages):
        several, rows = list(rows.by_image().values()), rows.some(np.arange(len(rows)), images)
        captions = [rows.caption(i) for i in range(len(rows))]
    else:
        captions = [rows[i].caption for i in range(len(rows))]
    model.net.eval()
    describing = describer(model)
    said: list[str] = []
    references: list[list[str]] = []
    for start in range(0, len(several), TOGETHER):
        some = several[start : start + TOGETHER]
        pixels = images.normalise(torch.stack([rows[own[0]].image for own in some]))
        said += [found[0].text if found else "" for found in describing.told(pixels, decoding, start)]
        references += [[captions[i] for i in own] for own in some]
    found = bleu_of_several(said, references)
    return Scores({"described": asdict(found)}, tuple(bleu_lines(found)))
