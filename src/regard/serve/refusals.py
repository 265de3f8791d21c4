"""Errors of one form: {"error": {"what", "got", "expected", "fix"}}, and nothing of the machine in them."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi.responses import Response

from regard.errors import CheckpointError, ConfigError, InputError

LONGEST = 300  # letters of what is told of a request
MACHINE = re.compile(r"(?:^|[\s'\"=(:])(?:/|[A-Za-z]:\\|~/)[\w.-]|0x[0-9a-fA-F]{4}|Traceback|File \"")


class RefusedError(Exception):
    """A request that is not answered, and why."""

    def __init__(
        self,
        status: int,
        what: str,
        *,
        got: str = "",
        expected: str = "",
        fix: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(what)
        self.status, self.headers = status, dict(headers or {})
        parts = {"what": what, "got": got, "expected": expected, "fix": fix}
        self.told = {name: text[:LONGEST] for name, text in parts.items() if harmless(text)}

    def response(self) -> Response:
        return json_response({"error": self.told}, self.status, self.headers)


def harmless(text: str) -> bool:
    """Said, and without what looks like a path, an address in memory or a trace: better no word than that one."""
    return bool(text) and MACHINE.search(text) is None


def refusal(error: InputError) -> RefusedError:
    """Of bad input, for who sent it. ``where`` stays here: it names files. So does what is wrong with a model."""
    if isinstance(error, CheckpointError | ConfigError) and error.where:
        return RefusedError(422, "this model cannot be loaded", fix="see the terminal of the server")
    return RefusedError(422, error.what, got=error.got, expected=error.expected, fix=error.fix)


def json_response(
    data: Any, status: int = 200, headers: Mapping[str, str] | None = None, kind: str = "application/json"
) -> Response:
    """JSON. What is no number (NaN, infinity), for which JSON has no word, is null."""
    try:
        text = json.dumps(data, allow_nan=False)
    except ValueError:
        text = json.dumps(finite(data), allow_nan=False)
    return Response(text, status, dict(headers or {}), kind)


def finite(data: Any) -> Any:
    if isinstance(data, float):
        return data if data - data == 0 else None
    if isinstance(data, Mapping):
        return {key: finite(value) for key, value in data.items()}
    if isinstance(data, Sequence) and not isinstance(data, str):
        return [finite(value) for value in data]
    return data
