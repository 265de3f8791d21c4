"""Other words in the input line: no map of the old ones stays under them, and the open cell is one of the new.

After every test the fixture asks that nothing was written to the console and that no other host was asked.
"""

from typing import Any

import pytest

from .conftest import Open, until

TEXT = "document.querySelector('.trouble').textContent"
MARKS = "[...document.querySelectorAll('.cell h2 mark')].map((one) => one.textContent)"


def shown_words(page: Any) -> list[str]:
    return [text for text in page.locator(".sentence .strip-text").all_inner_texts() if text]


@pytest.mark.parametrize(
    ("words", "told"), [("", "Enter something to look at"), ("dog " * 300, "The source text is empty or too long")]
)
def test_no_map_of_another_text_stays_under_words_that_have_none(open_page: Open, words: str, told: str):
    page = open_page("#model=tatoeba-en-de", allow="422")
    page.fill("#sentence", words)
    until(page, f"{TEXT}.toLowerCase().includes('{told.lower()}')")
    assert page.locator(".strip, .tile, .stage, .cell, .answer").filter(visible=True).count() == 0
    assert "source" not in page.inner_text(".ask-notes")
    page.fill("#sentence", "I like tea.")
    until(page, f"document.querySelector('#look').checkVisibility() && {MARKS}.length === 2")
    until(page, "document.querySelectorAll('.strip:not(.flat) .strip-token').length === 5")
    assert page.locator(".trouble").is_hidden()


def test_a_new_text_opens_a_cell_of_its_own(open_page: Open):
    page = open_page("#model=tatoeba-en-de")
    assert page.evaluate(MARKS) == ["Hund", "dog"]
    page.fill("#sentence", "I like tea.")
    until(page, "document.querySelectorAll('.strip:not(.flat) .strip-token').length === 5")
    until(page, f"{MARKS}[0] !== 'Hund'")
    row, column = page.evaluate(MARKS)
    assert (row, column) == ("Tee", "tea")
    assert "Tee" in page.inner_text(".strip-caption")
    page.click('.strip.flat .strip-token:has-text("mag")')
    until(page, f"{MARKS}[0] === 'mag'")
    page.fill("#sentence", "I like dogs.")  # "mag" and "tea" are not both there any more
    until(page, f"{MARKS}[1] !== 'tea'")
    assert page.evaluate(MARKS)[0] != "<end>"


def test_a_cell_whose_words_stay_stays(open_page: Open):
    page = open_page("#model=recall&text=Anna+sings+.+Boris&site=blocks.1.mixer&head=1&row=3&column=1")
    page.fill("#sentence", "Anna sings . Boris paints . Anna")
    until(page, "document.querySelectorAll('.strip-token').length === 7")
    until(page, "document.querySelector('.stage-foot .readout').textContent.startsWith('Boris → sings')")


def test_letters_that_are_cut_into_bytes_are_shown_as_letters(open_page: Open):
    page = open_page("#model=tatoeba-en-de&text=na%C3%AFve+tea")
    words = shown_words(page)
    assert words[: words.index("tea") + 1] == ["n", "a", "ï₁", "ï₂", "ve", "tea"]
    assert "\ufffd" not in page.inner_text("#look")
