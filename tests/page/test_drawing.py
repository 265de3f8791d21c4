"""Drawing on the page: a text and a seed are given, the image and what each word did in each step come back."""

import base64
import io
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.contracts.reach import model_of
from regard.serve.limits import Limits

from .conftest import Open, live, until


@pytest.fixture(scope="module")
def served_drawer(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    runs = tmp_path_factory.mktemp("drawing")
    (runs / "small").mkdir()
    (runs / "small" / "run.toml").write_text("")
    model = model_of("diffusion")
    model.net.load_state_dict({name: x + 0.3 * torch.randn_like(x) for name, x in model.net.state_dict().items()})
    regard.save(model, runs / "small" / "model")
    yield from live(runs, Limits())


def test_a_text_is_drawn_step_by_step(open_page: Open, served_drawer: str) -> None:
    page = open_page(f"{served_drawer}/#model=run:small")
    until(page, "document.querySelector('.answer img.drawn') !== null")
    first = page.get_attribute(".answer img.drawn", "src")
    assert page.input_value(".ask-prompt").startswith("a large red circle")
    slider = page.locator("input[type=range]").first
    assert int(slider.get_attribute("max") or 0) == 19
    page.fill(".ask-prompt", "a b")
    page.keyboard.press("Enter")
    until(page, f"document.querySelector('.answer img.drawn')?.src !== {first!r}")
    until(page, "location.hash.includes('text=a+b')")
    page.click("text=Next seed")
    until(page, "location.hash.includes('seed=2')")


def test_a_word_is_shown_over_the_image(open_page: Open, served_drawer: str) -> None:
    """The mean of all layers and heads at the step, beside the chosen head; both change with the word and the step."""
    page = open_page(f"{served_drawer}/#model=run:small&text=a+b&seed=1")
    until(page, "document.querySelectorAll('.word-maps figure').length === 2")
    mean = "document.querySelector('.word-maps canvas').toDataURL()"
    assert "mean of 7 layers" in page.inner_text(".word-maps")
    page.locator(".strip-token").nth(0).click()
    until(page, "document.querySelector('.word-view mark').textContent === '<begin>'")
    page.wait_for_timeout(200)
    begin = page.evaluate(mean)
    page.locator(".strip-token").nth(1).click()
    until(page, "document.querySelector('.word-view mark').textContent === 'a'")
    until(page, f"{mean} !== {begin!r}")
    last = page.evaluate(mean)
    page.click("[aria-label='previous step']")
    until(page, f"{mean} !== {last!r}")


def test_a_part_is_painted_and_drawn_anew(open_page: Open, served_drawer: str) -> None:
    page = open_page(f"{served_drawer}/#model=run:small&text=a+b&seed=1")
    until(page, "document.querySelector('.answer img.drawn') !== null")
    source = "document.querySelector('.answer img.drawn')?.src"
    first = page.evaluate(source)
    assert not page.is_visible("text=Whole image")
    page.click("text=Redraw a part…")
    assert page.get_attribute(".pad-behind", "src") == first, "what is painted on is the image"
    box = page.locator("dialog[open] .pad").bounding_box()
    page.mouse.move(box["x"] + 60, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 120, box["y"] + 60, steps=4)
    page.mouse.up()
    page.click("dialog[open] >> text=Run")
    until(page, f"{source} !== {first!r}")
    until(page, "['seed=2', 'mask=', 'from=1'].every((one) => location.hash.includes(one))")
    before, after = (pixels_of(one) for one in (first, page.evaluate(source)))
    changed = (before != after).any(-1)
    assert changed.any()
    assert not changed[4:].any(), "below what was painted everything stays"
    address = page.url
    again = open_page(address)
    until(again, f"{source} === {page.evaluate(source)!r}")
    page.click("text=Whole image")
    until(page, "!location.hash.includes('mask=')")


def pixels_of(address: str) -> Any:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))))
