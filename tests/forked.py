"""Processes that start in a moment: a server that has imported torch and the library forks each of them.

A new interpreter would take seconds to import them. Where that import is what is tested, use subprocess.
"""

import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests import quick

CONTEXT = multiprocessing.get_context("forkserver")
# With what torch imports at an optimizer's first step and at a first shared checkpoint, and the verb at its start.
LATE = ["torch._dynamo", "torch.distributed.checkpoint.state_dict", "regard.cli.train", "regard.run.training"]
CONTEXT.set_forkserver_preload(["tests.train.worker", *LATE])


def forked(function: Callable[..., object], *given: Any, out: Path, err: Path) -> multiprocessing.process.BaseProcess:
    """A process that calls this function, its output in these files; started, not waited for."""
    process = CONTEXT.Process(target=enter, args=(function, given, str(out), str(err)))
    process.start()
    return process


def ended(process: multiprocessing.process.BaseProcess, out: Path) -> int | None:
    """Its exit code. What it used is counted to the test that waits for it."""
    process.join(300)
    process.kill()  # one that still runs; of one that has ended, nothing
    process.join()
    if (seconds := out.with_suffix(".seconds")).exists():
        quick.elsewhere += float(seconds.read_text())
    return process.exitcode


def called(function: Callable[..., object], *given: Any) -> str:
    """What a function gives in a process of its own, as text."""
    with TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        code = ended(forked(told, function, *given, out=out, err=err), out)
        assert code == 0, err.read_text("utf-8")
        return out.read_text("utf-8").removesuffix("\n")


def told(function: Callable[..., object], *given: Any) -> None:
    print(function(*given), flush=True)


def enter(function: Callable[..., object], given: tuple[Any, ...], out: str, err: str) -> None:
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    try:
        function(*given)
    finally:
        Path(out).with_suffix(".seconds").write_text(str(time.process_time()))
