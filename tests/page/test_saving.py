"""What leaves the page: exports, saved pages, the notebook's widget.

After every test the fixture asks that nothing was written to the console and that no other host was asked.
"""

import base64
import json
from pathlib import Path

import numpy as np
import torch

import regard
from regard.look import distance, standalone
from regard.look.document import About, embedded_document
from regard.look.maps import Map
from regard.modalities.images.page import seven
from regard.nn.axis import Axis

from .conftest import Open, until
from .viewing import SENTENCE, STORY, made_up


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
    assert len(lines) == 15  # names, and 14 words with the end
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
    assert saved.locator(".intervene .switch, .intervene .chip, [aria-disabled]").count() == 0
    tabs = saved.eval_on_selector_all(".analysis [role=tab]", "(all) => all.map((one) => one.dataset.tab)")
    assert tabs == ["rollout", "distance", "spectrum"], "what needs the model is not offered"
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
