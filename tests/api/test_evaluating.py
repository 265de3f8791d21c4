"""`regard.evaluate` measures the data that it is given; `regard.resume` refuses data that it would not look at."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.api.elsewhere import settings_of_given
from regard.errors import InputError
from regard.modalities.sources import SOURCES
from tests.api.test_training import ROWS, train


class Pictures(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return 20

    def __getitem__(self, i: int) -> Any:
        return torch.full((1, 8, 8), i % 2), i % 2


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return train(tmp_path_factory.mktemp("runs") / "run")


def accuracy(ended: Any, rows: list[tuple[str, str]]) -> float:
    """Of the model's own answers."""
    said = [one.label for one in ended.model.classify([text for text, _ in rows])]
    return sum(a == b for a, (_, b) in zip(said, rows, strict=True)) / len(rows)


def test_rows_columns_and_files_are_measured(ended: Any, tmp_path: Path) -> None:
    wrong = [(text, "dog" if said != "dog" else "cat") for text, said in ROWS]
    texts, labels = zip(*wrong, strict=True)
    lines = ["stars;review", *(f"{label};{text}" for text, label in wrong)]
    (tmp_path / "other.csv").write_text("\n".join(lines), "utf-16")
    found = {
        "rows": regard.evaluate(ended, data=wrong),
        "columns": regard.evaluate(ended, data={"label": list(labels), "text": list(texts)}),
        "file": regard.evaluate(
            ended, data={"test": tmp_path / "other.csv", "text": ["review"], "label": "stars"}, split="test"
        ),
    }
    for form, one in found.items():
        assert one.metrics["accuracy"] == pytest.approx(accuracy(ended, wrong)), form
    assert regard.evaluate(ended, data=ROWS).metrics["accuracy"] == pytest.approx(accuracy(ended, list(ROWS)))
    assert accuracy(ended, list(ROWS)) != accuracy(ended, wrong)


def test_a_label_that_it_does_not_know_is_named(ended: Any) -> None:
    with pytest.raises(InputError, match="the label 'lion' does not occur in the training data"):
        regard.evaluate(ended, data=[*ROWS * 20, ("the dog sees a lion", "lion")])


def test_missing_files_and_settings_are_named(ended: Any) -> None:
    with pytest.raises(InputError, match=r"missing\.csv"):
        regard.evaluate(ended, data="missing.csv")
    with pytest.raises(InputError, match="unknown setting of data"):
        regard.evaluate(ended, data={"test": ROWS, "lable": "x"})


def test_datasets_are_for_runs_that_were_given_some(ended: Any) -> None:
    with pytest.raises(InputError, match=r"no use for such data(.|\n)*'labelled'(.|\n)*give rows or files"):
        regard.evaluate(ended, data=Pictures())


@pytest.mark.parametrize("data", [ROWS, Pictures(), "rows.tsv"])
def test_resume_refuses_data_that_it_would_not_look_at(ended: Any, data: Any) -> None:
    with pytest.raises(InputError, match=r"no use for such data(.|\n)*leave data out"):
        regard.resume(ended.folder, data=data)


def test_the_same_call_again_is_told_how_to_go_on(ended: Any) -> None:
    with pytest.raises(InputError, match=r"not empty(.|\n)*regard\.resume\('.*run'\) continues"):
        train(ended.folder)


def test_images(tmp_path: Path) -> None:
    """In memory, prepared as the run prepares its own."""
    dark, light = np.zeros((16, 8, 8), np.uint8), np.full((16, 8, 8), 255, np.uint8)
    rows = (np.concatenate([dark, light]), [0] * 16 + [1] * 16)
    model = {"name": "vit-cifar", "image": 8, "patch": 4, "dim": 16, "depth": 1, "heads": 2, "hidden": 16}
    settings = {"train.steps": 20, "train.evaluate": 20, "data.batch": 16, "data.share": 0.25, "optimizer.rate": 3e-3}
    run = regard.train("classify", rows, folder=tmp_path / "run", model=model, settings=settings, progress=False)
    right = regard.evaluate(run, data=(rows[0][:30], rows[1][:30])).metrics["accuracy"]
    turned = regard.evaluate(run, data=(rows[0][:30], [1 - x for x in rows[1][:30]])).metrics["accuracy"]
    assert right == pytest.approx(1 - turned)
    assert right != turned


@pytest.mark.parametrize("kind", ["boxes", "captions", "series"])
def test_where_more_than_the_rows_would_be_the_runs_own(kind: str, tmp_path: Path) -> None:
    """A detector would look for the images among its own, by the same names."""
    settings = SOURCES[kind].settings
    names = {one.name for one in fields(settings)}
    required: dict[str, Any] = {key: ("x",) for key in ("files", "images") if key in names}
    required |= {"train": "x"} if "train" in names else {}
    with pytest.raises(InputError, match="cannot be evaluated on other data"):
        settings_of_given(settings(**required), [1], "test", tmp_path / "data")
