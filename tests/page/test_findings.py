"""Analyses on the page: what they say, measured, and what they do not tell.

After every test the fixture asks that nothing was written to the console and that no other host was asked.
"""

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import numpy as np
import pytest
import torch

import regard

from .conftest import Open, until
from .viewing import SENTENCE, STORY


def test_analyses_tell_what_they_do_not_tell(open_page: Open):
    page = open_page("#model=recall&site=blocks.1.mixer&head=1&row=6&column=1")
    page.locator(".analysis").scroll_into_view_if_needed()
    for number, name in enumerate(
        ("rollout", "flow", "distance", "spectrum", "occlusion", "gradient", "importance", "lens"), 1
    ):
        page.keyboard.press(str(number))
        until(
            page,
            f"document.querySelector('.tabs [aria-selected=true]').dataset.tab === '{name}' && "
            "!document.querySelector('.analysis [aria-busy]')",
        )
        assert "What it does not show" in page.inner_text(".limit"), name
        assert page.locator(".plot-holder > *").count() == 1


def test_weights_of_both_signs_are_no_shares(open_page: Open, tmp_path: Path):
    """Linformer's map has weights below 0: they are seen, on a ramp with two ends, and never written in percent."""
    page = open_page("#model=linformer-tiny&site=blocks.1.mixer&head=0&row=22&column=19", allow="422")  # no rollout
    assert "Signed weights" in page.inner_text(".stage .kind")
    assert page.inner_text(".stage .legend-ticks").split() == ["−0.1", "0", "+0.1"]
    assert page.locator(".stage .choices[aria-label='Colour scale']").is_hidden()
    for part in (".stage-foot .readout", ".cell", ".strip-caption"):
        assert "%" not in page.inner_text(part), part
    for ending in ("csv", "svg"):
        with page.expect_download() as caught:
            page.click(f"[data-action={ending}]")
        caught.value.save_as(tmp_path / f"map.{ending}")
    lines = (tmp_path / "map.csv").read_text(encoding="utf8").splitlines()[1:]
    weights = np.array([line.rsplit(",", len(lines))[1:] for line in lines], dtype=float)
    fills = re.findall(r'<rect x[^>]*fill="rgb\((\d+), (\d+), (\d+)\)"', (tmp_path / "map.svg").read_text("utf8"))
    shades = np.array(fills[: weights.size], dtype=float).reshape(*weights.shape, 3)
    assert weights.min() < 0
    red, _, blue = shades[np.unravel_index(weights.argmin(), weights.shape)]
    assert red > blue + 50
    red, _, blue = shades[np.unravel_index(weights.argmax(), weights.shape)]
    assert blue > red + 50
    assert page.locator(".strip-bar[data-below]").count() == (weights[22] < 0).sum()


def opened_tab(page: Any, number: int, name: str) -> str:
    """What an analysis says, when it has come."""
    page.keyboard.press(str(number))
    until(
        page,
        f"document.querySelector('.tabs [aria-selected=true]').dataset.tab === '{name}' && "
        "!document.querySelector('.analysis [aria-busy]')",
    )
    return str(page.inner_text(".analysis .prose"))


def test_a_detector_is_asked_about_the_chosen_query(open_page: Open):
    page = open_page("#model=detr-small&site=decoder.1.cross&head=1&row=5&column=14")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.partition("/analyses/")[2]))
    page.locator(".analysis").scroll_into_view_if_needed()
    told = opened_tab(page, 1, "rollout")
    assert told.startswith("Decoder 1, cross is not self-attention; this is the stack that it attends to.")
    assert "2 layers up to encoder 1" in told
    assert page.inner_text(".analysis .prose mark >> nth=0") == "patch 1, 2"  # the key: it is a row there
    for number, name in ((5, "occlusion"), (6, "gradient"), (7, "importance")):
        assert ", the most likely class of query 5" in opened_tab(page, number, name)
        assert page.locator(".plot-holder > *").count() == 1
        assert any(one.startswith(name) and "output=5" in one for one in asked), name
    page.click('.tile[aria-label="Encoder 0, head 0"]')
    until(page, "document.querySelector('.analysis .prose').textContent.includes('Select a head of the decoder')")


def test_what_ties_is_said_to_tie(open_page: Open):
    page = open_page(f"#model=recall&text={quote_plus(STORY)}&site=blocks.1.mixer&head=1&row=6&column=1")
    facts = {"name": "flow", "site": "blocks.1.mixer", "row": 6, "equation": "f", "limit": "It does not show x."}
    flow = [0.2, 0.2, 0.2, 0.1, 0.2, 0.0, 0.1]
    page.route("**/analyses/flow*", lambda route: route.fulfill(json=facts | {"flow": flow}))
    page.locator(".analysis").scroll_into_view_if_needed()
    assert "from Anna, 20.0\u202f%, tied with sings, ., paints." in opened_tab(page, 2, "flow")


def test_losses_of_log_probability_are_in_nats(open_page: Open):
    page = open_page("#model=recall&site=blocks.1.mixer&head=1&row=6&column=1")
    page.locator(".analysis").scroll_into_view_if_needed()
    for number, name in ((5, "occlusion"), (7, "importance")):
        assert re.search(r"[+−][0-9.]+ nats", opened_tab(page, number, name))
        assert page.locator(".analysis .plot .axis").last.text_content().endswith("in nats")


CONTRAST = """() => {
  const context = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  const light = (colour, over) => {
    for (const one of [over, colour]) { context.fillStyle = one; context.fillRect(0, 0, 1, 1); }
    const [red, green, blue] = [...context.getImageData(0, 0, 1, 1).data].map((byte) => {
      const part = byte / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const style = getComputedStyle(document.querySelector('.analysis .plot .curve.faint'));
  const ground = getComputedStyle(document.querySelector('.analysis')).backgroundColor;
  context.globalAlpha = 1;
  const under = light(ground, ground);
  const shown = Number(style.opacity) * light(style.stroke, ground) + (1 - Number(style.opacity)) * under;
  return (Math.max(shown, under) + 0.05) / (Math.min(shown, under) + 0.05);
}"""


@pytest.mark.parametrize("dark", [False, True])
def test_the_curve_of_the_mass_can_be_seen(open_page: Open, dark: bool):
    page = open_page("#model=recall&tab=spectrum", dark=dark)
    page.locator(".analysis").scroll_into_view_if_needed()
    page.wait_for_selector(".analysis .plot .curve.faint")
    assert page.evaluate(CONTRAST) >= 3


def test_an_answer_that_cannot_be_drawn_is_told_in_words(open_page: Open):
    """Heads without a number, layers that are left out, and an answer of another form: never an exception as text."""
    page = open_page("#model=recall&site=blocks.1.mixer&head=1&row=6&column=1", allow="TypeError")
    answer = {"name": "distance", "unit": "tokens", "equation": "D", "limit": "It does not show x."}
    asked: dict[str, Any] = {"sites": {"blocks.1.mixer": [None, 1.5, 2.5, 0.5]}}
    page.route("**/analyses/distance*", lambda route: route.fulfill(json=answer | asked))
    page.locator(".analysis").scroll_into_view_if_needed()
    page.keyboard.press("3")
    page.wait_for_selector(".analysis .dot")
    assert page.locator(".analysis .dot").count() == 3
    told = page.inner_text(".analysis .prose")
    assert "Heads without a value are omitted" in told
    assert "do not sum to 1: layer 0" in told
    assert "head 2: 2.50 tokens" in told
    until(page, "location.hash.includes('tab=distance')")  # the address is written with a delay
    for sites, words in (
        ({"blocks.1.mixer": [None]}, "No head has a value for this analysis"),
        (None, "cannot be drawn"),
    ):
        asked["sites"] = sites
        page.reload()
        page.wait_for_selector(".cell h2 mark")  # before, the panel is not yet where it will be
        page.locator(".analysis").scroll_into_view_if_needed()
        until(page, f"document.querySelector('.analysis .prose').textContent.includes('{words}')")
        assert page.locator(".analysis .plot-holder > *").count() == 0


def test_eigenvalues_are_drawn_in_falling_order(open_page: Open):
    page = open_page(f"#model=recall&text={quote_plus(STORY)}&site=blocks.1.mixer&head=1&row=6&column=1")
    page.locator(".analysis").scroll_into_view_if_needed()
    page.keyboard.press("4")
    page.wait_for_selector(".plot .dot.other")
    weights = regard.load("recall").look(STORY).maps["blocks.1.mixer"].weights[0, 1].detach()
    expected = torch.linalg.eigvals(weights).abs().sort(descending=True).values
    told = page.locator(".plot .dot.other title").all_text_contents()
    assert [float(one.partition(": ")[2]) for one in told] == pytest.approx(expected.tolist(), abs=1e-4)
    heights = page.eval_on_selector_all(".plot .dot.other", "(all) => all.map((one) => Number(one.getAttribute('cy')))")
    assert np.corrcoef(heights, expected)[0, 1] < -0.9999
    page.click(".analysis .behind summary")
    assert page.locator(".analysis .behind tbody tr >> nth=0").locator("td").last.inner_text() == f"{expected[0]:.4f}"
    page = open_page(SENTENCE)  # 13 words look at 13 others: a square by chance
    page.locator(".analysis").scroll_into_view_if_needed()
    page.keyboard.press("4")
    page.wait_for_selector(".plot .dot.faint")
    assert page.locator(".plot .dot.other").count() == 0
    assert "no eigenvalues" in page.inner_text(".analysis .prose")
