"""The page in a real browser: what a reader does with it, and what must never happen meanwhile.

After every test the fixture asks that nothing was written to the console and that no other host was asked.
"""

import base64
import json
import re
import runpy
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote_plus, urlencode

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.look import distance, standalone
from regard.look.analyses import AnalysisRequest, patch_side, run_analysis
from regard.look.changes import Temperature, Token
from regard.look.document import WORDS, About, embedded_document
from regard.look.maps import Map
from regard.modalities.images.page import seven, shapes
from regard.nn.attention import Softmax
from regard.nn.axis import Axis
from regard_lectures.looking import candies

from .conftest import Open, until

STORY = "Anna sings . Boris paints . Anna"
SENTENCE = "#model=tatoeba-en-de&site=decoder.1.cross&head=2&row=7&column=7"


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


def hash_of(page: Any) -> dict[str, str]:
    page.wait_for_timeout(250)
    return {name: values[0] for name, values in parse_qs(page.evaluate("location.hash.slice(1)")).items()}


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


def ran(code: str, folder: Path) -> dict[str, Any]:
    """What the names of copied Python stand for, when it has run."""
    (folder / "copied.py").write_text(code, encoding="utf8")
    return runpy.run_path(str(folder / "copied.py"))


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


def test_the_address_restores_the_view(open_page: Open, tmp_path: Path):
    page = open_page(SENTENCE + "&view=lines&scale=linear&changes=t.source.4~T.*.0.50&text=My+dog+is+big.")
    assert page.get_attribute('[data-value="lines"]', "aria-checked") == "true"
    assert page.inner_text(".stage h2") == "Decoder 1, cross, head 2"
    assert page.input_value("#sentence") == "My dog is big."
    assert page.get_attribute('.intervene [aria-label="mask ."]', "aria-pressed") == "true"
    assert page.inner_text(".intervene output") == "0.50"
    before = hash_of(page)
    page.keyboard.press("u")
    until(page, "document.querySelector('.said').textContent === 'Link copied'")
    link = page.evaluate("navigator.clipboard.readText()")
    other = open_page("#" + link.partition("#")[2])
    assert hash_of(other) == before
    page.keyboard.press("p")
    until(page, "document.querySelector('.said').textContent === 'Python copied'")
    code = page.evaluate("navigator.clipboard.readText()")
    assert 'model = regard.load("tatoeba-en-de")' in code
    assert 'trace.maps["decoder.1.cross"].weights[0, 2]' in code
    found = ran(code, tmp_path)  # with a token and a temperature that are changed
    assert found["trace"].changes == (Token("source", 4), Temperature(0.5, "*"))


def test_going_back_returns_to_the_model_and_the_input_before(open_page: Open):
    page = open_page(f"#model=recall&text={quote_plus(STORY)}&site=blocks.1.mixer&head=1&row=6&column=1")
    first = hash_of(page)
    steps = page.evaluate("history.length")
    page.click('.tile[aria-label="Layer 0, head 3"]')
    assert hash_of(page) != first
    assert page.evaluate("history.length") == steps, "a small move is no step"
    moved = hash_of(page)
    page.fill("#sentence", "Boris paints .")
    until(page, "location.hash.includes('text=Boris+paints+.&')")
    page.fill("#sentence", "Boris paints . Boris")  # goes on: the same step
    until(page, "location.hash.includes('text=Boris+paints+.+Boris&')")
    assert page.evaluate("history.length") == steps + 1
    page.click(".picker-open")
    page.keyboard.type("digits")
    page.keyboard.press("Enter")
    until(page, "location.hash.includes('model=digits')")
    assert page.evaluate("history.length") == steps + 2
    page.go_back()
    until(page, "document.querySelector('.picker-name').textContent === 'recall'")
    until(page, "document.querySelector('#sentence').value === 'Boris paints . Boris'")
    page.focus("#sentence")
    page.go_back()
    until(page, f"document.querySelector('#sentence').value === {json.dumps(STORY)}")
    until(page, "document.querySelector('.stage h2').textContent === 'Layer 0, head 3'")
    assert hash_of(page) == moved
    page.go_forward()
    until(page, "document.querySelector('#sentence').value === 'Boris paints . Boris'")


@pytest.mark.parametrize(
    ("changes", "kept"), [("t.tokens.9999", None), ("t.tokens.1~h.blocks.9.mixer.0~T.*.2.00", "t.tokens.1~T.*.2.00")]
)
def test_a_change_that_cannot_be_is_dropped(open_page: Open, changes: str, kept: str | None):
    page = open_page(f"#model=recall&text={quote_plus(STORY)}&changes={changes}", allow="422")
    told = page.inner_text(".trouble")
    assert told.startswith("Removed 1 change that this input cannot have: ")
    assert page.locator(".strip-token").count() == 7
    assert hash_of(page).get("changes") == kept


def test_what_is_exported_is_what_is_seen(open_page: Open, tmp_path: Path):
    page = open_page(SENTENCE)
    for ending in ("svg", "png", "csv"):
        with page.expect_download() as caught:
            page.click(f"[data-action={ending}]")
        caught.value.save_as(tmp_path / f"map.{ending}")
    assert (tmp_path / "map.svg").read_text(encoding="utf8").count("<rect") > 14 * 13
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    lines = (tmp_path / "map.csv").read_text(encoding="utf8").splitlines()
    assert lines[0].startswith('"query","She","has"')
    assert len(lines) == 14  # names, and 13 words with the end
    rows = np.array([line.rsplit(",", 13)[1:] for line in lines[1:]], dtype=float)
    assert np.allclose(rows.sum(-1), 1, atol=1e-4)


def test_a_saved_page_opens_from_disk(open_page: Open, served: str, tmp_path: Path):
    page = open_page(SENTENCE)
    with page.expect_download() as caught:
        page.click("[data-action=html]")
    caught.value.save_as(tmp_path / "look.html")
    saved = open_page((tmp_path / "look.html").as_uri())
    asked: list[str] = []
    saved.on("request", lambda request: asked.append(request.url))
    saved.click('.tile[aria-label="Decoder 1, cross, head 2"]')
    until(saved, "document.querySelector('.cell .hint').textContent === 'Decoder 1, cross, head 2'")
    assert "differ by" in saved.inner_text(".steps .check")
    before = saved.inner_text(".stage-foot .readout b")
    saved.fill(".intervene input[type=range]", "1")
    until(saved, f"document.querySelector('.stage-foot .readout b').textContent !== {json.dumps(before)}")
    assert saved.get_attribute(".intervene .switch", "aria-disabled") == "true"
    assert saved.locator("[data-action=html], [data-action=link]").count() == 0
    saved.click("[data-tab=distance]")
    until(saved, f"document.querySelector('.analysis').textContent.includes({json.dumps(distance.EQUATION)})")
    assert asked == []


def test_a_saved_page_opens_on_the_view_that_was_saved(open_page: Open, tmp_path: Path):
    view = "#model=tatoeba-en-de&site=encoder.1.mixer&head=3&row=4&column=2&scale=linear&tab=distance&view=lines"
    page = open_page(f"{view}&changes=T.*.2.00")
    with page.expect_download() as caught:
        page.click("[data-action=html]")
    caught.value.save_as(tmp_path / "look.html")
    saved = open_page((tmp_path / "look.html").as_uri())
    for place in (".stage h2", ".cell h2", ".stage-foot .readout b", ".strip-caption"):
        assert saved.inner_text(place) == page.inner_text(place), place
    for chosen in ('[data-value="lines"]', '[data-value="linear"]'):
        assert saved.get_attribute(chosen, "aria-checked") == "true"
    assert saved.get_attribute('[data-tab="distance"]', "aria-selected") == "true"
    assert saved.inner_text(".intervene .readout") == "Saved with 1 change.", "and not warmed once more"


def test_what_was_changed_stands_on_all_that_is_shown_and_saved(open_page: Open, tmp_path: Path):
    page = open_page(f"{SENTENCE}&changes=t.source.7~h.decoder.1.cross.1~T.*.0.50")
    words = "Changed: masked dog (source 7); head 1 of decoder 1, cross off; temperature 0.50"
    assert page.inner_text(".stage .kind") == words
    assert page.locator(".strip-token[data-out] .strip-text").all_inner_texts() == ["dog"]
    for ending in ("svg", "png", "csv"):
        with page.expect_download() as caught:
            page.click(f"[data-action={ending}]")
        name = caught.value.suggested_filename
        assert name.startswith("regard-decoder.1.cross-2-map-changed-masked-dog-source-7-head-1"), name
        caught.value.save_as(tmp_path / f"map.{ending}")
    assert words in (tmp_path / "map.svg").read_text(encoding="utf8")
    assert (tmp_path / "map.csv").read_text(encoding="utf8").startswith('"query","She","has"')
    page.click("text=Undo all")
    until(page, "document.querySelector('.stage .kind').hidden && !document.querySelector('[data-out]')")


def test_the_widget_is_the_same_view(open_page: Open, served: str):
    page = open_page("#model=recall")
    found = regard.load("recall").look(STORY)
    page.route(
        "**/joined.js", lambda route: route.fulfill(body=standalone.module("widget.js"), content_type="text/javascript")
    )
    page.evaluate(
        """async (data) => {
        const state = { data, head: 1, site: 'blocks.0.mixer', parts: ['heads', 'stage', 'cell'] };
        const heard = {};
        const model = {
          get: (name) => state[name], set: (name, value) => (state[name] = value), save_changes: () => {},
          on: (name, hear) => (heard[name] = hear), off: () => {},
        };
        const el = document.createElement('div');
        el.id = 'notebook';
        document.body.replaceChildren(el);
        const widget = await import('/joined.js');
        widget.default.render({ model, el });
        window.notebook = { state, heard };
      }""",
        embedded_document(found, About("recall", "gpt", "generate", 72_768, "text")),
    )
    until(page, "document.querySelector('#notebook .stage h2').textContent === 'Layer 0, head 1'")
    page.click('#notebook .tile[aria-label="Layer 1, head 3"]')
    until(page, "notebook.state.head === 3 && notebook.state.site === 'blocks.1.mixer'")
    page.evaluate("notebook.state.head = 0; notebook.heard['change:head']()")
    until(page, "document.querySelector('#notebook .stage h2').textContent === 'Layer 1, head 0'")


def test_a_picture_is_looked_at_and_drawn(open_page: Open):
    page = open_page("#model=digits")
    page.wait_for_selector(".chances")
    assert page.inner_text(".chance-name >> nth=0") == "7"
    page.click(".picture", position={"x": 20, "y": 20})
    until(page, "document.querySelector('.strip-caption mark').textContent === 'patch 0, 0'")
    before, given = page.inner_text(".chance-value >> nth=0"), page.get_attribute(".preview", "src")
    page.click("text=Draw")
    box = page.locator(".pad").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 30, steps=6)
    page.mouse.up()
    page.click(".pad-dialog .strong")
    until(page, f"document.querySelector('.chance-value').textContent !== {json.dumps(before)}")
    assert page.get_attribute(".preview", "src") == hash_of(page)["png"] != given


def test_a_file_is_uploaded_as_bytes_and_again_if_the_server_dropped_it(open_page: Open, tmp_path: Path):
    """A large one; a small one stands in the address, so that a link holds it."""
    noise = torch.randint(0, 256, (80, 80, 3), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    Image.fromarray(noise.numpy()).save(tmp_path / "noise.png")
    Image.new("L", (28, 28), 0).save(tmp_path / "small.png")
    page = open_page("#model=digits")
    posts: list[Any] = []
    page.on("request", lambda request: posts.append(request) if request.method == "POST" else None)
    before = page.inner_text(".chance-value >> nth=0")
    page.set_input_files(".ask-picture input[type=file]", tmp_path / "noise.png")
    until(page, f"document.querySelector('.chance-value').textContent !== {json.dumps(before)}")
    assert [request.url.rpartition("/")[2] for request in posts] == ["upload", "look"]
    assert posts[0].headers["content-type"] == "image/png"
    given = json.loads(posts[1].post_data)["input"]
    assert given == {"kind": "image", "upload": given["upload"], "width": 80, "height": 80}
    assert page.get_attribute(".preview", "src").startswith("blob:")
    assert "png" not in hash_of(page)
    posts.clear()
    page.set_input_files(".ask-picture input[type=file]", tmp_path / "small.png")
    until(page, "location.hash.includes('png=')")
    assert [request.url.rpartition("/")[2] for request in posts] == ["look"]
    (tmp_path / "no.png").write_bytes(b"no picture")
    page.set_input_files(".ask-picture input[type=file]", tmp_path / "no.png")
    until(page, "document.querySelector('.trouble').textContent.includes('browser cannot read this file as an image')")


def test_the_moments_of_a_look_are_walked_through(open_page: Open, tmp_path: Path):
    """Three recyclings of one module: a slider, two buttons and two keys; a look without time has none of them."""
    given = {"kind": "image", "width": 64, "height": 64, "png": seven()}
    one = {"part": "", "role": "self", "rows": "patches", "heads": 2, "calls": 3}
    data = made_up(
        {"kind": "labels", "labels": [["seven", 1.0]]},
        given,
        [one | {"name": f"blocks.0.mixer@{call}", "time": call} for call in range(3)],
    )
    still = standalone.standalone_page(data)
    data["document"]["time"] = {"unit": "recycling", "count": 3}
    (tmp_path / "timed.html").write_text(standalone.standalone_page(data), encoding="utf8")
    (tmp_path / "still.html").write_text(still, encoding="utf8")
    page = open_page((tmp_path / "timed.html").as_uri())
    shown = "document.querySelector('.stage h2').textContent"
    until(page, f"{shown}.startsWith('Layer 0, call 2')")  # the last, unless told
    assert page.inner_text(".timeline output") == "2 of 0–2"
    assert page.locator(".grid-site").count() == 1
    page.focus(".timeline input")
    page.keyboard.press("ArrowLeft")
    until(page, f"{shown}.startsWith('Layer 0, call 1')")
    page.click(".timeline button >> nth=0")
    until(page, f"{shown}.startsWith('Layer 0, call 0')")
    assert page.is_disabled(".timeline button >> nth=0")
    assert page.get_attribute(".timeline input", "aria-valuetext") == "recycling 0 of 0 to 2"
    page = open_page((tmp_path / "still.html").as_uri())
    assert page.is_hidden(".timeline")
    assert page.locator(".grid-site").count() == 3


def test_a_look_that_is_left_is_given_up(open_page: Open):
    page = open_page("#model=recall")
    left: list[str] = []
    page.on("requestfailed", lambda request: left.append(request.url.partition("/api/v1/")[2]))
    page.route("**/analyses/*", lambda route: None)  # takes for ever
    page.locator(".analysis").scroll_into_view_if_needed()
    page.keyboard.press("3")
    page.wait_for_timeout(300)
    page.fill("#sentence", "Boris paints . Boris")
    until(page, "document.querySelectorAll('.sentence .strip-token').length === 4")
    assert any("analyses/distance" in one for one in left)


LIT = """(place) => {
  const canvas = document.querySelector('.analysis .picture');
  const [x, y] = place.map((part, side) => Math.floor(part * (side ? canvas.height : canvas.width)));
  return [...canvas.getContext('2d').getImageData(x, y, 1, 1).data];
}"""


def test_what_analyses_find_is_laid_over_the_picture(open_page: Open, tmp_path: Path):
    """As a head's row is: the numbers of the library, the same switch, and a patch chosen here is chosen everywhere."""
    page = open_page("#model=digits&site=blocks.2.mixer&head=0&row=5&column=0")
    page.locator(".analysis").scroll_into_view_if_needed()
    page.wait_for_selector(".analysis .picture")
    (tmp_path / "seven.png").write_bytes(base64.b64decode(seven().partition(",")[2]))
    trace = regard.load("digits").look(tmp_path / "seven.png")
    row = np.array(run_analysis(trace, "rollout", AnalysisRequest("blocks.2.mixer"))["map"])[5]
    assert page.inner_text(".analysis .picture-legend") == f"brightest: {100 * row.max():.1f}\u202f%"
    tall, wide = trace.sites["blocks.2.mixer"].columns.grid or (0, 0)
    down, across = divmod(int(row.argmax()), wide)
    where = [(across + 0.5) / wide, (down + 0.5) / tall]
    lit = page.evaluate(LIT, where)
    page.click(".analysis .picture-side .toggle")
    until(page, "document.querySelector('.sentence .toggle').getAttribute('aria-pressed') === 'false'")
    plain = page.evaluate(LIT, where)
    assert sum(lit) != sum(plain)
    assert plain[0] == plain[1] == plain[2], "a grey picture, and nothing over it"
    page.click(".analysis .picture-side .toggle")
    until(page, f"JSON.stringify(({LIT})({where})) === '{json.dumps(lit, separators=(',', ':'))}'")
    page.click(".analysis .picture", position={"x": 10, "y": 10})
    until(page, "document.querySelector('.strip-caption mark').textContent === 'patch 0, 0'")
    until(page, "document.querySelector('.analysis .prose mark').textContent === 'patch 0, 0'")
    page.focus(".analysis .picture")
    page.keyboard.press("ArrowRight")
    until(page, "document.querySelector('.analysis .prose mark').textContent === 'patch 0, 1'")
    assert page.evaluate("document.activeElement.matches('.analysis .picture')"), "who walks over it stays on it"
    for key, told in (("2", "brightest"), ("6", " to +"), ("5", " to +")):
        page.keyboard.press(key)
        until(page, f"document.querySelector('.analysis .picture-legend')?.textContent.includes('{told}')")
    worth = np.array(run_analysis(trace, "occlusion", AnalysisRequest(patch=page_squares(trace)))["worth"])
    best = np.unravel_index(worth.argmax(), worth.shape)
    assert page.inner_text(".analysis .prose mark") == f"square {best[0]}, {best[1]}"
    assert page.get_attribute(".analysis .picture", "role") == "img"


def page_squares(trace: Any) -> int:
    """Pixels a side of what the server covers: not more than 8 squares a side."""
    side = min(trace.example.image.shape[-2:])
    return max(-(-side // 8), patch_side(trace, trace.example.inputs[0]))


def made_up(answer: dict[str, Any], given: dict[str, Any], sites: list[dict[str, Any]]) -> dict[str, Any]:
    """A small look with words, patches and a class token, for what no shipped model shows."""
    axes = {
        "words": {"kind": "text", "size": 3, "labels": ["a", "red", "ball"], "grid": None, "special": 0},
        "patches": {"kind": "image", "size": 17, "labels": None, "grid": [4, 4], "special": 1},
    }
    plain = {"part": "decoder", "role": "cross", "layer": 0, "heads": 1, "rows": "words", "columns": "patches"}
    plain |= {"kind": "weights", "mechanism": "softmax", "arithmetic": False, "scale": 1.0, "calls": 1}
    sites = [plain | site for site in sites]
    model = {"name": "made-up", "title": "made up", "family": "none", "task": None, "parameters": 0, "takes": "image"}
    document = {"format": 1, "id": "0", "model": model, "input": given, "changes": [], "answer": answer, "before": None}
    maps = {}
    for site in sites:
        shape = [site["heads"], axes[site["rows"]]["size"], axes[site["columns"]]["size"]]
        weights = torch.rand(shape, generator=torch.Generator().manual_seed(1)) * 4
        weights = weights if site["kind"] == "influence" else weights.softmax(-1)
        maps[site["name"]] = base64.b64encode(weights.numpy().astype("<f2").tobytes()).decode()
    return {"document": document | {"axes": axes, "sites": sites}, "maps": maps, "vectors": {}, "words": WORDS}


def test_words_that_look_at_a_picture(open_page: Open, tmp_path: Path):
    """A caption: a strip of words chooses, the picture with its class token shows where they look."""
    image = {"kind": "image", "width": 64, "height": 64, "png": seven()}
    given = {"kind": "caption", "image": image, "target": "a red ball"}
    answer = {"kind": "text", "text": "a red ball", "tokens": []}
    data = made_up(answer, given, [{"name": "decoder.0.cross"}])
    (tmp_path / "caption.html").write_text(standalone.standalone_page(data), encoding="utf8")
    page = open_page((tmp_path / "caption.html").as_uri())
    page.click(".strip.flat .strip-token >> nth=2")
    until(page, "document.querySelector('.strip-caption mark').textContent === 'ball'")
    assert "[class]" in page.inner_text(".chip.token")
    page.click(".picture", position={"x": 10, "y": 10})
    until(page, "document.querySelector('.cell h2').textContent === 'ball → patch 0, 0'")


def test_a_saved_page_measures_distances_as_the_library_does(open_page: Open, tmp_path: Path):
    """A class token has no place: it neither looks nor is looked at."""
    given = {"kind": "image", "width": 64, "height": 64, "png": seven()}
    site = {"name": "blocks.0.mixer", "part": "", "role": "self", "rows": "patches", "heads": 2}
    data = made_up({"kind": "labels", "labels": [["seven", 1.0]]}, given, [site])
    (tmp_path / "far.html").write_text(standalone.standalone_page(data), encoding="utf8")
    page = open_page((tmp_path / "far.html").as_uri())
    page.click("[data-tab=distance]")
    page.click(".analysis .behind summary")
    until(page, "document.querySelectorAll('.analysis .behind td').length === 2")
    weights = np.frombuffer(base64.b64decode(data["maps"]["blocks.0.mixer"]), "<f2").reshape(1, 2, 17, 17)
    patches = Axis("image", 17, grid=(4, 4))
    found = distance.mean_distance(Map("", torch.from_numpy(weights.astype(np.float64)), patches, patches))
    assert page.locator(".analysis .behind td").all_inner_texts() == [f"{float(far):.2f}" for far in found[0]]


def test_calls_of_one_module_are_numbered(open_page: Open, tmp_path: Path):
    """ALBERT runs one layer again and again: by its call alone; the Perceiver runs two: by layer and call."""
    given = {"kind": "image", "width": 64, "height": 64, "png": seven()}
    one = {"part": "", "role": "self", "rows": "patches", "heads": 2, "calls": 3}
    sites = [one | {"name": f"blocks.0.mixer@{call}"} for call in range(3)]
    data = made_up({"kind": "labels", "labels": [["seven", 1.0]]}, given, sites)
    (tmp_path / "calls.html").write_text(standalone.standalone_page(data), encoding="utf8")
    page = open_page((tmp_path / "calls.html").as_uri())
    assert page.locator(".grid-site > .grid-name").all_inner_texts() == ["0", "1", "2"]
    page.click('.tile[aria-label="Layer 0, call 2, head 1"]')
    until(page, "document.querySelector('.stage h2').textContent === 'Layer 0, call 2, head 1'")
    assert page.inner_text(".intervene .switch").startswith("layer 0, head 1"), "a change is about all calls"
    page = open_page("#model=perceiver-mnist", allow="422")
    assert page.locator(".grid-site > .grid-name").all_inner_texts() == ["0", "0", "0.0", "0.1", "1.0", "1.1"]


SHADES = """(name) => [...document.querySelectorAll(`[data-site="${name}"] .tile canvas`)].map((canvas) => {
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const greens = data.filter((_, index) => index % 4 === 1);
  return [canvas.width, canvas.height, Math.max(...greens) - Math.min(...greens)];
})"""


def test_a_class_token_that_looks_alone_has_a_name_and_a_picture(open_page: Open):
    page = open_page("#model=cait-xxs24&site=looks.0.mixer&head=1&row=0&column=0", allow="422")  # it has no rollout
    assert page.inner_text(".strip.flat") == "[class]"
    assert page.inner_text(".cell h2") == "[class] → [class]"
    until(page, """document.querySelector('[data-site="looks.0.mixer"] .tile canvas').width === 14""", 60)
    for wide, tall, shades in page.evaluate(SHADES, "looks.0.mixer"):
        assert (wide, tall) == (14, 14), "its patches, where they are"
        assert shades > 30, "stretched to its own largest"
    assert "on one patch" in page.inner_text(".heads .readout")


def test_boxes_and_influences_are_what_they_are_called(open_page: Open, tmp_path: Path):
    """A detector's boxes on its picture; a map that is no share of anything is never written in percent."""
    boxes = [
        {"label": "circle", "score": 0.9, "box": [4, 4, 30, 30]},
        {"label": "square", "score": 0.8, "box": [20, 30, 60, 60]},
    ]
    sites = [{"name": "blocks.0.mixer", "part": "", "role": "other", "rows": "patches", "kind": "influence"}]
    sites[0]["mechanism"] = "fourier"
    data = made_up(
        {"kind": "boxes", "boxes": boxes}, {"kind": "image", "width": 64, "height": 64, "png": seven()}, sites
    )
    (tmp_path / "boxes.html").write_text(standalone.standalone_page(data), encoding="utf8")
    page = open_page((tmp_path / "boxes.html").as_uri())
    assert page.inner_text(".answer-body") == "1 circle, 1 square"
    assert "Influence map" in page.inner_text(".kind")
    for part in (".stage", ".cell", ".strip-caption"):
        assert "%" not in page.inner_text(part), part


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


def test_a_look_that_the_server_dropped_is_posted_again(forgetful: str, open_page: Open):
    view = "#model=recall&site=blocks.1.mixer&head=1&row=6&column=1"
    page = open_page(f"{forgetful}/{view}", allow="410")
    other = {"model": "recall", "input": {"kind": "text", "text": "Boris paints . Boris"}}
    assert page.request.post(f"{forgetful}/api/v1/look", data=other).ok  # and the page's own is gone
    page.click('.tile[aria-label="Layer 0, head 3"]')
    until(page, "document.querySelector('.cell .hint').textContent === 'Layer 0, head 3'")
    assert page.locator(".trouble").is_hidden()
    assert page.request.post(f"{forgetful}/api/v1/look", data=other).ok
    with page.expect_download() as caught:
        page.click("[data-action=html]")
    assert "regard-data" in Path(caught.value.path()).read_text(encoding="utf8")


def test_errors_are_told_in_words(open_page: Open, served: str):
    page = open_page("#model=nonesuch", allow="Failed to load resource")
    until(page, "document.querySelector('.trouble').textContent.includes('Unknown model nonesuch')")
    page.route("**/api/v1/look", lambda route: route.abort())
    page.fill("#sentence", "Another sentence.")
    until(page, "document.querySelector('.trouble').textContent.includes('regard serve')")


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
