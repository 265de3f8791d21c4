"""Draw figures for the gallery and record what they found: python -m regard.figures.gallery docs/gallery [ID ...]

Pictures and a page of them go to the folder, results to ``results/`` beside this file, from where
``regard figure --list`` reads them. With --redraw nothing is computed: what was recorded is drawn and checked again.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from PIL import Image, ImageChops

from regard.figures.figure import Numbers
from regard.figures.table import FIGURES, RESULTS, module, rows, tell

FAR, DOT = 30, 100  # levels of 256; pixels


def record(folder: Path, names: list[str], numbers_of: Callable[[str], Numbers]) -> bool:
    """Whether all of them hold."""
    folder.mkdir(parents=True, exist_ok=True)
    good = True
    for name in names or list(FIGURES):
        start = perf_counter()
        numbers = numbers_of(name)
        with TemporaryDirectory(dir=folder) as out:
            result = tell(name, numbers, Path(out), check=True)
            smaller(Path(out) / f"{name}.png")
            os.replace(Path(out) / f"{name}.png", folder / f"{name}.png")
            (RESULTS / f"{name}.json").write_bytes((Path(out) / f"{name}.json").read_bytes())
        print(
            f"{name:6} {perf_counter() - start:6.1f} s  holds: {result['holds']}  {result['failed'] or ''}", flush=True
        )
        good = good and bool(result["holds"])
    return good


def computed(name: str) -> Numbers:
    return module(name).compute()


def recorded(name: str) -> Numbers:
    numbers: Numbers = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf8"))["numbers"]
    return numbers


def smaller(path: Path) -> None:
    """256 colours do for most drawings and take half the room; not where a small red dot would become a brown one."""
    with Image.open(path) as image:
        full = image.convert("RGB")
    few = full.quantize(256, dither=Image.Dither.NONE)
    moved = ImageChops.difference(full, few.convert("RGB")).convert("L")
    far = sum(moved.histogram()[FAR:])  # pixels that changed so much
    (few if far < DOT else full).save(path, optimize=True)


def index(folder: Path) -> None:
    """The page of the gallery: every figure with its claim, what was found, and the command that makes it."""
    lines = [
        "# The gallery",
        "",
        "Every picture is computed by the library, and its claim is checked: `regard figure ID --check` can fail.",
        "`python -m regard.figures.gallery docs/gallery` draws them all again and writes this page.",
    ]
    for row in rows():
        if not (RESULTS / f"{row['id']}.json").exists():
            continue
        lines += ["", f"## {row['id']} {row['title']}", "", f"{row['claim']}", ""]
        lines += [f"![{row['title']}]({row['id']}.png)", ""]
        lines += [f"Decks {row['deck']}. `{row['command']} --check`, about {row['cost']:g} s: {row['last']}."]
    (folder / "README.md").write_text("\n".join(lines) + "\n", encoding="utf8")


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--redraw"]
    held = record(Path(words[0]), words[1:], recorded if "--redraw" in sys.argv else computed)
    index(Path(words[0]))
    sys.exit(0 if held else 1)
