"""A look as data for one file: the page makes its cells from it."""

from base64 import b64decode

import numpy as np
import pytest

import regard
from regard.serve.exporting import PAGE, embedded
from regard.serve.looks import Looks
from regard.serve.schema import LookRequest

from .conftest import API, INPUTS, look


def test_all_that_the_page_needs_is_in_it(shelf) -> None:
    found = Looks(shelf).look(LookRequest(model="tatoeba-en-de", input=INPUTS["tatoeba-en-de"]))
    data, trace = embedded(found), regard.load("tatoeba-en-de").look(INPUTS["tatoeba-en-de"]["text"])
    assert data["document"] == found.document
    for site in found.document["sites"]:
        wanted = trace.maps[site["name"]].weights[0].numpy()
        got = np.frombuffer(b64decode(data["maps"][site["name"]]), "<f2").reshape(wanted.shape)
        np.testing.assert_allclose(got, wanted, atol=1e-3)
        parts = {name: np.frombuffer(b64decode(raw), "<f4") for name, raw in data["vectors"][site["name"]].items()}
        queries, keys = (parts[name].reshape(site["heads"], -1, 48) for name in ("queries", "keys"))
        scores = queries[0] @ keys[0].T * site["scale"]
        if site["role"] == "cross":  # nothing is masked there
            shares = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
            np.testing.assert_allclose(shares, wanted[0], atol=1e-5)


def test_a_file_of_it_where_there_is_a_page(client) -> None:
    found = look(client, "recall")
    answer = client.get(f"{API}/looks/{found['id']}/export.html")
    try:
        __import__(PAGE)
    except ImportError:
        assert answer.status_code == 404
        pytest.skip("the page is not here yet")
    assert answer.status_code == 200
    assert "attachment" in answer.headers["content-disposition"]
    assert found["id"] in answer.text
