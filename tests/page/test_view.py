"""From the sentence to one weight: the grid, the large map, the arithmetic, comparisons, the keyboard.

After every test the fixture asks that nothing was written to the console and that no other host was asked.
"""

import base64
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import numpy as np
import pytest

import regard
from regard.look.changes import Token
from regard.modalities.images.page import shapes

from .conftest import Open, until
from .viewing import SENTENCE, STORY, hash_of, ran

MARKED = """(names) => {
  const canvas = document.querySelector('.crosshair');
  const frame = canvas.getBoundingClientRect();
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  return names.map((name) => {
    const tile = document.querySelector(`.tile[aria-label="${name}, head 0"]`).getBoundingClientRect();
    const row = Math.round(tile.top - frame.top + tile.height / 2) * canvas.width;
    const start = row + Math.round(tile.left - frame.left);
    return pixels.data.subarray(4 * start, 4 * (start + Math.round(tile.width))).some((byte) => byte > 0);
  });
}"""


def test_a_sentence_is_translated_while_it_is_typed(open_page: Open):
    page = open_page()
    assert "Hund" in page.inner_text(".answer")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.method == "POST" else None)
    page.fill("#sentence", "")
    page.type("#sentence", "Where are my keys?", delay=15)
    until(page, "document.querySelector('.answer-text').textContent.includes('Schlüssel')")
    until(page, "[...document.querySelectorAll('.strip-text')].some((one) => one.textContent === 'keys')")
    assert len(asked) <= 3, "it waits for a pause, and does not send each letter"
    assert hash_of(page)["text"] == "Where are my keys?"


def test_from_the_grid_to_the_arithmetic_in_three_clicks(open_page: Open):
    page = open_page()
    page.click('.tile[aria-label="Encoder 2, head 1"]')  # 1: a head
    until(page, "document.querySelector('.stage h2').textContent === 'Encoder 2, head 1'")
    page.click('.stage-body canvas[role="application"]', position={"x": 240, "y": 200})  # 2: a cell, and there it is
    until(page, "document.querySelector('.cell .hint').textContent === 'Encoder 2, head 1'")
    both = [
        f"document.querySelector('{place}').textContent" for place in (".formula .result", ".stage-foot .readout b")
    ]
    until(page, " === ".join(both))  # when its numbers have come
    steps = page.eval_on_selector_all(".steps [data-step]", "(all) => all.map((one) => one.dataset.step)")
    assert steps == ["product", "scale", "softmax", "value"]
    assert "less than 1e-6" in page.inner_text(".steps .check")


def test_the_numbers_on_the_page_are_those_of_the_model(open_page: Open):
    page = open_page(f"#model=recall&text={quote_plus(STORY)}&site=blocks.1.mixer&head=2&row=6&column=1")
    weights = regard.load("recall").look(STORY).maps["blocks.1.mixer"].weights[0, 2]
    page.click(".stage > .behind summary")
    page.wait_for_selector(".stage table tbody td", state="attached")
    cells = page.eval_on_selector_all(".stage table tbody td", "(all) => all.map((one) => Number(one.textContent))")
    assert np.allclose(np.reshape(cells, weights.shape), weights.detach().numpy(), atol=6e-4)
    assert f"{100 * weights[6, 1].item():.1f}" in page.inner_text(".stage-foot .readout b")


def test_a_token_under_the_pointer_lights_up_everywhere(open_page: Open):
    page = open_page(SENTENCE)
    page.hover(".strip:not(.flat) .strip-token >> nth=3")
    assert page.evaluate(MARKED, ["Encoder 0", "Decoder 0, cross", "Decoder 0"]) == [True, True, False]
    assert "seen" in page.inner_text(".stage-foot .readout")
    assert page.eval_on_selector('.softmax [data-place="3"]', "(one) => one.hasAttribute('data-hover')")


def test_changes_put_the_new_answer_beside_the_old_one(open_page: Open):
    page = open_page(SENTENCE)
    page.click('.intervene [aria-label="mask dog"]')
    page.wait_for_selector(".echo ins")
    assert "Hund" in page.inner_text(".echo .answer-side >> nth=0")
    assert page.locator(".echo del").count() > 0
    page.click(".intervene .switch")
    until(page, "document.querySelector('.tile[data-off]')")
    until(page, "location.hash.includes('h.decoder.1.cross.2')")  # the address follows a moment later
    assert hash_of(page)["changes"] == "t.source.7~h.decoder.1.cross.2"
    page.focus(".intervene input[type=range]")
    page.keyboard.press("ArrowRight")
    until(page, "location.hash.includes('T.*.1.19')")
    page.click("text=Undo all")
    until(page, "!document.querySelector('.answer ins')")
    assert "changes" not in hash_of(page)


def pair_of(page: Any) -> dict[str, tuple[str, str, str]]:
    """What stands beside the controls: name: before, with the changes, what became of it."""
    rows = page.locator(".echo .chances-pair tbody tr")
    cells = [row.locator("th, td").all_text_contents() for row in rows.all()]
    return {name: (before, after, move) for name, before, after, move in cells}


def test_next_tokens_before_and_after_stand_side_by_side(open_page: Open):
    page = open_page(f"#model=recall&text={quote_plus(STORY)}&site=blocks.1.mixer&head=1&row=6&column=1")
    page.click('.intervene [aria-label="mask sings"]')
    page.wait_for_selector(".echo .chances-pair")
    model = regard.load("recall")
    old, now = (
        dict(answer.choices)
        for answer in (model.look(STORY).answer, model.look(STORY, changes=[Token("tokens", 1)]).answer)
    )
    shown = pair_of(page)
    assert list(shown)[:5] == list(now)[:5]
    assert set(shown) == {*list(now)[:5], *list(old)[:5]}
    for name, (before, after, move) in shown.items():
        first = f"{100 * old[name]:.1f}\u202f%" if name in old else "< 0.1\u202f%"
        second = f"{100 * now[name]:.1f}\u202f%" if name in now else f"< {100 * min(now.values()):.1f}\u202f%"
        assert (before, after) == (first, second)
        if name in old and name in now:
            change = 100 * (now[name] - old[name])
            assert move.endswith(f"{abs(change):.1f}"), (name, move)
            assert move.startswith("▲ rose by +" if change > 0 else "▼ fell by −")
        elif name in now:
            assert move.endswith(f"+{100 * (now[name] - min(old.values())):.1f} or more")
    assert "The answer changes" in page.inner_text(".echo .hint")
    assert "sings fell most" in page.inner_text(".echo .hint")
    assert page.locator(".answer:not(.echo) .chances-pair").is_visible()
    page.click("text=Undo all")
    until(page, "!document.querySelector('.chances-pair') && document.querySelector('.chances')")


def test_labels_before_and_after_stand_side_by_side(open_page: Open):
    page = open_page("#model=digits")
    page.focus(".intervene input[type=range]")
    page.keyboard.press("End")
    page.wait_for_selector(".echo .chances-pair")
    shown = pair_of(page)
    moves = [float(move.split("by ")[1].replace("−", "-")) for _, _, move in shown.values() if "by" in move]
    for (before, after, _), moved in zip(shown.values(), moves, strict=True):
        assert float(after.split("\u202f")[0]) - float(before.split("\u202f")[0]) == pytest.approx(moved, abs=0.11)
    assert min(moves) < 0 < max(moves)


def test_two_heads_and_two_models_are_compared(open_page: Open):
    page = open_page(SENTENCE)
    page.click('.tile[aria-label="Decoder 0, cross, head 1"]', modifiers=["Shift"])
    until(page, "document.querySelector('.stage h2').textContent.includes('minus decoder 0, cross, head 1')")
    assert "Largest difference" in page.inner_text(".pair-text .prose")
    assert "points" in page.inner_text(".stage-foot .readout b")
    assert hash_of(page)["with"] == "decoder.0.cross:1"
    page.select_option('select[aria-label^="Compare with"]', "model tatoeba-de-en")
    until(page, "document.querySelector('.pair-name.second').textContent.includes('atoeba-de-en')")
    assert hash_of(page)["other"] == "model:tatoeba-de-en"


def test_the_same_weights_under_another_mechanism_are_compared(open_page: Open, tmp_path: Path):
    """The list is the server's; the numbers, and those of the Python that is copied, are the library's."""
    page = open_page("#model=recall&text=Anna+sings+.+Boris+paints+.+Anna&site=blocks.0.mixer&head=1&row=6&column=0")
    page.keyboard.press("c")
    other = 'select[aria-label^="Compare with"]'
    page.wait_for_selector(f'{other} option[value="attention local"]', state="attached")
    assert page.locator(f'{other} option[value="attention linformer"]').count() == 0
    offered = page.eval_on_selector_all(f'{other} option[value^="attention"]', "(all) => all.map((one) => one.value)")
    for name in offered:  # some have weights below 0
        page.select_option(other, name)
        title = f"minus {name.removeprefix('attention ')}"
        until(page, f"document.querySelector('.stage h2').textContent.includes({json.dumps(title)})")
    page.select_option(other, "attention top-k")
    until(page, "document.querySelector('.pair-name.second').textContent.includes('op-k')")
    until(page, "document.querySelector('.stage h2').textContent.includes('minus top-k')")
    shown = page.inner_text(".stage-foot .readout b")
    page.keyboard.press("p")
    until(page, "document.querySelector('.said').textContent === 'Python copied'")
    code = page.evaluate("navigator.clipboard.readText()")
    found = ran(code, tmp_path)
    assert shown == f"{100 * float(found['difference'][6, 0]):+.1f} points".replace("-", "−")


def test_models_of_the_zoo_are_looked_at(open_page: Open, tmp_path: Path):
    """Random weights, and said so: a captioner with real maps over its picture, and windows that are shifted."""
    page = open_page("#model=captioner-tiny&site=decoder.0.cross&head=0")
    assert page.locator(".badge:has-text('random weights')").is_visible()
    page.click(".strip.flat .strip-token >> nth=1")
    page.click(".picture", position={"x": 10, "y": 10})
    until(page, "document.querySelector('.cell h2').textContent.includes('patch 0, 0')")
    page = open_page("#model=swin-cifar&site=stages.0.blocks.1.mixer.attention&head=1&row=37&column=36")
    assert page.inner_text(".stage h2") == "Stage 0, layer 1, head 1"
    assert page.inner_text(".ask-notes .hint") == "patches 256, 64, 16"
    shown = page.inner_text('.cell [data-step="softmax"] .result')  # within a window that is shifted
    page.click(".intervene .chips button")
    until(page, f"document.querySelector('.stage-foot .readout b').textContent !== {json.dumps(shown)}")
    assert page.inner_text(".stage-foot .readout b").startswith("0.0")
    page.keyboard.press("0")
    until(page, f"document.querySelector('.stage-foot .readout b').textContent === {json.dumps(shown)}")
    page.keyboard.press("p")
    until(page, "document.querySelector('.said').textContent === 'Python copied'")
    picture = tmp_path / "picture.png"
    picture.write_bytes(base64.b64decode(shapes().partition(",")[2]))
    code = page.evaluate("navigator.clipboard.readText()").replace('"picture.png"', repr(str(picture)))
    assert shown == f"{100 * float(ran(code, tmp_path)['weights'][37, 36]):.1f}\u202f%"  # of the whole grid


@pytest.mark.parametrize(("name", "heads"), [("detr-small", 4), ("switch-lm-tiny", 4), ("rnn-bahdanau", 1)])
def test_every_head_of_an_untrained_model_has_a_tile(open_page: Open, name: str, heads: int):
    """A detector, a reader, a translator."""
    page = open_page(f"#model={name}")
    until(page, "document.querySelectorAll('.tile').length > 0")
    assert page.locator(".grid-site >> nth=0").locator(".tile:not(.mean)").count() == heads


def test_everything_by_keyboard(open_page: Open):
    page = open_page(SENTENCE)
    page.keyboard.press("]")
    until(page, "document.querySelector('.stage h2').textContent.startsWith('Encoder 0')")
    for key, name, value in ((".", "head", "3"), ("w", "row", "8"), ("l", "view", "lines"), ("m", "view", "map")):
        page.keyboard.press(key)
        assert hash_of(page)[name] == value
    page.keyboard.press("z")
    until(page, "location.hash.includes('t.source.7')")
    page.keyboard.press("0")
    page.evaluate("document.activeElement.blur()")
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        name = page.evaluate("(document.activeElement.getAttribute('aria-label') ?? '').slice(0, 14)")
        seen.append(page.evaluate("getComputedStyle(document.activeElement).outlineStyle"))
        if name == "Attention map.":
            break
    else:
        pytest.fail("the map cannot be reached by Tab")
    assert set(seen) == {"solid"}, "a focus ring on everything"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert (hash_of(page)["row"], hash_of(page)["column"]) == ("9", "8")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.closest('.cell') !== null")
    page.keyboard.press("o")
    page.keyboard.type("recall")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('.picker-name').textContent === 'recall'")
    page.keyboard.press("?")
    assert page.locator(".keys").is_visible()
