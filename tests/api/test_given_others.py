"""Sentences with tags, series and images with boxes, given in Python."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.errors import InputError

WORDS = {"kind": "words", "size": 64}
READER = {"name": "bert-tiny", "length": 16, "dim": 16, "depth": 1, "heads": 2, "hidden": 16}
STEPS = {"train.steps": 2, "train.evaluate": 2, "train.threads": 1}
SENTENCES = [["the", "dog"], ["a", "cat", "runs"]]
TAGS = [["D", "N"], ["D", "N", "V"]]


@pytest.mark.parametrize("form", ["rows", "columns", "pair", "dicts"])
def test_words_and_tags(form: str, tmp_path: Path) -> None:
    words, tags = SENTENCES * 30, TAGS * 30
    forms = {
        "rows": list(zip(words, tags, strict=True)),
        "columns": {"tags": tags, "words": words},
        "pair": (words, tags),
        "dicts": [{"tokens": a, "ner_tags": b} for a, b in zip(words, tags, strict=True)],
    }
    settings = STEPS | {"data.vocabulary": WORDS, "data.budget": 256}
    found = regard.train("tag", forms[form], folder=tmp_path / "run", model=READER, settings=settings, progress=False)
    lines = (tmp_path / "run" / "data" / "train.conllu").read_text().splitlines()
    assert [line.split("\t")[1:4:2] for line in lines[:7] if line] == [
        ["the", "D"],
        ["dog", "N"],
        ["a", "D"],
        ["cat", "N"],
        ["runs", "V"],
    ]
    assert found.model is not None
    assert set(found.model.labels) == {"D", "N", "V"}
    if form == "rows":
        right = regard.evaluate(found, data=forms["rows"]).metrics
        assert regard.evaluate(found, data=list(zip(SENTENCES, TAGS, strict=True))).metrics == pytest.approx(right)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ((["the", "dog"], ["D"]), "2 words and 1 tags"),
        (("the dog", ["D", "N"]), "not a list of words"),
        ((["the", "a\tb"], ["D", "N"]), "holds a tab"),
    ],
)
def test_odd_sentences(row: Any, told: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"{told}|row 2(.|\n)*{told}"):
        regard.train("tag", [(["a"], ["D"]), row], folder=tmp_path / "run", progress=False)


WAVE = np.sin(np.arange(300) / 10)


@pytest.mark.parametrize(
    ("given", "header", "second"),
    [
        (WAVE, "time,value", "1,0.0998"),
        (torch.from_numpy(WAVE), "time,value", "1,0.0998"),
        (WAVE.tolist(), "time,value", "1,0.0998"),
        (np.stack([WAVE, -WAVE], 1), "time,value 1,value 2", "1,0.0998"),
        ({"value": WAVE.tolist()}, "time,value", "1,0.0998"),
        ({"a": WAVE.tolist(), "b": WAVE.tolist()}, "time,a,b", "1,0.0998"),
        ({"a": WAVE.tolist(), "date": list(range(300))}, "a,date", "0.0998"),
        ([{"n": 2 * i, "a": x} for i, x in enumerate(WAVE.tolist())], "n,a", "2,0.0998"),
    ],
)
def test_series(given: Any, header: str, second: str, tmp_path: Path) -> None:
    settings = STEPS | {"data.window": 16, "data.horizon": 4, "data.stride": 8, "data.batch": 16}
    model = {"name": "forecaster-small", "dim": 16, "depth": 1, "heads": 2, "hidden": 16}
    report = regard.check("forecast", given, folder=tmp_path / "run", settings=settings, model=model)
    assert report is not None
    regard.train("forecast", given, folder=tmp_path / "run", settings=settings, model=model, progress=False)
    lines = (tmp_path / "run" / "data" / "series.csv").read_text().splitlines()
    assert lines[0] == header
    assert lines[2].startswith(second)


def test_an_array_of_images_is_no_series(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one or two axes"):
        regard.train("forecast", np.zeros((4, 5, 6)), folder=tmp_path / "run", progress=False)


@pytest.mark.parametrize("form", ["dicts", "rows"])
def test_images_with_boxes(form: str, tmp_path: Path) -> None:
    image = np.zeros((32, 32, 3), np.uint8)
    image[4:16, 4:16] = 255
    dicts = [{"image": image, "boxes": [[4, 4, 16, 16]], "labels": ["square"]}] * 8
    rows = [(image, [("square", 4, 4, 16, 16)])] * 8
    settings = STEPS | {"data.batch": 2, "data.share": 0.25, "data.longest": 32}
    report = regard.check("detect", {"dicts": dicts, "rows": rows}[form], folder=tmp_path / "run", settings=settings)
    assert report is not None


def test_odd_boxes(tmp_path: Path) -> None:
    image = np.zeros((32, 32, 3), np.uint8)
    with pytest.raises(InputError, match=r"a box is not understood(.|\n)*row 1"):
        regard.train("detect", [(image, [(1, 2, 3, 4)])], folder=tmp_path / "run", progress=False)


def test_what_has_to_be_files_is_named(tmp_path: Path) -> None:
    image = np.zeros((32, 32, 3), np.uint8)
    with pytest.raises(InputError, match="can only be given as files"):
        regard.train("describe", [(image, "a cat")] * 20, folder=tmp_path / "run", progress=False)
