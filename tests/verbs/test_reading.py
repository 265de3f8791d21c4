"""What models make of whole texts: labels, tags, vectors, answers; by the library and by the command line."""

import io
import json
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import processors

import regard
from regard.cli.app import main
from regard.errors import InputError
from regard.folders import save
from regard.modalities.text.runners import reader_of
from regard.modalities.text.tasks.answering import best_spans
from regard.modalities.text.vocabulary import Vocabulary, with_frame
from regard.model import Model
from regard.nn.pool import pool_mean
from tests.verbs.readers import SIZES, TEXTS, WORDS, model


def folder(made: Model, path: Path) -> str:
    save(made, path)
    return str(path)


@pytest.mark.parametrize("name", ["bert-tiny", "bilstm"])
def test_labels_are_the_net_s(name: str) -> None:
    """Each text by itself through the net gives what the batch gave."""
    made = model("label", name)
    found = made.classify(TEXTS)
    for text, one in zip(TEXTS, found, strict=True):
        ids = torch.tensor([made.text().ids([text])[0][: SIZES["length"]]])
        chances = made.net.labelled(ids).softmax(-1)[0]
        assert [name for name, _ in one.ranked] == [made.labels[i] for i in chances.argsort(descending=True).tolist()]
        assert one.probability == pytest.approx(float(chances.max()), rel=1e-4)
        assert one.label == one.ranked[0][0]
        assert sum(chance for _, chance in one.ranked) == pytest.approx(1.0, rel=1e-5)


def test_two_texts_are_read_as_two() -> None:
    made = model("label")
    (one,) = made.classify([("w1 w2", "w3")])
    begin, end = (made.text().id_of(name) for name in ("<begin>", "<end>"))
    ids = made.text().unframed(["w1 w2", "w3"])
    row = torch.tensor([[begin, *ids[0], end, *ids[1], end]])
    segments = torch.tensor([[0, 0, 0, 0, 1, 1]])
    chances = made.net.labelled(row, segments=segments).softmax(-1)[0]
    assert one.probability == pytest.approx(float(chances.max()), rel=1e-5)
    assert one.texts == ("w1 w2", "w3")
    joined = made.classify(["w1 w2 w3"])[0]
    assert dict(one.ranked) != pytest.approx(dict(joined.ranked), rel=1e-3)


@pytest.mark.parametrize("name", ["bert-tiny", "bilstm"])
def test_tags_stand_at_one_piece_of_each_word(name: str) -> None:
    """At the first, or for what reads step by step at the last."""
    text = with_frame(Vocabulary("bpe", 262).learn(["ab", "cd"]))
    made = replace(model("tags", name, vocab=300), processor=text)
    found = made.tag(["ab x ab"])[0]
    assert found.words == ("ab", "x", "ab")
    (own,) = text.framed_words([("ab", "x", "ab")])
    pieces = [i for i, word in enumerate(own.words) if word is not None]
    starts = {"bert-tiny": min, "bilstm": max}[name]
    where = [starts(i for i in pieces if own.words[i] == word) for word in range(3)]
    assert len(pieces) > 3
    said = made.net.tagged(torch.tensor([own.ids]))[0].argmax(-1).tolist()
    assert found.tags == tuple(made.labels[said[i]] for i in where)


def test_a_long_text_is_tagged_in_parts() -> None:
    made = model("tags")
    words = [WORDS[i % 40] for i in range(90)]
    (found,) = made.tag([words])
    assert found.words == tuple(words)
    assert len(found.tags) == 90
    assert all(found.tags)
    assert found.tags[:22] == made.tag([words[:22]])[0].tags


def test_one_text_is_one_text() -> None:
    """And not its letters."""
    made = model("label")
    assert made.classify("w1 w2") == made.classify(["w1 w2"])[0]
    assert model("tags").tag("w1 w2").words == ("w1", "w2")


def test_nothing_to_tag() -> None:
    made = model("tags")
    assert made.tag(["", "w1"])[0].words == ()
    assert model("label").classify([]) == []


def test_vectors_are_means_of_length_one() -> None:
    made = model("none")
    found = made.embed(TEXTS[:2])
    for text, vector in zip(TEXTS, found, strict=False):
        ids = torch.tensor([made.text().ids([text])[0]])
        state = pool_mean(made.net.read(ids), None)[0]
        torch.testing.assert_close(vector, (state / state.norm()).detach())
    with pytest.raises(InputError, match="too long"):
        made.embed([" ".join(WORDS)])


def test_an_answer_is_the_best_span_of_all() -> None:
    """By brute force over all spans of the context."""
    made = model("span", length=24)
    context = "w9 w8  w7 w6 w5"
    found = made.answer("w1 w2", context)
    begin, end = (made.text().id_of(name) for name in ("<begin>", "<end>"))
    ids = made.text().unframed(["w1 w2", context])
    row = torch.tensor([[begin, *ids[0], end, *ids[1], end]])
    segments = torch.tensor([[0] * 4 + [1] * 6])
    logits = made.net.spanned(row, segments=segments)[0, 4:9]
    first, last = logits.softmax(0).T.tolist()
    spans = {(i, j): first[i] * last[j] for i in range(5) for j in range(i, 5)}
    i, j = max(spans, key=lambda span: spans[span])
    assert found.text.split() == context.split()[i : j + 1]
    assert context[found.start : found.end] == found.text
    assert found.probability == pytest.approx(spans[i, j], rel=1e-4)


def test_a_long_context_is_read_in_overlapping_parts() -> None:
    made = model("span", length=24)
    context = "  ".join(WORDS[i % 40] for i in range(100))
    found = made.answer("w1 w2", context)
    assert context[found.start : found.end] == found.text
    parts = reader_of(made).overlapping("w1 w2", context)
    covered: list[set[int]] = []
    chances = []
    for part in parts:
        assert len(part.ids) <= 24
        own = [place for place, text in enumerate(part.texts) if text == 1]
        covered.append({i for place in own for i in range(*part.offsets[place])})
        piece = context[part.offsets[own[0]][0] : part.offsets[own[-1]][1]]
        chances.append(made.answer("w1 w2", piece).probability)
    assert all(i in set().union(*covered) for i, letter in enumerate(context) if letter != " ")
    assert all(one & two for one, two in pairwise(covered))
    assert found.probability == pytest.approx(max(chances), rel=1e-4)
    with pytest.raises(InputError, match="no room"):
        made.answer(" ".join(WORDS[:20]), context)


@pytest.mark.parametrize(("question", "context"), [("", "w1"), ("w1", ""), (" \n", "w1"), ("w1", " \t")])
def test_nothing_to_answer(question: str, context: str) -> None:
    with pytest.raises(InputError, match=f"the {'question' if context.strip() else 'context'} is empty"):
        model("span").answer(question, context)


def test_an_answer_has_no_space_around_it() -> None:
    """Byte-level pieces begin with the space before a word, and letters may take several of them."""
    context = "ab  cd  x 日本 ab"
    made = replace(model("span", vocab=300), processor=with_frame(Vocabulary("bpe", 262).learn(["ab", "cd"])))
    for question in ("ab", "cd", "x", "cd ab"):
        found = made.answer(question, context)
        assert found.text == found.text.strip()
        assert context[found.start : found.end] == found.text


def test_two_texts_of_a_tokenizer_that_knows_one_segment() -> None:
    """Which tokens are the context's is known all the same."""
    made = model("span", segments=0)
    ends = [(name, made.text().id_of(name)) for name in ("<begin>", "<end>")]
    pair = "<begin> $A <end> <end> $B <end>"  # as RoBERTa's: all are of segment 0
    made.text().tokenizer.post_processor = processors.TemplateProcessing(
        single="<begin> $A <end>", pair=pair, special_tokens=ends
    )
    assert made.answer("w1", "w5").text == "w5"
    assert made.answer("w1", "w5").probability == pytest.approx(1.0)


def test_an_answer_is_not_endless() -> None:
    made = model("span", length=80)
    found = {len(made.answer(f"w{i}", " ".join(WORDS)).text.split()) for i in range(40)}
    assert max(found) <= 30
    rated = torch.zeros(1, 40, 2)
    rated[0, 0, 0] = rated[0, 39, 1] = 50.0  # first and last are too far from each other
    spans = best_spans(rated, torch.ones(1, 40, dtype=torch.bool))
    assert int(spans.last - spans.first) < 30
    rated[0, 29, 1] = 49.0
    spans = best_spans(rated, torch.ones(1, 40, dtype=torch.bool))
    assert (int(spans.first), int(spans.last)) == (0, 29)


def test_what_a_model_was_not_made_for() -> None:
    for head, ask in (("tags", "classify"), ("label", "tag"), ("label", "answer")):
        with pytest.raises(InputError, match="expected"):
            getattr(model(head), ask)(*(["w1"], "w2")[: 2 if ask == "answer" else 1])


def test_a_model_without_segments_reads_two_texts() -> None:
    made = model("label", segments=0)
    assert made.classify([("w1", "w2")])[0].label in made.labels


# ------------------------------------------------------------------------------------------------------ command line


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Any:
    def pipe(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8"))

    return pipe


def test_classify_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: Any) -> None:
    made = model("label")
    name = folder(made, tmp_path / "m")
    assert main(["classify", name, *TEXTS[:2], "--top", "3", "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    wanted = made.classify(TEXTS[:2])
    assert [one["label"] for one in told] == [one.label for one in wanted]
    assert [len(one["ranked"]) for one in told] == [3, 3]
    lines("w1 w2\tw3\nw4\n")
    assert main(["classify", name]) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in out] == [one.label for one in made.classify([("w1 w2", "w3"), "w4"])]
    assert main(["classify", name, "w1", "--top", "0"]) == 2
    assert main(["classify", str(tmp_path / "none"), "w1"]) == 2


def test_what_is_not_read_of_a_text_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: Any) -> None:
    """A text of 30 words has eight more than fit beside the tokens around it; beside a second text, ten."""
    made, long = model("label"), " ".join(WORDS[:30])
    name = folder(made, tmp_path / "m")
    assert [one.unread for one in made.classify(["w1", long, (long, "w1")])] == [0, 8, 10]
    assert main(["classify", name, "w1", long]) == 0
    told = "regard: text 2 is longer than the model's maximum length: its last 8 tokens are ignored\n"
    assert capsys.readouterr().err == told
    lines(f"w1\n{long}\n{long}\tw1\n")
    assert main(["classify", name, "--json"]) == 0
    said = capsys.readouterr()
    assert [json.loads(line)["unread"] for line in said.out.splitlines()] == [0, 8, 10]
    many = (
        "2 texts are longer than the model's maximum length, starting with text 2: 18 tokens at their ends are ignored"
    )
    assert many in said.err
    assert main(["classify", name, "w1", "w2"]) == 0
    assert capsys.readouterr().err == ""


def test_letters_that_a_reader_has_no_token_for_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = with_frame(Vocabulary("characters", 60).learn(["abc "]))
    made = replace(model("label", vocab=text.tokenizer.get_vocab_size()), processor=text)
    name = folder(made, tmp_path / "m")
    assert main(["classify", name, "aé", "éx", "--json"]) == 0
    said = capsys.readouterr()
    assert [json.loads(line)["unknown"] for line in said.out.splitlines()] == [["é"], ["é", "x"]]
    assert said.err == "regard: 2 characters are not in the model's vocabulary: 'é', 'x'\n"


def test_a_text_that_is_too_long_has_no_vector(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half of it would be another text's. What spells a token is as long as its letters."""
    made = model("none")
    with pytest.raises(InputError, match="too long for this model"):
        made.embed(" ".join(WORDS[:30]))
    text = with_frame(Vocabulary("characters", 60).learn(["abc <end>"]))
    spelled = replace(model("none", vocab=text.tokenizer.get_vocab_size()), processor=text)
    with pytest.raises(InputError, match="too long for this model"):
        spelled.embed("<end>" * 10)
    assert main(["embed", folder(made, tmp_path / "m"), " ".join(WORDS[:30])]) == 2
    assert "at most 24" in capsys.readouterr().err


def test_tag_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: Any) -> None:
    made = model("tags")
    name = folder(made, tmp_path / "m")
    lines("w1 w2.\n\nw3\n")
    assert main(["tag", name]) == 0
    one, _, three = made.tag(["w1 w2.", "", "w3"])
    told = capsys.readouterr().out
    assert (
        told
        == "".join(f"{a}\t{b}\n" for a, b in zip(one.words, one.tags, strict=True)) + f"\n\nw3\t{three.tags[0]}\n\n"
    )
    assert main(["tag", name, "w1\x1b[31m", "--spaces"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_answer_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: Any) -> None:
    made = model("span")
    name = folder(made, tmp_path / "m")
    context = "w9 w8\nw7 w6"
    wanted = made.answer("w1", context)
    (tmp_path / "page.txt").write_bytes(b"\xef\xbb\xbf" + context.encode())
    assert main(["answer", name, "w1", context, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told.pop("probability") == pytest.approx(wanted.probability, rel=1e-4)
    assert told == {"question": "w1", "text": wanted.text, "start": wanted.start, "end": wanted.end}
    assert main(["answer", name, "w1", "--file", str(tmp_path / "page.txt")]) == 0
    shown = capsys.readouterr().out
    assert shown == f"{wanted.text}  {wanted.probability:.1%}\n".replace("w8\nw7", "w8·w7")
    for words in ([], ["-"]):
        lines(context)
        assert main(["answer", name, "w1", *words]) == 0
        assert capsys.readouterr().out == shown
    (tmp_path / "bad.txt").write_bytes(b"w1 \xff")
    (tmp_path / "none.txt").write_bytes(b"")
    for words, told_of in (
        (["w1", context, "--file", str(tmp_path / "page.txt")], "as an argument and as a file"),
        (["w1", "--file", str(tmp_path / "nowhere.txt")], "nowhere.txt"),
        (["w1", "--file", str(tmp_path / "bad.txt")], "UTF-8"),
        (["w1", "--file", str(tmp_path / "none.txt")], "context is empty"),
        (["", context], "question is empty"),
    ):
        assert main(["answer", name, *words]) == 2
        assert told_of in capsys.readouterr().err
    assert main(["answer", folder(model("tags"), tmp_path / "t"), "w1", "w2"]) == 2
    assert "this bert cannot answer questions" in capsys.readouterr().err


def test_embed_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = model("none")
    name = folder(made, tmp_path / "m")
    assert main(["embed", name, "w1", "w2", "--out", str(tmp_path / "v.npy")]) == 0
    assert capsys.readouterr().out == ""  # what is asked for is in the file
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), made.embed(["w1", "w2"]).numpy(), rtol=1e-5, atol=1e-6)
    assert main(["embed", name, "w1", "--out", str(tmp_path / "v.txt")]) == 2
    capsys.readouterr()
    assert main(["embed", name, "w1", "--out", str(tmp_path / "nodir" / "v.npy")]) == 2
    told = capsys.readouterr().err
    assert f"where: {tmp_path / 'nodir'}\n" in told
    assert ".part" not in told
    assert main(["embed", name, "w1", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out.splitlines()[-1])["vector"]) == 16


def test_labels_go_with_the_model(tmp_path: Path) -> None:
    made = model("label")
    save(made, tmp_path / "m")
    assert regard.load(tmp_path / "m").labels == ("red", "green", "blue")
    regard.export(made, tmp_path / "hf")
    assert regard.load(tmp_path / "hf").labels == ("red", "green", "blue")
    data = json.loads((tmp_path / "m" / "regard.json").read_text())
    for wrong in (["a"], "abc", [1, 2, 3]):
        (tmp_path / "m" / "regard.json").write_text(json.dumps(data | {"labels": wrong}))
        with pytest.raises(InputError, match=r"label|class"):
            regard.load(tmp_path / "m")
