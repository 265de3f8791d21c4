"""Several workers behind one address: who is asked, and that nobody notices."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from regard.serve.app import application
from regard.serve.front import Front, Worker, input_key, look_ids
from regard.serve.limits import Limits
from regard.serve.model_list import ModelShelf
from regard.serve.processes import guarded_front

from .conftest import API, INPUTS, Running, check_clean
from .pictures import digit, saved

TOKEN = "a-token-of-the-workers-alone"
LOOK = {"model": "recall", "input": INPUTS["recall"]}


@pytest.fixture(scope="module")
def workers() -> Iterator[list[Running]]:
    within = Limits(token=TOKEN)
    found = [Running(application(ModelShelf(None), within), within) for _ in range(2)]
    yield found
    for one in found:
        one.close()


@pytest.fixture(scope="module")
def known(workers: list[Running]) -> list[Worker]:
    """The workers as the front knows them."""
    return [Worker(one.port, TOKEN) for one in workers]


@pytest.fixture(scope="module")
def asked(known: list[Worker]) -> Iterator[httpx2.Client]:
    served = Running(guarded_front(Limits(), known), Limits())
    with httpx2.Client(base_url=served.base, timeout=30) as client:
        yield client
    served.close()


def test_the_page_and_its_numbers_are_those_of_one_server(asked: httpx2.Client, client: Any) -> None:
    for path in ("/", "/style.css", f"{API}/models/recall/attentions", f"{API}/nothing", f"{API}/openapi.json"):
        one, two = asked.get(path), client.get(path)
        assert (one.status_code, one.content) == (two.status_code, two.content), path
        assert one.headers["content-security-policy"] == two.headers["content-security-policy"]
    texts = [{"kind": "text", "text": f"{name} sings ."} for name in ("Anna", "Boris", "Clara", "Anna sings . Boris")]
    looks = [asked.post(f"{API}/look", json=LOOK | {"input": text}).json() for text in texts for _ in range(2)]
    for look in looks:  # wherever each of them is kept
        there = asked.get(f"{API}/looks/{look['id']}/thumbnails")
        assert there.status_code == 200
        own = client.post(f"{API}/look", json=LOOK | {"input": look["input"]}).json()
        assert there.content == client.get(f"{API}/looks/{own['id']}/thumbnails").content


@pytest.mark.parametrize("engaged", [0, 1])
def test_a_request_goes_to_the_worker_that_has_less_to_do(
    engaged: int, asked: httpx2.Client, workers: list[Running], known: list[Worker]
) -> None:
    requests = [one.server.server_state.total_requests for one in workers]
    known[engaged].busy += 2
    try:
        given = LOOK | {"input": {"kind": "text", "text": f"Anna {('sings', 'paints')[engaged]} ."}}
        assert asked.post(f"{API}/look", json=given).status_code == 200
    finally:
        known[engaged].busy -= 2
    more = [one.server.server_state.total_requests - before for one, before in zip(workers, requests, strict=True)]
    assert more[engaged] == 0
    assert more[1 - engaged] == 1
    assert [one.busy for one in known] == [0, 0], "what was asked is answered"


def test_an_upload_is_known_to_all(asked: httpx2.Client, workers: list[Running]) -> None:
    answer = asked.post(f"{API}/upload", content=saved(digit(), "png"), headers={"Content-Type": "image/png"})
    assert answer.status_code == 200
    body = {"model": "digits", "input": {"kind": "image", "upload": answer.json()["id"]}}
    for one in workers:
        own = {"Authorization": f"Bearer {TOKEN}"}
        assert httpx2.post(f"{one.base}{API}/run", json=body, headers=own, timeout=30).status_code == 200


def test_a_worker_answers_nobody_else(workers: list[Running]) -> None:
    assert httpx2.get(f"{workers[0].base}/").status_code == 401


def test_what_is_refused_is_refused_alike(asked: httpx2.Client) -> None:
    assert asked.get("/", headers={"Host": "evil.example"}).status_code == 400
    for body in (b"{", b"[]", b"null", b'{"model": 1}'):
        answer = asked.post(f"{API}/look", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 422)
        check_clean(answer)
    assert asked.head("/").status_code == 200


def test_a_stream_comes_piece_by_piece(asked: httpx2.Client) -> None:
    body = LOOK | {"settings": {"longest": 3}}
    with asked.stream("POST", f"{API}/stream", json=body) as answer:
        lines = [line for line in answer.iter_lines() if line]
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert json.loads(lines[-1].removeprefix("data: "))["done"]


def test_a_worker_that_has_ended_is_told() -> None:
    served = Running(guarded_front(Limits(), [Worker(9, TOKEN)]), Limits())
    answer = httpx2.get(f"{served.base}/")
    served.close()
    assert answer.status_code == 503
    assert answer.json()["error"]["what"] == "a worker process has ended"


def test_changes_of_an_input_go_to_the_worker_that_has_seen_it() -> None:
    one, two = Worker(1, ""), Worker(2, "")
    there = Front([one, two])
    key = input_key(f"{API}/look", json.dumps(LOOK).encode())
    changed = LOOK | {"changes": [{"kind": "temperature", "value": 2.0}]}
    assert key == input_key(f"{API}/look", json.dumps(changed).encode())
    assert key == input_key(f"{API}/compare", json.dumps({"first": LOOK, "second": changed}).encode())
    there.remember(key, "abc", worker=two)
    assert there.chosen(f"{API}/look", key) is two
    assert there.chosen(f"{API}/looks/abc/thumbnails", "") is two
    two.busy = 2
    assert there.chosen(f"{API}/look", key) is one, "who has much to do is spared"
    assert there.chosen(f"{API}/looks/abc/thumbnails", "") is two, "only there it is kept"
    assert look_ids([{"status": 200}, {"body": b'{"first": {"id": "a"}, "second": {"id": "b"}}'}]) == ["a", "b"]
