"""Datasets that are given in Python while a run is begun, resumed or evaluated: they cannot be written down."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from torch.utils.data import Dataset, IterableDataset

from regard.errors import InputError

GIVEN: ContextVar[Mapping[str, Any] | None] = ContextVar("GIVEN", default=None)


@contextmanager
def datasets_given(splits: Mapping[str, Any]) -> Iterator[None]:
    """Within, these are the datasets of the splits."""
    token = GIVEN.set(splits)
    try:
        yield
    finally:
        GIVEN.reset(token)


def given_dataset(split: str) -> Any:
    found = (GIVEN.get() or {}).get(split)
    if found is None:
        raise InputError(
            "this run reads a torch dataset, which has to be given in Python",
            where=f"data.{split}",
            got="no dataset",
            fix="in Python: regard.resume(folder, data=dataset)",
        )
    return found


def is_dataset(given: Any, where: str) -> bool:
    """A torch dataset with numbered rows; one without could not be read in the same order again."""
    if isinstance(given, IterableDataset):
        raise InputError(
            "a dataset without numbered rows cannot be trained on: its order could not be repeated",
            where=where,
            got=type(given).__name__,
            fix="use a dataset with __len__ and __getitem__, or give a list of its rows",
        )
    return isinstance(given, Dataset)
