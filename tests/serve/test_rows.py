"""A new medium is a row: nothing in serve knows it, and the HTTP API takes it."""

import subprocess
import sys

import pytest

SERIES = """
import sys, types
from typing import Literal
from pydantic import BaseModel
from regard.modalities.page_answers import PAGE_ANSWERS
from regard.modalities.page_input import FileKind, PageGiven, PageInput
from regard.modalities.page_inputs import PAGE_INPUTS


class PulseInput(PageGiven):
    kind: Literal["pulse"]
    values: list[float]

    def given(self, border):
        return tuple(self.values)


class BeatsAnswer(BaseModel):
    kind: Literal["beats"]
    values: list[float]


csv = FileKind("text/pulse", lambda raw: raw.startswith(b"pulse,"))
PAGE_INPUTS.add("pulse", PageInput((PulseInput,), lambda name: {"kind": "pulse", "values": [0.0]}, files=(csv,)))
PAGE_ANSWERS.add("beats", BeatsAnswer)

from regard.modalities.page_input import InputContext
from regard.modalities.page_inputs import look_inputs
from regard.serve.app import application
from regard.serve.schema import LookRequest, Ran
from regard.serve.model_list import ModelShelf
from regard.serve.uploads import sent_as, type_of

asked = LookRequest.model_validate_json('{"model": "a", "input": {"kind": "pulse", "values": [1.0, 2.0]}}')
assert look_inputs(asked.input, InputContext(types.SimpleNamespace(takes=("pulse",)))) == (1.0, 2.0)
assert Ran.model_validate({"answer": {"kind": "beats", "values": [3.0]}}).answer.values == [3.0]
assert "text/pulse" in sent_as() and type_of(b"pulse,1", "text/pulse") == "text/pulse"
schemas = application(ModelShelf()).application.openapi()["components"]["schemas"]
assert {"PulseInput", "BeatsAnswer"} <= set(schemas)
"""


@pytest.mark.slow
def test_a_series_of_numbers_needs_its_rows_and_nothing_else() -> None:
    done = subprocess.run([sys.executable, "-c", SERIES], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
