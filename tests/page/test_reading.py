"""Readers of texts on the page: tags below words, an answer in a second text, an embedding beside another."""

from dataclasses import replace
from typing import Any

import pytest

import regard
from regard.serve.limits import Limits
from tests.verbs.readers import model

from .conftest import Open, live, until

READERS = {"tags": ("tags", "tag"), "answers": ("span", "answer"), "vectors": ("none", "similar")}


@pytest.fixture(scope="module")
def served_readers(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    runs = tmp_path_factory.mktemp("readers")
    for name, (head, task) in READERS.items():
        (runs / name).mkdir()
        (runs / name / "run.toml").write_text("")
        regard.save(replace(model(head, length=64), task=task), runs / name / "model")
    yield from live(runs, Limits())


def test_tags_stand_below_their_words(open_page: Open, served_readers: str) -> None:
    page = open_page(f"{served_readers}/#model=run:tags&text=w1+w2+w3")
    wanted = model("tags", length=64).tag("w1 w2 w3")
    shown = page.eval_on_selector_all(".answer .tagged li", "all => all.map((one) => one.innerText.split('\\n'))")
    assert [tuple(one) for one in shown] == list(zip(wanted.words, wanted.tags, strict=True))
    assert not page.is_visible(".ask-second"), "a tagger reads one text"


def test_a_second_text_is_asked_about_and_stays_in_the_address(open_page: Open, served_readers: str) -> None:
    page = open_page(f"{served_readers}/#model=run:answers&text=w1+w2&second=w3+w4+w5")
    assert page.input_value(".ask-second") == "w3 w4 w5"
    page.fill(".ask-second", "w8 w9")
    page.keyboard.press("Enter")
    until(page, "['w8', 'w9', 'w8 w9'].includes(document.querySelector('.answer .answer-text').textContent.trim())")
    until(page, "location.hash.includes('second=w8+w9')")
    wanted = model("span", length=64).answer("w1 w2", "w8 w9")
    assert page.inner_text(".answer .answer-text").strip() == wanted.text


def test_an_embedding_is_compared_with_another(open_page: Open, served_readers: str) -> None:
    page = open_page(f"{served_readers}/#model=run:vectors&text=w1+w2")
    assert page.inner_text(".answer .hint").startswith("16 numbers")
    page.fill(".ask-second", "w3")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('.answer .answer-text')?.textContent.startsWith('cosine similarity')")
    first, second = model("none", length=64).embed(["w1 w2", "w3"])
    assert page.inner_text(".answer .answer-text") == f"cosine similarity {float(first @ second):.3f}"
