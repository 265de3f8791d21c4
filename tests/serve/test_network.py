"""A real server at a real address: who leaves, who is slow, and many at once."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from regard.serve.limits import Limits

from .conftest import API, INPUTS, Live, Running, check_clean
from .pictures import shown

CLIENTS = 32
VERBS = ["sings", "paints", "dances", "writes", "runs", "swims", "reads", "cooks", "sleeps", "laughs", "plays"]


SERVER = """
from regard.serve.app import application
from regard.serve.limits import Limits
from regard.serve.sockets import bind_socket, http_server
from regard.serve.model_list import ModelShelf

listening = bind_socket("127.0.0.1", 0)
print(listening.getsockname()[1], flush=True)
limits = Limits(looks=16 << 20)
http_server(application(ModelShelf(), limits), limits).run(sockets=[listening])
"""


def resident(process: int) -> float:
    """Megabytes of a process."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def raw(live: Live, *pieces: bytes, pause: float = 0.0) -> bytes:
    """What comes back for these bytes, sent one after the other."""
    with socket.create_connection(("127.0.0.1", live.port), timeout=20) as there:
        for piece in pieces:
            there.sendall(piece)
            time.sleep(pause)
        found = b""
        while part := there.recv(65536):
            found += part
            head, _, body = found.partition(b"\r\n\r\n")
            if b"content-length: " in head:
                size = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
                if len(body) >= size:
                    break
        return found


def test_it_answers_over_the_network(live) -> None:
    answer = httpx2.post(f"{live.base}{API}/run", json={"model": "recall", "input": INPUTS["recall"]}, timeout=60)
    assert answer.status_code == 200
    assert "server" not in answer.headers
    assert httpx2.get(f"{live.base}/", timeout=60).status_code == 200


def test_a_slow_body_ends(live) -> None:
    head = f"POST {API}/run HTTP/1.1\r\nHost: 127.0.0.1:{live.port}\r\nContent-Type: application/json\r\n".encode()
    began = time.monotonic()
    found = raw(live, head + b"Content-Length: 100\r\n\r\n", b"{", b'"', pause=0.3)
    assert found.startswith(b"HTTP/1.1 408")
    assert time.monotonic() - began < 10


def dribbled(live: Live, begin: bytes, letter: bytes, seconds: float = 12.0) -> float:
    """Seconds until the server has left one who begins so, and then sends a letter now and then."""
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", live.port), timeout=0.05) as there:
        there.sendall(begin)
        while time.monotonic() - began < seconds:
            try:
                if letter:
                    there.sendall(letter)
                if not there.recv(65536):
                    return time.monotonic() - began
            except TimeoutError:
                continue
            except OSError:
                return time.monotonic() - began
    pytest.fail(f"still open after {seconds:g} s")


@pytest.fixture(scope="module")
def hasty(shelf) -> Iterator[Live]:
    """A server that waits for nobody, and lets others wait."""
    found = Live(shelf, Limits(head_seconds=1.0, body_seconds=1.0, pause=1.5))
    yield found
    found.close()


def test_who_says_nothing_or_a_letter_at_a_time_is_left(hasty) -> None:
    ours = f"Host: 127.0.0.1:{hasty.port}\r\n\r\n".encode()
    post = f"POST {API}/run HTTP/1.1\r\nContent-Length: 100000\r\n".encode()
    for begin, letter in (
        (b"", b""),
        (b"GET / HTTP/1.1\r\nx: ", b""),
        (b"GET / HTTP/1.1\r\nx: ", b"y"),
        (b"GET / HTTP/1.1\r\n" + ours, b"G"),  # what follows an answer is a head too
        (post + ours, b"x"),  # refused for what it is, and its body goes on
        (post + b"Content-Type: application/json\r\n" + ours, b"x"),
    ):
        assert 0.9 < dribbled(hasty, begin, letter) < 6, begin


def test_who_is_answered_may_be_silent_meanwhile(hasty) -> None:
    """Nothing is counted while it is computed and sent, nor while one who was answered keeps the line."""
    began = time.monotonic()
    with httpx2.Client(base_url=hasty.base, timeout=60) as client:
        answer = client.post(f"{API}/run", json={"model": "recall", "input": INPUTS["recall"]})
        assert answer.status_code == 200
        assert time.monotonic() - began > 1.5
        time.sleep(1.5)
        assert client.get("/").status_code == 200


async def flood(scope: Any, receive: Any, send: Any) -> None:
    """More than any buffer holds."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * (64 << 20)})


def test_who_does_not_read_is_left() -> None:
    running = Running(flood, Limits(head_seconds=1.0))
    try:
        with socket.create_connection(("127.0.0.1", running.port), timeout=30) as there:
            there.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert there.recv(12) == b"HTTP/1.1 200"
            began = time.monotonic()
            while running.server.server_state.connections and time.monotonic() - began < 12:
                time.sleep(0.05)
            assert 0.5 < time.monotonic() - began < 12
    finally:
        running.close()


def test_one_too_many_takes_the_place_of_the_longest_silent(shelf) -> None:
    live = Live(shelf, Limits(connections=8))
    try:
        silent = [socket.create_connection(("127.0.0.1", live.port), timeout=5) for _ in range(40)]  # at once
        with httpx2.Client(base_url=live.base, timeout=30) as client:
            assert client.get("/").status_code == 200
        assert [one.recv(1) for one in silent[:33]] == [b""] * 33
        for one in silent[33:]:
            one.setblocking(False)
            with pytest.raises(BlockingIOError):
                one.recv(1)
        for one in silent:
            one.close()
    finally:
        live.close()


def test_what_is_no_http_is_refused(live) -> None:
    for junk in (
        b"\x16\x03\x01\x00\xa5",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
    ):
        assert raw(live, junk).startswith(b"HTTP/1.1 400")
    long = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"x: " + b"y" * 40_000 + b"\r\n\r\n"
    assert raw(live, long).startswith(b"HTTP/1.1 4")
    host = f"127.0.0.1:{live.port}".encode()
    twice = b"GET / HTTP/1.1\r\nHost: " + host + b"\r\nHost: " + host + b"\r\n\r\n"
    assert raw(live, twice).startswith(b"HTTP/1.1 400")
    rebound = f"GET {API}/models HTTP/1.1\r\nHost: evil.example:{live.port}\r\n\r\n".encode()
    assert raw(live, rebound).startswith(b"HTTP/1.1 400")


def test_who_leaves_in_the_middle_of_a_stream_ends_it(live, shelf) -> None:
    body = json.dumps({"model": "shakespeare", "input": INPUTS["shakespeare"], "settings": {"longest": 512}}).encode()
    head = f"POST {API}/stream HTTP/1.1\r\nHost: 127.0.0.1:{live.port}\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", live.port), timeout=60) as there:
        there.sendall(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        found = b""
        while b'data: {"text"' not in found:
            found += there.recv(4096)
    assert b"done" not in found
    began = time.monotonic()
    answer = httpx2.post(f"{live.base}{API}/run", json={"model": "recall", "input": INPUTS["recall"]}, timeout=60)
    assert answer.status_code == 200
    assert time.monotonic() - began < 10  # the rest of the 512 letters would take longer, and nobody writes them


def test_who_leaves_a_look_ends_its_work(live, monkeypatch) -> None:
    """Between two layers: the connection is closed, and what was asked for is not computed to its end."""
    from regard.serve.looks import Looks
    from regard.serve.work import LeftError, still_wanted

    began, ended = threading.Event(), []

    def endless(self, asked):
        began.set()
        end = time.monotonic() + 20
        try:
            while time.monotonic() < end:
                still_wanted()
                time.sleep(0.01)
            ended.append("late")
        except LeftError:
            ended.append("left")
            raise

    monkeypatch.setattr(Looks, "look", endless)
    body = json.dumps({"model": "recall", "input": INPUTS["recall"]}).encode()
    head = f"POST {API}/look HTTP/1.1\r\nHost: 127.0.0.1:{live.port}\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", live.port), timeout=60) as there:
        there.sendall(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert began.wait(10)
    end = time.monotonic() + 10
    while not ended and time.monotonic() < end:
        time.sleep(0.02)
    assert ended == ["left"]


def test_two_hundred_who_say_nothing_do_not_stop_others(live) -> None:
    silent = [socket.create_connection(("127.0.0.1", live.port)) for _ in range(200)]
    try:
        for one in silent:
            one.sendall(b"POST /api/v1/run HTTP/1.1\r\nHost: 127")
        for _ in range(5):
            answer = httpx2.post(
                f"{live.base}{API}/run", json={"model": "recall", "input": INPUTS["recall"]}, timeout=30
            )
            assert answer.status_code == 200
    finally:
        for one in silent:
            one.close()


def test_a_full_queue_says_so(shelf) -> None:
    live = Live(shelf, Limits(queue=1, pause=0.2))
    try:
        seen = []

        def ask(i: int) -> None:
            body = {"model": "recall", "input": {"kind": "text", "text": "Anna " * (i + 1)}}
            answer = httpx2.post(f"{live.base}{API}/look", json=body, timeout=60)
            seen.append(answer.status_code)
            if answer.status_code == 429:
                assert answer.headers["retry-after"] == "1"
                check_clean(answer)

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(seen) == {200, 429}
        assert len(seen) == 24
    finally:
        live.close()


def many(base: str, process: int, clients: int, seconds: float) -> tuple[dict[int, int], list[tuple[float, float]]]:
    """Clients that ask for all sorts of things, and how large the server was meanwhile."""
    counts: dict[int, int] = {}
    lock, end, began = threading.Lock(), time.monotonic() + seconds, time.monotonic()
    wrong: list[str] = []

    def ask(number: int) -> None:
        turn = 0
        with httpx2.Client(base_url=base, timeout=60) as client:
            while time.monotonic() < end:
                turn += 1
                verbs = [VERBS[(number * 7 + turn * 3 + i * turn) % len(VERBS)] for i in range(8)]
                text = {"kind": "text", "text": " . Anna ".join(["Anna", *verbs])}  # mostly a new one
                try:
                    match turn % 6:
                        case 0:
                            answer = client.post(f"{API}/run", json={"model": "recall", "input": text})
                        case 1:
                            answer = client.post(f"{API}/look", json={"model": "recall", "input": text})
                            if answer.status_code == 200:
                                answer = client.get(f"{API}/looks/{answer.json()['id']}/thumbnails")
                        case 2:
                            answer = client.post(f"{API}/run", json={"model": "digits", "input": shown()})
                        case 3:
                            answer = client.post(f"{API}/run", json={"model": "recall", "input": {"kind": "text"}})
                        case 4:
                            body = {"model": "recall", "input": text, "settings": {"longest": 5}}
                            answer = client.post(f"{API}/stream", json=body)
                        case _:
                            answer = client.get(f"{API}/looks/{'0' * 20}/thumbnails")
                except httpx2.HTTPError as error:
                    wrong.append(repr(error))
                    continue
                with lock:
                    counts[answer.status_code] = counts.get(answer.status_code, 0) + 1

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(clients)]
    for thread in threads:
        thread.start()
    sizes = []
    while any(thread.is_alive() for thread in threads):
        time.sleep(min(1.0, seconds / 20))
        sizes.append((time.monotonic() - began, resident(process)))
    for thread in threads:
        thread.join()
    assert not wrong, wrong[:3]
    return counts, sizes


def slope(sizes: list[tuple[float, float]]) -> float:
    """Megabytes a minute, after a quarter of the time."""
    late = [one for one in sizes if one[0] > sizes[-1][0] / 4]
    return 60 * float(np.polyfit([x for x, _ in late], [y for _, y in late], 1)[0])


def test_many_at_once_for_two_seconds(live) -> None:
    counts, sizes = many(live.base, os.getpid(), 12, 2)
    assert set(counts) <= {200, 410, 422, 429}
    assert counts[200] > 5
    assert sizes[-1][1] - sizes[len(sizes) // 4][1] < 100


@pytest.mark.slow
def test_thirty_two_clients_for_five_minutes() -> None:
    """The server in a process of its own, so that what is measured is not the clients."""
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            base = f"http://127.0.0.1:{int(process.stdout.readline())}"
            many(base, process.pid, CLIENTS, 60)  # caches fill
            counts, sizes = many(base, process.pid, CLIENTS, 300)
        finally:
            process.kill()
    print(counts, f"{sizes[0][1]:.0f} MB to {sizes[-1][1]:.0f} MB, {slope(sizes):.2f} MB a minute")
    assert set(counts) <= {200, 410, 422, 429}
    assert slope(sizes) < 1
