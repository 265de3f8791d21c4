"""The server: one address of this machine, until it is stopped."""

import errno
import re
import socket
from typing import Any

import uvicorn

from regard.errors import InputError

from .connection import connection_class
from .limits import LARGEST_HEADERS, Limits

HERE = ("127.0.0.1", "localhost", "::1")  # what this machine is called by itself
TOKEN = re.compile(r"[A-Za-z0-9_-]{16,128}")
LOG = {"version": 1, "disable_existing_loggers": False}  # uvicorn's own words go nowhere


def check_address(host: str, token: str) -> None:
    """Only this machine, unless whoever asks must bring a token."""
    if token and TOKEN.fullmatch(token) is None:
        raise InputError(
            "invalid token", got=f"{len(token)} characters", expected="16 to 128 characters of a-z, A-Z, 0-9, _ and -"
        )
    if host not in HERE and not token:
        raise InputError(
            "without a token the server only binds to this machine",
            got=f"--host {host}",
            expected="127.0.0.1, localhost or ::1",
            fix="omit --host, or set a --token that every request must send",
        )


def bind_socket(host: str, port: int) -> socket.socket:
    """A socket at this address; port 0 takes any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except (OSError, OverflowError) as error:
        found.close()
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            raise InputError(
                "the port is already in use",
                got=f"{host}:{port}",
                fix="stop the program that uses it, or choose another port (--port 0: any free one)",
            ) from None
        raise InputError(
            "cannot bind to this address", got=f"{host}:{port}", expected="an address of this machine"
        ) from None
    found.listen(256)
    return found


def listening_address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def http_server(application: Any, limits: Limits) -> uvicorn.Server:
    """Quiet: no log of requests, no name of the server in its answers."""
    return uvicorn.Server(
        uvicorn.Config(
            application,
            http=connection_class(limits),
            ws="none",
            log_config=LOG,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=2 * LARGEST_HEADERS,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=3,
        )
    )
