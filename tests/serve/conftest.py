"""What the tests of the server share: one in this process, and one at a real address."""

import re
import shutil
import threading
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra [serve]")
pytest.importorskip("uvicorn", reason="needs the extra [serve]")
pytest.importorskip("httpx2", reason="the client for tests needs it")

from fastapi.testclient import TestClient

import regard
from regard.serve.app import application
from regard.serve.guard import Application
from regard.serve.limits import Limits
from regard.serve.model_list import ModelShelf
from regard.serve.sockets import bind_socket, http_server

HERE = "http://127.0.0.1:8080"
API = "/api/v1"
INPUTS = {
    "tatoeba-en-de": {"kind": "text", "text": "Where are my keys?"},
    "recall": {"kind": "text", "text": "Anna sings . Boris paints . Anna"},
    "run:stories": {"kind": "text", "text": "Anna sings . Boris paints . Anna"},
    "shakespeare": {"kind": "text", "text": "To be, or not"},
}
ADDRESS = re.compile(rb"0x[0-9a-fA-F]{8,}")


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one finished run, and beside it what is none."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "stories").mkdir()
    (folder / "stories" / "run.toml").write_text("")
    shutil.copytree(str(files("regard").joinpath("pretrained", "recall")), folder / "stories" / "model")
    (folder / "unfinished").mkdir()
    (folder / "unfinished" / "run.toml").write_text("")
    broken = folder / "broken"
    shutil.copytree(folder / "stories", broken)
    (broken / "model" / "model.safetensors").write_bytes(b"\0" * 100)
    torn = folder / "torn"
    shutil.copytree(folder / "stories", torn)
    (torn / "model" / "regard.json").write_text("{")
    return folder


@pytest.fixture(scope="session")
def shelf(runs: Path) -> ModelShelf:
    """Shared, so that each model is loaded once."""
    return ModelShelf(runs)


@pytest.fixture(scope="session")
def client(shelf: ModelShelf) -> Iterator[TestClient]:
    with TestClient(application(shelf), base_url=HERE, raise_server_exceptions=False) as found:
        yield found


def client_with(shelf: ModelShelf, limits: Limits) -> TestClient:
    return TestClient(application(shelf, limits), base_url=HERE, raise_server_exceptions=False)


class Running:
    """A real server in a thread, at a port that was free."""

    def __init__(self, served: Application, limits: Limits) -> None:
        self.socket = bind_socket("127.0.0.1", 0)
        self.port: int = self.socket.getsockname()[1]
        self.server = http_server(served, limits)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)
        self.thread.start()
        end = time.monotonic() + 30
        while not self.server.started and time.monotonic() < end:
            time.sleep(0.02)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self.server.should_exit = True
        self.thread.join(20)
        self.socket.close()


class Live(Running):
    """The application at a real address."""

    def __init__(self, shelf: ModelShelf, limits: Limits) -> None:
        super().__init__(application(shelf, limits), limits)


@pytest.fixture(scope="session")
def live(shelf: ModelShelf) -> Iterator[Live]:
    found = Live(shelf, Limits(body_seconds=1.0))
    yield found
    found.close()


def look(client: TestClient, name: str, given: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    answer = client.post(f"{API}/look", json={"model": name, "input": given or INPUTS[name], **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def check_clean(answer: Any) -> None:
    """No 5xx, one form of errors, and nothing of the machine."""
    assert answer.status_code < 500, answer.text[:500]
    if answer.status_code >= 400:
        assert set(answer.json()) == {"error"}
        assert set(answer.json()["error"]) <= {"what", "got", "expected", "fix"}
        assert answer.json()["error"]["what"]
    places = (Path.home(), Path.cwd(), Path(gettempdir()), Path(regard.__file__).parent)
    leaks = [b"Traceback", b"/home", *(str(place).encode() for place in places)]
    assert not [leak for leak in leaks if leak in answer.content]
    assert ADDRESS.search(answer.content) is None
