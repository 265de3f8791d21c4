"""Verbs on many inputs at once: tables, lists, folders; a row of answers for each row, as if it were asked alone."""

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.cli import predictions
from regard.cli.app import main
from regard.modalities.captions.processor import Captions
from regard.modalities.images.processor import Images
from regard.modalities.text.vocabulary import Vocabulary, tokenizer_symbols
from regard.modalities.verb_table import VERBS
from regard.model import Model
from tests.verbs.readers import TEXTS, WORDS
from tests.verbs.readers import model as reader
from tests.verbs.test_seeing import model as seer
from tests.verbs.translating import piped, translator

ODD = ["w1 w2", "", 'w3, "w4"', "w5\nw6", *TEXTS]  # one of them is empty


def writer() -> Model:
    torch.manual_seed(0)
    text = Vocabulary("words", 60).learn([" ".join(WORDS)])
    made = regard.build("gpt-tiny", vocab=text.tokenizer.get_vocab_size(), length=32, dim=16, depth=1, heads=2).eval()
    return replace(made, processor=text, task="language", symbols=tokenizer_symbols(text))


def describer() -> Model:
    torch.manual_seed(0)
    text = Vocabulary("words", 60).learn([" ".join(WORDS)])
    sizes = {"image": 16, "patch": 4, "dim": 16, "depth": 1, "decoder_depth": 1, "heads": 2, "hidden": 32}
    made = regard.build("captioner-tiny", vocab=text.tokenizer.get_vocab_size(), **sizes).eval()
    return replace(made, processor=Captions(Images(size=16), text), task="describe", symbols=tokenizer_symbols(text))


def detector() -> Model:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "dim": 16,
        "heads": 2,
        "hidden": 32,
        "depth": 1,
        "decoder_depth": 1,
        "queries": 4,
        "classes": 3,
    }
    made = regard.build("detr-small", **sizes).eval()
    return replace(made, processor=Images(size=32, fit="within"), task="detect", labels=("a", "b", "c"))


def saved(model: Model, place: Path) -> str:
    regard.save(model, place / "model")
    return str(place / "model")


def table(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path
    told = io.StringIO()
    out = csv.DictWriter(told, list(rows[0]), lineterminator="\n")
    out.writeheader()
    out.writerows(rows)
    path.write_text(told.getvalue())
    return path


def written(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(predictions, "TOGETHER", 3)  # more than one batch


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """A folder of images, one of them damaged, in folders of their own."""
    luck = np.random.default_rng(0)
    for i in range(5):
        folder = tmp_path / "images" / "ab"[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(luck.integers(0, 256, (20 + i, 24, 3), np.uint8)).save(folder / f"{i}.png")
    (tmp_path / "images" / "b" / "bad.png").write_bytes(b"no image")
    return tmp_path / "images"


TEXT_VERBS: dict[str, tuple[Callable[[], Model], list[str], str]] = {
    "classify": (lambda: reader("label"), ["classify"], "label"),
    "tag": (lambda: reader("tags"), ["tag"], "tags"),
    "embed": (lambda: reader("none"), ["embed"], "vector"),
    "translate": (translator, ["translate", "-m"], "translation"),
    "generate": (writer, ["generate"], "generation"),
}
GREEDY = {"generate": ["--temperature", "0", "--tokens", "5"], "translate": ["--longest", "6", "--beam", "2"]}


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
@pytest.mark.parametrize("verb", TEXT_VERBS)
def test_a_row_for_a_row(verb: str, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside its input, and as the text alone is answered."""
    make, words, column = TEXT_VERBS[verb]
    name = saved(make(), tmp_path)
    given = table(tmp_path / f"in{suffix}", [{"id": str(i), "text": text} for i, text in enumerate(ODD)])
    out = tmp_path / f"out{suffix}"
    more = GREEDY.get(verb, [])
    assert main([*words, name, str(given), "--out", str(out), *more]) == 0
    told, notes = capsys.readouterr()
    assert told == f"{len(ODD)} rows written to {out}\n"
    assert f"reading column 'text' of {given}" in notes
    assert "1 row has no answer: row 2: " in notes
    assert "is empty" in notes
    rows = written(out)
    assert [(row["id"], row["text"]) for row in rows] == [(str(i), text) for i, text in enumerate(ODD)]
    assert not rows[1].get(column)
    for row, text in zip(rows, ODD, strict=True):
        if text:
            one = tmp_path / f"one{suffix}"
            assert main([*words, name, text, "--out", str(one), *more]) == 0
            (alone,) = written(one)
            assert near(row[column], alone[column]), (row, alone)


def near(one: Any, other: Any) -> bool:
    """Equal but for rounding: a row is padded to the longest of its batch."""
    if isinstance(one, str) and one.startswith("["):
        return near(json.loads(one), json.loads(other))
    return bool(
        one
        == (pytest.approx(other, abs=1e-5) if isinstance(one, list) and one and isinstance(one[0], float) else other)
    )


@pytest.mark.parametrize("verb", TEXT_VERBS)
def test_lines_of_a_text_file_and_of_a_pipe(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make, words, column = TEXT_VERBS[verb]
    name, more = saved(make(), tmp_path), GREEDY.get(verb, [])
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    assert main([*words, name, str(tmp_path / "in.txt"), "--out", str(tmp_path / "a.jsonl"), *more]) == 0
    piped("".join(f"{text}\n" for text in TEXTS).encode(), monkeypatch)
    assert main([*words, name, "-", "--out", str(tmp_path / "b.jsonl"), *more]) == 0
    one, two = written(tmp_path / "a.jsonl"), written(tmp_path / "b.jsonl")
    assert [row[column] for row in one] == [row[column] for row in two]
    assert len(one) == len(TEXTS)
    capsys.readouterr()


def test_the_terminal_shows_a_line_for_each_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = saved(reader("label"), tmp_path)
    given = str(table(tmp_path / "in.csv", [{"text": text} for text in ODD[:3]]))
    assert main(["classify", name, given]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert [bool(line) for line in lines] == [True, False, True, False]
    assert main(["classify", name, given, "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row.get("texts") for row in told] == [[ODD[0]], None, [ODD[2]]]
    assert told[1] == {"error": "the text is empty", "line": 3}


def test_a_name_that_is_taken(tmp_path: Path) -> None:
    name = saved(reader("label"), tmp_path)
    given = table(tmp_path / "in.csv", [{"text": "w1", "label": "red"}, {"text": "w2", "label": "x"}])
    assert main(["classify", name, str(given), "--out", str(tmp_path / "out.csv")]) == 0
    rows = written(tmp_path / "out.csv")
    assert list(rows[0]) == ["text", "label", "predicted_label", "probability"]
    assert [row["label"] for row in rows] == ["red", "x"]


def test_questions_and_their_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = reader("span")
    name = saved(model, tmp_path)
    rows = [{"context": " ".join(WORDS[i : i + 30]), "question": f"w{i}"} for i in range(4)]
    given = str(table(tmp_path / "in.csv", rows))
    assert main(["answer", name, given, "--out", str(tmp_path / "out.jsonl")]) == 0
    for row, told in zip(rows, written(tmp_path / "out.jsonl"), strict=True):
        alone = model.answer(row["question"], row["context"])
        assert (told["answer"], told["start"], told["end"]) == (alone.text, alone.start, alone.end)
    for words, told in (([given, "w1 w2"], "takes the text itself"), (["w1", given], f"--file {given}")):
        assert main(["answer", name, *words]) == 2
        assert told in capsys.readouterr().err
    assert main(["answer", name, "w1", "w2 w3", "--out", str(tmp_path / "one.csv")]) == 0
    assert list(written(tmp_path / "one.csv")[0]) == ["question", "context", "answer", "start", "end", "probability"]
    capsys.readouterr()


IMAGE_VERBS = {"classify": (seer, "label"), "describe": (describer, "caption"), "detect": (detector, "boxes")}


@pytest.mark.parametrize("verb", IMAGE_VERBS)
def test_folders_and_lists_of_images(
    verb: str, tmp_path: Path, pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, column = IMAGE_VERBS[verb]
    name = saved(make(), tmp_path)
    assert main([verb, name, str(pictures), "--out", str(tmp_path / "out.csv")]) == 0
    assert "bad.png" in capsys.readouterr().err
    rows = written(tmp_path / "out.csv")
    files = sorted(pictures.rglob("*.png"))
    assert [row["image"] for row in rows] == list(map(str, files))
    listed = table(
        pictures / "list.csv", [{"n": i, "file": str(one.relative_to(pictures))} for i, one in enumerate(files)]
    )
    assert main([verb, name, str(listed), "--out", str(tmp_path / "listed.csv")]) == 0
    same = written(tmp_path / "listed.csv")
    assert [row[column] for row in same] == [row[column] for row in rows]
    for row in rows:
        alone = tmp_path / "one.csv"
        if row[column]:
            assert main([verb, name, row["image"], "--out", str(alone)]) == 0
            assert written(alone)[0][column] == row[column]
    assert sum(not row[column] for row in rows) == 1
    assert main([verb, name, str(pictures)]) == 0
    assert str(files[0]) in capsys.readouterr().out


def test_drawing_keeps_its_meaning(tmp_path: Path, pictures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (pictures / "b" / "bad.png").unlink()
    name = saved(detector(), tmp_path)
    assert main(["detect", name, str(pictures), "--out", str(tmp_path / "drawn")]) == 0
    assert len(list((tmp_path / "drawn").glob("*.png"))) == 5
    capsys.readouterr()


def test_a_list_of_embeddings_as_an_array(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = saved(reader("none"), tmp_path)
    given = str(table(tmp_path / "in.csv", [{"text": text} for text in TEXTS]))
    assert main(["embed", name, given, "--out", str(tmp_path / "x.npy")]) == 0
    assert np.load(tmp_path / "x.npy").shape == (len(TEXTS), 16)
    table(tmp_path / "in.csv", [{"text": text} for text in ODD])
    assert main(["embed", name, given, "--out", str(tmp_path / "x.npy")]) == 2
    assert "line 3: the text is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["notes.md"], "takes the text itself"),
        (["gone.csv"], "file not found"),
        (["in.csv", "w1"], "one table at a time"),
        (["in.csv", "in.csv"], "one table at a time"),
        (["in.csv", "--out", "x.pdf"], "expected: .csv or .jsonl"),
        (["in.csv", "--out", "nowhere/x.csv"], "folder not found"),
        (["in.csv", "--out", "in.csv"], "would be overwritten"),
        (["in.csv", "--column", "other"], "no column 'other'"),
        (["w1", "--column", "text"], "--column requires a table"),
        (["odd.csv"], "which column holds the text"),
        (["empty.csv"], "no row could be answered"),
    ],
)
def test_what_is_refused(
    words: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    name = saved(reader("label"), tmp_path)
    table(tmp_path / "in.csv", [{"text": "w1"}])
    table(tmp_path / "odd.csv", [{"a1": "w1", "b1": "w2"}])
    table(tmp_path / "empty.csv", [{"text": ""}, {"text": " "}])
    (tmp_path / "notes.md").write_text("w1")
    before = set(tmp_path.iterdir())
    assert main(["classify", name, *words]) == 2
    assert told in capsys.readouterr().err
    assert {path for path in tmp_path.iterdir() if path.name != "cache"} == before - {tmp_path / "cache"}


def test_a_text_with_spaces_is_a_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["classify", saved(reader("label"), tmp_path), "w1 w2 of in.csv"]) == 0
    assert capsys.readouterr().out


def test_what_breaks_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = saved(reader("label"), tmp_path)
    given = table(tmp_path / "in.csv", [{"text": text} for text in TEXTS])

    def broken(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(predictions, "answered", broken)
    (tmp_path / "out.csv").write_text("old")
    assert main(["classify", name, str(given), "--out", str(tmp_path / "out.csv")]) == 130
    assert (tmp_path / "out.csv").read_text() == "old"
    assert not list(tmp_path.glob(".out*"))


def test_every_verb_can_write_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in VERBS:
        assert main([verb, "--help"]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "--out" in shown, verb
        assert ".jsonl" in shown, verb


def test_a_look_takes_the_text_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table(tmp_path / "in.csv", [{"text": "w1"}])
    assert main(["look", saved(reader("label"), tmp_path), str(tmp_path / "in.csv")]) == 2
    assert "`regard look` takes the text itself" in capsys.readouterr().err


def test_how_far_it_is_is_told_beside_the_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On standard error, now and then; in rows, with the time that is left."""
    times = iter(range(0, 10_000, 20))
    real = predictions.Follow
    monkeypatch.setattr(predictions, "Follow", lambda *given, what: real(*given, lambda: float(next(times)), what))
    name = saved(reader("label"), tmp_path)
    given = str(table(tmp_path / "in.csv", [{"text": text} for text in TEXTS * 3]))
    assert main(["classify", name, given, "--out", str(tmp_path / "out.csv")]) == 0
    out, err = capsys.readouterr()
    assert "rows/s" in err
    assert "left" in err
    assert out == f"{3 * len(TEXTS)} rows written to {tmp_path / 'out.csv'}\n"
