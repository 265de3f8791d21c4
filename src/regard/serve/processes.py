"""Worker processes: each serves the same models at a port of its own, until this process ends."""

import contextlib
import multiprocessing
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from secrets import token_urlsafe

import torch

from regard.errors import InputError

from .app import application
from .front import HERE, Front, Worker
from .guard import Application, Guard, Raw
from .limits import LARGEST_UPLOAD, Limits
from .model_list import ModelShelf
from .sockets import bind_socket, http_server
from .uploads import ADDRESS, sent_as

PATIENCE = 5.0  # seconds in which a process may end by itself


@contextlib.contextmanager
def worker_processes(runs: Path, limits: Limits, count: int) -> Iterator[Application]:
    """The application that answers by ``count`` processes. They are forked, so that they have what was loaded, and
    plug-ins too."""
    if "fork" not in multiprocessing.get_all_start_methods():
        raise InputError("several workers need a system that can fork processes", got=f"--workers {count}")
    forked = multiprocessing.get_context("fork")
    started: list[tuple[Worker, BaseProcess]] = []
    try:
        for _ in range(count):
            listening, token = bind_socket(HERE, 0), token_urlsafe(32)
            given = (listening, runs, replace(limits, token=token), max(1, (os.cpu_count() or 1) // count))
            process: BaseProcess = forked.Process(target=serve_worker, args=given, name="regard-worker", daemon=True)
            process.start()
            started.append((Worker(listening.getsockname()[1], token), process))
            listening.close()
        yield guarded_front(limits, [worker for worker, _ in started])
    finally:
        for _, process in started:
            process.terminate()
        for _, process in started:
            process.join(PATIENCE)


def guarded_front(limits: Limits, workers: list[Worker]) -> Application:
    """The guard is here: workers are asked by nobody else."""
    return Guard(Front(workers), limits, {ADDRESS: Raw(sent_as(), LARGEST_UPLOAD)})


def serve_worker(listening: socket.socket, runs: Path, limits: Limits, threads: int) -> None:
    threading.Thread(target=end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    with contextlib.suppress(KeyboardInterrupt):
        http_server(application(ModelShelf(runs), limits), limits).run(sockets=[listening])


def end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(0)
