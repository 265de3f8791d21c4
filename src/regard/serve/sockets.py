"""The server: one address of this machine, until it is stopped."""

import errno
import re
import socket
from typing import Any

import uvicorn

from regard.errors import InputError

from .connection import speaking
from .limits import HEADER_BYTES, Limits

HERE = ("127.0.0.1", "localhost", "::1")  # what this machine is called by itself
TOKEN = re.compile(r"[A-Za-z0-9_-]{16,128}")
LOG = {"version": 1, "disable_existing_loggers": False}  # uvicorn's own words go nowhere


def check_address(host: str, token: str) -> None:
    """Only this machine, unless whoever asks must bring a token."""
    if token and TOKEN.fullmatch(token) is None:
        raise InputError(
            "a token must be hard to guess", got=f"{len(token)} letters", expected="16 to 128 of a-z, A-Z, 0-9, _ and -"
        )
    if host not in HERE and not token:
        raise InputError(
            "without a token this server has these names alone: others may lead other machines here",
            got=f"--host {host}",
            expected="127.0.0.1, localhost or ::1",
            fix="leave out --host, or give a --token, which every request must then bring",
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
                "this port is taken", got=f"{host}:{port}", fix="stop what uses it, or take another: --port 0 for any"
            ) from None
        raise InputError("this address cannot be used", got=f"{host}:{port}", expected="one of this machine") from None
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
            http=speaking(limits),
            ws="none",
            log_config=LOG,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=2 * HEADER_BYTES,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=3,
        )
    )
