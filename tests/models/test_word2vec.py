"""Word vectors: what they find is what the words' company tells."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from regard.models.word2vec import Config, SkipGram, batches, pairs, word_vectors

WORDS = 10


def texts(count: int, seed: int = 0) -> list[list[int]]:
    """Walks among words, each of which likes some others."""
    chance = np.random.default_rng(seed)
    likes = chance.dirichlet(np.full(WORDS, 0.5), size=WORDS).cumsum(1)
    rows = [[int(chance.integers(WORDS))] for _ in range(count)]
    for row in rows:
        for _ in range(9):
            row.append(min(int(np.searchsorted(likes[row[-1]], chance.random())), WORDS - 1))
    return rows


def test_at_its_best_a_product_is_what_two_words_tell_of_each_other() -> None:
    """With enough width: log P(o, c) / (P(c) N(o)) - log k, where N draws the negatives (Levy and Goldberg, 2014)."""
    rows = texts(1500)
    config = Config(vocab=WORDS, dim=WORDS, window=1, often=1e9, epochs=20, batch=2048)
    torch.manual_seed(0)
    net = SkipGram(WORDS, WORDS)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    for words, contexts, negatives, done in batches(rows, config):
        optimizer.param_groups[0]["lr"] = 0.05 * (1 - done) + 1e-4
        optimizer.zero_grad()
        (net(words, contexts, negatives) / len(words)).backward()
        optimizer.step()
    found = (net.words.weight @ net.contexts.weight.T).detach().numpy()
    joint = np.zeros((WORDS, WORDS))
    np.add.at(joint, pairs(rows, config, np.random.default_rng(0)), 1)
    joint /= joint.sum()
    often = np.bincount([i for row in rows for i in row], minlength=WORDS) ** 0.75
    wanted = np.log(np.maximum(joint, 1e-9) / (joint.sum(1)[:, None] * often / often.sum() * config.negatives))
    seen = joint > 1e-3
    assert np.corrcoef(found[seen], wanted[seen])[0, 1] > 0.95


def test_the_loss_by_its_equation() -> None:
    """A sum over negatives, not a mean; one that is the context itself does not count."""
    net = SkipGram(5, 3)
    torch.nn.init.normal_(net.contexts.weight)
    v, u = net.words.weight[2], net.contexts.weight
    wanted = -(F.logsigmoid(v @ u[1]) + F.logsigmoid(-(v @ u[4])) + F.logsigmoid(-(v @ u[0])))
    found = net(torch.tensor([2]), torch.tensor([1]), torch.tensor([[4, 1, 0]]))
    torch.testing.assert_close(found, wanted)


def test_pairs_stay_within_their_row_and_window() -> None:
    rows = [[0, 1, 2, 3, 4], [5], [], [6, 7]]
    config = Config(vocab=8, window=2, often=1e9)
    seen: set[tuple[int, int]] = set()
    for seed in range(40):
        seen |= set(zip(*(x.tolist() for x in pairs(rows, config, np.random.default_rng(seed))), strict=True))
    near = {(a, b) for a in range(5) for b in range(5) if 0 < abs(a - b) <= 2}
    assert seen == near | {(6, 7), (7, 6)}


def test_frequent_words_are_thinned_out() -> None:
    rows = [[0, 0, 0, 1] for _ in range(3000)]
    words, _ = pairs(rows, Config(vocab=2, window=1, often=0.03), np.random.default_rng(0))
    kept = [np.sqrt(0.03 / 0.75), np.sqrt(0.03 / 0.25)]
    counts = np.bincount(words, minlength=2)
    assert counts[0] / counts.sum() < 0.75
    assert 0 < counts.sum() < 3000 * 6 * max(kept)


def test_like_words_have_like_vectors_and_a_seed_is_a_table() -> None:
    """Words 0 and 1 stand in the same places, 2 and 3 in others."""
    chance = np.random.default_rng(1)
    rows = [[4, int(chance.integers(2)), 5] if i % 2 else [6, 2 + int(chance.integers(2)), 7] for i in range(2000)]
    config = Config(vocab=8, dim=6, window=1, often=1.0, epochs=5, batch=256)
    table = word_vectors(rows, config)
    assert torch.equal(table, word_vectors(rows, config))
    near = F.cosine_similarity(table[:, None], table[None], dim=-1)
    assert near[0, 1] > 0.8
    assert near[2, 3] > 0.8
    assert near[0, 2] < near[0, 1] - 0.3


@pytest.mark.parametrize("wrong", [{"dim": 0}, {"window": 0}, {"negatives": 0}, {"rate": 0.0}, {"often": -1.0}])
def test_impossible_settings(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Config(vocab=3, **wrong)  # type: ignore[arg-type]
