"""Answers to many inputs, row for row: to the terminal, or beside their inputs in a .csv or .jsonl file."""

import csv
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from regard.cli.piping import Follow, note
from regard.cli.printing import as_line

if TYPE_CHECKING:
    from regard.cli.inputs import Source
    from regard.data.input_rows import InputRow
    from regard.modalities.verb import AnswerView

ENDINGS = (".csv", ".jsonl")
TOGETHER = 256  # rows that are asked together
SHOWN = 5  # rows without an answer that are named
Ask = Callable[[Sequence["InputRow"]], Sequence[Any]]  # the answers to some rows, in order; an InputError for none
Lines = Callable[["InputRow", Any], list[str]]  # an answer in the terminal


def check_out(out: Path | None, *inputs: str, others: Sequence[str] = ()) -> None:
    """Before any work is done: whether the answers can be written there. ``others`` are further endings of the verb."""
    from regard.errors import InputError

    if out is None:
        return
    if out.suffix.lower() not in (*ENDINGS, *others):
        expected = " or ".join([*ENDINGS, *others])
        raise InputError("unsupported file format for the predictions", got=f"--out {out}", expected=expected)
    if not out.absolute().parent.is_dir():
        fix = "create it, or choose another"
        raise InputError("folder not found", where=str(out.absolute().parent), got=f"--out {out}", fix=fix)
    if out.is_dir():
        raise InputError("--out is a folder", got=f"--out {out}", expected="the name of a file")
    if out.exists() and any(Path(name).exists() and out.samefile(name) for name in inputs if len(name) < 1000):
        raise InputError("the input file would be overwritten", where=str(out), fix="choose another name")


def is_table(out: Path | None) -> bool:
    """Whether answers go to a table."""
    return out is not None and out.suffix.lower() in ENDINGS


def answer_rows(
    view: "AnswerView", source: "Source", ask: Ask, out: Path | None, as_json: bool, lines: Lines | None = None
) -> None:
    """Ask about each row, many together; each answer is the same as if it were asked alone. A row that cannot be
    answered keeps its place, and is told at the end."""
    from regard.errors import InputError

    seen = out is None and sys.stdout is not None and sys.stdout.isatty()
    follow = Follow(None if seen else sys.stderr, source.size, what="rows")
    left: list[str] = []  # the first of them
    count = done = missing = 0
    with destination(out, source, view, as_json, lines) as tell:
        rows = iter(source)
        while some := list(islice(rows, TOGETHER)):
            for row, answer, fault in answered(some, ask):
                tell(row, answer)
                count += 1
                missing += bool(fault)
                left += [f"row {count}: {fault}"] if fault and len(left) < SHOWN else []
            place = source.size_before(some[-1])
            follow.add(len(some), max(place - done, 0))
            done = max(place, done)
        if count and missing == count:
            raise InputError("no row could be answered", got="; ".join(left))
        if not count:
            raise InputError("there are no rows to answer")
    follow.close()
    if missing:
        many = "1 row has" if missing == 1 else f"{missing:,} of {count:,} rows have"
        note(f"{many} no answer: {'; '.join(left)}{'; ...' if missing > len(left) else ''}")
    if out is not None:
        facts = {"out": str(out), "rows": count, "without_answer": missing}
        print(as_line(facts) if as_json else f"{count:,} rows written to {out}")


def answered(rows: "Sequence[InputRow]", ask: Ask) -> "Iterator[tuple[InputRow, Any, str]]":
    """Each with its answer, or None and the reason. Where all together are refused, one by one."""
    from regard.errors import InputError

    good = [row for row in rows if row.inputs]
    try:
        answers = dict(zip(map(id, good), ask(good), strict=True)) if good else {}
    except InputError:
        answers = {}
    for row in rows:
        answer = answers.get(id(row))
        if answer is None and row.inputs:
            try:
                (answer,) = ask([row])
            except InputError as error:
                answer = error
        if isinstance(answer, InputError):
            yield row, None, "; ".join(part for part in (answer.what, answer.where, answer.got) if part)
        else:
            yield row, answer, row.fault


Tell = Callable[["InputRow", Any], None]


@contextmanager
def destination(
    out: Path | None, source: "Source", view: "AnswerView", as_json: bool, lines: Lines | None
) -> Iterator[Tell]:
    """Where answers go; a file is whole or not there."""
    if out is None:
        yield lambda row, answer: show(view, row, answer, as_json, lines)
        return
    part = out.with_name(f".{out.name}.part")
    try:
        with open(part, "w", encoding="utf-8", newline="") as file:
            writer = TableWriter(file, source.names()) if out.suffix.lower() == ".csv" else LineWriter(file)
            yield lambda row, answer: writer.add(row.fields, None if answer is None else view.columns(answer))
            writer.close()
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)


def show(view: "AnswerView", row: "InputRow", answer: Any, as_json: bool, lines: Lines | None) -> None:
    if answer is None:
        print(as_line({"error": row.fault or "no answer", "line": row.line}) if as_json else "", flush=True)
    elif as_json:
        print(as_line(view.data(answer)), flush=True)
    else:
        print("\n".join(view.lines([answer]) if lines is None else lines(row, answer)), flush=True)


def free_names(columns: Sequence[str], taken: Sequence[str]) -> dict[str, str]:
    """Of each column of the answers its name in a table that may have one of this name already."""
    found: dict[str, str] = {}
    for column in columns:
        name = column
        while name in taken or name in found.values():
            name = f"predicted_{name}"
        found[column] = name
    return found


class LineWriter:
    """JSON lines."""

    def __init__(self, file: IO[str]) -> None:
        self.file = file

    def add(self, fields: Mapping[str, Any], answer: Mapping[str, Any] | None) -> None:
        names = free_names(list(answer or ()), list(fields))
        told = {**fields, **{names[key]: value for key, value in (answer or {}).items()}}
        self.file.write(json.dumps(told, ensure_ascii=False) + "\n")

    def close(self) -> None:
        """All is written."""


class TableWriter:
    """Comma-separated values under a header. What is no text or number is written as JSON. Rows before the first answer
    wait for its names."""

    def __init__(self, file: IO[str], names: Sequence[str]) -> None:
        self.file, self.names = csv.writer(file, lineterminator="\n"), list(names)
        self.columns: dict[str, str] = {}
        self.waiting: list[Mapping[str, Any]] = []

    def add(self, fields: Mapping[str, Any], answer: Mapping[str, Any] | None) -> None:
        if answer is None and not self.columns:
            self.waiting.append(fields)
            return
        if not self.columns:
            assert answer is not None
            self.columns = free_names(list(answer), self.names)
            self.file.writerow([*self.names, *self.columns.values()])
            for earlier in self.waiting:
                self.row(earlier, {})
            self.waiting = []
        self.row(fields, answer or {})

    def row(self, fields: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        cells = [fields.get(name) for name in self.names] + [answer.get(key) for key in self.columns]
        self.file.writerow(list(map(cell_text, cells)))

    def close(self) -> None:
        """All is written: a table without an answer is none."""


def cell_text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)
