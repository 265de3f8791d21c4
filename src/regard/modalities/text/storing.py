"""Texts given in Python, written as files of the kinds of data that a run reads."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.data.given_tables import as_text, picked_columns, table_of
from regard.data.storing import one_of, write_rows
from regard.storage.atomic import write_file


def store_labelled(splits: Mapping[str, Any], asked: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """One text, or two, and a label in each row."""
    texts = asked.get("text", "")
    pair = isinstance(texts, list | tuple) and len(texts) == 2
    roles = ["text", "second", "label"] if pair else ["text", "label"]
    columns = [*(texts if isinstance(texts, list | tuple) else [texts]), asked.get("label", "")]
    found = store_columns(splits, roles, columns, folder)
    return found | {"text": roles[:-1], "label": "label"}


def store_pairs(splits: Mapping[str, Any], asked: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A source and a target in each row."""
    roles = ["source", "target"]
    return store_columns(splits, roles, one_of(asked, "columns", 2), folder) | {"columns": roles}


def store_answers(splits: Mapping[str, Any], asked: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A question, a context and the answer in it."""
    roles = ["question", "context", "answer"]
    columns = [asked.get(role, "") for role in roles]
    return store_columns(splits, roles, columns, folder) | {role: role for role in roles}


def store_texts(splits: Mapping[str, Any], asked: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Texts one by one; or a single text, which is read as a whole."""
    if all(isinstance(given, str) for given in splits.values()):
        found: dict[str, Any] = {"unit": "text"}
        for split, text in splits.items():
            write_file(folder / f"{split}.txt", text.encode("utf-8", "replace"))
            found[split] = [str(folder / f"{split}.txt")]
        return found
    return store_columns(splits, ["text"], one_of(asked, "key", 1), folder) | {"key": "text"}


def store_columns(
    splits: Mapping[str, Any], roles: Sequence[str], asked: Sequence[str | int], folder: Path
) -> dict[str, Any]:
    """A file for each split; -> the settings that name them."""
    found = {}
    for split, given in splits.items():
        where = f"data.{split}"
        rows = picked_columns(table_of(given, where), roles, asked, where)
        path = write_rows(folder / f"{split}.jsonl", roles, ([as_text(x) for x in row] for row in rows))
        found[split] = [str(path)]
    return found
