"""The shipped demonstration model, and the recipe that made it."""

import json
from importlib.resources import files

import pytest
import torch

import regard
from regard.cli.app import main
from regard.errors import InputError
from tests import recall


def test_the_shipped_model_remembers() -> None:
    assert recall.score(regard.load("recall"), asked=300) > 0.99


def test_it_looks_at_the_answer_when_it_answers() -> None:
    """The claim of the demo: some head of the last layer looks back at the word that followed the name before."""
    model = regard.load("recall")
    generator = torch.Generator().manual_seed(3)
    ids = recall.stories(20, 5, generator)
    at = int(recall.verbs_again(5)[-1]) - 1  # the name whose verb is to be remembered
    maps = model(ids[:, : at + 1], look="blocks.1.mixer").maps["blocks.1.mixer"].weights
    told = (ids[:, : at + 1] == ids[:, at + 1, None])[:, None].expand(-1, 4, -1)  # every place of that verb
    share = (maps[:, :, at] * told).sum(-1).amax(1)
    assert share.mean() > 0.7


@pytest.mark.slow
def test_the_recipe_learns() -> None:
    """A few steps on shorter stories; a model that cannot look back only guesses among the verbs told: a third."""
    torch.set_num_threads(1)
    model = recall.train(steps=300, batch=64, seed=1, fewest=2)
    assert recall.score(model, asked=300) > 0.6


def test_the_demo_shows_what_it_computed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["answer"] == "paints"
    rows = torch.tensor(shown["map"]["weights"])
    torch.testing.assert_close(rows.sum(-1), torch.ones(len(rows)))
    assert rows.triu(1).abs().max() == 0
    assert shown["map"]["words"][int(rows[-1].argmax())] == "paints"
    assert shown["translation"]["text"] == "Sie hat noch nie so einen großen Hund gesehen."
    assert list(shown["translation"]["maps"]) == ["decoder.0.cross", "decoder.1.cross"]
    assert shown["verse"].startswith("ROMEO:\n")
    assert 40 < len(shown["verse"]) < 260


def test_the_demo_is_drawn_in_letters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 0
    text = capsys.readouterr().out
    assert "paints" in text
    assert "Sie hat noch nie so einen großen Hund gesehen." in text
    assert text.index("paints") < text.index("gesehen") < text.index("ROMEO")
    assert "█" in text


def test_the_demo_refuses_words_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "Anna yodels . Anna"]) == 2
    assert "yodels" in capsys.readouterr().err


def test_an_unknown_word_is_not_read_as_another() -> None:
    """There is no token for it: the words that are not known are named, and those that are."""
    model = regard.load("recall")
    with pytest.raises(InputError, match="words outside the model's vocabulary") as error:
        model.look("Anna yodels . Boris juggles . anna yodels")
    assert error.value.got == "'yodels', 'juggles', 'anna'"
    assert all(word in error.value.expected for word in recall.WORDS)
    assert model.look("Anna sings .").maps["blocks.0.mixer"].columns.labels == ("Anna", "sings", ".")


def test_the_shipped_tokenizer_is_that_of_the_recipe() -> None:
    shipped = files("regard").joinpath("pretrained", "recall", "tokenizer.json").read_bytes()
    assert shipped == recall.tokenizer().to_bytes()


@pytest.mark.parametrize("text", ["", "  "])
def test_nothing_to_look_at(text: str) -> None:
    with pytest.raises(InputError, match="is empty"):
        regard.load("recall").look(text)
