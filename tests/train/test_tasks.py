"""Tasks: losses are sums over real tokens, whatever the batch."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.building import build
from regard.modalities.images.batching import ImageMaker
from regard.modalities.text.lengths import token_lengths
from regard.modalities.text.lines import LineMaker
from regard.modalities.text.pairs import PairMaker, Pairs
from regard.modalities.text.processor import Text
from regard.modalities.text.reversal import WORDS, Reversal
from regard.modalities.text.tasks.language import Language, next_tokens
from regard.modalities.text.tasks.translation import Translate
from regard.modalities.text.vocabulary import BEGIN, END, PAD, Vocabulary
from regard.tasks.classify import Classify, ClassifyBatch
from regard.tasks.task import Task
from tests.train.tasked import SIZES, VOCAB, gradients, only, rows


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
        "source      one two", "target      two one", "prediction  three three three",
        "source      four", "target      four", "prediction  three three",
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


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_classify(smoothing: float) -> None:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 4))
    task = Classify(net, ("cat", "dog", "fox", "owl"), smoothing)
    batch = ClassifyBatch(torch.randn(9, 3, 2, 2), torch.arange(9) % 4)
    logits = net(batch.inputs)
    term = only(task, batch).terms["loss"]
    assert term.count == "examples"
    assert task.counts(batch) == {"examples": 9.0}
    plain = F.cross_entropy(logits, batch.labels, reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(term.sum, plain)
    with torch.no_grad():
        found = summed(
            task, ClassifyBatch(batch.inputs[:2], batch.labels[:2]), ClassifyBatch(batch.inputs[2:], batch.labels[2:])
        )
    assert found["loss"] == pytest.approx(float(F.cross_entropy(logits, batch.labels)), rel=1e-5)  # never smoothed
    assert found["accuracy"] == pytest.approx(float((logits.argmax(-1) == batch.labels).float().mean()))
    assert task.goal == "-accuracy"
    names = ("cat", "dog", "fox", "owl")
    guesses = [names[i] for i in logits.argmax(-1)[:8]]
    told = [f"{names[i % 4]} -> {guess}" for i, guess in enumerate(guesses)]
    assert task.show(batch) == "label -> prediction: " + ", ".join(told)


def test_images_are_normalised_and_stacked() -> None:
    images = SimpleNamespace(normalise=lambda image: image / 10)
    made = ImageMaker(images)([SimpleNamespace(image=torch.full((1, 2, 2), float(i)), label=i) for i in (3, 5)])  # type: ignore[arg-type]
    assert made.inputs.shape == (2, 1, 2, 2)
    assert made.inputs[:, 0, 0, 0].tolist() == pytest.approx([0.3, 0.5])
    assert made.labels.tolist() == [3, 5]
    assert made.labels.dtype == torch.int64


def test_a_task_without_state_refuses_one() -> None:
    task = Task()
    assert task.state() == {}
    task.restore({})
    with pytest.raises(ValueError, match="has no state, but got memory"):
        task.restore({"memory": torch.zeros(1)})
