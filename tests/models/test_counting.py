"""n-grams and hidden Markov models: sums, hand counts, brute force over all paths, and rounds that never get worse."""

import math
from itertools import pairwise, product
from time import perf_counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.models.hmm import HMM
from regard.models.ngram import AddK, KneserNey, NGram

VOCAB, END = 5, 4
TEXTS = [[0, 1, 0, 1, 2], [0, 1, 3], [2, 2, 0], [0, 1, 0, 1, 2, 2], []]
texts = st.lists(st.lists(st.integers(0, 3), max_size=8), min_size=1, max_size=6)


@given(
    texts,
    st.integers(1, 4),
    st.sampled_from([AddK(0.0), AddK(0.5), KneserNey()]),
    st.lists(st.integers(0, 3), max_size=5),
)
@settings(max_examples=60)
def test_chances_add_up_after_any_history(
    rows: list[list[int]], order: int, smoothing: AddK | KneserNey, before: list[int]
) -> None:
    """Seen or unseen; and one symbol's chance is the one of the whole table."""
    model = NGram(order, VOCAB, END, smoothing).learn(rows)
    found = model.foretold(before)
    assert math.isclose(found.sum(), 1, abs_tol=1e-9)
    assert (found >= 0).all()
    history = tuple([*[model.begin] * (order - 1), *before][len(before) :]) if order > 1 else ()
    assert np.allclose(found, [model.probability(history, symbol) for symbol in range(VOCAB)], atol=1e-12)


def by_the_book(
    rows: list[list[int]], order: int, smoothing: AddK | KneserNey, history: tuple[int, ...], symbol: int
) -> float:
    """The formula, with sets and lists of whole n-grams for counts."""
    padded = [[VOCAB] * (order - 1) + row + [END] for row in rows]
    seen = [tuple(row[i - order + 1 : i + 1]) for row in padded for i in range(order - 1, len(row))]
    if isinstance(smoothing, AddK):
        total = sum(gram[:-1] == history for gram in seen) + smoothing.k * VOCAB
        return (seen.count((*history, symbol)) + smoothing.k) / total if total else 1 / VOCAB
    chance = 1 / VOCAB
    for length in range(1, order + 1):
        grams = seen if length == order else [gram[1:] for gram in shorter(seen, length + 1)]
        counts = {gram: grams.count(gram) for gram in grams}
        ones, twos = (sum(count == n for count in counts.values()) for n in (1, 2))
        off = ones / (ones + 2 * twos) if ones else 0.0
        own = history[len(history) - length + 1 :]
        after = {gram[-1]: count for gram, count in counts.items() if gram[:-1] == own}
        if after:
            total = sum(after.values())
            chance = max(after.get(symbol, 0) - off, 0) / total + off * len(after) / total * chance
    return chance


def shorter(grams: list[tuple[int, ...]], length: int) -> set[tuple[int, ...]]:
    """All different ones of so many symbols."""
    return {gram[len(gram) - length :] for gram in grams}


@given(
    texts,
    st.integers(1, 4),
    st.sampled_from([AddK(0.0), AddK(0.5), KneserNey()]),
    st.lists(st.integers(0, 3), max_size=4),
)
@settings(max_examples=60)
def test_counts_by_the_book(rows: list[list[int]], order: int, smoothing: AddK | KneserNey, before: list[int]) -> None:
    model = NGram(order, VOCAB, END, smoothing).learn(rows)
    history = tuple([*[model.begin] * (order - 1), *before][len(before) :]) if order > 1 else ()
    wanted = [by_the_book(rows, order, smoothing, history, symbol) for symbol in range(VOCAB)]
    assert np.allclose(model.foretold(before), wanted, atol=1e-12)
    padded = [VOCAB] * (order - 1) + before + [END]
    chances = [
        by_the_book(rows, order, smoothing, tuple(padded[i - order + 1 : i]), padded[i])
        for i in range(order - 1, len(padded))
    ]
    with np.errstate(divide="ignore"):
        assert np.allclose(model.surprises([before]), -np.log2(chances))


def test_who_has_learned_nothing_guesses() -> None:
    for smoothing in (AddK(0.0), AddK(0.5), KneserNey()):
        for model in (NGram(3, VOCAB, END, smoothing), NGram(3, VOCAB, END, smoothing).learn([])):
            assert np.allclose(model.foretold([1, 2]), 1 / VOCAB)
            assert model.bits([[0, 1]]) == pytest.approx(math.log2(VOCAB))
            assert model.bits([]) == 0
    with pytest.raises(ValueError, match="from 0 to 4, got 0 to 5"):
        NGram(2, VOCAB, END, AddK()).learn([[0, 1], [0, 5]])


def test_a_million_letters_in_seconds() -> None:
    """And their histories are as many as a set of them has."""
    row = np.random.default_rng(0).integers(30, size=1_000_000) ** 2 // 30
    start = perf_counter()
    model = NGram(6, 32, 31, KneserNey()).learn([row])
    assert perf_counter() - start < 30, "a few seconds on a quiet machine"
    padded = np.concatenate((np.full(5, 32), row))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 5)
    assert model.histories() == len(np.unique(windows @ 33 ** np.arange(5)))  # each window as one number


def test_one_symbol_is_its_share() -> None:
    model = NGram(1, VOCAB, END, AddK(0.0)).learn(TEXTS)
    symbols = [symbol for text in TEXTS for symbol in [*text, END]]
    assert np.allclose(model.foretold([]), [symbols.count(i) / len(symbols) for i in range(VOCAB)])


def test_no_other_table_makes_its_own_text_likelier() -> None:
    """Counts are the likeliest probabilities; and a longer history is at least as good."""
    plain = [NGram(order, VOCAB, END, AddK(0.0)).learn(TEXTS).bits(TEXTS) for order in (1, 2, 3, 4)]
    assert all(after <= before for before, after in pairwise(plain))
    for k in (0.01, 0.5, 2.0):
        assert NGram(2, VOCAB, END, AddK(k)).learn(TEXTS).bits(TEXTS) > plain[1]


def test_kneser_and_ney_by_hand() -> None:
    """Of "ab", "ab", "cb": b was seen often, but after two symbols only; the end after one."""
    a, b, c, end = range(4)
    model = NGram(2, 4, end, KneserNey()).learn([[a, b], [a, b], [c, b]])
    # Pairs: <a 2, <c 1, ab 2, cb 1, b$ 3: seen once two, twice two. So D = 2 / (2 + 4).
    assert model.tables[1].discount == pytest.approx(1 / 3)
    # Different symbols before: a 1, b 2, c 1, $ 1: once three, twice one. D = 3 / 5.
    assert model.tables[0].discount == pytest.approx(3 / 5)
    alone = [(1 - 0.6) / 5 + 0.6 * 4 / 5 / 4, (2 - 0.6) / 5 + 0.6 * 4 / 5 / 4]
    assert model.probability((b,), a) == pytest.approx((1 / 3) * 1 / 3 * alone[0])
    assert model.probability((a,), b) == pytest.approx((2 - 1 / 3) / 2 + (1 / 3) * 1 / 2 * alone[1])
    assert model.probability((end,), b) == pytest.approx(alone[1]), "after what was never seen, the shorter history"


def test_the_end_is_counted() -> None:
    assert NGram(1, 2, 1, AddK(0.0)).learn([[0], [0]]).bits([[0]]) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="expected order >= 1"):
        NGram(0, 5, 4, AddK())


# hidden states ---------------------------------------------------------------------------------------------------


def brute(model: HMM, text: list[int]) -> tuple[float, list[int], float]:
    """Every path by itself."""
    chances = {}
    for path in product(range(len(model.start)), repeat=len(text)):
        chance = model.start[path[0]] + sum(model.move[i, j] for i, j in pairwise(path))
        chances[path] = float(chance + sum(model.emit[state, symbol] for state, symbol in zip(path, text, strict=True)))
    best = max(chances, key=chances.__getitem__)
    return math.log(sum(map(math.exp, chances.values()))), list(best), chances[best]


@pytest.mark.parametrize("seed", range(5))
def test_all_paths(seed: int) -> None:
    model = HMM.drawn(3, 4, seed)
    rows = torch.randint(4, (4, 6), generator=torch.Generator().manual_seed(seed))
    paths, scores = model.viterbi(rows)
    alpha, beta = model.forward(rows), model.backward(rows)
    for i, text in enumerate(rows.tolist()):
        total, best, score = brute(model, text)
        assert float(model.likelihood(rows)[i]) == pytest.approx(total)
        assert paths[i].tolist() == best
        assert float(scores[i]) == pytest.approx(score)
        for place in range(6):  # the two halves meet anywhere
            assert float(torch.logsumexp((alpha + beta)[i, place], -1)) == pytest.approx(total)


@pytest.mark.parametrize("seed", range(3))
def test_rounds_never_make_it_worse(seed: int) -> None:
    model, rows = HMM.drawn(3, 5, seed), torch.randint(5, (7, 20), generator=torch.Generator().manual_seed(seed))
    found = []
    for _ in range(25):
        found.append(float(model.likelihood(rows).sum()))
        model = model.improved(rows)
        for table in (model.start, model.move, model.emit):
            assert torch.allclose(table.exp().sum(-1), torch.ones(table.shape[:-1], dtype=torch.float64))
    assert all(after >= before - 1e-9 for before, after in pairwise(found))
    assert found[-1] > found[0] + 1


@pytest.mark.parametrize("seed", range(3))
def test_a_round_is_the_expected_counts_of_all_paths(seed: int) -> None:
    model, rows = HMM.drawn(2, 3, seed), torch.randint(3, (4, 5), generator=torch.Generator().manual_seed(seed))
    start, move, emit = (torch.zeros(shape, dtype=torch.float64) for shape in ((2,), (2, 2), (2, 3)))
    for text in rows.tolist():
        whole = brute(model, text)[0]
        for path in product(range(2), repeat=5):
            chance = model.start[path[0]] + sum(model.move[i, j] for i, j in pairwise(path))
            chance = chance + sum(model.emit[state, symbol] for state, symbol in zip(path, text, strict=True))
            share = math.exp(float(chance) - whole)
            start[path[0]] += share
            for i, j in pairwise(path):
                move[i, j] += share
            for state, symbol in zip(path, text, strict=True):
                emit[state, symbol] += share
    found = model.improved(rows)
    for table, counts in ((found.start, start), (found.move, move), (found.emit, emit)):
        assert torch.allclose(table.exp(), counts / counts.sum(-1, keepdim=True))


def test_equal_states_stay_equal() -> None:
    equal = HMM(*(torch.zeros(shape, dtype=torch.float64).log_softmax(-1) for shape in ((2,), (2, 2), (2, 3))))
    after = equal.improved(torch.tensor([[0, 1, 2, 2, 0]]))
    assert torch.allclose(after.emit[0], after.emit[1])


def test_long_texts_do_not_vanish() -> None:
    model = HMM.drawn(2, 3)
    assert torch.isfinite(model.likelihood(torch.zeros(1, 5000, dtype=torch.long))).all()
