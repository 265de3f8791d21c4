"""The tokenizer of a model in its folder: of ours, and of another library."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from regard.errors import CheckpointError
from regard.interop.tokens import UnclearTokenizer, foreign_tokenizer
from regard.modalities.processor import (
    ExampleProcessor,
    ForeignFolder,
    MissingProcessor,
    ProcessorFolder,
    ProcessorKind,
)
from regard.models.family import Family
from regard.storage.documents import read_bytes

from .processor import Text
from .tokenizer_export import exported_tokenizer, usual_decoding
from .vocabulary import SPECIAL_TOKENS, Vocabulary, tokenizer_symbols

FILE = "tokenizer.json"
SENTENCES = ("the dog sees a cat", "who runs today")  # of which the words of an example are learned


def read(data: Mapping[str, Any], home: ProcessorFolder) -> Text | None:
    if set(data) != {"kind"}:
        where = str(home.folder / "regard.json")
        raise CheckpointError("a text processor takes no settings", where=where, got=", ".join(data)[:200])
    return read_tokenizer(home)


def read_foreign(data: Mapping[str, Any], kind: str, home: ProcessorFolder) -> Text | MissingProcessor | None:
    """The folder's tokenizer.json, or what its other files say, or why they do not say enough."""
    if os.path.lexists(home.folder / FILE):
        return read_tokenizer(home)
    other = foreign_tokenizer(home.folder, kind)
    if isinstance(other, UnclearTokenizer):
        return MissingProcessor(*other)
    return None if other is None else checked(other, home)


def read_tokenizer(home: ProcessorFolder) -> Text | None:
    path = home.folder / FILE
    if os.path.lexists(path):
        if not path.is_file():
            raise CheckpointError(
                "the tokenizer is not a regular file",
                where=str(path),
                fix="remove it, or put the tokenizer file in its place",
            )
        return checked(read_bytes(path), home)
    return None


def checked(raw: bytes, home: ProcessorFolder) -> Text:
    """A tokenizer whose every id has a row in the embedding."""
    path = home.folder / FILE
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
    """The tokenizer as the other library needs it to give the same ids, and how texts are written unless asked for."""
    files = {**folder.files, **exported_tokenizer(text, folder)}
    return replace(folder, files=files, generation={**folder.generation, **usual_decoding(folder)})


def blank(family: Family, config: Any, words: Text) -> Text:
    return words


def example(family: Family, config: Any) -> ExampleProcessor:
    words = Vocabulary("words", config.vocab - len(SPECIAL_TOKENS)).learn(SENTENCES)
    return ExampleProcessor(words, tokenizer_symbols(words))


TEXT = ProcessorKind(frozenset({"text"}), (FILE,), read, read_foreign, export, blank, example)
