"""What an address holds, the way back, and what is told when a look is gone or wrong.

After every test the fixture asks that nothing was written to the console and that no other host was asked.
"""

import json
from pathlib import Path
from urllib.parse import quote_plus

import pytest

from regard.look.changes import Temperature, Token

from .conftest import Open, until
from .viewing import SENTENCE, STORY, hash_of, ran


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


@pytest.mark.parametrize("chosen", ["head", "tab", "cell"])
def test_an_analysis_that_is_left_is_given_up(open_page: Open, chosen: str):
    """It would keep what was chosen waiting; it is asked for again when that is here."""
    page = open_page("#model=recall&site=blocks.1.mixer&head=1&row=6&column=1")
    asked, left = list[str](), list[str]()
    page.on("request", lambda request: asked.append(request.url.partition("/api/v1/")[2]))
    page.on("requestfailed", lambda request: left.append(request.url.partition("/api/v1/")[2]))
    page.route("**/analyses/occlusion*", lambda route: None)  # takes for ever
    page.locator(".analysis").scroll_into_view_if_needed()
    page.keyboard.press("5")
    until(page, "document.querySelector('.analysis [role=tabpanel][aria-busy]')")
    page.wait_for_timeout(400)
    assert [one for one in asked if "occlusion" in one]
    assert not [one for one in left if "occlusion" in one]
    if chosen == "tab":
        page.click(".analysis [data-tab=distance]")
        until(page, "document.querySelector('.analysis .formula').textContent.includes('mean_q')")
    elif chosen == "head":
        page.click('.tile[aria-label="Layer 1, head 3"]')
        until(page, "document.querySelector('.cell .hint').textContent === 'Layer 1, head 3'")
    else:
        page.keyboard.press("w")
    page.wait_for_timeout(400)
    assert [one for one in left if "occlusion" in one]
    again = [place for place, one in enumerate(asked) if "occlusion" in one][1:]
    assert len(again) == (chosen != "tab")
    if again:
        wanted = "maps/" if chosen == "head" else "cell/"
        assert any(wanted in one for one in asked[: again[0]]), "what was chosen is asked for first"
