"""Feeding and a teacher's help; vocabularies; generated data."""

import unicodedata
from typing import Any, get_args

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import nn

from regard.building import build
from regard.errors import InputError
from regard.modalities.text.pairs import Pairs
from regard.modalities.text.processor import Text, pad_ids
from regard.modalities.text.reversal import WORDS, Reversal
from regard.modalities.text.tasks.distillation import Distil
from regard.modalities.text.tasks.translation import Feeding, Translate
from regard.modalities.text.vocabulary import (
    BEGIN,
    BYTE_VOCABULARY,
    END,
    PAD,
    SPECIAL_TOKENS,
    UNKNOWN,
    Kind,
    Vocabulary,
)
from regard.tasks.teacher import distillation_divergence
from tests.train.tasked import SIZES, VOCAB, gradients, only, rows


def translators(family: str) -> list[nn.Module]:
    """A student and a teacher of the same words."""
    torch.manual_seed(0)
    if family == "rnn":
        sizes = {"vocab": VOCAB, "target_vocab": None, "dim": 8, "align": 8, "maxout": 8}
        return [build("rnn-bahdanau", **sizes, hidden=hidden).net for hidden in (8, 12)]
    return [build("transformer-small", vocab=VOCAB, **SIZES | {"depth": depth}).net for depth in (1, 2)]


def uneven() -> Pairs:
    source, target = pad_ids(rows(4, 2, 6)), pad_ids(rows(5, 3, 6, 0)[:3])
    keys = torch.ones_like(target.ids, dtype=torch.bool) if target.keys is None else target.keys
    return Pairs(source.ids, source.keys, target.ids, target.ids.roll(-1, 1), keys)


@pytest.mark.parametrize("family", ["transformer", "rnn"])
def test_fed_one_by_one_with_the_right_words_is_teacher_forcing(family: str) -> None:
    net, batch = translators(family)[0].double(), uneven()
    task = Translate(net, None, 0.1)
    whole, stepwise = task.states(batch), task.states(batch, 1 - 1e-12)
    assert stepwise.shape == whole.shape
    torch.testing.assert_close(stepwise[batch.keys], whole[batch.keys], rtol=1e-9, atol=1e-9)
    slopes = []
    for states in (whole, stepwise):
        task.score(states, batch, 0.1).sum.backward()
        slopes.append(gradients(net))
    for name, x in slopes[0].items():
        torch.testing.assert_close(slopes[1][name], x, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("family", ["transformer", "rnn"])
def test_back_feeding_gives_what_the_model_says(family: str) -> None:
    """Greedy decoding, but that it is told how long each text is."""
    net, batch = translators(family)[0].double().eval(), uneven()
    task = Translate(net, None, 0.0, Feeding(0.0))
    with torch.no_grad():
        said = net.logits(task.states(batch, 0.0)).argmax(-1)
        memory = net.encode(batch.source, batch.source_keys)
        given = torch.cat((batch.given[:, :1], said[:, :-1]), 1)
        again = net.decode(given, memory, source_keys=batch.source_keys, keys=batch.keys).argmax(-1)
    assert torch.equal(said[batch.keys], again[batch.keys])
    losses = [float(only(one, batch).terms["loss"].sum) for one in (task, Translate(net, None, 0.0))]
    assert losses[0] != pytest.approx(losses[1])


def test_scheduled_sampling_falls_with_the_step() -> None:
    feeding = Feeding(1.0, 100.0)
    shares = [feeding.at(step) for step in (0, 100, 460, 1000, 10**9)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == pytest.approx(100 / 101)
    assert shares[2] == pytest.approx(0.5, abs=0.01)
    assert shares[-1] < 1e-9
    assert Feeding(0.7).at(10**9) == 0.7


@pytest.mark.parametrize("family", ["transformer", "rnn"])
def test_distillation_by_its_equation(family: str) -> None:
    (net, teacher), batch = translators(family), uneven()
    task = Distil(net, None, 0.1, teacher, share=0.3, temperature=2.0)
    terms = only(task, batch).terms
    assert {name: (term.weight, term.count) for name, term in terms.items()} == {
        "loss": (0.7, "tokens"),
        "teacher": (0.3, "tokens"),
    }
    given = {"source_keys": batch.source_keys, "keys": batch.keys}
    s, t = (x(batch.source, batch.given, **given)[batch.keys] for x in (net, teacher))
    p, q = (t / 2).softmax(-1), (s / 2).softmax(-1)
    torch.testing.assert_close(terms["teacher"].sum, 4 * (p * (p / q).log()).sum(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(terms["loss"].sum, only(Translate(net, None, 0.1), batch).terms["loss"].sum)
    sum(term.sum for term in terms.values()).backward()
    assert all(x.grad is None for x in teacher.parameters())
    assert not teacher.training


def test_the_divergence() -> None:
    """None from itself; and for a high temperature its gradient is (s - t) / v, for logits of mean zero."""
    s, t = (torch.randn(5, 7, dtype=torch.float64) for _ in range(2))
    s, t = ((x - x.mean(-1, keepdim=True)).requires_grad_() for x in (s, t))
    assert float(distillation_divergence(t, t, 3.0)) == pytest.approx(0, abs=1e-12)
    assert float(distillation_divergence(s, t, 1.0)) > 0
    (slope,) = torch.autograd.grad(distillation_divergence(s, t.detach(), 1e4), s)
    torch.testing.assert_close(slope, (s - t).detach() / 7, rtol=1e-3, atol=1e-4)


LEARNED = Vocabulary("bpe", 300).learn(["hello hello world", "the end of the world"])


ODD = [
    "",
    "😀👩\u200d👩\u200d👧",
    "e\u0301",
    "  two  spaces ",
    "a\tb",
    "a\r\nb",
    "\x00\x1f",
    "\u00a0",
    "\ufeffx",
    "\U0010ffff",
]


ODD += ["日本語", "ﬁ", "don't ...!?", "ſ", "\u200b", "\u202eabc", "�", "ａ", "<", "end>", "´`¨"]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
@example("")
@example("a\u0301\u0323")
def test_bpe_loses_no_text(text: str) -> None:
    """All that it may change is the form of what is the same (NFC), and a space before the first word."""
    (ids,) = LEARNED.literal().ids([text])
    normal = unicodedata.normalize("NFC", text)
    assert LEARNED.decode(ids) in (normal, f" {normal}")
    assert not set(ids) & {LEARNED.id_of(name) for name in SPECIAL_TOKENS}
    assert all(i < LEARNED.tokenizer.get_vocab_size() for i in ids)


@pytest.mark.parametrize("text", ODD)
def test_bpe_loses_no_odd_text(text: str) -> None:
    test_bpe_loses_no_text.hypothesis.inner_test(text)  # type: ignore[attr-defined]


def test_special_tokens_have_the_first_ids_and_are_not_read_aloud() -> None:
    for kind in get_args(Kind):
        text = Vocabulary(kind, 300).learn(["one two", "two three"])  # type: ignore[arg-type]
        assert [text.id_of(name) for name in SPECIAL_TOKENS] == [0, 1, 2, 3]
        (ids,) = text.ids(["two"])
        assert text.decode([text.id_of(BEGIN), *ids, text.id_of(END), text.id_of(PAD)]).strip() == "two"
        assert Text.from_bytes(text.to_bytes(), "").ids(["one three"]) == text.ids(["one three"])


@pytest.mark.parametrize("kind", get_args(Kind))
def test_learning_is_deterministic_and_its_ids_have_no_holes(kind: Any) -> None:
    """Also where the data has words that look like special tokens."""
    numbers = Reversal(200, 8, 3)
    texts = [text for i in range(200) for text in numbers[i]] + ["one <end> two <pad>", "<unknown> <begin>"] * 3
    made = [Vocabulary(kind, 300).learn(iter(texts)).to_bytes() for _ in range(2)]
    if kind != "wordpiece":  # whose ties the library breaks by chance, as the docs say
        assert made[0] == made[1]
    text = Text.from_bytes(made[0], "")
    ids = text.tokenizer.get_vocab()
    assert sorted(ids.values()) == list(range(text.tokenizer.get_vocab_size()))
    assert [text.id_of(name) for name in SPECIAL_TOKENS] == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", ["unigram", "wordpiece"])
def test_pieces_of_words(kind: Any) -> None:
    """Words that were never seen are put together of pieces, and come back as they were."""
    texts = ["the lower house", "a new house, lower and newer!", "who knows the news?"] * 20
    text = Vocabulary(kind, 60).learn(texts)
    (ids,) = text.ids(["the newer, who lows house!"])
    assert UNKNOWN not in text.labels(ids)
    assert text.decode(ids) == "the newer, who lows house!"
    assert len(ids) < len("the newer, who lows house!")
    assert UNKNOWN in text.labels(text.ids(["日"])[0])


def test_words() -> None:
    """The most frequent ones; all others are unknown."""
    text = Vocabulary("words", 6).learn(["a b b c c c", "c d"])
    assert set(text.tokenizer.get_vocab()) == {*SPECIAL_TOKENS, "b", "c"}
    assert text.labels(text.ids(["c a b\td"])[0]) == ("c", UNKNOWN, "b", UNKNOWN)
    assert text.decode(text.ids(["c b"])[0]) == "c b"


def test_characters() -> None:
    text = Vocabulary("characters", 10).learn(["ab a", "b\nc"])
    assert text.labels(text.ids(["a b\nz"])[0]) == ("a", " ", "b", "\n", UNKNOWN)
    assert text.decode(text.ids(["a b\nc"])[0]) == "a b\nc"
    assert text.tokenizer.get_vocab_size() == 4 + 5
    with pytest.raises(InputError, match="more distinct characters") as error:
        Vocabulary("characters", 8).learn(["abcde"])
    assert "5 characters" in error.value.got
    assert "at most 4" in error.value.expected


def test_bpe_has_at_most_as_many_tokens_as_asked_for() -> None:
    texts = [" ".join(Reversal(100, 8, i)[i]) for i in range(50)]
    sizes = [Vocabulary("bpe", size).learn(texts).tokenizer.get_vocab_size() for size in (BYTE_VOCABULARY, 290)]
    assert sizes == [BYTE_VOCABULARY, 290]


def test_reversals() -> None:
    rows, again = Reversal(500, 6, 3), Reversal(500, 6, 3)
    assert [rows[i] for i in range(500)] == [again[i] for i in range(500)]
    assert rows[7] != Reversal(500, 6, 4)[7]
    sizes = set()
    for i in range(500):
        source, target = rows[i]
        assert source.split() == target.split()[::-1]
        assert rows.lengths[i].tolist() == [len(source.split())] * 2
        sizes.add(len(source.split()))
    assert sizes == {2, 3, 4, 5, 6}
    assert {word for i in range(500) for word in rows[i][0].split()} == set(WORDS)
    assert rows.where(4) == "generated row 4"
