"""`regard serve`."""

import contextlib
import json
import sys
import threading
import webbrowser
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Json

NEEDED = ("fastapi", "uvicorn")


def run(
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes any that is free.")] = 8080,
    host: Annotated[
        str, typer.Option(help="The address to listen at: of this machine alone, unless told.")
    ] = "127.0.0.1",
    runs: Annotated[Path, typer.Option(help="The folder whose finished runs are offered too.")] = Path("runs"),
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    token: Annotated[
        str, typer.Option(help="What every request must bring; needed where other machines may ask.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Serve the page that looks inside models, and the HTTP API under it, on this machine alone.

    Example: regard serve --open
    """
    from regard.errors import InputError

    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise InputError(f"{' and '.join(missing)} must be installed for this", fix="pip install 'regard[serve]'")

    from regard.serve.app import application
    from regard.serve.limits import Limits
    from regard.serve.model_list import ModelShelf
    from regard.serve.sockets import bind_socket, check_address, http_server, listening_address

    check_address(host, token)
    limits = Limits(token=token)
    with bind_socket("127.0.0.1" if host == "localhost" else host, port) as listening:
        where = f"{listening_address(listening)}?token={token}" if token else listening_address(listening)
        print(json.dumps({"address": where}) if as_json else f"regard is at {where}  (Ctrl-C stops it)", flush=True)
        shelf = ModelShelf(runs)
        for line in shelf.left_out():
            print(f"regard: {line}", file=sys.stderr, flush=True)
        if show:
            threading.Timer(1.0, webbrowser.open, [where]).start()
        with contextlib.suppress(KeyboardInterrupt):
            http_server(application(shelf, limits), limits).run(sockets=[listening])
    if not as_json:
        print("regard has stopped", flush=True)
