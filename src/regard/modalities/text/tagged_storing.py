"""Sentences with tags given in Python, written as CoNLL-U."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.data.given_tables import as_text, described, picked_columns, table_of
from regard.errors import InputError
from regard.storage.atomic import write_file

ROLES = ("words", "tags")


def store_tagged(splits: Mapping[str, Any], asked: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A file for each split; the tags stand where universal ones do, and where those of a language do."""
    found: dict[str, Any] = {}
    for split, given in splits.items():
        where = f"data.{split}"
        rows = picked_columns(table_of(given, where), ROLES, [], where)
        lines = [line for i, row in enumerate(rows, 1) for line in sentence(row, f"{where}, row {i}")]
        write_file(folder / f"{split}.conllu", "".join(lines).encode("utf-8", "replace"))
        found[split] = [str(folder / f"{split}.conllu")]
    return found


def sentence(row: Sequence[Any], where: str) -> Iterator[str]:
    words, tags = (cells(given, f"{where}, {role}") for role, given in zip(ROLES, row, strict=True))
    if not words or len(words) != len(tags):
        got = f"{len(words)} words and {len(tags)} tags"
        raise InputError("each word needs one tag", where=where, got=got, expected="as many tags as words")
    for number, (word, tag) in enumerate(zip(words, tags, strict=True), 1):
        yield f"{number}\t{word}\t_\t{tag}\t{tag}\t_\t_\t_\t_\t_\n"
    yield "\n"


def cells(given: Any, where: str) -> list[str]:
    """The words or the tags of a sentence, each of which stands in one line."""
    if isinstance(given, str | bytes | Mapping) or not hasattr(given, "__len__"):
        fix = "give a list of words and a list of as many tags"
        raise InputError("a sentence is not a list of words", where=where, got=described(given), fix=fix)
    found = [as_text(x) for x in given]
    if wrong := [x for x in found if x is None or not x.strip() or set("\t\n\r") & set(x)]:
        raise InputError("a word or tag is empty, or holds a tab or the end of a line", where=where, got=repr(wrong[0]))
    return [str(x) for x in found]
