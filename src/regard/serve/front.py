"""Several worker processes behind one address, for a classroom.

Each worker is the whole server at a port of its own, whose token only this process knows. A request goes to the worker
that has its look, or that has seen its input; else to the one that has least to do. Who leaves here leaves there.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, MutableMapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import h11

from .guard import Scope, Send
from .refusals import RefusedError
from .uploads import ADDRESS
from .work import Receive, unless_left

HERE = "127.0.0.1"
PREFIX = "/api/v1/"
OWN = (b"connection", b"transfer-encoding", b"date", b"keep-alive")  # headers of a connection, not of an answer
PASSED = (b"content-type", b"accept")  # the guard has read all others
REMEMBERED = 8192  # looks and inputs whose worker is known
PIECE = 1 << 16


@dataclass(eq=False)
class Worker:
    port: int
    token: str
    busy: int = 0  # requests that it answers now


@dataclass(frozen=True)
class Forwarded:
    """A request as it is handed on."""

    method: str
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Front:
    """An ASGI application that answers by its workers. What comes here has passed the guard."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self.workers = list(workers)
        self.homes: OrderedDict[str, Worker] = OrderedDict()  # of looks by their ids, of inputs by their hashes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await be_alive(receive, send)
            return
        body = (await receive())["body"]
        query = scope.get("query_string") or b""
        target = (scope.get("raw_path") or scope["path"].encode()) + (b"?" + query if query else b"")
        headers = [(name, value) for name, value in scope["headers"] if name.lower() in PASSED]
        asked = Forwarded(scope["method"], target, headers, body)
        await unless_left(self.answer(scope["path"], asked, send), receive)

    async def answer(self, path: str, asked: Forwarded, send: Send) -> None:
        if path == ADDRESS:  # any of them may be asked to look at it
            answers = await asyncio.gather(*(whole_answer(one, asked) for one in self.workers))
            await send_answer(answers[0], send)
            return
        key = input_key(path, asked.body)
        worker = self.chosen(path, key)
        worker.busy += 1
        try:
            if not key:
                async for message in messages(worker, asked):
                    await send(message)
                return
            found = await whole_answer(worker, asked)
            self.remember(key, *look_ids(found), worker=worker)  # before the client knows them
            await send_answer(found, send)
        finally:
            worker.busy -= 1

    def chosen(self, path: str, key: str) -> Worker:
        least = min(self.workers, key=lambda one: one.busy)
        parts = path.removeprefix(PREFIX).split("/")
        if parts[0] == "looks" and len(parts) > 1:
            return self.homes.get(parts[1], least)
        if parts[0] == "figures":
            return self.workers[-1]  # drawn once, and kept there
        home = self.homes.get(key, least)
        return home if home.busy <= least.busy + 1 else least

    def remember(self, *names: str, worker: Worker) -> None:
        for name in names:
            self.homes[name] = worker
            self.homes.move_to_end(name)
        while len(self.homes) > REMEMBERED:
            self.homes.popitem(last=False)


def input_key(path: str, body: bytes) -> str:
    """One word for all that is asked of one input, whatever is changed; empty for what looks at none."""
    if path not in (f"{PREFIX}look", f"{PREFIX}compare"):
        return ""
    try:
        asked = json.loads(body)
        first = asked.get("first", asked)
        given = {"model": first["model"], "input": first["input"]}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "malformed"
    return sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()


Message = MutableMapping[str, Any]


def look_ids(answer: Sequence[Message]) -> list[str]:
    """Of the looks that an answer holds."""
    if answer[0]["status"] != 200:
        return []
    told = json.loads(b"".join(message.get("body", b"") for message in answer))
    return [one["id"] for one in (told, told.get("first"), told.get("second")) if one and "id" in one]


async def whole_answer(worker: Worker, asked: Forwarded) -> list[Message]:
    return [message async for message in messages(worker, asked)]


async def send_answer(answer: Sequence[Message], send: Send) -> None:
    for message in answer:
        await send(message)


async def messages(worker: Worker, asked: Forwarded) -> AsyncIterator[Message]:
    """What a worker answers, as ASGI has it. The connection is closed at the end, and when nobody reads on."""
    try:
        reader, writer = await asyncio.open_connection(HERE, worker.port)
    except OSError:
        raise RefusedError(503, "a worker process has ended", fix="restart the server") from None
    try:
        there = h11.Connection(h11.CLIENT)
        own = [
            (b"host", f"{HERE}:{worker.port}".encode()),
            (b"authorization", f"Bearer {worker.token}".encode()),
            (b"content-length", str(len(asked.body)).encode()),
            (b"connection", b"close"),
        ]
        request = h11.Request(method=asked.method, target=asked.target, headers=[*own, *asked.headers])
        sent = (request, h11.Data(data=asked.body), h11.EndOfMessage())
        writer.write(b"".join(there.send(event) or b"" for event in sent))
        await writer.drain()
        while True:
            event = there.next_event()
            if event is h11.NEED_DATA:
                there.receive_data(await reader.read(PIECE))
            elif isinstance(event, h11.Response):
                headers = [(name, value) for name, value in event.headers if name.lower() not in OWN]
                yield {"type": "http.response.start", "status": event.status_code, "headers": headers}
            elif isinstance(event, h11.Data):
                yield {"type": "http.response.body", "body": bytes(event.data), "more_body": True}
            else:
                break
        yield {"type": "http.response.body", "body": b"", "more_body": False}
    except (OSError, h11.RemoteProtocolError):
        raise RefusedError(503, "a worker process has ended", fix="restart the server") from None
    finally:
        writer.close()


async def be_alive(receive: Receive, send: Send) -> None:
    """Nothing has to be made ready, nor put away: the workers are another's."""
    while True:
        part = str((await receive())["type"]).removeprefix("lifespan.")
        await send({"type": f"lifespan.{part}.complete"})
        if part == "shutdown":
            return
