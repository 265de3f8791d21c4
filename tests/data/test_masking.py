"""Hidden tokens and missing spans: what is given, what is wanted, and how often."""

from importlib import import_module

import numpy as np
import pytest
import scipy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batches import RandomBatches
from regard.data.counter_rng import AUGMENT, philox, uniform_samples
from regard.data.order import Order
from regard.errors import InputError
from regard.modalities.text.masking import Masking, Neighbours
from regard.modalities.text.processor import Text
from regard.modalities.text.spans import SpanBatch, parts
from regard.modalities.text.vocabulary import (
    Vocabulary,
    mask_token,
    sentinel,
    sentinels_of,
    with_frame,
    with_mask,
    with_sentinels,
)
from tests.data.test_stream import lines_of


@pytest.fixture(scope="module", autouse=True)
def statistics() -> None:
    """Imported here: it takes long, and is no test's own work."""
    import_module("scipy.stats")


WORDS = " ".join(f"w{i}" for i in range(200))


def vocabulary() -> Text:
    return with_mask(with_frame(Vocabulary("words", 300).learn([WORDS])))


def numbers(row: int, step: int = 0) -> np.random.Philox:
    return philox(AUGMENT, 0, step, row)


def test_eighty_ten_ten_of_fifteen() -> None:
    """Over 300,000 tokens: how many are chosen, and what becomes of them (chi-square)."""
    text = vocabulary()
    masking, mask, vocab = Masking(text, 600, 0.15), mask_token(text), text.tokenizer.get_vocab_size()
    counts, total, others = np.zeros(3), 0, np.zeros(vocab)
    row = " ".join(f"w{i % 200}" for i in range(500))
    for step in range(600):
        hidden = masking([(row,)], [numbers(0, step)])
        chosen, given_, wanted = hidden.chosen[0], hidden.ids[0], hidden.wanted[0]
        total += 500
        assert torch.equal(given_[~chosen], wanted[~chosen])
        assert not chosen[[0, -1]].any()  # the tokens around the text
        masked, same = (given_ == mask) & chosen, (given_ == wanted) & chosen
        counts += [int(masked.sum()), int((chosen & ~masked & ~same).sum()), int(same.sum())]
        for i in given_[chosen & ~masked & ~same].tolist():
            others[i] += 1
    assert counts.sum() == total * 0.15  # exactly: so many of each text
    other = 0.1 * (vocab - 2) / vocab  # any token may be the same one, or the mask, by chance
    expected = counts.sum() * np.array([0.8 + 0.1 / vocab, other, 0.1 + 0.1 / vocab])
    assert scipy.stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > 1e-3
    seen = np.delete(others, mask)
    assert scipy.stats.chisquare(seen).pvalue > 1e-3  # drawn from the whole vocabulary


def test_a_row_is_hidden_alike_in_any_batch_and_anew_at_every_step() -> None:
    text = vocabulary()
    rows = lines_of([WORDS, "w1 w2 w3 w4", "w5 w6 w7 w8 w9"])
    data = RandomBatches(rows, Order(3, rows=3, seed=0), Masking(text, 64, 0.3), seed=7)
    together, alone = data.collate([0, 1, 2], 5), data.collate([1], 5)
    size = alone.ids.shape[1]
    assert torch.equal(together.ids[1, :size], alone.ids[0])
    assert torch.equal(together.chosen[1, :size], alone.chosen[0])
    assert not together.chosen[1, size:].any()
    assert not torch.equal(data.collate([0], 6).chosen, data.collate([0], 5).chosen)
    assert torch.equal(data.collate([0], 5).ids, data.collate([0], 5).ids)


def test_half_of_the_second_texts_follow() -> None:
    text = vocabulary()
    rows = lines_of([f"w{2 * i} w{2 * i + 1}" for i in range(100)])
    pairs = Neighbours(rows)
    assert len(pairs) == 99
    assert pairs[3] == ("w6 w7", "w8 w9")
    masking = Masking(text, 64, 0.01, rows)
    follows = []
    for i in range(99):
        for step in range(10):
            hidden = masking([pairs[i]], [numbers(i, step)])
            assert hidden.segments is not None
            assert hidden.follows is not None
            first, second = (
                text.decode(hidden.wanted[0][hidden.segments[0] == side].tolist()).split() for side in (0, 1)
            )
            assert " ".join(first) == pairs[i][0]
            if not int(hidden.follows):
                assert " ".join(second) == pairs[i][1]
            follows.append(int(hidden.follows))
    assert 0.45 < np.mean(follows) < 0.55


def test_the_longer_of_two_texts_is_cut() -> None:
    text = vocabulary()
    (found,) = text.framed([("w1 w2 w3 w4 w5 w6 w7 w8", "w9 w10")], 9)
    assert text.labels(found.ids) == ("<begin>", "w1", "w2", "w3", "w4", "<end>", "w9", "w10", "<end>")
    assert found.segments == [0] * 6 + [1] * 3
    (even,) = text.framed([(WORDS, WORDS)], 9)
    assert even.segments == [0] * 5 + [1] * 4
    assert [len(one.ids) for one in text.framed([("w1 w2 w3",), ("w1",)], 4)] == [4, 3]


def test_a_tokenizer_of_others_is_not_changed() -> None:
    text = vocabulary()
    before = text.to_bytes()
    with_mask(with_frame(text))
    assert text.to_bytes() == before
    with pytest.raises(InputError, match="no mask token"):
        mask_token(Vocabulary("words", 50).learn([WORDS]))


@settings(max_examples=200, deadline=None)
@given(n=st.integers(2, 200), share=st.floats(0.05, 0.6), mean=st.floats(1.0, 6.0), seed=st.integers(0, 1000))
def test_spans_and_what_is_left_are_the_text(n: int, share: float, mean: float, seed: int) -> None:
    """Put back where their tokens stand, the missing spans give the text again; the share of them is as asked for."""
    text = with_sentinels(Vocabulary("words", 300).learn([WORDS]), 100)
    spans, marks = SpanBatch(text, n, share, mean), sentinels_of(text)
    ids = np.arange(n) % 100 + 10
    source, target = spans.corrupt(ids, philox(AUGMENT, seed, 0))
    missing: dict[int, list[int]] = {}
    for i in target:
        if i in marks:
            missing[i] = []
        else:
            missing[list(missing)[-1]].append(i)
    assert list(missing) == marks[: len(missing)]  # in their order, one more than there are spans
    assert not missing.pop(marks[len(missing) - 1])
    assert all(missing.values())
    back = [j for i in source for j in (missing[i] if i in marks else [i])]
    assert back == ids.tolist()
    gone = sum(map(len, missing.values()))
    assert gone == min(max(round(n * share), 1), n - 1)
    assert len(missing) == min(max(round(gone / mean), 1), gone, n - gone, 99)


def test_parts_are_equally_likely() -> None:
    seen = [tuple(parts(5, 3, philox(AUGMENT, i, 0))) for i in range(3000)]
    assert set(seen) == {(a, b, 5 - a - b) for a in range(1, 4) for b in range(1, 5 - a)}
    counts = [seen.count(way) for way in sorted(set(seen))]
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


def test_fractions_are_even() -> None:
    drawn = uniform_samples(philox(AUGMENT, 1, 2), 100_000)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert scipy.stats.kstest(drawn, "uniform").pvalue > 1e-3


def test_names_of_missing_spans_are_those_of_t5() -> None:
    assert sentinel(3) == "<extra_id_3>"
