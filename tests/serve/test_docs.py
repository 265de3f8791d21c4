"""The examples of docs/serve.md, as they stand there."""

import json
import re
from pathlib import Path

import pytest

from regard.look.analyses import ANALYSES

DOCS = Path(__file__).resolve().parents[2] / "docs" / "serve.md"
BLOCKS = re.compile(r"^```\w*\n((?:GET|POST) /api/v1.*?)^```\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MORE = "..."


def examples() -> list[tuple[str, str]]:
    return [(asked, told) for asked, told in BLOCKS.findall(DOCS.read_text("utf-8"))]


def agrees(got, told) -> bool:
    """Where it says "...", anything may stand, or any number of things."""
    if told == MORE:
        return True
    if isinstance(told, float):
        return got == pytest.approx(told, rel=2e-3, abs=2e-4)
    if isinstance(told, dict):
        return isinstance(got, dict) and got.keys() == told.keys() and all(agrees(got[key], told[key]) for key in told)
    if isinstance(told, list):
        if told[:1] == [MORE]:
            return any(agrees(got[i:], told[1:]) for i in range(len(got)))
        whole = told[:-1] if told[-1:] == [MORE] else told
        right = len(got) >= len(whole) if whole is not told else len(got) == len(whole)
        return right and all(map(agrees, got, whole))
    return bool(got == told)


@pytest.mark.parametrize(("asked", "told"), examples(), ids=lambda text: text.split("\n")[0][:60])
def test_examples(client, asked, told) -> None:
    line, _, body = asked.partition("\n")
    method, address = line.split()
    if address.startswith("/api/v1/looks/"):
        recall = {"kind": "text", "text": "Anna sings . Boris paints . Anna"}
        client.post("/api/v1/look", json={"model": "recall", "input": recall})
    answer = client.request(method, address, json=json.loads(body) if body.strip() else None)
    if told.startswith("data: "):
        assert answer.text.strip() == told.strip()
    elif told.endswith(" bytes\n"):
        assert len(answer.content) == int(told.split()[0])
    else:
        assert agrees(answer.json(), json.loads(told)), answer.text[:2000]


def test_every_address_has_an_example(client) -> None:
    shown = {asked.split()[1].partition("?")[0] for asked, _ in examples()}
    for path in client.get("/api/v1/openapi.json").json()["paths"]:
        pattern = re.sub(r"\{\w+\}", "[^/]+", re.escape(path).replace(r"\{", "{").replace(r"\}", "}"))
        known = any(re.fullmatch(pattern, address) for address in shown)
        assert known or path.endswith((".svg", ".html", "/upload")), path


def test_every_analysis_is_named() -> None:
    text = DOCS.read_text("utf-8")
    assert [name for name in ANALYSES if f"`{name}`" not in text] == []
