"""Requests from the API's own schema: no fault, and nothing of the machine in any answer."""

import json
import os
from collections import Counter
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from .conftest import API, check_clean
from .fuzz import Fuzz, known_looks

LONG = int(os.environ.get("REGARD_FUZZ", "20000"))


def tried(client, many: int, share: int) -> Counter[int]:
    schema = client.get(f"{API}/openapi.json").json()
    fuzz = Fuzz(schema, known_looks(client, API), share)
    seen: Counter[int] = Counter()

    @settings(
        max_examples=many,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(fuzz.requests)
    def attempt(request) -> None:
        method, path, query, body = request
        address = quote(path.encode("utf-8", "replace"), safe="/%")
        words = "&".join(f"{quote(str(x).encode('utf-8', 'replace'))}={quote(str(y).encode('utf-8', 'replace'))}"
                         for x, y in query.items())  # fmt: skip
        content = None if body is None and method == "get" else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        answer = client.request(method.upper(), f"{address}?{words}", content=content, headers=headers)
        seen[answer.status_code] += 1
        if "svg" not in answer.headers.get("content-type", ""):
            check_clean(answer)
        assert answer.status_code in (200, 400, 404, 408, 410, 413, 415, 422, 429), answer.text[:300]

    attempt()
    return seen


def test_some_requests(client) -> None:
    seen = tried(client, 60, 1)
    assert seen[200] > 10  # it gets past the border
    assert seen[422] > 10


@pytest.mark.slow
def test_twenty_thousand_requests(client) -> None:
    seen = tried(client, LONG * 3 // 4, 1) + tried(client, LONG - LONG * 3 // 4, 6)
    print(dict(seen))
    assert sum(seen.values()) >= LONG * 0.95
