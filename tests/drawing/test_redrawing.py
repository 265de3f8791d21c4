"""A part of a drawn image, drawn anew: as Python has it, and as it comes over the border."""

import base64
import io
from typing import Any

import pytest
import torch
from PIL import Image
from pydantic import ValidationError

from regard.contracts.reach import model_of
from regard.errors import InputError
from regard.modalities.drawing.page import MASK_ADDRESS, PromptInput
from regard.modalities.drawing.redrawing import Redrawing
from regard.modalities.drawing.settings import Drawing
from regard.modalities.page_input import InputContext
from regard.model import Model


@pytest.fixture(scope="module")
def model() -> Model:
    torch.manual_seed(1)
    model = model_of("diffusion")
    with torch.no_grad():
        for parameter in model.net.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def mask(size: int = 8, white: int = 4) -> Image.Image:
    """White on the left."""
    found = Image.new("L", (size, size), 0)
    found.paste(255, (0, 0, white, size))
    return found


def address(image: Image.Image, kind: str = "png") -> str:
    file = io.BytesIO()
    image.save(file, kind)
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"


def asked(**more: Any) -> dict[str, Any]:
    return {"kind": "prompt", "text": "b", "seed": 2, "mask": address(mask()), "of": {"text": "a b", "seed": 1}} | more


def test_what_is_black_stays_as_it_is_in_the_image_of_the_other_text_and_seed(model: Model) -> None:
    found = model.look("b", 2, Redrawing(mask(), "a b", 1))  # type: ignore[arg-type]
    kept = model.draw("a b", how=Drawing(seed=1))[0].pixels
    drawn = found.answer.drawn.pixels
    assert torch.equal(drawn[:, :, 4:], kept[:, :, 4:])
    assert not torch.equal(drawn[:, :, :4], kept[:, :, :4])
    how = Drawing(seed=2, init=model.draw("a b", how=Drawing(seed=1))[0].image, mask=mask())
    assert torch.equal(drawn, model.draw("b", how=how)[0].pixels), "the same as with --init and --mask"


def test_what_is_looked_at_tells_itself_so_that_it_can_be_asked_for_again(model: Model) -> None:
    """Also with a mask of another size, which is told at that of the image."""
    first = model.look(*PromptInput.model_validate(asked(mask=address(mask(64, 32)))).given(InputContext(model)))
    record = first.example.record()
    again = model.look(*PromptInput.model_validate(record).given(InputContext(model)))
    assert again.example.record() == record
    assert record["of"] == {"text": "a b", "seed": 1}
    assert torch.equal(first.answer.drawn.pixels, again.answer.drawn.pixels)
    with Image.open(io.BytesIO(base64.b64decode(record["mask"].partition(",")[2]))) as told:
        assert told.tobytes() == mask().tobytes()


@pytest.mark.parametrize(
    "more",
    [
        {"of": None},
        {"mask": None},
        {"of": {"text": "a", "seed": -1}},
        {"of": {"text": "a" * 5000, "seed": 1}},
        {"of": {"text": "a", "seed": 1, "mask": ""}},
        {"mask": address(mask(), "gif")},
        {"mask": "https://example.org/mask.png"},
        {"mask": "data:image/png;base64," + "A" * MASK_ADDRESS},
    ],
)
def test_what_is_no_such_input(more: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        PromptInput.model_validate(asked(**more))


@pytest.mark.parametrize(
    ("png", "told"),
    [
        ("data:image/png;base64,AAAA", "the mask cannot be used"),
        ("data:image/png;base64,", "the mask cannot be used"),
        (address(Image.new("L", (2048, 2048))), "the mask cannot be used"),
        (address(mask(8, 0)), "no white pixels"),
    ],
)
def test_masks_that_cannot_be_used(model: Model, png: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        model.look(*PromptInput.model_validate(asked(mask=png)).given(InputContext(model)))


def test_the_other_text_has_the_limit_of_all_texts(model: Model) -> None:
    long = PromptInput.model_validate(asked(of={"text": "a " * 2000, "seed": 1}))
    with pytest.raises(InputError, match="too many tokens"):
        long.given(InputContext(model, changes=[object()]))  # type: ignore[list-item]
    with pytest.raises(InputError, match="not a Redrawing"):
        model.look("a", 1, "b")
