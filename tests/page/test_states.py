"""Axe in each state of the page, the way back through changes, and models that open without a refusal.

After every test the fixture asks that nothing was written to the console and that no other host was asked.
"""

from pathlib import Path
from typing import Any

import pytest

from regard.look import standalone

from .conftest import Open, until
from .viewing import SENTENCE, hash_of

STORY = "#model=recall&site=blocks.1.mixer&head=1&row=6&column=1"
LENS = "document.querySelectorAll('.lens td').length > 0"


def violations(page: Any, axe: str) -> list[tuple[str, str, str]]:
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        (one["id"], one["nodes"][0]["html"][:200], one["nodes"][0]["failureSummary"]) for one in found["violations"]
    ]


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_in_any_analysis(open_page: Open, axe: str, dark: bool):
    page = open_page(SENTENCE, dark=dark)
    page.locator(".analysis").scroll_into_view_if_needed()
    told = {}
    for tab in ("flow", "distance", "spectrum", "occlusion", "gradient", "importance", "lens"):
        page.click(f"[data-tab={tab}]")
        page.wait_for_timeout(250)
        until(page, "!document.querySelector('.analysis [aria-busy]')")
        told[tab] = violations(page, axe)
    assert page.evaluate(LENS)
    assert told == {state: [] for state in told}


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_in_any_other_state(open_page: Open, axe: str, dark: bool):
    page = open_page(f"{SENTENCE}&view=compare&other=attention:strided&changes=t.source.3", dark=dark, allow="422")
    until(page, "document.querySelectorAll('.comparison .answer-side').length === 2")
    told = {"compare": violations(page, axe)}
    page.keyboard.press("l")
    told["lines"] = violations(page, axe)
    page.click("[data-part=tour]")
    for step in range(10):
        until(page, f"document.querySelector('.tour-count').textContent === '{step + 1} of 10'")
        told[f"tour {step}"] = violations(page, axe) if step in (0, 1, 9) else []
        page.click(".tour .strong")
    page.click("[data-part=keys]")
    told["keys"] = violations(page, axe)
    page.keyboard.press("Escape")
    page.click(".picker-open")
    told["picker"] = violations(page, axe)
    page.keyboard.press("Escape")
    page.fill("#sentence", "")
    until(page, "document.querySelector('#look').hidden")
    told["empty"] = violations(page, axe)
    page.fill("#sentence", "dog " * 300)
    until(page, "document.querySelector('.trouble').textContent.includes('too long')")
    told["refused"] = violations(page, axe)
    assert told == {state: [] for state in told}


def test_back_steps_through_changes(open_page: Open):
    page = open_page(STORY)
    steps = page.evaluate("history.length")
    page.click('.intervene [aria-label="mask sings"]')
    until(page, "location.hash.includes('changes=t.tokens.1')")
    page.click(".intervene .switch")
    until(page, "location.hash.includes('h.blocks.1.mixer.1')")
    page.focus(".intervene input[type=range]")
    page.keyboard.press("ArrowRight")
    until(page, "location.hash.includes('T.*.1.19')")
    page.keyboard.press("ArrowRight")
    until(page, "location.hash.includes('T.*.1.41')")
    assert page.evaluate("history.length") == steps + 3, "a temperature that is turned further is one step"
    page.go_back()
    until(
        page,
        "location.hash.endsWith('h.blocks.1.mixer.1')",
    )
    page.go_back()
    until(page, "document.querySelector('.intervene .switch').getAttribute('aria-checked') === 'true'")
    assert hash_of(page)["changes"] == "t.tokens.1"
    page.go_back()
    until(page, "!document.querySelector('[data-out]') && document.querySelector('.intervene header button').disabled")
    page.go_forward()
    until(page, "document.querySelector('[data-out]')")


@pytest.mark.parametrize("name", ["linformer-tiny", "fnet-tiny", "mixer-cifar", "perceiver-mnist"])
def test_a_model_that_has_no_rollout_opens_without_a_refusal(open_page: Open, name: str):
    """The fixture allows no message on the console, as a refused request would leave one."""
    page = open_page(f"#model={name}")
    refused: list[str] = []
    page.on("response", lambda answer: refused.append(answer.url) if answer.status >= 400 else None)
    page.locator(".analysis").scroll_into_view_if_needed()
    until(page, "document.querySelector('.analysis .prose').textContent.length > 3")
    until(page, "!document.querySelector('.analysis [aria-busy]')")
    told = page.inner_text(".analysis .prose")
    assert ("rollout needs" in told.lower()) == (name != "perceiver-mnist")
    assert refused == []


def test_a_saved_page_may_run_nothing_but_its_own_script(open_page: Open, tmp_path: Path):
    page = open_page(STORY + "&tab=lens")
    with page.expect_download() as caught:
        page.click("[data-action=html]")
    caught.value.save_as(tmp_path / "look.html")
    text = (tmp_path / "look.html").read_text(encoding="utf8")
    assert "default-src 'none'" in text.partition("<style>")[0]
    foreign = '<script>document.title = "taken"</script>'
    (tmp_path / "altered.html").write_text(text.replace("</body>", f"{foreign}</body>"), encoding="utf8")
    saved = open_page((tmp_path / "look.html").as_uri())
    assert saved.get_attribute("[data-tab=rollout]", "aria-selected") == "true", "a lens needs the model"
    altered = open_page((tmp_path / "altered.html").as_uri(), allow="Content Security Policy")
    assert altered.title() != "taken"


def test_the_policy_is_of_the_style_and_the_script(tmp_path: Path):
    policy = standalone.policy_for("a", "b")
    assert policy != standalone.policy_for("a", "c")
    assert "unsafe" not in policy
