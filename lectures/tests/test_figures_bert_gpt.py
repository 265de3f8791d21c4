"""The figures of BERT, GPT-2 and Sentence-BERT: every check can fail, and their measures are what they say."""

import re
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from lectures.tests.test_figures import every_check_fails, module, recorded, spoiled
from regard.data.counter_rng import COLLATE, philox
from regard.errors import InputError
from regard.modalities.text.masking import Masking
from regard.modalities.text.processor import Text
from regard.modalities.text.vocabulary import Vocabulary, mask_token, with_frame, with_mask
from regard.models.bert import BERT
from regard.models.gpt import GPT, Config
from regard_lectures.figure import verdict
from regard_lectures.table import FIGURES
from regard_lectures.text import blanks, decoder_stack, fifteen, paraphrases, two_kinds
from regard_lectures.transformer.anatomy import column, watch

SPOILED: dict[str, list[tuple[str, Any]]] = {
    "4.1": [
        ("summed", 1e-3),
        ("least", 0.0),
        ("order", 1e-3),
        ("pooled", 1e-3),
        ("shapes.states", [1, 9, 8]),
        ("shapes.words", [1, 1, 9]),
        ("shapes.follows", [10, 2]),
    ],
    "4.1b": [
        ("free", 300_000),
        ("hidden", 30_000),
        ("other", 9_000),
        ("kept", 4_000),
        ("middle", 0.1),
        ("untouched", False),
    ],
    "4.1c": [
        ("bert.weights", 340_000_000),
        ("gpt3.weights", 176_000_000_000),
        ("base.weights", 110_000_000),
        ("bert.blocks", 12),
        ("gpt3.width", 1024),
        ("twelve blocks", 335_000_000),
        ("bert.weights", 200_000_000),
        ("bert.output", [1, 1, 1024]),
        ("gpt3.output", [1, 1, 50257]),
        ("seen.bert.0.5", 0),
        ("seen.gpt3.0.5", 1),
    ],
    "4.1d": [
        ("ahead.weights", 100_000),
        ("masked.right.1", 3_000),
        ("masked.right", [4_000, 4_000, 4_600]),
        ("ahead.right", [1500, 1500, 1500]),
        ("masked.places.0.0", 10),
    ],
    "4.1e": [
        ("guessing", [[1.0, 5.0], [2.0, 6.0]]),
        ("right.reviews-500-scratch", [0.99] * 3),
        ("right.reviews-500", [0.1] * 3),
    ],
    "4.2": [
        ("anatomy.parts.0.kind", "feed-forward"),
        ("anatomy.parts.1.norm", "after"),
        ("anatomy.parts.0.causal", False),
        ("anatomy.parts.1.cross", True),
        ("later", 0.1),
        ("anatomy.final", False),
        ("tied", False),
        ("parameters", 117_000_000),
        ("deviations.others", 0.03),
        ("deviations.ends", 0.02),
        ("streams.scaled 48.-1", 1.0),
        ("streams.unscaled 48.-1", 1.0),
    ],
    "4.2b": [
        *[(f"counted.{name}", 1) for name in ("gpt-small", "gpt-medium", "gpt-large", "gpt-xl", "gpt3")],
        ("printed.gpt-xl", 1600),
        ("quoted.paper", 176),
    ],
    "4.2c": [("weights.LSTM", 1), ("bits.GPT", 9.0), ("bits.LSTM", 9.0), ("bits.7", 2.09), ("bits.5", 2.2)],
    "4.6": [
        ("pairs", 100),
        ("overlap", 0.5),
        ("starts", [400] * 3),
        ("first.sentence", 190),
        ("first.word2vec", 2),
        ("alone", 0.1),
        ("careless", 1e-7),
        ("shown", []),
    ],
}


def test_all_of_4_1_4_2_and_4_6_are_spoiled_above():
    assert [name for name in FIGURES if re.fullmatch(r"4\.[126][a-z]?", name)] == list(SPOILED)


@pytest.mark.parametrize("name", list(SPOILED))
def test_every_check_can_fail(name):
    every_check_fails(name, SPOILED[name])


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [("4.1e", "right.reviews-500", [0.69, 0.68, 0.68]), ("4.2c", "bits.GPT", 2.05)],
)
def test_the_verdict_turns_with_the_numbers(name, path, value):
    numbers = recorded(name)["numbers"]
    assert verdict(module(name).checks(numbers)) == recorded(name)["verdict"]
    assert verdict(module(name).checks(spoiled(numbers, path, value))) == "confirmed"


def test_missing_data_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for code in (fifteen, blanks, paraphrases):
        with pytest.raises(InputError, match="file not found"):
            code.compute()


# BERT ---------------------------------------------------------------------------------------------


def small_text() -> Text:
    return with_mask(with_frame(Vocabulary("words", 40).learn(["a man sits on a red chair", "two men sit"])))


def test_fates_are_told_apart():
    text = small_text()
    masking = Masking(text, 20, 0.9)
    seen = set()
    for step in range(60):
        batch = masking([("a man sits on a red chair",)], [philox(COLLATE, 0, step)])
        for kind, given, wanted, chosen in zip(
            fifteen.told(batch, mask_token(text))[0], batch.ids[0], batch.wanted[0], batch.chosen[0], strict=True
        ):
            seen.add(int(kind))
            assert bool(kind) == bool(chosen)
            if kind == fifteen.HIDDEN:
                assert given == mask_token(text)
            elif kind == fifteen.OTHER:
                assert given != wanted
            else:
                assert given == wanted
    assert seen == {0, fifteen.HIDDEN, fifteen.OTHER, fifteen.KEPT}


@pytest.mark.parametrize("kind", ["masked", "ahead"])
def test_a_blank_is_guessed_without_being_seen(kind):
    """Each place by itself, as slowly as can be; and what stands there makes no difference."""
    text = small_text()
    rows = text.checked(["a man sits on a red chair", "two men sit"])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = blanks.build(kind, text.tokenizer.get_vocab_size()).eval()
        with torch.no_grad():
            for weight in net.parameters():
                weight.add_(0.2 * torch.randn_like(weight))
    said = blanks.guesses(net, rows, mask_token(text))
    for row, own in zip(rows, said, strict=True):
        assert len(own) == len(row) - 2
        for place in range(1, len(row) - 1):
            if isinstance(net, BERT):
                given = [*row[:place], mask_token(text), *row[place + 1 :]]
                logits = net(torch.tensor([given])).words[0, place]
            else:
                logits = net(torch.tensor([row[:place]]))[0, -1]
            assert int(logits.argmax()) == own[place - 1]


def test_both_learners_are_given_the_same_captions():
    texts = [" ".join("abcdefgh"[: 1 + i % 8]) for i in range(100)]
    steps = blanks.orders(texts, 3)
    assert steps == blanks.orders(texts, 3) != blanks.orders(texts, 4)
    assert sorted(i for some in steps for i in some) == sorted(list(range(100)) * blanks.EPOCHS)


def test_who_sees_whom_is_found():
    net = GPT(Config(vocab=9, length=8, dim=8, depth=1, heads=2))
    found = np.array(two_kinds.seen(net))
    assert np.array_equal(found, np.tri(two_kinds.TOKENS, dtype=int))


# GPT-2 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_stack_is_read_off_what_runs(norm):
    net = GPT(Config(vocab=9, length=8, dim=8, depth=3, heads=2, norm=norm))
    found = column(watch(net, lambda: net(torch.zeros(1, 4, dtype=torch.long))), "blocks", net.norm is not None)
    place = "before" if norm == "pre" else "after"
    assert (found["depth"], found["final"]) == (3, norm == "pre")
    assert [(part["kind"], part["norm"], part["causal"], part["cross"]) for part in found["parts"]] == [
        ("attention", place, True, False),
        ("feed-forward", place, False, False),
    ]


def test_the_stream_grows_with_what_ends_its_branches():
    ids = torch.randint(64, (2, 8))
    net = GPT(Config(vocab=64, length=8, dim=32, depth=6, heads=2)).eval()
    small = decoder_stack.sizes(net, ids, scaled=True)
    assert len(small) == 6
    assert decoder_stack.sizes(net, ids, scaled=False)[-1] > 2 * small[-1]


# Sentence-BERT ------------------------------------------------------------------------------------


def test_paraphrases_have_one_translation_and_other_words():
    rows = [
        ("I have no time to lose now.", "Z"),
        ("I have no time to lose now!", "Z"),  # the same words
        ("We must hurry, let us start.", "Z"),
        ("Go.", "Z"),  # too short
        ("We must hurry, let us start.", "B"),  # taken already
        ("Quick, or else they leave without.", "B"),
        ("Nobody else says anything like this.", "C"),
    ]
    assert paraphrases.alike(rows) == [("I have no time to lose now.", "We must hurry, let us start.")]


def test_ranks_count_those_that_are_as_near():
    one = torch.eye(3)
    other = torch.tensor([[1.0, 0, 0], [0.8, 0.6, 0], [0.0, 0.9, 0.5]])
    assert paraphrases.recall(one, other) == [0, 1, 0]
    assert paraphrases.recall(one[:2], torch.ones(2, 3) / 3**0.5) == [1, 1], "who cannot tell them apart is not right"


def test_words_that_nobody_knows_are_left_out_of_the_mean():
    table = torch.tensor([[3.0, 0.0], [0.0, 3.0]])
    found = paraphrases.by_vectors(table, {"a": 0, "b": 1}, ["A b, zzz", "a a b?", "zzz"])
    wanted = torch.nn.functional.normalize(torch.tensor([[1.0, 1.0], [2.0, 1.0], [0.0, 0.0]]), dim=-1)
    assert torch.allclose(found, wanted)


def test_the_vocabulary_is_berts(shared_data):
    path = shared_data / fifteen.VOCABULARY
    if not path.exists():
        pytest.skip("weights_minilm_l6 is not among the data")
    assert Tokenizer.from_file(str(path)).get_vocab_size() == recorded("4.1b")["numbers"]["vocabulary"] == 30522
