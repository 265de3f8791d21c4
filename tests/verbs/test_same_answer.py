"""`look` shows the answer that `translate` gives, or says why it may be another."""

import warnings

import pytest

import regard
from regard.cli.app import main
from regard.decode.beam import Beam
from regard.decode.settings import Decoding
from regard.errors import Notice

ASKED = ["Where are my keys?", "You should have told me the truth long ago."]


@pytest.mark.parametrize("name", ["tatoeba-en-de"])
def test_what_is_looked_at_is_the_translation(name: str) -> None:
    model = regard.load(name)
    assert model.translate(ASKED[1], decoding=Decoding(beam=Beam(beams=1))).text != model.translate(ASKED[1]).text
    translated = [model.translate(text).text for text in ASKED]
    looked = [model.look(text, pattern="decoder.0.cross").answer for text in ASKED]
    assert [one.headline() for one in looked if one is not None] == translated


def test_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "-m", "tatoeba-en-de", ASKED[1]]) == 0
    wanted = capsys.readouterr().out.strip()
    assert main(["look", "tatoeba-en-de", ASKED[1]]) == 0
    assert capsys.readouterr().out.startswith(wanted)


def test_several_sentences_are_told() -> None:
    model = regard.load("tatoeba-en-de")
    with pytest.warns(Notice, match="`translate` reads each by itself"):
        model.look("I like tea. He likes coffee.", pattern="decoder.0.cross")
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        model.look("I like tea.", pattern="decoder.0.cross")
        model.look("I like tea. He likes coffee.", "Ich mag Tee.", pattern="decoder.0.cross")
