"""The figures of layers, counts and hidden states: every check can fail, and their measures are what they say."""

import re
from typing import Any

import numpy as np
import pytest
import torch

from lectures.tests.test_figures import every_check_fails, recorded
from regard.errors import InputError
from regard.models.mlp import MLP
from regard_lectures.foundations import contexts, letters, perplexity, pixels, play, vowels
from regard_lectures.table import FIGURES

FALLING = [20.0, 12.0, 8.0, 6.0, 5.0, 4.5, 4.4, 4.3]
SPOILED: dict[str, list[tuple[str, Any]]] = {
    "1.1": [
        ("4.errors", [0.001] * 5),
        ("64.errors", [0.02] * 5),
        ("16.errors.4", 0.5),
        ("4.errors.0", 0.001),
    ],
    "1.1b": [
        ("perceptron.weights", 20_000),
        ("perceptron.wrong", [450] * 5),
        ("convolutional.wrong", [900] * 5),
    ],
    "1.2": [
        ("plain.4", 6.0),
        ("add", [28.0, 12.0, 7.0, 7.5, 5.0, 6.0, 8.0, 18.0]),
        ("add", FALLING),
        ("add", [28.0, 12.0, 7.7, 5.9, 6.1, 8.0, 7.0, 18.0]),
        ("kneser.6", 5.5),
        ("kneser", [28.0, 12.0, 7.7, 4.4, 4.45, 4.5, 4.55, 4.65]),
        ("kneser", [*FALLING[:4], 5.9, 5.8, 5.8, 5.8]),
    ],
    "1.2b": [
        ("seen.0", 2),
        ("seen.4", 11_000),
        ("seen", [1, 66, 1382, 11231, 48543, 133298, 264629, 264629 * 20]),
        ("letters", 20),
        ("seen.7", 2_000_000),
        ("once.7", 0.4),
        ("known.7", 0.9),
    ],
    "1.2c": [
        ("saved.1", 0.2),
        ("saved", [0.01, 0.05, 0.1, 0.15, 0.2]),
        ("boxes.where.0", ["fore", 0.001]),
        ("boxes.good n.0", ["ight", 1.5]),
        ("boxes.My lo.0.0", "ve"),
    ],
    "1.3": [
        ("vowels", [" aeio", " aeiouy", " aeiou"]),
        ("emit.0", [0.01] * 27),
        ("emit.1", [0.1] * 27),
        ("bits.1.40", 4.5),
        ("bits", [[4.0, 3.8], [4.0, 3.8], [5.0, 3.8]]),
        ("bits.0.-1", 3.8),
        ("move.1", [0.4, 0.6]),
    ],
    "1.3b": [("hmm", [4.7] * 3), ("rnn", [2.24] * 3), ("hmm", [2.5] * 3), ("rnn", [2.3] * 3)],
}


def test_all_figures_of_counting_are_spoiled_above() -> None:
    assert [name for name in FIGURES if re.fullmatch(r"1\.[123][a-z]?", name)] == list(SPOILED)


@pytest.mark.parametrize("name", list(SPOILED))
def test_every_check_can_fail(name: str) -> None:
    every_check_fails(name, SPOILED[name])


def test_letters_that_are_only_held_out_are_unknown() -> None:
    found = play.numbered("abcabcabc" * 2 + "bz")
    assert found.letters == "abc"
    assert found.train.tolist() == [0, 1, 2] * 6
    assert found.held_out.tolist() == [1, 3]
    assert (found.vocab, found.end) == (5, 4)


def test_without_data_the_error_says_where_it_was_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for module in (perplexity, pixels, vowels):
        with pytest.raises(InputError, match="file not found"):
            module.compute()


def test_runs_of_letters_have_numbers_of_their_own() -> None:
    ids = np.random.default_rng(0).integers(5, size=400)
    for order in (1, 3):
        rows = [tuple(ids[i : i + order]) for i in range(len(ids) - order + 1)]
        numbers = contexts.runs(ids, order)
        assert len(numbers) == len(rows)
        assert len(set(zip(rows, numbers.tolist(), strict=True))) == len(set(rows)) == len(set(numbers.tolist()))


def test_both_readers_of_digits_have_as_many_weights() -> None:
    sizes = [
        sum(weight.numel() for weight in make().parameters()) for make in (pixels.perceptron, pixels.convolutional)
    ]
    assert sizes == [recorded("1.1b")["numbers"][name]["weights"] for name in ("perceptron", "convolutional")]
    assert pixels.convolutional()(torch.zeros(2, 1, 28, 28)).shape == (2, 10)
    assert isinstance(pixels.perceptron(), MLP)


def test_spelling() -> None:
    assert vowels.spelled("Don't -- STOP,\n\nnow!") == "dont stop now"


def test_all_measures_are_of_the_same_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    """One state is the shares of letters; a net of zeros knows nothing."""
    monkeypatch.setattr(letters, "STRETCH", 20)
    monkeypatch.setattr(letters, "STATES", 1)
    monkeypatch.setattr(letters, "ROWS", 10)
    monkeypatch.setattr(letters, "LENGTH", 90)
    monkeypatch.setattr(letters, "MIXED", 0.0)
    monkeypatch.setattr(letters, "ROUNDS", 1)
    rng = np.random.default_rng(1)
    text = "".join(rng.choice(list("aabbbbccd"), 1000))
    found = play.numbered(text)
    shares = np.bincount(found.train, minlength=5)[:4] / len(found.train)
    rows = found.held_out[: len(found.held_out) // 21 * 21].reshape(-1, 21)
    wanted = float(-np.log2(shares)[rows[:, 1:]].mean())
    assert letters.hidden(found, letters.SEED) == pytest.approx(wanted)
    assert letters.counted(found, 1) == pytest.approx(wanted, abs=0.02)


@pytest.mark.slow
def test_a_recurrent_net_learns_what_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("STRETCH", 50), ("STEPS", 120), ("BATCH", 4), ("PIECE", 16), ("HIDDEN", 32)):
        monkeypatch.setattr(letters, name, value)
    bits, _ = letters.recurrent(play.numbered("abcd" * 600), letters.SEED)
    assert bits < 0.3, "2 bits if nothing is learned"
