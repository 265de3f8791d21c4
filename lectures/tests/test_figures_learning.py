"""The figures of learning and looking: every check can fail, and their toys and measures are what they say."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from lectures.tests.test_figures import computed, every_check_fails, module
from regard.errors import InputError
from regard.modalities.text.tasks.distillation import Distil
from regard.modalities.text.tasks.translation import Translate
from regard.models.word2vec import SkipGram
from regard.nn.tap import capture
from regard_lectures import table
from regard_lectures.learning import (
    company,
    exposure,
    head_start,
    in_parallel,
    lessons,
    missing_three,
    neighbours,
    song,
    students,
)
from regard_lectures.looking import eight, french, swaps

SPOILED: dict[str, list[tuple[str, Any]]] = {
    "3.1": [("together", [0.8] * 3), ("chance", [0.6] * 3), ("colours", [0.4] * 3), ("numbers", [0.4] * 3)],
    "3.1b": [("plain", [0.9] * 3), ("exact", [0.98] * 3), ("slope", [1.2] * 3), ("off", [0.3] * 3)],
    "3.1c": [
        ("word2vec", [[9.0] * 17 + [2.83]] * 3),
        ("word2vec", [[4.0] * 17 + [3.0]] * 3),
    ],
    "3.9": [
        ("given.2", "am"),
        ("future", 1e-9),
        ("rows", 1e-3),
        ("one by one", 1e-3),
        ("mixed", 1e-3),
        ("changed", 1e-3),
        ("said.1", "Seeufer"),
        ("chances.1", 0.3),
    ],
    "3.9b": [
        ("wrong", [{"listening": 2, "memory": 4}] * 6),
        ("wrong", [{"listening": 1, "memory": 1}] * 6),
        ("alike", False),
        ("own", False),
    ],
    "3.9c": [
        ("ways.scheduled.fed", [[0.01] * 24] * 3),
        ("ways.back-feeding.fed", [[0.1] * 24] * 3),
        ("ways.teacher.horizon", [[0.1] * 32] * 3),
        ("ways.scheduled.horizon", [[0.02 * i for i in range(32)]] * 3),
        ("ways.back-feeding.horizon", [[0.02 * i for i in range(32)]] * 3),
        ("ways.scheduled.alone.1", [1.0]),
    ],
    "3.10": [
        ("weights.LSTM", 100_000),
        ("chain.LSTM, even", [80, 90, 110, 140]),
        ("chain.LSTM, even", [80, 80, 80, 80]),
        ("chain.RNN with attention, even.1", 390),
        ("chain.Transformer.3", 125),
        ("seconds.LSTM", [0.01] * 7),
        ("seconds.RNN with attention", [0.01 * 4**i for i in range(7)]),
        ("seconds.LSTM, fused.-1", 0.001),
        ("seconds.Transformer", [0.01 * 2**i for i in range(7)]),
    ],
    "3.11": [
        ("limit", 0.1),
        ("with", [1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01]),
        ("without", [1.0] * 7),
        ("self", 0.1),
        ("formula", 0.1),
        ("reverse", 1.0),
        ("kin", 1.0),
    ],
    "3.11b": [
        ("teacher.right", 0.8),
        ("right.outputs", [[0.7] * 4] * 3),
        ("right.data", [[0.9] * 4] * 3),
        ("right.logits", [[0.5] * 4] * 3),
    ],
    "3.11c": [
        ("shown", 1),
        ("after", [0.4] * 3),
        ("before", [0.95] * 3),
        ("others", [0.8] * 3),
        ("labels", [0.2] * 3),
    ],
    "3.11d": [
        ("students.teacher.bleu", 1.0),
        ("students.both.bleu", 1.0),
        ("teacher.bleu", 1.0),
        ("teacher.weights", 1),
    ],
    "11.1": [
        ("right", [0.9] * 3),
        ("words", [0.9] * 3),
        ("shown.0.map.0", [0.0] * 8 + [1.0]),
        ("shown.1.map.1.2", 0.3),
        ("shown.1.rows.0", "les"),
        ("shown.1.columns.-1", "<pad>"),
        ("shown.0.rows.-1", "arbres"),
    ],
    "11.1b": [
        ("words", 100),
        ("measured.layers.1", 0.5),
        ("measured.heads.1.0", 0.5),
        ("place", 0.7),
        ("chance", 0.6),
    ],
    "11.2": [
        ("right", [0.9] * 3),
        ("rows.0", 0.01),
        ("padding.2", 1e-9),
        ("future.0", 1e-9),
        ("apart", [0.04] * 3),
        ("untaught", [0.5] * 3),
        ("words.-1", "livres"),
    ],
    "11.2b": [
        ("softmax", 1e-3),
        ("same", 1e-3),
        ("unseen", 1e-2),
        ("totals", 1e-2),
        ("map.2.1", 0.1),
        ("rows.0", "les"),
    ],
    "11.2c": [
        ("animal.0.nouns", [[[0.0, 9.0]] * 4] * 4),
        ("animal.1.pronouns", {"es": 0.2, "sie": 0.1, "er": 0.1}),
        ("animal.3.total", 0.1),
    ],
}


def test_all_figures_of_these_folders_are_spoiled_above():
    own = [name for name, path in table.FIGURES.items() if path.split(".")[1] in ("learning", "looking")]
    assert [name for name in own if name in SPOILED] == list(SPOILED)
    assert [name for name in own if ".learning." in table.FIGURES[name] and name not in SPOILED] == []


@pytest.mark.parametrize("name", list(SPOILED))
def test_every_check_can_fail(name):
    every_check_fails(name, SPOILED[name])


# What needs data that is not everywhere ------------------------------------------------------------


@pytest.mark.parametrize("name", ["3.1", "3.11c"])
def test_missing_data_is_one_clear_error(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REGARD_DATA", raising=False)
    with pytest.raises(InputError, match=r"set REGARD_DATA to the folder of your data \(it is not set\)"):
        module(name).compute()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["3.1", "3.11c"])
def test_where_the_data_is_there_it_holds(name, shared_data: Path, monkeypatch):
    monkeypatch.setenv("REGARD_DATA", str(shared_data))
    computed(name)


# 3.1 ----------------------------------------------------------------------------------------------


def test_the_optimum_of_skip_gram_is_exact():
    """Where u.v is what the pairs tell, as figure 3.1b has it, the whole gradient is nothing."""
    words, drawn = 5, [1, 2, 3, 4, 2]  # of so many negatives, how often each word is one
    joint = np.random.default_rng(0).integers(1, 9, (words, words))
    often = np.repeat(np.arange(words), drawn)
    net = SkipGram(words, words).double()
    pairs = torch.tensor([[c, o] for c in range(words) for o in range(words) for _ in range(joint[c, o])])
    best = np.log(joint / ((joint.sum(1)[:, None] - joint) * np.array(drawn)))
    with torch.no_grad():
        net.words.weight.copy_(torch.from_numpy(best))
        net.contexts.weight.copy_(torch.eye(words))
    net(pairs[:, 0], pairs[:, 1], torch.from_numpy(often).expand(len(pairs), -1)).backward()
    assert net.words.weight.grad.abs().max() < 1e-9
    assert net.contexts.weight.grad.abs().max() < 1e-9
    net(pairs[:, 0], pairs[:, 1], torch.from_numpy(often[:-1]).expand(len(pairs), -1)).backward()
    assert net.words.weight.grad.abs().max() > 0.1  # not so for other negatives


def test_both_forms_of_what_a_pair_tells():
    rows = [[0, 1, 2, 3], [3, 2, 1, 0]] * 4
    joint = np.full((company.WORDS, company.WORDS), 1.0)
    joint /= joint.sum()
    np.testing.assert_allclose(company.foretold(joint), -np.log(5))  # words that tell nothing of each other
    exact = company.exactly(joint, rows)
    often = 1 / 4  # of the words that there are
    np.testing.assert_allclose(exact[:, :4], np.log(1 / 12 / (11 / 12 * often)) - np.log(5))


def test_words_of_a_kind_are_found_together():
    sizes = [len(words.split()) for words in neighbours.KINDS.values()]
    kinds = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    table_of_kinds = F.one_hot(kinds).double()
    assert neighbours.together(table_of_kinds + 0.01 * torch.randn(len(kinds), len(sizes))) == 1.0
    assert neighbours.together(F.normalize(torch.randn(len(kinds), 64), dim=-1)) < 0.6
    names = ["red", "blue", "one", "cat"]
    near = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [-1.0, 0.0]])
    assert [word for word, _ in neighbours.nearest(near, names, "red", 2)] == ["blue", "one"]
    assert neighbours.own_kind(near, names, ["red", "blue"]) == pytest.approx(1 / 3)


def test_a_plane_keeps_what_differs_most():
    spread = torch.randn(40, 2) @ torch.tensor([[5.0, 0.0, 0.0], [0.0, 3.0, 0.0]])
    places = neighbours.plane(spread)
    torch.testing.assert_close(places.var(0).sum(), spread.var(0).sum())
    assert (places[0] > 0).all()
    found = neighbours.spread([[0.0, 5.0], [2.0, 1.0], [1.0, 3.0]], (1.0, 1.0), (3.0, 2.0))
    assert found == [(1.0, 2.0), (3.0, 1.0), (2.0, 1.5)]
    assert neighbours.covered((0, 0, 2, 2), (1, 1, 3, 3)) == 1
    assert neighbours.covered((0, 0, 1, 1), (1, 1, 3, 3)) == 0


def test_the_language_of_topics_has_its_entropy():
    """-log of what a model that knows the language would say of its sentences, on average."""
    shares = head_start.shares()
    rows = np.array(head_start.sentences(4000, 0))
    inside = rows[:, 1:-1] - head_start.FIRST
    topics = inside // head_start.EACH % head_start.TOPICS
    assert (topics == topics[:, :1]).all()
    surprise = -np.log(shares[inside % head_start.EACH]).sum(1) + np.log(head_start.TOPICS)
    assert surprise.mean() / (rows.shape[1] - 1) == pytest.approx(head_start.entropy(), rel=0.01)


# 3.9 ----------------------------------------------------------------------------------------------


def test_a_wave_is_fed_with_the_step_before():
    batch = exposure.waves(50, torch.Generator().manual_seed(0))
    assert torch.equal(batch.given[:, 1:], batch.wanted[:, :-1])
    assert torch.equal(batch.given[:, 0], batch.source[:, -1])
    assert batch.wanted.min() == 0
    assert batch.wanted.max() == exposure.LEVELS - 1
    assert exposure.height(0) == -1
    assert exposure.height(exposure.LEVELS - 1) == 1
    assert exposure.growth([1.0, 1.0, 2.0, 3.0, 2.0, 3.0, 5.0, 5.0]) == 4.0


def test_singing_alone_starts_as_with_the_song():
    right = song.wanted()
    slip = [*right[:4], "G", *right[5:]]
    lost = [*right[:4], "G", "F", *right[6:]]
    assert (song.wrong(right), song.wrong(slip), song.wrong(lost)) == (0, 1, 2)
    assert song.first(lost) == 4
    assert song.alike({"listening": slip, "memory": lost})
    assert not song.alike({"listening": slip, "memory": [*right[:3], "G", *right[4:]]})


# 3.10 ---------------------------------------------------------------------------------------------


def test_the_longest_chain():
    x = torch.randn(3, requires_grad=True)
    assert in_parallel.chain(x.exp().sum()) == 3  # what gathers the gradient of x counts too
    y = x.exp()
    for _ in range(5):
        y = y.sin()
    assert in_parallel.chain((y + x.exp()).sum()) == 9
    assert in_parallel.doubled([1.0, 2.0, 4.0, 8.0]) == 2
    assert in_parallel.doubled([1.0, 4.0, 16.0, 64.0]) == 4


def test_taken_cell_by_cell_an_lstm_is_the_same():
    net = in_parallel.models()["LSTM"]
    words = torch.randint(in_parallel.VOCAB, (1, 9))
    losses, slopes = [], []
    for work in (in_parallel.step, in_parallel.walk):
        work(net, words)
        slopes.append([x.grad.clone() for x in net.parameters()])
    with capture(net, "*.h") as seen:
        losses.append(in_parallel.foretell(net, words))
    assert sum(len(calls) for calls in seen.values()) == 2 * 9  # encoder and decoder
    losses.append(in_parallel.foretell(net, words))
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(*slopes)


# 3.11 ---------------------------------------------------------------------------------------------


def test_one_word_in_five_is_wrong_and_no_more():
    pairs = students.noisy(0)
    assert students.noisy(0) == pairs
    right = [french.translated(english).french.split() for english, _ in pairs]
    wrong = [
        a != b for (_, said), words in zip(pairs, right, strict=True) for a, b in zip(said.split(), words, strict=True)
    ]
    assert sum(wrong) / len(wrong) == pytest.approx(students.WRONG, abs=0.02)


def test_a_lesson_is_the_loss_of_its_task():
    """A mean over words; with a teacher, its part as heavy as it should be."""
    pairs = [(one.english, one.french) for one in french.sentences(6, 0)]
    model = students.student(16, 0)
    batches = lessons.batched(model.text(), pairs, 3)
    loss = lessons.lesson(Translate(model.net, model.text(), 0.0), batches)
    for batch in (batches[0], batches[1], batches[0]):  # round and round
        logits = model.net(batch.source, batch.given, source_keys=batch.source_keys, keys=batch.keys)
        torch.testing.assert_close(loss(), F.cross_entropy(logits[batch.keys], batch.wanted[batch.keys]))
    teacher = students.student(24, 1)
    whole = lessons.lesson(Distil(model.net, model.text(), 0.0, teacher.net, share=0.25), batches[:1])()
    parts = [
        lessons.lesson(Distil(model.net, model.text(), 0.0, teacher.net, share=share), batches[:1])()
        for share in (0.0, 1.0)
    ]
    torch.testing.assert_close(whole, 0.75 * parts[0] + 0.25 * parts[1])


def test_the_bias_that_is_right_most_often():
    """Images of which one number tells whether they are a 3: it must pass 2.05."""
    model = torch.nn.Linear(1, 10)
    with torch.no_grad():
        model.weight.zero_()
        model.bias.zero_()
        model.weight[missing_three.THREE] = 1.0
        model.bias[0] = 2.05
    images, labels = torch.tensor([[0.0], [0.95], [2.1]]), torch.tensor([0, 3, 3])
    assert missing_three.said(model, images, 0.0).tolist() == [0, 0, 3]
    bias = missing_three.tune(model, images, labels)
    assert missing_three.said(model, images, bias).tolist() == [0, 3, 3]
    assert 1.1 < bias < 2.05
    assert missing_three.drawn(torch.tensor([0.0, 1.0, 0.5])) == "0f7"


# 11 -----------------------------------------------------------------------------------------------


def test_french_swaps_adjective_and_noun_alone():
    one = french.translated("the red cats see two wise dogs behind my boats")
    assert one.french == "les chats rouges voient deux chiens sages derrière mes bateaux"
    assert one.sources == (0, 2, 1, 3, 4, 6, 5, 7, 8, 9)
    for some in french.sentences(50, 3):
        words = some.english.split()
        assert sorted(some.sources) == list(range(len(words)))
        assert some.french == " ".join(french.FRENCH[words[i]] for i in some.sources)
    assert len(set(french.FRENCH.values())) == len(french.FRENCH)
    assert not {french.STRAIGHT, french.SWAPPED} & {some.english for some in french.sentences(500, 0)}


def test_how_far_a_map_is_from_straight():
    straight = {"map": [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]], "sources": [0, 1]}
    assert swaps.off_diagonal(straight) == 0.25
    crossed = {"map": [[0.1, 0.9, 0.0], [0.6, 0.3, 0.1], [0.0, 0.0, 1.0]], "sources": [1, 0]}
    assert swaps.crossed(crossed) == 0.6


def test_jensen_shannon_by_its_definition():
    p, q = (torch.rand(4, 7, dtype=torch.float64) for _ in range(2))
    p, q = p / p.sum(-1, keepdim=True), q / q.sum(-1, keepdim=True)
    m = (p + q) / 2
    wanted = ((p * (p / m).log()).sum(-1) + (q * (q / m).log()).sum(-1)).mean() / 2
    torch.testing.assert_close(eight.shannon(p, q), wanted)
    one, other = torch.eye(2, dtype=torch.float64)[:1], torch.eye(2, dtype=torch.float64)[1:]
    assert float(eight.shannon(one, other)) == pytest.approx(np.log(2))
    assert float(eight.shannon(p, p)) == pytest.approx(0, abs=1e-12)


def test_even_untaught_no_weight_falls_on_what_is_masked():
    model = french.untaught("transformer-small", 0, eight.SIZES)
    found = eight.measured(model, 0)
    assert found["padding"] == found["future"] == 0.0
    assert found["rows"] < 1e-5
    assert found["right"] < 0.1
