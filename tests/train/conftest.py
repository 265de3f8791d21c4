"""Where a test trains: in a folder of its own, without the user's data and cache, and leaving threads as they were."""

import importlib
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forked import LATE


@pytest.fixture(scope="session", autouse=True)
def imported() -> None:
    """What the first run of a process imports, so that it is counted to no test."""
    for name in LATE:
        importlib.import_module(name)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory. No curves are drawn: that takes longer than these runs."""
    import torch

    from regard.train import curves

    threads = torch.get_num_threads()
    handler = signal.signal(signal.SIGTERM, unheard)  # the test's own process must outlive what nobody hears
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path.parent / f"{tmp_path.name}-cache"))
    monkeypatch.setenv("REGARD_MALLOC", "0")  # the tests' own process gives its memory back
    for name in ("REGARD_DATA", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(curves, "draw", lambda lines, folder: None)
    yield tmp_path
    torch.set_num_threads(threads)
    signal.signal(signal.SIGTERM, handler)


def unheard(number: int, _: object) -> None:
    raise RuntimeError(f"nobody has heard the signal {number}")
