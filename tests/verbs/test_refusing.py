"""A verb that a model cannot do is refused, in the same words, whatever else the command line says."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import regard
from regard.cli.app import main
from regard.contracts.reach import model_of
from regard.errors import InputError
from regard.modalities.verb_table import VERBS
from regard.modalities.verbs import answer_view, run_verb
from regard.model import Model

FAMILIES = ("gpt", "bert", "transformer", "vit", "resnet", "captioner", "detr", "forecaster")
CALLS = {  # command lines of a verb; {} is where the model is
    "translate": [f"translate -m {{}} x {option}" for option in ("", "--look", "--stream", "--json")],
    "generate": ["generate {} x", "generate {} x --json"],
    "classify": ["classify {} no.png", "classify {} no.png --json"],
    "describe": ["describe {} no.png", "describe {} no.png --json"],
    "tag": ["tag {} x", "tag {} x --json"],
    "answer": ["answer {} x y", "answer {} x y --json"],
    "detect": ["detect {} no.png", "detect {} no.png --json"],
    "forecast": ["forecast {} no.csv", "forecast {} no.csv --json"],
    "draw": ["draw x -m {}", "draw -m {} x --json"],
    "embed": ["embed {} x", "embed {} x --json"],
}


@cache
def model(family: str) -> Model:
    return model_of(family)


@pytest.mark.parametrize("family", FAMILIES)
def test_neither_answer_nor_view_without_the_verb(family: str) -> None:
    refused = [verb for verb in VERBS if not model(family).can(verb)]
    assert refused
    for verb in refused:
        for call in (answer_view, run_verb):
            with pytest.raises(InputError, match=VERBS[verb].cannot):
                call(model(family), verb)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_command_line_refuses_too(family: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert CALLS.keys() == VERBS.keys()
    folder = tmp_path / "model"
    regard.save(model(family), folder)
    for verb, lines in CALLS.items():
        for line in lines if not model(family).can(verb) else ():
            assert main([word.format(folder) for word in line.split()]) == 2, line
            assert f"this {family} {VERBS[verb].cannot}" in "".join(capsys.readouterr()), line


@pytest.mark.parametrize(("family", "takes"), [("forecaster", "time series"), ("vit", "images"), ("detr", "images")])
def test_a_model_without_texts_says_what_it_takes(family: str, takes: str) -> None:
    with pytest.raises(InputError) as error:
        model(family).text()
    assert error.value.what == f"this {family} takes {takes}, not text"


@pytest.mark.parametrize("given", [5, Image.new("L", (2, 2)), None])
def test_what_is_no_text_is_named_by_its_type(given: Any) -> None:
    with pytest.raises(InputError, match="the input is not a text") as error:
        model("gpt").look(given)
    assert (error.value.got, error.value.expected) == (type(given).__name__, "a string")
