"""The tour, the candy jar, the gallery; accessibility and long inputs.

After every test the fixture asks that nothing was written to the console and that no other host was asked.
"""

from urllib.parse import quote_plus, urlencode

import pytest
import torch

from regard.nn.attention import Softmax
from regard_lectures.looking import candies

from .conftest import Open, until
from .viewing import SENTENCE, STORY, hash_of


def test_the_tour_speaks_of_the_numbers_on_the_screen(open_page: Open):
    page = open_page("#model=recall&site=blocks.1.mixer&head=1&row=6&column=1")
    page.click("[data-part=tour]")
    page.wait_for_selector(".tour:not([hidden])")
    texts = []
    for _ in range(10):
        texts.append(page.inner_text(".tour .prose"))
        page.click(".tour .strong")
    assert page.locator(".tour").is_hidden()
    assert len(set(texts)) == 10
    product = page.inner_text('[data-step="product"] b').replace("−", "-")
    assert any(product in text.replace("−", "-") for text in texts)


def test_the_tour_walks_through_the_sentences_of_the_lectures(open_page: Open):
    page = open_page("#model=tatoeba-en-de&text=My+dog+is+big.")
    page.click("[data-part=tour]")
    assert page.locator(".tour-examples button").count() == 5
    page.click("text=The server is crashed.")
    until(page, "document.querySelector('#sentence').value === 'The server is crashed.'")
    until(page, "document.querySelector('.tour-count').textContent === '1 of 10'")
    page.click(".tour .strong")
    until(page, "document.querySelector('.tour-count').textContent === '2 of 10'")
    assert page.locator(".tour-examples").is_hidden()
    assert hash_of(page)["text"] == "The server is crashed."


def test_the_tour_fits_a_narrow_screen(open_page: Open):
    page = open_page("#model=tatoeba-en-de&text=My+dog+is+big.", width=360)
    page.click("[data-part=tour]")
    page.wait_for_selector(".tour-examples button")
    for name in ("Next", "Close"):
        box = page.get_by_role("button", name=name, exact=True).bounding_box()
        assert 0 <= box["x"] <= 360 - box["width"], name
        assert 0 <= box["y"] <= 900 - box["height"], name


def test_candies_look_as_the_library_does(open_page: Open):
    page = open_page("#model=recall")
    page.click('.candy-corner [data-value="neighbours"]')
    page.fill(".candy-corner input[type=range]", "-1")
    page.click("text=mask candies")
    page.click(".candy >> nth=3")
    found = page.eval_on_selector(".candy-corner", "(one) => one.numbers")
    vectors = torch.tensor(found["vectors"], dtype=torch.float64)
    assert (vectors - candies.vectors("neighbours")).abs().max() < 1e-12  # the jar of figure 11.7
    keep = torch.arange(24) != 3
    weights = Softmax(scale=0.5 / 0.5).weights(vectors[None, None, 2:3], vectors[None, None, keep])[0, 0, 0]
    shown = torch.tensor(found["weights"], dtype=torch.float64)
    assert shown[3] == 0
    assert (shown[keep] - weights).abs().max() < 1e-6
    page.fill(".lookup input >> nth=0", "1")
    assert "k1" in page.inner_text(".lookup .part-line >> nth=1")


def test_the_gallery_is_searched(open_page: Open):
    page = open_page("#model=recall")
    page.locator("#gallery").scroll_into_view_if_needed()
    page.wait_for_selector(".figure")
    assert page.locator(".figure").count() == 12
    page.fill(".gallery input", "who knows what is near")
    assert page.locator(".figure").count() == 1
    assert (page.text_content(".figure .badge") or "").startswith(("confirmed", "partly", "contradicted"))
    until(page, "document.querySelector('.figure img').naturalWidth > 0")
    page.fill(".gallery input", "")
    page.select_option(".gallery select", "conclusions")
    assert page.locator(".figure").count() == 5
    assert "Outside of context window" in (page.text_content(".figures") or "")  # also of what is not in view


@pytest.mark.parametrize(
    ("view", "width", "dark"),
    [
        (SENTENCE, 360, False),
        (SENTENCE, 360, True),
        (SENTENCE, 1280, True),
        (SENTENCE, 1600, False),
        (f"#model=recall&text={quote_plus(STORY)}&changes=t.tokens.1&tab=spectrum", 360, False),
        ("#model=digits&changes=T.*.2.00&tab=rollout", 1280, True),
    ],
)
def test_axe_finds_nothing_and_nothing_scrolls_sideways(open_page: Open, axe: str, view: str, width: int, dark: bool):
    page = open_page(view, width=width, dark=dark)
    page.locator("#gallery").scroll_into_view_if_needed()
    page.wait_for_selector(".figure")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    told = [
        (one["id"], one["nodes"][0]["html"][:200], one["nodes"][0]["failureSummary"]) for one in found["violations"]
    ]
    assert told == []


@pytest.mark.parametrize("letters", [640, pytest.param(2040, marks=pytest.mark.slow)])
def test_a_long_input_stays_smooth(open_page: Open, letters: int):
    text = ("To be, or not to be, that is the question. " * 60)[:letters].strip()
    view = urlencode(
        {"model": "run:long", "text": text, "site": "blocks.3.mixer", "head": 5, "row": 500, "column": 490}
    )
    page = open_page(f"#{view}", calm=False)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(500)
    times = page.evaluate(
        """async () => {
        const canvas = document.querySelector('.stage-body canvas');
        const box = canvas.getBoundingClientRect();
        const spent = [];
        canvas.focus();
        for (let step = 0; step < 90; step += 1) {
          await new Promise(requestAnimationFrame);
          const start = performance.now();
          const place = { clientX: box.left + 80 + 4 * step, clientY: box.top + 80 + 4 * step, bubbles: true };
          canvas.dispatchEvent(new PointerEvent('pointermove', place));
          const pressed = { key: step < 45 ? '+' : '-', bubbles: true, cancelable: true };
          if (step % 10 === 5) canvas.dispatchEvent(new KeyboardEvent('keydown', pressed));
          await Promise.resolve();
          await Promise.resolve();
          spent.push(performance.now() - start);
        }
        return spent.sort((first, second) => first - second);
      }"""
    )
    assert times[len(times) // 2] < 16, "a frame of hovering leaves time for 30 a second"
    whole = [url for url in asked if "/maps/" in url and "level=" not in url]
    assert whole == []
    assert len([url for url in asked if "/maps/" in url]) <= 4
    page.hover(".stage-body canvas", position={"x": 300, "y": 400})
    until(page, "/^[0-9.]+/.test(document.querySelector('.stage-foot .readout b').textContent)")
