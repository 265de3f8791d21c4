"""Drawing on the page: a text and a seed are given, the image and what each word did in each step come back."""

from typing import Any

import pytest
import torch

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
