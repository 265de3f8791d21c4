"""A torch dataset stays where it is: the run knows its length and digest, and it is given again."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset

import regard
from regard.errors import InputError

MODEL = {"name": "vit-tiny", "image": 8, "patch": 4, "channels": 1, "dim": 16, "depth": 1, "heads": 2, "hidden": 16}
SETTINGS = {"train.steps": 4, "train.log": 1, "train.evaluate": 2, "train.save": 2, "train.threads": 1, "data.batch": 8}


class Squares(Dataset[Any]):
    """Dark and light images."""

    def __init__(self, count: int = 24, offset: int = 0, classes: list[str] | None = None) -> None:
        self.count, self.offset = count, offset
        if classes is not None:
            self.classes = classes

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> Any:
        image = np.full((8, 8), 200 * (i % 2) + i + self.offset, np.uint8)
        return image, i % 2


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter([])


class Noise(Squares):
    def __getitem__(self, i: int) -> Any:
        return torch.rand(1, 8, 8).numpy(), i % 2


def train(folder: Path, data: Any, **named: Any) -> Any:
    usual = {"model": MODEL, "settings": SETTINGS, "progress": False}
    return regard.train("classify", data, folder=folder, **usual | named)


def stop(event: regard.TrainingEvent) -> None:
    if event.step == 2:
        raise regard.StopTraining


def test_it_is_trained_resumed_and_evaluated(tmp_path: Path) -> None:
    whole = train(tmp_path / "one", Squares(classes=["dark", "light"]))
    assert whole.model.labels == ("dark", "light")
    assert not (tmp_path / "one" / "data").exists()
    stopped = train(tmp_path / "two", Squares(classes=["dark", "light"]), callbacks={"step": stop})
    assert stopped.model is None
    again = regard.resume(tmp_path / "two", Squares(classes=["dark", "light"]), progress=False)
    for name, x in whole.model.state_dict().items():
        assert torch.equal(x, again.model.state_dict()[name])
    assert regard.evaluate(again, data=Squares()).metrics == regard.evaluate(whole, data=Squares()).metrics


def test_another_dataset_is_refused(tmp_path: Path) -> None:
    ended = train(tmp_path / "run", {"train": Squares(), "held_out": Squares(8, offset=30)})
    assert ended.model.labels == ("0", "1")
    given = {"train": Squares(), "held_out": Squares(8, offset=30)}
    assert regard.evaluate(ended, data=given).metrics["accuracy"] >= 0
    with pytest.raises(InputError, match=r"not the one that the run began with(.|\n)*data\.train"):
        regard.evaluate(ended, data=given | {"train": Squares(offset=1)})
    with pytest.raises(InputError, match=r"has to be given in Python(.|\n)*regard\.resume\(folder, data=dataset\)"):
        regard.resume(ended.folder, progress=False)


def test_rows_that_change_by_themselves_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"not the one that the run began with(.|\n)*data\.augment"):
        train(tmp_path / "run", Noise())
    assert not (tmp_path / "run").exists()


def test_a_stream_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="without numbered rows"):
        train(tmp_path / "run", Stream())


def test_a_new_model_is_made_for_its_images(tmp_path: Path) -> None:
    report = regard.check("classify", Squares(), settings=SETTINGS, folder=tmp_path / "run")
    assert report.shapes["inputs"] == (8, 1, 8, 8)
