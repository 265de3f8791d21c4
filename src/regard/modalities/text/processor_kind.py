"""The tokenizer of a model in its folder: of ours, and of another library."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from regard.errors import CheckpointError
from regard.interop.tokens import foreign_tokenizer
from regard.modalities.processor import ForeignFolder, ProcessorFolder, ProcessorKind
from regard.models.family import Family
from regard.storage.documents import read_bytes

from .processor import Text

FILE = "tokenizer.json"


def read(data: Mapping[str, Any], home: ProcessorFolder) -> Text | None:
    if set(data) != {"kind"}:
        where = str(home.folder / "regard.json")
        raise CheckpointError("a text processor takes no settings", where=where, got=", ".join(data)[:200])
    return read_tokenizer(home, "")


def read_foreign(data: Mapping[str, Any], kind: str, home: ProcessorFolder) -> Text | None:
    return read_tokenizer(home, kind)


def read_tokenizer(home: ProcessorFolder, kind: str) -> Text | None:
    """The folder's tokenizer, whose every id must have a row in the embedding."""
    path = home.folder / FILE
    if os.path.lexists(path):
        if not path.is_file():
            raise CheckpointError(
                "the tokenizer is not a regular file",
                where=str(path),
                fix="remove it, or put the tokenizer file in its place",
            )
        raw = read_bytes(path)
    elif not kind or (other := foreign_tokenizer(home.folder, kind)) is None:
        return None
    else:
        raw = other
    text = Text.from_bytes(raw, str(path))
    last, vocab = max(text.tokenizer.get_vocab().values(), default=-1), home.get("vocab") or 0
    if last >= vocab:
        raise CheckpointError(
            "the tokenizer has token ids without an embedding in the model",
            where=str(path),
            got=f"token id {last}",
            expected=f"token ids below {vocab}",
        )
    return text


def export(text: Text, folder: ForeignFolder) -> ForeignFolder:
    return replace(folder, files={**folder.files, FILE: text.to_bytes()})


def blank(family: Family, config: Any, words: Text) -> Text:
    return words


TEXT = ProcessorKind(frozenset({"text"}), (FILE,), read, read_foreign, export, blank)
