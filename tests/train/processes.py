"""The processes of one run, as torchrun would start them, but in a moment. torchrun itself is tested by slow tests."""

import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.forked import ended, forked

NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Done:
    codes: list[int | None]
    stdout: str
    stderr: str


def launch(processes: int, what: str, folder: Path, kind: str, codes: tuple[int, ...] | None = None) -> Done:
    """That many processes of tests.train.worker, from start to end."""
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    logs = folder.parent / f"{folder.name}-logs-{what}-{processes}"
    logs.mkdir(exist_ok=True)
    outs, errs = ([logs / f"{rank}.{stream}" for rank in range(processes)] for stream in ("out", "err"))
    started = [
        forked(enter, (rank, rank, processes, processes, "127.0.0.1", port), what, str(folder), kind, out=out, err=err)
        for rank, (out, err) in enumerate(zip(outs, errs, strict=True))
    ]
    found = [ended(process, out) for process, out in zip(started, outs, strict=True)]
    done = Done(found, *("".join(path.read_text("utf-8") for path in paths) for paths in (outs, errs)))
    assert done.codes == list(codes or (0,) * processes), done.stderr[-3000:]
    return done


def enter(values: tuple[object, ...], what: str, folder: str, kind: str) -> None:
    """Within the new process."""
    os.environ["OMP_NUM_THREADS"] = "1"
    for name, value in zip(NAMES, values, strict=True):
        if values[2] == 1:
            os.environ.pop(name, None)
        else:
            os.environ[name] = str(value)
    from tests.train import worker

    sys.argv = ["tests.train.worker", what, folder, kind]
    worker.main()
    sys.stdout.flush()
