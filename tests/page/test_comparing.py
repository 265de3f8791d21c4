"""Two maps side by side: what can be subtracted, about which words, and what both models say.

After every test the fixture asks that nothing was written to the console and that no other host was asked.
"""

from pathlib import Path

import numpy as np

import regard

from .conftest import Open, until
from .viewing import ran

DOG = "She has never seen such a big dog in her life."
COMPARED = "#model=tatoeba-en-de&view=compare&row=6&column=7"
FINDING = "document.querySelector('.pair-text .prose').textContent"


def test_maps_of_one_shape_over_other_words_are_refused_in_words(open_page: Open):
    page = open_page(f"{COMPARED}&site=encoder.0.mixer&head=0&with=decoder.1.cross:0")
    until(page, f"{FINDING}.includes('cannot be subtracted')")
    told = page.inner_text(".pair-text .prose")
    assert "the rows are source in the first and written in the second" in told
    assert "minus" not in page.inner_text(".stage h2")
    assert "cannot be subtracted" in page.inner_text(".stage .kind")
    page.select_option('select[aria-label="Second map"]', "encoder.1.mixer 2")
    until(page, "document.querySelector('.stage h2').textContent === 'Encoder 0, head 0 minus encoder 1, head 2'")
    assert "Largest difference" in page.inner_text(".pair-text .prose")


def test_both_models_are_given_the_same_words_and_both_answers_are_shown(open_page: Open, tmp_path: Path):
    page = open_page(f"{COMPARED}&site=decoder.1.cross&head=2&other=attention:strided")
    until(page, "document.querySelector('.stage h2').textContent.includes('minus strided')")
    model = regard.load("tatoeba-en-de")
    other = regard.swapped(model, "strided")
    sides = page.locator(".comparison .answer-side").all_inner_texts()
    written = [one.look(DOG).answer.text for one in (model, other)]
    assert written[0] != written[1]
    for side, name, text in zip(sides, ("tatoeba-en-de", "strided"), written, strict=True):
        assert name in side
        assert text in side
    one, two = (x.maps["decoder.1.cross"].weights[0, 2] for x in (model.look(DOG), other.look(DOG, written[0])))
    shown = page.inner_text(".stage-foot .readout b")
    assert shown == f"{100 * float((one - two)[6, 7]):+.1f} points".replace("-", "−")
    page.keyboard.press("p")
    until(page, "document.querySelector('.said').textContent === 'Python copied'")
    found = ran(page.evaluate("navigator.clipboard.readText()"), tmp_path)
    assert np.allclose(found["difference"].detach(), (one - two).detach(), atol=1e-6)
