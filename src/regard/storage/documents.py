"""JSON, read strictly and written readably."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from regard.errors import InputError

from .untrusted import open_regular, quote_name, refuse_file

JSON_BYTES = 16_000_000
TEXT_BYTES = 100_000_000  # a tokenizer of a million words
JSON_VALUES = 2_000_000  # a parsed value takes some 100 bytes, so this bounds what a small text can grow into
JSON_DEPTH = 64


def read_json(path: Path, limit: int = JSON_BYTES) -> dict[str, Any]:
    """A JSON object from a file, strictly: UTF-8, each key once, only finite numbers, within a size and a depth."""
    return parse_json(read_bytes(path, limit), path)


def read_bytes(path: Path, limit: int = TEXT_BYTES) -> bytes:
    """A whole file, if it is not larger than it should be."""
    try:
        with open_regular(path) as file:
            raw = file.read(limit + 1)
    except OSError as error:
        refuse_file(path, f"cannot be read: {error.strerror}")
    if len(raw) > limit:
        refuse_file(path, f"the file has more than {limit} bytes")
    return raw


def parse_json(raw: bytes, path: Path) -> dict[str, Any]:
    if raw.count(b",") + raw.count(b"[") + raw.count(b"{") > JSON_VALUES:
        refuse_file(path, f"the JSON has more than {JSON_VALUES} values")
    try:
        value = json.loads(
            raw.decode("utf-8"), object_pairs_hook=reject_duplicates, parse_constant=no_constant, parse_float=finite
        )
        if b"\\u" in raw:  # half of a surrogate pair is no text, and could not be written again
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeError:
        refuse_file(path, "the JSON is not valid UTF-8")
    except RecursionError:
        refuse_file(path, f"the JSON is nested deeper than {JSON_DEPTH} levels")
    except ValueError as error:
        refuse_file(path, f"invalid JSON: {error}")
    if not isinstance(value, dict):
        refuse_file(path, "the JSON is not an object", expected="a JSON object, which begins with '{'")
    level: list[Any] = [value]
    for _ in range(JSON_DEPTH):
        inner = [y for x in level for y in (x.values() if isinstance(x, dict) else x)]
        level = [x for x in inner if isinstance(x, dict | list)]
    if level:
        refuse_file(path, f"the JSON is nested deeper than {JSON_DEPTH} levels")
    return value


def reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"duplicate key {quote_name(twice)}")
    return table


def no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


def json_bytes(value: Mapping[str, Any]) -> bytes:
    """The bytes of a JSON file: insertion order, two spaces, a final newline. NaN and infinity have no JSON form."""
    try:
        return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")
    except (ValueError, TypeError) as error:
        raise InputError(
            f"the value cannot be written as JSON: {error}", expected="finite numbers, strings, lists and objects"
        ) from None
