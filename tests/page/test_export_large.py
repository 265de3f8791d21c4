"""A map of many positions goes out as one embedded picture."""

import base64
import io
import re
from pathlib import Path
from urllib.parse import quote_plus

import numpy as np
from PIL import Image

import regard

from .conftest import Open

TEXT = ("To be, or not to be, that is the question: " * 3)[:120]


def test_a_large_map_is_exported_with_its_weights(open_page: Open, tmp_path: Path) -> None:
    page = open_page(f"#model=shakespeare&text={quote_plus(TEXT)}&site=blocks.1.mixer&head=0&scale=linear")
    with page.expect_download() as caught:
        page.click("[data-action=svg]")
    caught.value.save_as(tmp_path / "map.svg")
    (code,) = re.findall(r'href="data:image/png;base64,([^"]+)"', (tmp_path / "map.svg").read_text("utf8"))
    picture = Image.open(io.BytesIO(base64.b64decode(code)))
    weights = regard.load("shakespeare").look(TEXT).maps["blocks.1.mixer"].weights[0, 0].detach().numpy()
    size = len(weights)
    assert size > 96, "smaller ones are drawn cell by cell"
    pixels = np.asarray(picture.convert("RGBA").resize((size, size), Image.Resampling.BOX), dtype=float)
    assert pixels[..., 3].min() == 255, "every cell is painted"
    darkness = 255 - pixels[..., :3].mean(-1)
    strong, weak = weights > 0.5, weights < 0.01
    assert strong.sum() > 5
    assert darkness[strong].min() > darkness[weak].max()
