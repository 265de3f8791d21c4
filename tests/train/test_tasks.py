"""The tasks against plain cross-entropy, and the batches and vocabularies that they learn from."""

import unicodedata
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, get_args

import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.data.generated import WORDS, Reversal
from regard.data.pairs import PairMaker, Pairs
from regard.data.text import Text, padded
from regard.data.vocabulary import BEGIN, BYTES, END, PAD, SPECIAL, UNKNOWN, Kind, Vocabulary
from regard.errors import InputError
from regard.model import build
from regard.run.arranging import LineMaker, token_lengths
from regard.run.imagery import ImageMaker
from regard.tasks.classify import Classify, Labelled
from regard.tasks.distil import Distil
from regard.tasks.language import Language, next_tokens
from regard.tasks.task import Loss, Task
from regard.tasks.teacher import divergence
from regard.tasks.translate import Feeding, Translate

VOCAB = 13
SIZES = {"dim": 16, "depth": 1, "heads": 2, "hidden": 32, "dropout": 0.0, "attention_dropout": 0.0}


def only(task: Task, batch: Any) -> Loss:
    (loss,) = task.losses(batch, 0)
    assert loss.part == "net"
    assert loss.update
    return loss


def summed(task: Task, *batches: Any) -> dict[str, float]:
    """Metrics of several batches, whose sums add up."""
    sums: dict[str, Tensor] = {}
    with torch.no_grad():
        for batch in batches:
            for name, value in task.evaluate(batch).items():
                sums[name] = sums.get(name, torch.zeros(())) + value
    return task.metrics(sums)


def expected(logits: Tensor, wanted: Tensor, keys: Tensor | None) -> dict[str, float]:
    real = torch.ones_like(wanted, dtype=torch.bool) if keys is None else keys
    loss = F.cross_entropy(logits[real], wanted[real])
    right = (logits[real].argmax(-1) == wanted[real]).float().mean()
    return {"loss": float(loss), "perplexity": float(loss.exp()), "accuracy": float(right)}


def close(one: Mapping[str, float], two: Mapping[str, float]) -> None:
    assert one.keys() == two.keys()
    for name in one:
        assert one[name] == pytest.approx(two[name], rel=1e-5), name


def gradients(net: nn.Module) -> dict[str, Tensor]:
    found = {name: x.grad.clone() for name, x in net.named_parameters() if x.grad is not None}
    net.zero_grad()
    return found


def check_loss(task: Any, batch: Any, logits: Tensor, wanted: Tensor, keys: Tensor | None, smoothing: float) -> None:
    """The sum of the smoothed loss, and its gradient, are those of PyTorch's own."""
    real = torch.ones_like(wanted, dtype=torch.bool) if keys is None else keys
    plain = F.cross_entropy(logits[real], wanted[real], reduction="sum", label_smoothing=smoothing)
    plain.backward()
    theirs = gradients(task.net)
    term = only(task, batch).terms["loss"]
    assert (term.count, term.weight) == ("tokens", 1.0)
    torch.testing.assert_close(term.sum, plain.detach(), rtol=1e-5, atol=1e-5)
    term.sum.backward()
    ours = gradients(task.net)
    assert ours.keys() == theirs.keys()
    for name, x in theirs.items():
        torch.testing.assert_close(ours[name], x, rtol=1e-4, atol=1e-5)
    assert task.counts(batch) == {"tokens": float(real.sum())}


def rows(*lengths: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(len(lengths))
    return [torch.randint(4, VOCAB, (length,), generator=generator).tolist() for length in lengths]


# ----------------------------------------------------------------------------------------------------------- language


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("lengths", [(5, 5, 5), (7, 2, 4)], ids=["even", "ragged"])
def test_language(lengths: Sequence[int], smoothing: float) -> None:
    net = build("gpt-tiny", vocab=VOCAB, length=8, **SIZES, embedding_dropout=0.0).net
    task = Language(net, smoothing)
    batch = next_tokens(rows(*lengths))
    check_loss(task, batch, net(batch.given, keys=batch.keys), batch.wanted, batch.keys, smoothing)
    with torch.no_grad():
        logits = net(batch.given, keys=batch.keys)
    close(summed(task, batch), expected(logits, batch.wanted, batch.keys))


def test_metrics_add_up_over_ragged_batches() -> None:
    """Of all tokens together: not a mean of the batches' means, and padding makes no difference."""
    net = build("gpt-tiny", vocab=VOCAB, length=8, **SIZES).net.eval()
    task = Language(net)
    some = rows(8, 3, 2, 6)
    together = summed(task, next_tokens(some))
    close(summed(task, next_tokens(some[:1]), next_tokens(some[1:])), together)
    singles = [summed(task, next_tokens([row]))["loss"] for row in some]
    assert abs(sum(singles) / 4 - together["loss"]) > 1e-4


def test_next_tokens() -> None:
    batch = next_tokens([[1, 2, 3, 4], [5, 6]])
    assert batch.given.tolist() == [[1, 2, 3], [5, 0, 0]]
    assert batch.wanted.tolist() == [[2, 3, 4], [6, 0, 0]]
    assert batch.keys is not None
    assert batch.keys.tolist() == [[True, True, True], [True, False, False]]
    assert next_tokens([[1, 2], [3, 4]]).keys is None


def test_perplexity_of_a_hopeless_model_is_a_number() -> None:
    task = Language(nn.Linear(1, 1))
    sums = {"loss": torch.tensor(1e6), "right": torch.tensor(0), "tokens": torch.tensor(10)}
    assert 1e300 < task.metrics(sums)["perplexity"] < float("inf")
    assert task.metrics({**sums, "tokens": torch.tensor(0)})["accuracy"] == 0.0


# -------------------------------------------------------------------------------------------------------- translation


def words(*known: str) -> Text:
    return Vocabulary("words", 50).learn([" ".join(known)])


def pairs(lengths: Sequence[tuple[int, int]]) -> Pairs:
    text = words(*WORDS)
    numbers = Reversal(len(lengths), 9, 0)
    every = [(" ".join(numbers[i][0].split()[:m]), " ".join(WORDS[:n])) for i, (m, n) in enumerate(lengths)]
    return PairMaker(text, 20)(every)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("lengths", [[(2, 3), (2, 3)], [(1, 6), (2, 1), (2, 4)]], ids=["even", "ragged"])
def test_translate(lengths: Sequence[tuple[int, int]], smoothing: float) -> None:
    net = build("transformer-small", vocab=14, **SIZES).net
    task = Translate(net, words(*WORDS), smoothing)
    batch = pairs(lengths)
    keys = {"source_keys": batch.source_keys, "keys": batch.keys}
    logits = net(batch.source, batch.given, **keys)
    check_loss(task, batch, logits, batch.wanted, batch.keys, smoothing)
    with torch.no_grad():
        logits = net(batch.source, batch.given, **keys)
    close(summed(task, batch), expected(logits, batch.wanted, batch.keys))
    assert task.counts(batch)["tokens"] == sum(n + 1 for _, n in lengths)


def test_padding_changes_no_translation() -> None:
    """Each sentence by itself has the same loss as beside a longer one."""
    net = build("transformer-small", vocab=14, **SIZES).net.eval()
    task = Translate(net, words(*WORDS), 0.1)
    text = [("one two", "two one"), ("nine", "nine"), ("one two three four five", "five four three two one")]
    make = PairMaker(words(*WORDS), 20)
    with torch.no_grad():
        alone = sum(float(only(task, make([row])).terms["loss"].sum) for row in text)
        assert float(only(task, make(text)).terms["loss"].sum) == pytest.approx(alone, rel=1e-5)


def test_what_is_shown_of_a_translation() -> None:
    """Sources and targets as they are, and one guess for each true word and the end; no padding."""

    class Parrot(nn.Module):
        """It says "three" wherever it is asked."""

        def encode(self, source: Tensor, keys: Tensor | None) -> Tensor:
            return source

        def decode(self, given: Tensor, memory: Tensor, **_: Any) -> Tensor:
            return F.one_hot(torch.full_like(given, text.id_of("three")), 14).float()

    text = words(*WORDS)
    make = PairMaker(text, 20)
    rows = [("one two", "two one"), ("four", "four"), ("five", "five"), ("six", "six")]
    shown = Translate(Parrot(), text, 0.0).show(make(rows)).splitlines()
    assert shown[:6] == [
        "source   one two", "target   two one", "guesses  three three three",
        "source   four", "target   four", "guesses  three three",
    ]  # fmt: skip
    assert len(shown) == 9  # three of the four


def test_pairs_begin_and_end() -> None:
    text = words(*WORDS)
    batch = PairMaker(text, 20)([("one two three", "three two"), ("four", "four five six")])
    begin, end = text.id_of(BEGIN), text.id_of(END)
    one, two, three, four, five, six = (text.id_of(word) for word in WORDS[1:7])
    assert batch.source.tolist() == [[one, two, three, end], [four, end, 0, 0]]
    assert batch.source_keys is not None
    assert batch.source_keys.sum(1).tolist() == [4, 2]
    assert batch.given.tolist() == [[begin, three, two, 0], [begin, four, five, six]]
    assert batch.wanted.tolist() == [[three, two, end, 0], [four, five, six, end]]
    assert batch.keys.tolist() == [[True] * 3 + [False], [True] * 4]
    even = PairMaker(text, 20)([("one", "two"), ("four", "five")])
    assert even.source_keys is None
    assert even.keys.all()


@pytest.mark.parametrize("longest", [1, 2, 3, 50])
def test_pairs_are_cut(longest: int) -> None:
    """Nothing is longer than asked, and what is cut still begins and ends."""
    text = words(*WORDS)
    batch = PairMaker(text, longest)([(" ".join(WORDS), " ".join(WORDS))])
    wanted = min(longest, 11)
    assert (batch.source.shape[1], batch.given.shape[1], batch.wanted.shape[1]) == (wanted,) * 3
    assert batch.source[0, -1] == batch.wanted[0, -1] == text.id_of(END)
    assert batch.given[0, 0] == text.id_of(BEGIN)
    assert torch.equal(batch.given[0, 1:], batch.wanted[0, :-1])


@pytest.mark.parametrize("longest", [1, 3, 50])
def test_lines_begin_end_and_are_cut(longest: int) -> None:
    text = words(*WORDS)
    batch = LineMaker(text, longest)([("one two three four",), ("five",)])
    length = min(longest, 5)
    assert batch.given.shape == batch.wanted.shape == (2, length)
    ids = [text.id_of(word) for word in (BEGIN, "one", "two", "three", "four")]
    assert batch.given[0].tolist() == ids[:length]
    assert batch.wanted[0].tolist() == [*ids[1:length], text.id_of(END)]
    assert batch.given[1, 0] == text.id_of(BEGIN)


def test_a_text_that_spells_a_special_token_is_text() -> None:
    """In data "<end>" is five letters: the sentence goes on behind it."""
    text = Vocabulary("bpe", 400).learn(["a <end> b <pad> c"] * 3)
    batch = PairMaker(text, 50)([("a <end> b", "<begin><pad>")])
    assert (batch.source == text.id_of(END)).sum() == 1
    assert not (batch.wanted == text.id_of(PAD)).any()
    assert text.decode(batch.source[0].tolist()).strip() == "a <end> b"
    lines = LineMaker(text, 50)([("<end> <begin>",)])
    assert (lines.wanted == text.id_of(END)).sum() == 1
    assert (lines.given == text.id_of(BEGIN)).sum() == 1


def test_lengths_in_tokens() -> None:
    """About as many tokens as there are, by the bytes of a token in a sample; one more for the end."""
    rows = Reversal(300, 9, 0)
    rows.lengths = rows.lengths * 5  # as if these were bytes
    text = words(*WORDS)
    found = token_lengths(rows, text)
    assert found.shape == (300, 2)
    exact = rows.sizes + 1
    assert set(found[:, 0] - exact) <= {0, 1}  # rounded up


# ----------------------------------------------------------------------------------------------------- classification


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_classify(smoothing: float) -> None:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 4))
    task = Classify(net, ("cat", "dog", "fox", "owl"), smoothing)
    batch = Labelled(torch.randn(9, 3, 2, 2), torch.arange(9) % 4)
    logits = net(batch.inputs)
    term = only(task, batch).terms["loss"]
    assert term.count == "examples"
    assert task.counts(batch) == {"examples": 9.0}
    plain = F.cross_entropy(logits, batch.labels, reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(term.sum, plain)
    with torch.no_grad():
        found = summed(task, Labelled(batch.inputs[:2], batch.labels[:2]), Labelled(batch.inputs[2:], batch.labels[2:]))
    assert found["loss"] == pytest.approx(float(F.cross_entropy(logits, batch.labels)), rel=1e-5)  # never smoothed
    assert found["accuracy"] == pytest.approx(float((logits.argmax(-1) == batch.labels).float().mean()))
    assert task.goal == "-accuracy"
    names = ("cat", "dog", "fox", "owl")
    guesses = [names[i] for i in logits.argmax(-1)[:8]]
    told = [f"{names[i % 4]} -> {guess}" for i, guess in enumerate(guesses)]
    assert task.show(batch) == "label -> guess: " + ", ".join(told)


def test_images_are_normalised_and_stacked() -> None:
    images = SimpleNamespace(normalise=lambda image: image / 10)
    made = ImageMaker(images)([SimpleNamespace(image=torch.full((1, 2, 2), float(i)), label=i) for i in (3, 5)])  # type: ignore[arg-type]
    assert made.inputs.shape == (2, 1, 2, 2)
    assert made.inputs[:, 0, 0, 0].tolist() == pytest.approx([0.3, 0.5])
    assert made.labels.tolist() == [3, 5]
    assert made.labels.dtype == torch.int64


# ----------------------------------------------------------------------------------------------------- the base class


def test_a_task_without_state_refuses_one() -> None:
    task = Task()
    assert task.state() == {}
    task.restore({})
    with pytest.raises(ValueError, match="keeps no state, but was given memory"):
        task.restore({"memory": torch.zeros(1)})


# --------------------------------------------------------------------------------------- feeding, and a teacher's help


def translators(family: str) -> list[nn.Module]:
    """A student and a teacher of the same words."""
    torch.manual_seed(0)
    if family == "rnn":
        sizes = {"vocab": VOCAB, "target_vocab": None, "dim": 8, "align": 8, "maxout": 8}
        return [build("rnn-bahdanau", **sizes, hidden=hidden).net for hidden in (8, 12)]
    return [build("transformer-small", vocab=VOCAB, **SIZES | {"depth": depth}).net for depth in (1, 2)]


def uneven() -> Pairs:
    source, target = padded(rows(4, 2, 6)), padded(rows(5, 3, 6, 0)[:3])
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
    assert float(divergence(t, t, 3.0)) == pytest.approx(0, abs=1e-12)
    assert float(divergence(s, t, 1.0)) > 0
    (slope,) = torch.autograd.grad(divergence(s, t.detach(), 1e4), s)
    torch.testing.assert_close(slope, (s - t).detach() / 7, rtol=1e-3, atol=1e-4)


# -------------------------------------------------------------------------------------------------------- vocabularies

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
    assert not set(ids) & {LEARNED.id_of(name) for name in SPECIAL}
    assert all(i < LEARNED.tokenizer.get_vocab_size() for i in ids)


@pytest.mark.parametrize("text", ODD)
def test_bpe_loses_no_odd_text(text: str) -> None:
    test_bpe_loses_no_text.hypothesis.inner_test(text)  # type: ignore[attr-defined]


def test_special_tokens_have_the_first_ids_and_are_not_read_aloud() -> None:
    for kind in get_args(Kind):
        text = Vocabulary(kind, 300).learn(["one two", "two three"])  # type: ignore[arg-type]
        assert [text.id_of(name) for name in SPECIAL] == [0, 1, 2, 3]
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
    assert [text.id_of(name) for name in SPECIAL] == [0, 1, 2, 3]


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
    assert set(text.tokenizer.get_vocab()) == {*SPECIAL, "b", "c"}
    assert text.labels(text.ids(["c a b\td"])[0]) == ("c", UNKNOWN, "b", UNKNOWN)
    assert text.decode(text.ids(["c b"])[0]) == "c b"


def test_characters() -> None:
    text = Vocabulary("characters", 10).learn(["ab a", "b\nc"])
    assert text.labels(text.ids(["a b\nz"])[0]) == ("a", " ", "b", "\n", UNKNOWN)
    assert text.decode(text.ids(["a b\nc"])[0]) == "a b\nc"
    assert text.tokenizer.get_vocab_size() == 4 + 5
    with pytest.raises(InputError, match="more different characters") as error:
        Vocabulary("characters", 8).learn(["abcde"])
    assert "5 characters" in error.value.got
    assert "at most 4" in error.value.expected


def test_bpe_has_at_most_as_many_tokens_as_asked_for() -> None:
    texts = [" ".join(Reversal(100, 8, i)[i]) for i in range(50)]
    sizes = [Vocabulary("bpe", size).learn(texts).tokenizer.get_vocab_size() for size in (BYTES, 290)]
    assert sizes == [BYTES, 290]


# ------------------------------------------------------------------------------------------------------ generated data


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
