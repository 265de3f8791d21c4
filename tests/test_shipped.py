"""The translator that ships: small, documented, and as good as its card says."""

from importlib.resources import files
from pathlib import Path

import pytest
import torch

import regard
from regard.cli.app import main
from regard.data.tables import open_tsv
from regard.decode.beam import Beam
from regard.decode.settings import Decoding
from regard.model import Model, Translated
from regard.tasks.bleu import quality

OWN = {
    "I don't know where my keys are.": "Ich weiß nicht, wo meine Schlüssel sind.",
    "He speaks three languages fluently.": "Er spricht drei Sprachen fließend.",
    "The children are playing in the garden.": "Die Kinder spielen im Garten.",
    "You should have told me the truth.": "Du hättest mir die Wahrheit sagen sollen.",
}


@pytest.fixture(scope="module")
def model() -> Model:
    return regard.load("tatoeba-en-de")


def test_all_that_ships_is_small() -> None:
    sizes = [x.stat().st_size for x in Path(str(files("regard"))).joinpath("pretrained").rglob("*") if x.is_file()]
    assert sum(sizes) < 15_000_000


def test_its_card_tells_what_a_user_must_know() -> None:
    card = files("regard").joinpath("pretrained", "tatoeba-en-de", "card.md").read_text("utf-8")
    for word in (
        "CC BY 2.0",
        "manythings.org/anki",
        "tatoeba.org",
        "regard train tatoeba-en-de",
        "sacreBLEU 41.4",
        "chrF 60.1",
        "Limits",
    ):
        assert word in card


@pytest.mark.parametrize("english", OWN)
def test_everyday_sentences(model: Model, english: str) -> None:
    found = model.translate(english)
    assert isinstance(found, Translated)
    assert found.text == OWN[english]


def test_it_looks_at_the_word_that_it_says(model: Model) -> None:
    found = model.translate("The children are playing in the garden.", look="decoder.1.cross")
    assert isinstance(found, Translated)
    seen = found.maps["decoder.1.cross"]
    rows, columns = ([label.strip() for label in axis.labels or ()] for axis in (seen.rows, seen.columns))
    weights = seen.weights[0].mean(0)
    for german, word in (("Kinder", "children"), ("spielen", "playing"), ("Garten", "garden")):
        assert columns[int(weights[rows.index(german)].argmax())] == word
    torch.testing.assert_close(weights.sum(-1), torch.ones(len(rows)))


def test_the_verb_needs_no_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "The children are playing in the garden.", "--look"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Die Kinder spielen im Garten."
    assert any(line.strip().startswith("Garten") and "█" in line for line in lines)


def test_unseen_sentences(model: Model, shared_data: Path) -> None:
    """Every eighth sentence of those that its card speaks of, by the likeliest word: the card says 40.4 for all."""
    path = shared_data / "tatoeba_en_de_fr" / "en-de.val.tsv.xz"
    if not path.is_file():
        pytest.skip(f"needs {path} (docs/data.md)")
    rows = open_tsv(path, (1, 2))
    pairs = [rows[i] for i in range(0, len(rows), 8)]
    found = model.translate([english for english, _ in pairs], decoding=Decoding(beam=Beam(beams=1)))
    assert isinstance(found, list)
    assert quality([one.text for one in found], [german for _, german in pairs]).bleu > 36
