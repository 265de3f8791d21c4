"""Pictures, uploads, moments, boxes: what is drawn besides matrices of words.

After every test the fixture asks that nothing was written to the console and that no other host was asked.
"""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import regard
from regard.look import standalone
from regard.look.analyses import AnalysisRequest, patch_side, run_analysis
from regard.modalities.images.page import seven

from .conftest import Open, until
from .viewing import hash_of, made_up


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
    assert page.locator(".intervene .switch").count() == 0, "a head is switched off by the model, which is not here"
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
