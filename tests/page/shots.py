"""The ten pictures of docs/page.md, taken anew:  python -m tests.page.shots docs/page [NAME ...]"""

import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote_plus

from PIL import Image
from playwright.sync_api import sync_playwright

from regard.serve.limits import Limits
from regard.serve.model_list import ModelShelf
from tests.serve.conftest import Live

from .conftest import FLAGS, NAMES, long_run

LARGEST = 150_000  # bytes
CROSS = "#model=tatoeba-en-de&site=decoder.1.cross&head=2"


def scrolled(page: Any, selector: str, wait: int = 1200) -> None:
    page.evaluate("(selector) => document.querySelector(selector).scrollIntoView()", selector)
    page.mouse.wheel(0, -24)
    page.wait_for_timeout(wait)


def intervened(page: Any) -> None:
    page.click('.intervene [aria-label="mask dog"]')
    page.wait_for_selector(".echo ins")
    scrolled(page, ".pairs")


def drawn(page: Any) -> None:
    page.click("text=Draw")
    box = page.locator(".pad").bounding_box()
    page.mouse.move(box["x"] + 80, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 60, steps=5)
    page.mouse.move(box["x"] + 130, box["y"] + 230, steps=8)
    page.mouse.up()
    page.click(".pad-dialog .strong")
    page.wait_for_timeout(1500)


def toured(page: Any) -> None:
    page.click("[data-part=tour]")
    page.wait_for_selector(".tour:not([hidden])")
    for _ in range(6):
        page.click(".tour .strong")
    page.wait_for_timeout(800)


def analysed(page: Any) -> None:
    page.keyboard.press("8")
    scrolled(page, ".pairs", 3000)


def pointed(page: Any) -> None:
    page.wait_for_timeout(2500)
    page.hover(".stage-body canvas", position={"x": 240, "y": 330})
    page.wait_for_timeout(1500)


Step = Callable[[Any], None]
# name: address, width, height, dark, steps
LONG = quote_plus(("To be, or not to be, that is the question. " * 60)[:2040].strip())
SHOTS: dict[str, tuple[str, int, int, bool, Step | None]] = {
    "translate": (f"{CROSS}&row=6&column=7", 1440, 900, False, None),
    "lines": (f"{CROSS}&row=10&column=3&view=lines", 1440, 900, True, None),
    "compare": (f"{CROSS}&row=6&column=7&view=compare&with=decoder.0.cross:1", 1440, 1000, False, None),
    "intervene": (f"{CROSS}&row=6&column=7", 1440, 760, False, intervened),
    "picture": ("#model=digits", 1440, 900, True, drawn),
    "tour": ("#model=recall&site=blocks.1.mixer&head=1&row=6&column=1", 1440, 900, False, toured),
    "analyse": ("#model=recall&site=blocks.1.mixer&head=1&row=6&column=1", 1440, 760, True, analysed),
    "play": ("#model=recall", 1440, 1000, False, lambda page: scrolled(page, "#play", 3000)),
    "long": (f"#model=run:long&text={LONG}&site=blocks.3.mixer&head=5&row=1500&column=1490", 1440, 900, False, pointed),
    "narrow": (f"{CROSS}&row=6&column=7", 360, 1600, False, None),
}


def save(raw: bytes, path: Path) -> None:
    """All colours if they fit, else 256 of them."""
    with Image.open(io.BytesIO(raw)) as image:
        full = image.convert("RGB")
    full.save(path, optimize=True)
    if path.stat().st_size > LARGEST:
        full.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


@contextmanager
def browsing() -> Iterator[tuple[str, Any]]:
    """The address of a server that has a long run, and a browser."""
    with TemporaryDirectory() as runs, sync_playwright() as playwright:
        server = Live(ModelShelf(long_run(Path(runs))), Limits())
        path = os.environ.get("REGARD_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield server.base, browser
        browser.close()
        server.close()


def shoot(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with browsing() as (base, browser):
        for name in names or list(SHOTS):
            address, width, height, dark, steps = SHOTS[name]
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme="dark" if dark else "light",
                reduced_motion="reduce",
            )
            page = context.new_page()
            page.goto(f"{base}/{address}")
            page.wait_for_selector(".cell h2 mark", timeout=40_000)
            page.wait_for_timeout(1500)
            if steps:
                steps(page)
            save(page.screenshot(), folder / f"{name}.png")
            print(name, (folder / f"{name}.png").stat().st_size // 1000, "kB", flush=True)
            context.close()


if __name__ == "__main__":
    shoot(Path(sys.argv[1]), sys.argv[2:])
