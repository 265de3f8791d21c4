"""Questions, each with a text that holds its answer: lines of a table, and where in the text the answer begins."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from regard.data.faults import Fault, fault_at
from regard.data.rows import IntegerArray, Rows
from regard.data.tables import UnfitError

SHOWN = 40  # letters of an answer in a message


class Question(NamedTuple):
    """One example."""

    question: str
    context: str
    answer: str  # as it stands in the context
    start: int  # the place of its first letter there


class Questions:
    """Rows of a table: question, context, answer and, if there is a fourth field, where the answer begins, in letters
    from 0. Else it is where it first stands. A row whose answer does not stand there is a fault."""

    def __init__(self, rows: Rows) -> None:
        assert rows.lengths is not None
        self.source = rows
        kept: list[int] = []
        wrong: list[Fault] = []
        for i in range(len(rows)):
            try:
                placed(rows[i])
                kept.append(i)
            except UnfitError as reason:
                wrong.append(fault_at(rows.where(i), str(reason)))
        self.kept = np.array(kept, np.int64)
        self.lengths: IntegerArray = rows.lengths[self.kept, :2]  # of question and context
        self.faults: Sequence[Fault] = [*rows.faults, *wrong] if wrong else rows.faults

    def __len__(self) -> int:
        return len(self.kept)

    def __getitem__(self, i: int) -> Question:
        if not 0 <= i < len(self):
            raise IndexError(f"row index {i} is out of range for {len(self)} rows")
        return placed(self.source[int(self.kept[i])])

    def where(self, i: int) -> str:
        return self.source.where(int(self.kept[i]))


def placed(fields: Sequence[str]) -> Question:
    """The space around an answer is not of it."""
    question, context, answer, *given = fields
    wanted = answer.strip()
    if not given:
        if (found := context.find(wanted)) < 0:
            raise UnfitError(f"the answer {wanted[:SHOWN]!r} does not occur in its context")
        return Question(question, context, wanted, found)
    text = given[0].strip()
    if not text.isdecimal() or len(text) > 9:
        raise UnfitError(f"the start position {text[:SHOWN]!r} of the answer is not a non-negative whole number")
    start = int(text) + answer.index(wanted)
    if not context.startswith(wanted, start):
        there = context[start : start + len(wanted)]
        raise UnfitError(
            f"the answer {wanted[:SHOWN]!r} is not at position {text}, where the context has {there[:SHOWN]!r}"
        )
    return Question(question, context, wanted, start)
