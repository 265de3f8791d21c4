"""Questions from tables: where an answer stands, what is no row, and how long texts are cut into parts."""

import csv
import io
import json
from pathlib import Path

import pytest
import torch
from tokenizers import normalizers

from regard.data.files import table_rows
from regard.modalities.text.framing import AnswerBatch, AnswerMaker
from regard.modalities.text.processor import Text
from regard.modalities.text.questions import Question, Questions
from regard.modalities.text.vocabulary import Kind, Vocabulary, with_frame

NAMES = ["question", "context", "answer", "start"]


def read(path: Path, rows: list[list[str]], columns: int = 3) -> Questions:
    """The same rows in the form that the file's name says."""
    if path.suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(dict(zip(NAMES, row, strict=False))) for row in rows), "utf-8")
    elif path.suffix == ".csv":
        told = io.StringIO()
        csv.writer(told, lineterminator="\n").writerows([NAMES[:columns], *rows])
        path.write_text(told.getvalue(), "utf-8")
    else:
        path.write_text("\n".join("\t".join(row) for row in [NAMES[:columns], *rows]), "utf-8")
    return Questions(table_rows(path, NAMES[:columns]))


@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl"])
def test_the_first_place_counts(tmp_path: Path, form: str) -> None:
    rows = [["who?", "Ben saw Anna, and Anna ran", "Anna"], ["wo?", "über 日本 e\u0301 in 日本", " 日本 "]]
    found = read(tmp_path / f"x.{form}", rows)
    assert [found[i] for i in range(len(found))] == [
        Question("who?", rows[0][1], "Anna", 8),
        Question("wo?", rows[1][1], "日本", 5),
    ]
    assert not found.faults
    assert found.lengths.tolist() == [[len(a.encode()), len(b.encode())] for a, b, _ in rows]
    assert all(row.context[row.start :].startswith(row.answer) for row in (found[0], found[1]))


@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl"])
def test_a_place_that_is_given(tmp_path: Path, form: str) -> None:
    context = "ünï Anna, and Anna ran"
    rows = [["who?", context, answer, start] for answer, start in (("Anna", "14"), (" Anna", "13"), ("Anna", "4"))]
    found = read(tmp_path / f"x.{form}", rows, 4)
    assert [found[i].start for i in range(len(found))] == [14, 14, 4]
    assert [found[i].answer for i in range(len(found))] == ["Anna"] * 3


@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl"])
def test_rows_without_an_answer_are_faults(tmp_path: Path, form: str) -> None:
    """Each is named, and the others stay under the right lines."""
    path = tmp_path / f"x.{form}"
    found = read(path, [["q", "a b", "c"], ["q", "a b", "b"], ["q", "a b", "A"], ["q", "a b", "a b"], ["q", "", "a"]])
    assert [found[i].start for i in range(len(found))] == [2, 0]
    before = 0 if form == "jsonl" else 1
    told = {fault.line - before: fault.reason for fault in found.faults}
    assert told[1] == "the answer 'c' does not occur in its context"
    assert told[3] == "the answer 'A' does not occur in its context"
    assert "is empty" in told[5]
    assert len(told) == 3
    assert found.where(1) == f"{path}:{4 + before}"
    with pytest.raises(IndexError):
        found[2]


def test_wrong_places_are_faults(tmp_path: Path) -> None:
    places = ["1", "-1", "2.0", "x", "9", "9999999999", "2"]
    found = read(tmp_path / "x.tsv", [["q", "a b", "b", place] for place in places], 4)
    assert len(found) == 1
    told = [fault.reason for fault in found.faults]
    assert told[0] == "the answer 'b' is not at position 1, where the context has ' '"
    assert all("is not a non-negative whole number" in told[i] for i in (1, 2, 3, 5))
    assert "the context has ''" in told[4]


# ------------------------------------------------------------------------------------------------------------- batches


def text(kind: Kind = "words", *more: str) -> Text:
    words = [f"w{i}" for i in range(60)]
    return with_frame(Vocabulary(kind, 400).learn([" ".join(words), *more]))


def question(answer: str, context: str, asked: str = "w1 w2") -> Question:
    return Question(asked, context, answer, context.index(answer))


def told(batch: AnswerBatch, i: int) -> str:
    """What stands between the tokens that are wanted."""
    first, last = int(batch.offsets[i, batch.starts[i], 0]), int(batch.offsets[i, batch.ends[i], 1])
    return batch.questions[int(batch.numbers[i])].context[first:last]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece", "words", "characters"])
def test_the_tokens_of_an_answer(kind: Kind) -> None:
    """They hold all of it, and neither end can be left out; what is padded is none of the context."""
    rows = [
        question("w7 w8", "w5  w6 w7 w8 w9"),
        question("w5", "w5 w6"),
        question("日本", "w5 日本"),
        question("w59", "ünï w59"),
    ]
    batch = AnswerMaker(text(kind, "ünï", "日本"), 64, whole=False)(rows)
    assert batch.ids.shape == batch.context.shape == batch.offsets.shape[:2]
    for i, row in enumerate(rows):
        assert told(batch, i).strip() == row.answer
        own = batch.context[i].nonzero().flatten().tolist()
        assert own == list(range(own[0], own[-1] + 1))
        assert own[0] <= int(batch.starts[i]) <= int(batch.ends[i]) <= own[-1]
        if batch.keys is not None:
            assert bool(batch.keys[i][own].all())
        if batch.segments is not None:
            assert bool((batch.segments[i][own] == 1).all())
        inner = batch.offsets[i, batch.starts[i] + 1 : batch.ends[i] + 1, 0]
        assert bool((inner < row.start + len(row.answer)).all())
        assert int(batch.offsets[i, batch.starts[i], 1]) > row.start


def test_question_and_context_are_framed_as_two() -> None:
    own = text()
    batch = AnswerMaker(own, 24, whole=False)([question("w5", "w4 w5")])
    begin, end = (own.id_of(name) for name in ("<begin>", "<end>"))
    asked, read = own.unframed(["w1 w2", "w4 w5"])
    assert batch.ids.tolist() == [[begin, *asked, end, *read, end]]
    assert batch.context.tolist() == [[False] * 4 + [True] * 2 + [False]]
    assert (batch.starts.tolist(), batch.ends.tolist()) == ([5], [5])
    assert batch.numbers.tolist() == [0]


def test_a_long_context_is_read_around_its_answer() -> None:
    """With text on both sides where there is any."""
    context = " ".join(f"w{i}" for i in range(60))
    rows = [question(f"w{i} w{i + 1}", context) for i in range(10, 50)]
    rows += [question("w0 ", context), question("w59", context)]
    batch = AnswerMaker(text(), 25, whole=False)(rows)
    assert batch.ids.shape == (len(rows), 25)
    room = 20
    for i, row in enumerate(rows):
        assert told(batch, i) == row.answer.strip()
        own = batch.context[i].nonzero().flatten()
        if i < 40:
            assert min(int(batch.starts[i] - own[0]), int(own[-1] - batch.ends[i])) >= room // 4 - 1
    assert batch.keys is None


def test_all_parts_of_a_long_context() -> None:
    """To measure: one of them is learned from, and together they are the whole context."""
    context = " ".join(f"w{i}" for i in range(60))
    rows = [question("w30", context), question("w3", "w3 w4")]
    batch = AnswerMaker(text(), 25, whole=True)(rows)
    parts = batch.numbers.tolist().count(0)
    assert parts > 2
    assert batch.numbers.tolist() == [0] * parts + [1]
    placed = (batch.starts >= 0).nonzero().flatten().tolist()
    assert len(placed) == 2
    assert [told(batch, i) for i in placed] == ["w30", "w3"]
    assert torch.equal(batch.starts < 0, batch.ends < 0)
    seen = {tuple(pair) for i in range(parts) for pair in batch.offsets[i][batch.context[i]].tolist()}
    assert len(seen) == 60
    only = AnswerMaker(text(), 25, whole=False)(rows)
    assert only.ids.tolist() == batch.ids[placed].tolist()


def test_an_answer_longer_than_a_part_is_cut() -> None:
    context = " ".join(f"w{i}" for i in range(60))
    batch = AnswerMaker(text(), 25, whole=False)([question(context[: context.index(" w50")], context)])
    assert int(batch.ends[0] - batch.starts[0]) == 19
    assert told(batch, 0) in context


def test_a_long_question_leaves_half_the_room() -> None:
    asked = " ".join(f"w{i}" for i in range(60))
    batch = AnswerMaker(text(), 25, whole=False)([question("w5", "w3 w4 w5", asked)])
    assert batch.context[0].sum() == 3
    assert batch.ids.shape[1] == 3 + 11 + 3
    assert told(batch, 0) == "w5"


def test_what_a_tokenizer_leaves_nothing_of_is_not_learned() -> None:
    """BERT's leaves out signs that do not print."""
    own = with_frame(Vocabulary("wordpiece", 300).learn(["w1 w4"]))
    own.tokenizer.normalizer = normalizers.BertNormalizer()
    batch = AnswerMaker(own, 24, whole=False)([Question("w1", "w4 \u200b", "\u200b", 3), question("w4", "w4", "w1")])
    assert batch.starts.tolist()[0] == batch.ends.tolist()[0] == -1
    assert batch.starts.tolist()[1] >= 0
