"""A real browser, and the real server that it is shown. Where there is no browser, the tests say so."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.serve.limits import Limits
from regard.serve.model_list import ModelShelf
from tests.serve.conftest import Live

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
FLAGS += ("--disable-component-update", "--disable-sync")
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """It brings a process and an event loop of its own, which must be gone before other tests run here."""
    api = pytest.importorskip("playwright.sync_api", reason="drives a browser: pip install playwright")
    path = os.environ.get("REGARD_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("no browser is installed: apt-get install chromium, or name one by REGARD_BROWSER")
    with api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield found
        found.close()


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return long_run(tmp_path_factory.mktemp("runs"))


def long_run(runs: Path) -> Path:
    """A folder with one run: a GPT of 12 x 12 heads with random weights that reads 2,048 letters."""
    folder = runs / "long"
    folder.mkdir()
    (folder / "run.toml").write_text("")
    letters = regard.load("shakespeare")
    sizes = {"vocab": letters.config.vocab, "length": 2048, "dim": 96, "depth": 12, "heads": 12, "hidden": 96}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = regard.build("gpt-tiny", **sizes)
    regard.save(replace(made, processor=letters.processor, task="generate", symbols=letters.symbols), folder / "model")
    return runs


@pytest.fixture(scope="package")
def served(browser: Any, runs: Path) -> Iterator[str]:
    """The address of the real server."""
    yield from live(runs, Limits())


@pytest.fixture
def forgetful(browser: Any, runs: Path) -> Iterator[str]:
    """One that keeps no more than the latest look."""
    yield from live(runs, Limits(looks=1))


def live(runs: Path, limits: Limits) -> Iterator[str]:
    found = Live(ModelShelf(runs), limits)
    yield found.base
    found.close()


Open = Callable[..., Any]


@pytest.fixture
def open_page(browser: Any, served: str) -> Iterator[Open]:
    """open_page("#model=recall", width=..., dark=...): the page, when it shows a look. Afterwards: no message on the
    console but the ones a test allowed, no error, and no request to another host."""
    contexts: list[Any] = []
    messages: list[str] = []
    foreign: list[str] = []

    def opened(
        address: str = "",
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        calm: bool = True,
        wait: bool = True,
        allow: str = "\0",
    ) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce" if calm else "no-preference",
            accept_downloads=True,
        )
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("console", lambda message: allow in message.text or messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("request", lambda request: foreign.append(request.url) if strange(request.url) else None)
        page.goto(address if "://" in address else f"{served}/{address}")
        if wait:
            page.wait_for_selector("body[data-ready]")
            page.wait_for_selector(".cell h2 mark")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert messages == []
    assert foreign == []


def until(page: Any, expression: str, limit: float = 15.0) -> None:
    """Wait for an expression to be true. Playwright's own way evaluates text in the page, which its policy forbids."""
    end = time.monotonic() + limit
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"not within {limit:g} s: {expression}"
        page.wait_for_timeout(40)


def strange(address: str) -> bool:
    return not address.startswith(("http://127.0.0.1:", "data:", "blob:", "file:"))


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The text of axe-core: from the folder that REGARD_AXE names, or from npm."""
    folder = Path(os.environ.get("REGARD_AXE") or tmp_path_factory.mktemp("axe"))
    found = folder / "node_modules" / "axe-core" / "axe.min.js"
    if not found.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("axe-core is not here, and neither is npm to fetch it: name its folder by REGARD_AXE")
        done = subprocess.run(
            [npm, "install", "--no-audit", "--no-fund", "axe-core@4"], cwd=folder, capture_output=True, timeout=60
        )
        if done.returncode or not found.exists():
            pytest.skip("axe-core is not here, and npm could not fetch it: name its folder by REGARD_AXE")
    return found.read_text(encoding="utf8")
