"""Sentences with tags: what is no word is left out, and what is wrong is named by its line."""

import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import InputError
from regard.modalities.text import conllu
from regard.modalities.text.conllu import Kind, Sentences, open_conllu


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


def line(number: object, form: str = "word", upos: str = "NOUN", xpos: str = "NN") -> str:
    return "\t".join([str(number), form, form.lower(), upos, xpos, "_", "0", "root", "_", "_"])


def read(folder: Path, *lines: str, kind: Kind = "upos", end: str = "\n") -> Sentences:
    path = folder / "x.conllu"
    path.write_bytes(end.join(lines).encode("utf-8", "surrogateescape"))
    return open_conllu(path, kind)


def faults(rows: Sentences) -> list[tuple[int, str]]:
    assert all(fault.file == rows.lines.name for fault in rows.faults)
    return [(fault.line, fault.reason) for fault in rows.faults]


SENTENCES = (
    "# sent_id = 1",
    "# text = I can't see them",
    line(1, "I", "PRON", "PRP"),
    line("2-3", "can't", "_", "_"),
    line(2, "ca", "AUX", "MD"),
    line(3, "n't", "PART", "RB"),
    line(4, "see", "VERB", "VB"),
    line("4.1", "have", "VERB", "VB"),
    line("4.2", "seen", "VERB", "VB"),
    line(5, "them", "PRON", "PRP"),
    "",
    line("0.1", "it", "PRON", "PRP"),
    line("1-2", "goes", "_", "_"),
    line(1, "#", "SYM", "NFP"),
    line(2, "New York", "PROPN", "NNP"),
)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("tail", [(), ("",), ("", "", ""), ("", "  ", "")])
def test_words_and_tags(tmp_path: Path, end: str, tail: tuple[str, ...]) -> None:
    rows = read(tmp_path, *SENTENCES, *tail, end=end)
    assert (len(rows), faults(rows)) == (2, [])
    assert rows[0].words == ("I", "ca", "n't", "see", "them")
    assert rows[0].tags == ("PRON", "AUX", "PART", "VERB", "PRON")
    assert rows[1] == (("#", "New York"), ("SYM", "PROPN"))
    assert rows.lengths.tolist() == [5, 2]
    assert rows.tags == ("AUX", "PART", "PRON", "PROPN", "SYM", "VERB")
    assert (rows.where(0), rows.where(1)) == (f"{tmp_path}/x.conllu:1", f"{tmp_path}/x.conllu:12")
    for wrong in (-1, 2):
        with pytest.raises(IndexError):
            rows[wrong]


def test_the_other_tags(tmp_path: Path) -> None:
    rows = read(tmp_path, *SENTENCES, kind="xpos")
    assert rows[0].tags == ("PRP", "MD", "RB", "VB", "PRP")
    with pytest.raises(InputError, match="unknown kind of tags"):
        open_conllu(tmp_path / "x.conllu", "pos")  # type: ignore[arg-type]


BAD = {
    "9 columns instead of 10": [line(1).rpartition("\t")[0]],
    "11 columns instead of 10": [line(1) + "\t_"],
    "1 columns instead of 10": ["word"],
    "the id is 3 instead of 2": [line(1), line(3)],
    "the id is 1 instead of 2": [line(1), line(1)],
    "the id is 0 instead of 1": [line(0)],
    "the id 'one' is not a number": [line("one")],
    "the id '' is not a number": [line("")],
    "the id '-1' is not a number": [line("-1")],
    "the id '١' is not a number": [line("١")],
    f"the id {'9' * 40!r} is not a number": [line("9" * 5000)],
    "the word is empty": [line(1, "")],
    "the word 'a' has no upos": [line(1, "a", "_")],
    "the word 'b' has no upos": [line(1, "a"), line(2, "b", "")],
    "the range 3-4 does not start at the next word, 2": [line(1), line("3-4")],
    "the range 2-1 does not start at the next word, 2": [line(1), line("2-1")],
    "the range 1-3 does not start at the next word, 1": [line("1-2"), line("1-3")],
    "the id is 1.1 instead of 0.1": [line("1.1")],
    "the id is 1.2 instead of 1.1": [line(1), line("1.2")],
    "a range ends at word 3, but the last word is 2": [line("1-3"), line(1), line(2)],
    "a comment inside a sentence; the blank line before it may be missing": [line(1), "# sent_id = 2"],
    "the sentence has no words": ["# newdoc"],
    "invalid UTF-8 at byte 3": [line(1, "\udcff")],
    "the line contains a NUL byte, so it is not text": [line(1, "a\0b")],
}


@pytest.mark.parametrize("reason", BAD)
def test_a_bad_sentence_is_left_out_with_its_line(tmp_path: Path, reason: str) -> None:
    bad = BAD[reason]
    rows = read(tmp_path, line(1, "before"), "", *bad, "", "", line(1, "after"))
    assert faults(rows) == [(2 + len(bad), reason)]
    assert [rows[i].words for i in range(len(rows))] == [("before",), ("after",)]
    rows = read(tmp_path, *bad)  # at the end of the file, too
    assert faults(rows) == [(len(bad), reason)]
    assert len(rows) == 0


def test_only_the_first_reason_of_a_sentence_counts(tmp_path: Path) -> None:
    rows = read(tmp_path, line(1), line(5), line(6), "x", "", line(1))
    assert faults(rows) == [(2, "the id is 5 instead of 2")]
    assert len(rows) == 1


def test_a_missing_blank_line_costs_one_fault(tmp_path: Path) -> None:
    rows = read(tmp_path, line(1), line(2), line(1), line(2), "", line(1))
    assert faults(rows) == [(3, "the id is 1 instead of 3")]


def test_a_line_without_end_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conllu, "LONGEST_LINE", 1000)
    monkeypatch.setattr("regard.data.tables.BLOCK", 500)
    rows = read(tmp_path, line(1, "before"), "", line(1, "x" * 2000), "", line(1, "after"))
    assert faults(rows) == [(3, "the line has more than 1000 bytes")]
    assert [rows[i].words for i in range(2)] == [("before",), ("after",)]


@pytest.mark.parametrize("size", [1, 7, 64, 300])
def test_blocks_change_nothing(tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read(tmp_path, *SENTENCES, "", *SENTENCES, line(9))
    monkeypatch.setattr("regard.data.tables.BLOCK", size)
    again = read(tmp_path, *SENTENCES, "", *SENTENCES, line(9))
    assert [whole[i] for i in range(3)] == [again[i] for i in range(3)]
    assert faults(whole) == faults(again) == [(len(SENTENCES) * 2 + 2, "the id is 9 instead of 3")]


def test_a_file_that_changes_is_named(tmp_path: Path) -> None:
    rows = read(tmp_path, line(1, "one"), "", line(1, "two"))
    with open(tmp_path / "x.conllu", "r+b") as file:
        file.write(b"x")
    with pytest.raises(InputError, match="changed"):
        rows[0]


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    rows = read(tmp_path, "", "")
    assert (len(rows), len(rows.faults), rows.lengths.tolist()) == (0, 0, [])
    with pytest.raises(InputError, match="cannot be read"):
        open_conllu(tmp_path / "gone.conllu")


forms = st.text(st.characters(blacklist_categories=("Cc", "Cs", "Zs", "Zl", "Zp")), min_size=1, max_size=5)
tagged = st.lists(st.lists(st.tuples(forms, st.sampled_from(["NOUN", "X"])), min_size=1, max_size=4), max_size=5)


@given(tagged)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, sentences: list[list[tuple[str, str]]]
) -> None:
    lines = [x for some in sentences for x in (*(line(i, *pair) for i, pair in enumerate(some, 1)), "")]
    rows = read(tmp_path_factory.mktemp("x"), *lines)
    assert [list(zip(*rows[i], strict=True)) for i in range(len(rows))] == sentences
    assert not rows.faults


@pytest.mark.parametrize(("part", "sentences", "words"), [("dev", 2001, 25147), ("test", 2077, 25094)])
def test_english_ewt(shared_data: Path, part: str, sentences: int, words: int) -> None:
    path = shared_data / "ud_english_ewt" / f"en_ewt-ud-{part}.conllu.xz"
    for kind, tags in (("upos", 17), ("xpos", 45)):
        rows = open_conllu(path, kind)  # type: ignore[arg-type]
        assert (len(rows), int(rows.lengths.sum()), len(rows.faults)) == (sentences, words, 0)
        assert len(rows.tags) >= tags
    text = lzma.decompress(path.read_bytes()).decode()
    last = [x.split("\t")[1] for x in text.rstrip().rpartition("\n\n")[2].split("\n") if x.split("\t")[0].isdigit()]
    assert list(rows[len(rows) - 1].words) == last
