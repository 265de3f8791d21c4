"""`regard serve`."""

import contextlib
import json
import os
import sys
import threading
import warnings
import webbrowser
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Json

NEEDED = ("fastapi", "uvicorn")


def run(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 chooses a free port.")] = 8080,
    host: Annotated[
        str, typer.Option(help="Address to listen on; the default accepts local connections only.")
    ] = "127.0.0.1",
    runs: Annotated[Path, typer.Option(help="Folder with finished runs, whose models are listed too.")] = Path("runs"),
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    token: Annotated[
        str,
        typer.Option(help="Access token that every request must carry; required for connections from other machines."),
    ] = "",
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Processes that compute; several for a classroom, at most one a core.")
    ] = 1,
    as_json: Json = False,
) -> None:
    """Serve the web page for inspecting models, and its HTTP API; local connections only by default.

    Example: regard serve --open
    """
    from regard.errors import InputError, Notice

    warnings.simplefilter("ignore", Notice)  # an answer has its remark; the terminal is not the reader's
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise InputError(f"regard serve requires {' and '.join(missing)}", fix=f"pip install {' '.join(missing)}")

    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # torch reads it once: threads that wait leave their core
    from regard.serve.app import application
    from regard.serve.limits import Limits
    from regard.serve.model_list import ModelShelf
    from regard.serve.processes import worker_processes
    from regard.serve.sockets import bind_socket, check_address, http_server, listening_address

    check_address(host, token)
    limits = Limits(token=token)
    with bind_socket("127.0.0.1" if host == "localhost" else host, port) as listening:
        where = f"{listening_address(listening)}?token={token}" if token else listening_address(listening)
        print(
            json.dumps({"address": where}) if as_json else f"regard is serving at {where}  (press Ctrl-C to stop)",
            flush=True,
        )
        shelf = ModelShelf(runs)
        for line in shelf.left_out():
            print(f"regard: {line}", file=sys.stderr, flush=True)
        if show:
            threading.Timer(1.0, webbrowser.open, [where]).start()
        with contextlib.ExitStack() as ending:
            several = workers > 1
            served = (
                ending.enter_context(worker_processes(runs, limits, workers)) if several else application(shelf, limits)
            )
            with contextlib.suppress(KeyboardInterrupt):
                http_server(served, limits).run(sockets=[listening])
    if not as_json:
        print("regard has stopped", flush=True)
