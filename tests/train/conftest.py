"""Where a test trains: in a folder of its own, without the user's data and cache, and leaving threads as they were."""

import importlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.forked import LATE
from tests.undrawn import undrawn


@pytest.fixture(scope="session", autouse=True)
def imported() -> None:
    """What the first run of a process imports, so that it is counted to no test."""
    for name in LATE:
        importlib.import_module(name)


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody disturbed, with curves; nobody may change it."""
    import torch

    from tests.train.runs import trained

    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_MALLOC", "0")
        folder = trained(tmp_path_factory.mktemp("whole"))
    torch.set_num_threads(threads)
    return folder


@pytest.fixture(scope="module", autouse=True)
def no_pictures() -> Iterator[Callable[..., Any]]:
    with undrawn() as draw:
        yield draw


@pytest.fixture
def pictures(no_pictures: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The curves of a run are drawn after all."""
    monkeypatch.setattr("regard.train.curves.draw", no_pictures)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory."""
    import torch

    threads = torch.get_num_threads()
    handler = signal.signal(signal.SIGTERM, unheard)  # the test's own process must outlive what nobody hears
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path.parent / f"{tmp_path.name}-cache"))
    monkeypatch.setenv("REGARD_MALLOC", "0")  # the tests' own process gives its memory back
    for name in ("REGARD_DATA", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path
    torch.set_num_threads(threads)
    signal.signal(signal.SIGTERM, handler)


def unheard(number: int, _: object) -> None:
    raise RuntimeError(f"nobody has heard the signal {number}")
