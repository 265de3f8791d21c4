"""The machine that a run works on: its processes, threads and numbers; and one run at a time in a folder."""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch

from regard.errors import InputError
from regard.train.distribution import World, join_world

from .settings import RunSettings


@contextmanager
def world_of(run: RunSettings | None) -> Iterator[World]:
    settings = run.train if run is not None else None
    if settings is not None:
        check_precision(settings.precision, settings.device)
        check_threads(settings.threads)
        torch.set_num_threads(settings.threads or usual_threads())
    with join_world(settings.device if settings is not None else "cpu") as world:
        yield world


def usual_threads() -> int:
    """What OMP_NUM_THREADS says, or all cores; under torchrun, which sets that to 1, the share of each process."""
    if "LOCAL_WORLD_SIZE" not in os.environ and os.environ.get("OMP_NUM_THREADS"):
        return torch.get_num_threads()
    return max((os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1")), 1)


def check_threads(threads: int) -> None:
    """Far more than there are cores would only wait for each other, or break the machine."""
    most = 4 * (os.cpu_count() or 1)
    if threads > most:
        raise InputError(
            "too many threads for this machine",
            got=f"train.threads = {threads}",
            expected=f"at most {most}",
            fix=f"set train.threads={most // 4}, or remove it",
        )


def check_precision(precision: str, device: str) -> None:
    """Half the width is refused where it would only be slow."""
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("PyTorch cannot find a usable GPU", got="train.device = 'cuda'", fix="use train.device=cpu")
    if precision == "bfloat16" and not (torch.cuda.is_bf16_supported() if device == "cuda" else half_width_on_cpu()):
        raise InputError(
            "this hardware does not support bfloat16, which would be emulated and many times slower",
            got="train.precision = 'bfloat16'",
            fix="use train.precision=float32",
        )


def half_width_on_cpu() -> bool:
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


@contextmanager
def lock_folder(folder: Path, world: World) -> Iterator[None]:
    """One run at a time in a folder: two would write over each other's checkpoints."""
    if not world.first or sys.platform == "win32":
        yield
        return
    import fcntl

    with ExitStack() as stack:
        try:
            file = stack.enter_context(open(folder / ".lock", "w"))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                "another process is training this run", where=str(folder), fix="wait until it has finished"
            ) from None
        except OSError as error:
            raise InputError("the run folder cannot be locked", where=str(folder), got=str(error.strerror)) from None
        yield
