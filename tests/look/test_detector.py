"""Asking a detector: how sure it is of the surest thing that it found, or of what one query says."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from regard.errors import InputError
from regard.look.changes import Head
from regard.look.trace import Trace
from regard.modalities.boxes.examples import Boxes, surest
from regard.modalities.images.processor import Images
from regard.model import Model
from regard.models.detr import DETR, Config
from regard.nn.tap import listen

SMALL = Config(
    width=4, stem="small", layer="basic", depths=(1, 1, 1), dims=(4, 6, 8), classes=3, queries=5, dim=16, depth=2,
    heads=2, hidden=12, dropout=0.0, attention_dropout=0.0, hidden_dropout=0.0,
)  # fmt: skip
NAMES = ("cube", "ball", "cone")
PLACE = (2, 1)  # of 4 x 4 patches, the row and column of the only thing


def detector(loud: float) -> Model:
    """Of random weights; the louder, the surer of itself."""
    torch.manual_seed(3)
    net = DETR(SMALL).eval()
    with torch.no_grad():
        net.label.weight.mul_(loud)
    return Model("detr", net, Images(size=16), "detect", labels=NAMES)


def picture() -> Image.Image:
    pixels = np.zeros((16, 16, 3), np.uint8)
    pixels[4 * PLACE[0] : 4 * PLACE[0] + 4, 4 * PLACE[1] : 4 * PLACE[1] + 4] = (255, 200, 40)
    return Image.fromarray(pixels)


@pytest.fixture(scope="module")
def found() -> Trace[Any]:
    return detector(8.0).look(picture())


def sure(trace: Trace[Any], output: Any, query: int | None = None) -> float:
    """The log-probability of the likeliest thing of a query, by hand; unless told, of the surest."""
    chances = trace.output.logits[0].double().softmax(-1)[:, :-1]
    query = int(chances.amax(1).argmax()) if query is None else query
    return float(output.logits[0, query].double().log_softmax(-1)[chances[query].argmax()])


def test_the_surest_thing_is_asked_about(found: Trace[Any]) -> None:
    best = found.answer.found[0]
    assert len(found.answer.found) > 1
    assert best.score == max(thing.score for thing in found.answer.found)
    assert sure(found, found.output) == pytest.approx(np.log(best.score), abs=1e-5)
    for name in ("occlusion", "gradient", "importance"):
        told = json.loads(json.dumps(found.ask(name), allow_nan=False))
        assert told["what"] == best.label


def test_what_lies_under_the_thing_is_worth_most(found: Trace[Any]) -> None:
    told = found.ask("occlusion", patch=4)
    worth = np.array(told["worth"])
    assert worth.shape == (4, 4)
    assert np.unravel_index(np.abs(worth).argmax(), worth.shape) == PLACE
    (image,) = found.example.inputs
    for row, column in (PLACE, (0, 3)):
        covered = image.clone()
        covered[..., 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = image.mean((-2, -1), keepdim=True)
        with torch.no_grad():
            lost = sure(found, found.output) - sure(found, found.net(covered))
        assert worth[row, column] == pytest.approx(lost, abs=1e-4)


@pytest.mark.parametrize("query", [None, 1])
@pytest.mark.parametrize("site", ["encoder.1.mixer", "decoder.1.cross"])
def test_a_slope_is_that_of_a_weight_that_is_moved(found: Trace[Any], site: str, query: int | None) -> None:
    told = np.array(found.ask("gradient", site=site, head=1, row=query)["map"])
    row, column = (int(i) for i in np.unravel_index(np.abs(told).argmax(), told.shape))
    weight, answers, step = float(found.maps[site].weights[0, 1, row, column]), [], 1e-2

    def moved(by: float) -> Any:
        def hear(_: str, x: torch.Tensor) -> torch.Tensor:
            x = x.clone()
            x[0, 1, row, column] += by
            return x

        return hear

    for by in (step, -step):
        with torch.no_grad(), listen(found.net, f"{site}.weights", moved(by)):
            answers.append(sure(found, found.net(*found.example.inputs), query))
    assert abs(told[row, column]) > 1e-4
    assert told[row, column] == pytest.approx(weight * (answers[0] - answers[1]) / (2 * step), rel=0.03)
    if query is not None and site == "decoder.1.cross":  # the last look of one query is of no weight for another
        assert not np.delete(told, query, axis=0).any()


@pytest.mark.parametrize("query", [None, 4])
def test_a_head_is_worth_what_is_lost_without_it(found: Trace[Any], query: int | None) -> None:
    told = found.ask("importance", row=query)["sites"]
    assert set(told) == set(found.sites)
    for site in found.sites:
        for head in range(2):
            silent = found.change(Head(site, head)).output
            lost = sure(found, found.output, query) - sure(found, silent, query)
            assert told[site][head] == pytest.approx(lost, abs=1e-4), (site, head)
    assert max(abs(x) for one in told.values() for x in one) > 0.01


def test_a_query_that_is_not_told_can_be_asked() -> None:
    quiet = detector(0.1).look(picture())
    assert not quiet.answer.found
    with pytest.raises(InputError, match="no object was detected"):
        quiet.ask("importance")
    chances = quiet.output.logits[0].softmax(-1)[:, :-1]
    assert quiet.ask("importance", row=2)["what"] == NAMES[int(chances[2].argmax())]
    for odd in (5, -1):
        with pytest.raises(InputError, match="query index out of range"):
            quiet.ask("occlusion", row=odd)


def test_patches_have_a_distance_and_queries_none(found: Trace[Any]) -> None:
    told = found.ask("distance")
    assert told["unit"] == "patches"
    assert list(told["sites"]) == ["encoder.0.mixer", "encoder.1.mixer"]


def test_boxes_tell_whose_pixels_they_are_in(found: Trace[Any]) -> None:
    wide = detector(8.0).look(picture().resize((160, 80)))
    assert isinstance(found.answer, Boxes)
    assert isinstance(wide.answer, Boxes)
    assert (found.answer.size, wide.answer.size) == ((16, 16), (16, 16))


def test_the_surest_query_is_the_one_that_is_surest_of_a_thing() -> None:
    """Being sure of nothing, the last class, does not count."""
    logits = torch.tensor([[0.0, 0.0, 0.0, 9.0], [1.0, 0.0, 0.0, 0.0], [0.0, 4.0, 0.0, 0.0]])
    assert surest(logits) == 2
    assert surest(logits.flip(0)) == 0
