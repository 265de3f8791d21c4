"""What stands before the application: who may ask, how much, how slowly; and that nothing of the machine gets out.

A page of another site can send requests to this machine, and a name of its own can be made to lead here. So on every
method the Host must be this server's, and the Origin, where there is one, too. A body is read here, to its end, before
anything looks at it: not more than so many bytes, in not more than so many seconds.
"""

import asyncio
import hmac
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

from .limits import LARGEST_BODY, LARGEST_HEADERS, LONGEST_ADDRESS, MOST_HEADERS, Limits
from .refusals import RefusedError
from .work import Receive

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

HERE = ("127.0.0.1", "localhost", "[::1]")
POLICY = (  # what media need comes from here or from the page itself (blobs); nothing comes from elsewhere
    "default-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; worker-src 'self' blob:; "
    "style-src 'self'; script-src 'self'; connect-src 'self'; font-src 'self'; object-src 'none'; frame-src 'none'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
ALWAYS = {
    b"content-security-policy": POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"cache-control": b"no-store",
}


@dataclass(frozen=True)
class Raw:
    """An address that takes the bytes of a file: what they may be called, and how many there may be."""

    kinds: tuple[str, ...]
    most: int


class Guard:
    """An ASGI application around another. All that is posted is JSON, but for the addresses that are ``raw``."""

    def __init__(self, application: Application, limits: Limits, raw: Mapping[str, Raw] | None = None) -> None:
        self.application, self.limits, self.raw = application, limits, raw or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.application(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        sending = Sending(send)
        if scope["method"] == "HEAD":  # answered as GET is; the server sends no body
            scope = {**scope, "method": "GET"}
        try:
            welcome(scope, self.limits.token)
            raw = self.raw.get(scope["path"])
            check(scope, self.limits.token, raw)
            body = await read(scope, receive, self.limits.body_seconds, LARGEST_BODY if raw is None else raw.most)
            await self.application(scope, replayed(body, receive), sending)
        except RefusedError as refused:
            if not sending.begun:
                await refused.response()(scope, receive, sending)
        except Exception as error:
            if not scope.get(TOLD):
                unforeseen = fault(error)
                if not sending.begun:
                    await unforeseen.response()(scope, receive, sending)


TOLD = "regard.told"  # in a scope: its fault is told already


def fault(error: Exception) -> RefusedError:
    """What nobody foresaw: all of it in the terminal, a number for who asked."""
    name = token_hex(4)
    print(f"regard: internal error {name}:", file=sys.stderr)
    traceback.print_exception(error)
    return RefusedError(503, "internal server error", fix=f"see the terminal of the server, error {name}")


def welcome(scope: Scope, token: str) -> None:
    """Who opens the page with the token in its address is given it as a cookie, and an address without it."""
    if token and scope["path"] == "/" and hmac.compare_digest(scope["query_string"], b"token=" + token.encode()):
        cookie = f"regard={token}; HttpOnly; SameSite=Strict; Path=/"
        raise RefusedError(303, "token accepted", headers={"Location": "/", "Set-Cookie": cookie})


class Sending:
    """Adds the headers that every answer has; one that an answer has itself stays."""

    def __init__(self, send: Send) -> None:
        self.send, self.begun = send, False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            own = list(message.get("headers", ()))
            names = {name.lower() for name, _ in own}
            message["headers"] = [*own, *((name, value) for name, value in ALWAYS.items() if name not in names)]
        await self.send(message)


def check(scope: Scope, token: str, raw: Raw | None) -> None:
    """Everything that can be told without the body."""
    headers: list[tuple[bytes, bytes]] = list(scope["headers"])
    if len(headers) > MOST_HEADERS or sum(len(name) + len(value) for name, value in headers) > LARGEST_HEADERS:
        raise RefusedError(
            400,
            "the request has too many headers",
            expected=f"at most {MOST_HEADERS} headers, {LARGEST_HEADERS} bytes in all",
        )
    if len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"") > LONGEST_ADDRESS:
        raise RefusedError(400, "the address is too long", expected=f"at most {LONGEST_ADDRESS} characters")
    check_host(scope, headers, token)
    if token:
        given = b" ".join(only(headers, b"authorization"))
        cookie = next((x for x in b";".join(only(headers, b"cookie")).split(b";") if b"regard=" in x), b"")
        known = (b"Bearer " + token.encode(), b"regard=" + token.encode())
        if not (hmac.compare_digest(given, known[0]) or hmac.compare_digest(cookie.strip(), known[1])):
            raise RefusedError(
                401, "this server requires a token", expected="the header Authorization: Bearer TOKEN",
                headers={"WWW-Authenticate": "Bearer"},
            )  # fmt: skip
    if scope["method"] == "POST":
        kinds = [kind.split(b";")[0].strip().lower().decode("latin-1") for kind in only(headers, b"content-type")]
        if raw is not None and (len(kinds) != 1 or kinds[0] not in raw.kinds):
            expected = f"Content-Type: {', '.join(raw.kinds)}"
            raise RefusedError(415, "unsupported file type", got=", ".join(kinds), expected=expected)
        if raw is None and kinds != ["application/json"]:
            raise RefusedError(400, "the request body must be JSON", expected="Content-Type: application/json")


def check_host(scope: Scope, headers: list[tuple[bytes, bytes]], token: str) -> None:
    """Names of this machine, with the port of this server. Whoever knows the token may call it as he likes, but a page
    of another origin may not ask even then."""
    hosts, origins = only(headers, b"host"), only(headers, b"origin")
    port = (scope.get("server") or ("", 80))[1]
    allowed = {f"{name}:{port}" for name in HERE} | (set(HERE) if port == 80 else set())
    host = hosts[0].decode("latin-1").lower() if len(hosts) == 1 else ""
    if not host or (host not in allowed and not token):
        raise RefusedError(400, "the Host header does not match this server", expected=", ".join(sorted(allowed)))
    if origins and [x.decode("latin-1").lower() for x in origins] != [f"http://{host}"]:
        raise RefusedError(
            400, "requests from other origins are not allowed", expected="an Origin equal to this server's address"
        )
    sites, modes = only(headers, b"sec-fetch-site"), only(headers, b"sec-fetch-mode")
    if any(site in (b"cross-site", b"same-site") for site in sites) and modes != [b"navigate"]:
        raise RefusedError(400, "requests from other origins are not allowed", expected="a page of this server")


def only(headers: list[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    return [value for key, value in headers if key.lower() == name]


async def read(scope: Scope, receive: Receive, seconds: float, most: int) -> bytes:
    """The whole body. One that is too large is refused by the length that it states, or as soon as it is."""
    sizes = only(list(scope["headers"]), b"content-length")
    if any(not size.isdigit() for size in sizes) or len(sizes) > 1:
        raise RefusedError(400, "invalid Content-Length header")
    if sizes and (len(sizes[0]) > 12 or int(sizes[0]) > most):
        raise too_large(most)
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RefusedError(408, "the client disconnected")
                body += message.get("body", b"")
                if len(body) > most:
                    raise too_large(most)
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise RefusedError(
            408,
            "timeout while receiving the request body",
            expected=f"at most {seconds:g} s",
            headers={"Connection": "close"},
        ) from None


def too_large(most: int) -> RefusedError:
    expected = f"at most {most >> 20} MB"
    return RefusedError(413, "the request is too large", expected=expected, headers={"Connection": "close"})


def replayed(body: bytes, receive: Receive) -> Receive:
    """The body once more, and then what else comes: that the client has left."""
    rest = [body]

    async def again() -> Message:
        if rest:
            return {"type": "http.request", "body": rest.pop(), "more_body": False}
        return await receive()

    return again
