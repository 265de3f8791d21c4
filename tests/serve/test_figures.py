"""The lectures' figures over HTTP, and the documentation of the API."""

import json
import re
import threading

import pytest

from regard.errors import InputError
from regard.figures import installed
from regard.serve import gallery
from regard.serve.refusals import refusal
from regard.serve.schema import FigureRow
from regard_lectures.records import RESULTS
from regard_lectures.table import FIGURES

from .conftest import API, check_clean, look


def test_figures_are_listed_as_they_were_recorded(client) -> None:
    answer = client.get(f"{API}/figures")
    check_clean(answer)
    rows = answer.json()
    assert [row["id"] for row in rows] == list(FIGURES)
    for row in rows:
        assert set(row) == set(FigureRow.model_fields)
        assert row["verdict"] in ("confirmed", "partly", "contradicted", "quoted")
        assert row["command"] == f"regard figure {row['id']}"
    assert {row["id"] for row in rows if row["conclusion"]} == {"5.3b", "2.8", "11.8", "11.8b", "11.8c"}
    recorded = json.loads((RESULTS / "2.1.json").read_text("utf-8"))
    one = next(row for row in rows if row["id"] == "2.1")
    for key in ("verdict", "agreement", "expected", "found", "holds", "checks"):
        assert one[key] == recorded[key]


def test_without_figures_the_page_is_told(monkeypatch) -> None:
    monkeypatch.setattr("regard.figures.entry_points", lambda group: [])
    monkeypatch.setattr("regard.figures.installed", installed.__wrapped__)
    for ask in (gallery.Gallery().rows, lambda: gallery.Gallery().picture("2.1")):
        with pytest.raises(InputError, match="no figures are installed") as caught:
            ask()
        assert refusal(caught.value).told["fix"].startswith("install regard-lectures")


def test_a_figure_is_drawn_from_its_record(client) -> None:
    first, again = (client.get(f"{API}/figures/2.1.svg") for _ in range(2))
    assert first.status_code == 200
    assert first.headers["content-type"] == "image/svg+xml"
    assert b"<svg" in first.content
    assert first.content == again.content
    assert "sandbox" in first.headers["content-security-policy"]
    check_clean(first)
    for name in ("2.99", "0", "2.1.svg", "2_1", ""):
        assert client.get(f"{API}/figures/{name}.svg").status_code == 404


def test_no_look_waits_for_pictures(client, monkeypatch) -> None:
    drawing, go_on = threading.Event(), threading.Event()

    def slow(name: str) -> bytes:
        drawing.set()
        assert go_on.wait(30)
        return b"<svg/>"

    monkeypatch.setattr(gallery, "drawn", slow)
    got: list[int] = []
    asking = threading.Thread(target=lambda: got.append(client.get(f"{API}/figures/2.2.svg").status_code))
    asking.start()
    assert drawing.wait(30)
    assert look(client, "recall")["answer"]
    assert client.get(f"{API}/models").status_code == 200
    assert not got
    go_on.set()
    asking.join(30)
    assert got == [200]


def test_the_documentation_names_every_address_and_nothing_elsewhere(client) -> None:
    schema = client.get(f"{API}/openapi.json").json()
    text = client.get(f"{API}/docs").text
    for path in schema["paths"]:
        assert path in text
    assert "<script" not in text
    assert not re.findall(r"(?:src|href)=.https?:", text)
    assert set(schema["paths"]) == {
        f"{API}/{path}"
        for path in ("models", "models/{name}/attentions", "run", "upload", "stream", "look", "compare",
                     "looks/{id}/maps/{site}", "looks/{id}/rows/{site}", "looks/{id}/thumbnails",
                     "looks/{id}/cell/{site}",
                     "looks/{id}/analyses/{name}", "looks/{id}/analyses",
                     "looks/{id}/export.html", "figures", "figures/{id}.svg")
    }  # fmt: skip
    for path, methods in schema["paths"].items():
        for about in methods.values():
            assert {"400", "404", "408", "413", "422", "429", "503"} <= set(about["responses"]), path
