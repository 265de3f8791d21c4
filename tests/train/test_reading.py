"""What a run makes of somebody's own table: told by `regard check`, kept by a run that was begun."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from regard.cli.app import main
from tests.train.runs import fingerprint, refused, written
from tests.train.test_texts import BERT, GOOD, THINGS, TRAIN, WORDS, reviews

RUN = '[task]\nkind = "classify"\n[data]\nkind = "labelled"\ntrain = ["{file}"]\nbudget = 400\n'


def run_file(place: Path, file: str, more: str = "", steps: int = 6) -> Path:
    return written(place, RUN.format(file=file) + more + WORDS + BERT + TRAIN.format(steps=steps))


def checked(capsys: pytest.CaptureFixture[str], path: Path, *changes: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["check", str(path), "--json", *changes]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def german(path: Path, count: int = 60) -> Path:
    rows = [
        f"der {THINGS[i % 5]} ist {'schön' if i % 2 else 'böse'}; sagt er {i};{'gut' if i % 2 else 'schlecht'}"
        for i in range(count)
    ]
    quoted = [re.sub(r"^(.*);(\w+)$", r'"\1";\2', row) for row in rows]
    path.write_bytes(("Bewertung;Klasse\r\n" + "".join(f"{row}\r\n" for row in quoted)).encode("latin-1"))
    return path


def test_a_table_from_a_spreadsheet(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Semicolons, Latin-1 and a header, which was a row and a class."""
    german(place / "texte.csv")
    path = run_file(place, "texte.csv")
    found = checked(capsys, path)
    assert found["labels"] == ["gut", "schlecht"]
    assert found["splits"]["train"]["rows"] + found["splits"]["held_out"]["rows"] == 60
    (table,) = found["tables"]
    assert (table["split"], table["delimiter"], table["encoding"]) == ("train", ";", "latin-1")
    assert (table["header"], table["columns"]) == (["Bewertung", "Klasse"], ["1 (Bewertung)", "2 (Klasse)"])
    assert table["first"][0] == {"text": "der film ist böse; sagt er 0", "label": "schlecht"}
    assert any("not UTF-8 and is read as latin-1" in note for note in found["warnings"])
    assert main(["train", str(path), "train.steps=1"]) == 0
    assert "texte.csv is read as semicolon-separated, latin-1, a header" in "".join(capsys.readouterr())
    assert main(["check", str(path)]) == 0
    told = capsys.readouterr().out
    assert "semicolon-separated, latin-1, a header, columns 1 (Bewertung), 2 (Klasse)" in told
    assert 'row 1: text = "der film ist böse; sagt er 0", label = "schlecht"' in told


def test_what_was_found_can_be_said(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    german(place / "texte.csv")
    found = checked(capsys, run_file(place, "texte.csv"), "data.header=no", "data.bad=0.1")
    assert "Klasse" in found["labels"]
    for change, word in (
        ("data.delimiter=,,", "delimiter"),
        ("data.encoding=utf-9", "encoding"),
        ("data.header=maybe", "header"),
    ):
        assert word in refused(capsys, "check", str(place / "tiny.toml"), change)
    assert "use its number" in refused(capsys, "check", str(place / "tiny.toml"), "data.header=no", "data.label=Klasse")


def test_columns_of_other_names_than_those_that_are_read(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{i},the {THINGS[i % 5]} is {GOOD[i % 4]},{'ab'[i % 2]}" for i in range(40)]
    (place / "x.csv").write_text("\n".join(["id,text,label", *rows]))
    found = checked(capsys, run_file(place, "x.csv", "label = 3\n"))
    assert "data.train: the text is read from column 1 (id); there is 'text'" in found["warnings"]


def test_what_a_result_could_mislead_about(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Classes of two rows, rows that are learned from and measured on, few of these, and all of one class."""
    rows = [f"the {THINGS[i % 5]} is {i},{'ab'[i % 2]}\n" for i in range(40)]
    (place / "x.csv").write_text("".join([*rows, "one of it,rare\n", "two of it,rare\n"]))
    (place / "y.csv").write_text("".join([rows[0], rows[2], *(f"it is {i},a\n" for i in range(8))]))
    notes = checked(capsys, run_file(place, "x.csv", 'held_out = ["y.csv"]\n'))["warnings"]
    assert "1 class has fewer than 5 rows of train: rare (2)" in notes
    assert any(note.startswith("2 of 10 rows of held_out (20%) are also in train, such as ") for note in notes)
    assert any("has only 10 examples" in note for note in notes)
    assert "all rows of held_out have the same label, a" in notes


def test_nothing_is_told_of_what_is_as_it_should_be(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reviews(place / "reviews.tsv", 20)
    text = "".join(f"a {THINGS[i % 5]} of {i} is {GOOD[i % 4]}\t{'ab'[i % 2]}\n" for i in range(1200))
    (place / "x.tsv").write_text(text)
    assert checked(capsys, run_file(place, "x.tsv"), "optimizer.rate=0.001")["warnings"] == []


def test_pairs_tell_how_they_were_read(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "x.csv").write_bytes(
        "en;de\r\n".encode("utf-16") + "".join(f"dog {i};Hündin {i}\r\n" for i in range(30)).encode("utf-16-le")
    )
    text = '[task]\nkind = "similar"\n[data]\nkind = "pairs"\ntrain = ["x.csv"]\nshare = 0.2\nbudget = 200\n'
    found = checked(capsys, written(place, text + WORDS + BERT + TRAIN.format(steps=6)))
    (table,) = found["tables"]
    assert (table["encoding"], table["header"], table["first"][0]) == (
        "utf-16",
        ["en", "de"],
        {"source": "dog 0", "target": "Hündin 0"},
    )
    assert sum(split["rows"] for split in found["splits"].values()) == 30


def test_a_run_that_was_begun_before_reads_as_it_did(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its run file has no word for it: the header stays the row and the class that it was."""
    rows = "".join(f"the {THINGS[i % 5]} is {i},{'ab'[i % 2]}\n" for i in range(60))
    (place / "x.csv").write_text("text,label\n" + rows)
    path = run_file(place, "x.csv", steps=10)
    once = ["data.header=named", "data.delimiter=suffix", "data.encoding=utf-8"]
    assert main(["train", str(path), f"folder={place / 'old'}", *once]) == 0
    assert main(["train", str(path), f"folder={place / 'whole'}", *once, "train.steps=14"]) == 0
    labels = json.loads((place / "old" / "model" / "regard.json").read_text())["labels"]
    assert labels == ["a", "b", "label"]
    told = (place / "old" / "run.toml").read_text()
    fewer = "\n".join(line for line in told.split("\n") if not re.match(r"(header|delimiter|encoding) = ", line))
    assert fewer != told
    (place / "old" / "run.toml").write_text(fewer.replace("steps = 10", "steps = 14"))
    assert main(["resume", str(place / "old")]) == 0
    assert fingerprint(place / "old", 14) == fingerprint(place / "whole", 14)
    assert main(["train", str(path), f"folder={place / 'new'}"]) == 0
    assert json.loads((place / "new" / "model" / "regard.json").read_text())["labels"] == ["a", "b"]


def test_text_in_another_encoding_names_the_setting(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Which one of many it is, nobody can find out."""
    rows = "".join(f"{word} {i},{'ab'[i % 2]}\n" for i, word in enumerate(["привет мир"] * 40))
    (place / "x.csv").write_bytes(("text,label\n" + rows).encode("cp1251"))
    path = run_file(place, "x.csv")
    assert "set data.encoding" in refused(capsys, "check", str(path))
    assert checked(capsys, path, "data.encoding=cp1251")["tables"][0]["first"][0]["text"] == "привет мир 0"
