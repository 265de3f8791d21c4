"""Rows in memory, in all forms that people have them in, are what was given, and stand in the run's folder."""

import importlib.util
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.api.asked import run_asked, settings_asked
from regard.api.training import stored_settings
from regard.data.given_tables import is_path, table_of
from regard.errors import InputError

ROWS = [("the dog runs", "yes"), ("the cat sits", "no")] * 8


class Frame:
    """What pandas' tables can do, as far as it is used."""

    def __init__(self, columns: list[str], rows: list[tuple[Any, ...]]) -> None:
        self.columns, self.rows = columns, rows

    def itertuples(self, *, index: bool, name: None) -> Any:
        assert not index
        return iter(self.rows)


class Names:
    names = ("no", "yes")


class Hub:
    """What Hugging Face's tables can do."""

    def __init__(self, rows: list[dict[str, Any]], features: dict[str, Any]) -> None:
        self.rows, self.features, self.column_names = rows, features, list(rows[0])

    def __iter__(self) -> Any:
        return iter(self.rows)


def lines(data: Any, folder: Path, task: str = "classify", **settings: Any) -> list[dict[str, Any]]:
    """What stands in the folder while the run is made."""
    asked = run_asked(task, data, task="", model="", start="", folder=folder, seed=None, settings=settings)
    with stored_settings(asked, folder) as run:
        (path,) = run.data.train
        return [json.loads(line) for line in Path(path).read_text().splitlines()]


WANTED = [{"text": text, "label": label} for text, label in ROWS]
FORMS = {
    "tuples": ROWS,
    "lists": [list(row) for row in ROWS],
    "dicts": [{"label": label, "text": text} for text, label in ROWS],
    "columns": {"text": [row[0] for row in ROWS], "label": [row[1] for row in ROWS]},
    "inputs and labels": ([row[0] for row in ROWS], [row[1] for row in ROWS]),
    "an array": np.array(ROWS, dtype=object),
    "pandas": Frame(["id", "review", "sentiment"], [(i, *row) for i, row in enumerate(ROWS)]),
    "hub": Hub([{"text": a, "label": int(b == "yes")} for a, b in ROWS], {"label": Names()}),
}


@pytest.mark.parametrize("form", FORMS)
def test_labelled_texts(form: str, tmp_path: Path) -> None:
    assert lines(FORMS[form], tmp_path / "run") == WANTED
    assert not (tmp_path / "run").exists()  # the run did not begin


def test_columns_can_be_named(tmp_path: Path) -> None:
    table = Frame(["a", "b", "c"], [(label, 1.5, text) for text, label in ROWS])
    assert lines({"train": table, "text": "c", "label": "a"}, tmp_path / "run") == WANTED
    with pytest.raises(InputError, match=r"the columns of text and label are not known(.|\n)*columns a, b, c"):
        lines(table, tmp_path / "run")
    with pytest.raises(InputError, match=r"no such column(.|\n)*got: 'd'"):
        lines({"train": table, "text": "d", "label": "a"}, tmp_path / "run")


def test_numbers_are_labels_and_missing_values_are_told(tmp_path: Path) -> None:
    rows = [("one", 1), ("two", np.int64(2)), ("none", None), ("nan", float("nan")), ("half", 0.5)]
    assert [row["label"] for row in lines(rows, tmp_path / "run")] == ["1", "2", None, None, "0.5"]


def test_pairs_and_texts(tmp_path: Path) -> None:
    pairs = [("a dog", "ein Hund"), ("a cat", "eine Katze")]
    found = lines(pairs, tmp_path / "run", "translate")
    assert found == [{"source": a, "target": b} for a, b in pairs]
    assert lines(["one line", "two lines"], tmp_path / "run", "language") == [
        {"text": "one line"},
        {"text": "two lines"},
    ]


def test_one_text_is_read_as_a_whole(tmp_path: Path) -> None:
    text = "It was a dark night.\n" * 40
    asked = run_asked("language", text, task="", model="", start="", folder=tmp_path / "run", seed=None, settings={})
    with stored_settings(asked, tmp_path / "run") as run:
        assert run.data.unit == "text"
        assert Path(run.data.train[0]).read_text() == text


@pytest.mark.parametrize(
    "given",
    [
        (np.arange(8 * 6 * 5, dtype=np.uint8).reshape(8, 6, 5), ["a", "b"] * 4),
        [(np.full((6, 5, 3), i, np.uint8), "ab"[i % 2]) for i in range(8)],
        [(torch.full((3, 6, 5), i / 8), i % 2) for i in range(8)],
        [(Image.new("RGB", (5, 6), (i, 0, 0)), "ab"[i % 2]) for i in range(8)],
        {"image": [np.full((6, 5), i, np.uint8) for i in range(8)], "label": [0, 1] * 4},
    ],
    ids=["array", "arrays", "tensors", "pictures", "columns"],
)
def test_images_keep_their_pixels(given: Any, tmp_path: Path) -> None:
    asked = run_asked("classify", given, task="", model="", start="", folder=tmp_path / "run", seed=None, settings={})
    with stored_settings(asked, tmp_path / "run") as run:
        assert run.data.kind == "images"
        with zipfile.ZipFile(run.data.train) as archive:
            table = archive.read("labels.tsv").decode().splitlines()
            pixels = [np.asarray(Image.open(archive.open(line.split("\t")[0]))) for line in table]
    assert len(table) == 8
    rows = list(zip(*given.values(), strict=True)) if isinstance(given, dict) else given
    rows = list(zip(*rows, strict=True)) if isinstance(given, tuple) else rows
    for (image, label), line, found in zip(rows, table, pixels, strict=True):
        assert line.split("\t")[1] == str(label)
        wanted = (image.permute(1, 2, 0) * 255).round().byte().numpy() if torch.is_tensor(image) else np.asarray(image)
        assert np.array_equal(found, wanted)


@pytest.mark.parametrize(
    ("image", "told"),
    [
        (np.zeros((4, 4, 2), np.uint8), "the array is not an image"),
        (np.full((4, 4), 300), "neither bytes nor shares of 1"),
    ],
)
def test_what_is_no_image_is_said_with_its_row(image: Any, told: str, tmp_path: Path) -> None:
    good = np.zeros((4, 4), np.uint8)
    with pytest.raises(InputError, match=rf"{told}(.|\n)*data\.train, row 2"):
        regard.train("classify", [(good, "a"), (image, "b")], folder=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([("a", "x"), ("b",)], r"differs from the first one(.|\n)*row 2"),
        ([{"text": "a", "label": "x"}, {"text": "b"}], r"differs from the first one(.|\n)*row 2"),
        ({"text": ["a", "b"], "label": ["x"]}, "different lengths"),
        ([], "there are no rows"),
        (3, "the training data is not a table"),
    ],
)
def test_odd_tables(given: Any, told: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=told):
        lines(given, tmp_path / "run")


def test_paths_stay_paths(tmp_path: Path) -> None:
    (tmp_path / "rows.tsv").write_text("a\tx\n")
    assert is_path(str(tmp_path / "rows.tsv"))
    assert is_path([tmp_path / "rows.tsv"])
    assert is_path("missing.csv")  # a file that is not found is an error, not a text
    assert not is_path(["a text", "another"])
    asked = run_asked("classify", tmp_path / "rows.tsv", task="", model="", start="", folder="", seed=None, settings={})
    assert settings_asked(asked, {}).data.train == (str(tmp_path / "rows.tsv"),)


@pytest.mark.skipif(importlib.util.find_spec("pandas") is None, reason="pandas is not installed")
def test_tables_of_pandas_itself() -> None:
    import pandas

    table = table_of(pandas.DataFrame(ROWS, columns=["text", "label"]), "data")
    assert table.columns == ("text", "label")
    assert [tuple(row) for row in table.rows] == ROWS
