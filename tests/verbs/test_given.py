"""What a verb is given in Python: texts, settings of decoding, images in memory; anything else is refused in words."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image

import regard
from regard.contracts.reach import model_of
from regard.decode.settings import given_or
from regard.errors import InputError
from regard.modalities.inputs import as_list

GREY = np.arange(64, dtype=np.uint8).reshape(8, 8)
COLOURED = np.stack([GREY, GREY[::-1], GREY.T], -1)

REFUSED: dict[str, tuple[Callable[[], Any], str, str]] = {
    "number": (lambda: regard.load("recall").generate(5), "the input is not a text", "int"),  # type: ignore[arg-type]
    "none": (lambda: regard.load("recall").generate(None), "the input is not a text", "NoneType"),  # type: ignore[arg-type]
    "one of several": (lambda: regard.load("recall").generate(["a", 3]), "an input is not a text", "int"),  # type: ignore[list-item]
    "streamed": (lambda: regard.load("recall").stream(None), "the input is not a text", "NoneType"),  # type: ignore[arg-type]
    "translated": (lambda: model_of("transformer").translate(None), "the input is not a text", "NoneType"),  # type: ignore[arg-type]
    "embedded": (lambda: model_of("bert").embed(7), "the input is not a text", "int"),  # type: ignore[arg-type]
    "settings": (lambda: given_or({"temperature": 1}, None), "decoding is not a Decoding", "dict"),  # type: ignore[arg-type]
    "decoding": (lambda: regard.load("recall").generate("a", decoding=1), "decoding is not a Decoding", "int"),  # type: ignore[arg-type]
    "model": (lambda: regard.load(None), "the name of a model is not a string", "NoneType"),  # type: ignore[arg-type]
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_text_and_no_setting_is_refused(what: str) -> None:
    call, told, got = REFUSED[what]
    with pytest.raises(InputError) as caught:
        call()
    assert (caught.value.what, caught.value.got) == (told, got)
    assert caught.value.expected


@pytest.mark.parametrize("family", ["vit", "detr", "captioner"])
def test_an_array_of_pixels_is_one_image(family: str) -> None:
    """As the same image of Pillow, in each verb and where it is looked at."""
    model = model_of(family)
    ask = getattr(model, model.verbs()[0])
    for pixels in (GREY, COLOURED, COLOURED[:, ::-1]):
        image = Image.fromarray(np.ascontiguousarray(pixels))
        assert repr(ask(pixels)) == repr(ask(image))
        assert repr(ask([pixels, image])) == repr(ask([image, image]))
        assert repr(model.look(pixels).answer) == repr(model.look(image).answer)


@pytest.mark.parametrize(
    ("array", "fix"),
    [(GREY / 255, "astype('uint8')"), (COLOURED[None], "as a list"), (COLOURED[..., :2], "PIL.Image.fromarray")],
)
def test_other_arrays_are_refused_with_what_to_do(array: Any, fix: str) -> None:
    for call in (lambda: model_of("vit").classify(array), lambda: model_of("vit").classify([array])):
        with pytest.raises(InputError) as caught:
            call()
        assert f"an array of type {array.dtype} and shape {array.shape}" in caught.value.got
        assert fix in caught.value.fix


def test_an_array_is_no_text() -> None:
    assert as_list(GREY) == [GREY]
    with pytest.raises(InputError, match="is not a text"):
        model_of("bert").embed(GREY)  # type: ignore[arg-type]
