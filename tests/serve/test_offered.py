"""Which analyses a look can answer is told before one is asked for."""

import pytest
from fastapi.testclient import TestClient

from regard.look.analyses import ANALYSES

from .conftest import API, look


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("recall", None),
        ("linformer-tiny", "rows that sum to 1"),
        ("fnet-tiny", "only has an influence map"),
        ("mixer-cifar", "only has an influence map"),
        ("perceiver-mnist", None),
        pytest.param("cait-xxs24", "rows that sum to 1", marks=pytest.mark.slow),
        pytest.param("volo-d1", None, marks=pytest.mark.slow),
    ],
)
def test_a_refusal_is_known_before_it_is_asked_for(client: TestClient, name: str, reason: str | None) -> None:
    example = next(row["example"] for row in client.get(f"{API}/models").json() if row["name"] == name)
    found = look(client, name, example)
    site = [one["name"] for one in found["sites"] if one["role"] == "self" and one["kind"] != "none"][-1]
    base = f"{API}/looks/{found['id']}/analyses"
    told = client.get(base, params={"site": site}).json()
    assert set(told) == set(ANALYSES)
    answer = client.get(f"{base}/rollout", params={"site": site})
    assert answer.status_code == (422 if reason else 200)
    assert told["rollout"] == (answer.json()["error"] if reason else None)
    assert reason is None or reason in told["rollout"]["what"]
