"""What a user should know of a run's rows before it is trained: nothing is wrong, and yet the result may mislead."""

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from regard.data.rows import labels_of_rows
from regard.errors import first_of
from regard.modalities.run_parts import OpenedData, RunPlan
from regard.modalities.sources import source_of

FEW_HELD_OUT = 100  # below, two standard errors of an accuracy are above 10 %
FEW_OF_A_CLASS = 5
SHOWN = 5  # classes that are named
MOST = 3_000_000  # rows that are compared


def data_notes(plan: RunPlan, opened: OpenedData, held_out: int | None) -> list[str]:
    """``held_out`` are the examples that are evaluated while the run is trained."""
    told = []
    if held_out is not None and held_out < FEW_HELD_OUT:
        many = "1 example" if held_out == 1 else f"{held_out} examples"
        told.append(f"the held-out data has only {many}: its metrics are uncertain; use {FEW_HELD_OUT} or more")
    return [*told, *class_notes(opened), *duplicate_notes(plan, opened)]


def class_notes(opened: OpenedData) -> Iterator[str]:
    """Classes that can hardly be learned, or measured."""
    for split, rows in opened.splits.items():
        labels = labels_of_rows(rows)
        if labels is None or not opened.names or not len(labels):
            continue
        counts = np.bincount(labels, minlength=len(opened.names))
        if split == "train":
            few = [i for i in np.argsort(counts, kind="stable").tolist() if counts[i] < FEW_OF_A_CLASS]
            if few:
                named = [f"{opened.names[i]} ({counts[i]})" for i in few]
                many = "1 class has" if len(few) == 1 else f"{len(few)} classes have"
                told = ", ".join(first_of(named, SHOWN))
                yield f"{many} fewer than {FEW_OF_A_CLASS} rows of train: {told}"
        elif np.count_nonzero(counts) == 1:
            yield f"all rows of {split} have the same label, {opened.names[int(counts.argmax())]}"


def duplicate_notes(plan: RunPlan, opened: OpenedData) -> Iterator[str]:
    """Texts that are learned from and measured on."""
    kind = source_of(plan.data)
    if not kind.only_texts or not kind.paths or len(opened.splits) < 2:
        return
    if (total := sum(map(len, opened.splits.values()))) > MOST:
        yield f"rows of train that are also held out were not looked for: there are {total:,} rows"
        return
    digests = {split: row_digests(kind.texts(rows), len(rows)) for split, rows in opened.splits.items()}
    for split, found in digests.items():
        if split != "train" and (same := np.flatnonzero(np.isin(found, digests["train"]))).size:
            share, where = len(same) / len(found), opened.splits[split].where(int(same[0]))
            yield f"{len(same):,} of {len(found):,} rows of {split} ({share:.0%}) are also in train, such as {where}"


def row_digests(texts: Callable[[int], Sequence[str]], count: int) -> NDArray[np.uint64]:
    return np.fromiter((digest(texts(i)) for i in range(count)), np.uint64, count)


def digest(texts: Sequence[str]) -> int:
    return int.from_bytes(blake2b("\0".join(texts).encode("utf-8"), digest_size=8).digest(), "little")
