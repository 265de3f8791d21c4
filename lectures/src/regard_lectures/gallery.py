"""Compute and draw the figures of the gallery and store their results: python -m regard_lectures.gallery
lectures/gallery [ID ...]

Pictures and a page of them go to the folder, records to ``results/`` beside this file, from where
``regard figure --list`` reads them. With --redraw nothing is computed: what was recorded is judged and drawn again.
"""

import argparse
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter

from PIL import Image, ImageChops

from regard_lectures import records
from regard_lectures.records import Record
from regard_lectures.table import FIGURES, module, picture, record, rows, text_of

VERDICTS = ("confirmed", "partly", "contradicted", "quoted")
FAR, DOT = 30, 100  # levels of 256; pixels


def show(folder: Path, names: list[str], record_of: Callable[[str], Record]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or list(FIGURES):
        start = perf_counter()
        found = record_of(name)
        records.replaced(folder / f"{name}.png", smaller(picture(found, "png")))
        records.write(records.RESULTS / f"{name}.json", found)
        print(f"{name:6} {perf_counter() - start:6.1f} s  {records.words(found)}", flush=True)


def computed(name: str) -> Record:
    made = records.made(text_of(name))
    return records.judged(name, module(name), module(name).compute(), made)


def recorded(name: str) -> Record:
    found = record(name)
    assert found is not None, f"no stored result for figure {name}"
    return records.judged(name, module(name), found["numbers"], found["made"])


def smaller(raw: bytes) -> bytes:
    """Reduce to 256 colours, which halves the size, unless too many pixels change visibly."""
    with Image.open(io.BytesIO(raw)) as image:
        full = image.convert("RGB")
    few = full.quantize(256, dither=Image.Dither.NONE)
    moved = ImageChops.difference(full, few.convert("RGB")).convert("L")
    far = sum(moved.histogram()[FAR:])  # pixels that changed so much
    saved = io.BytesIO()
    (few if far < DOT else full).save(saved, "png", optimize=True)
    return saved.getvalue()


def index(folder: Path) -> None:
    """Write the page of the gallery: every figure with its claim, expectation, result and command."""
    table = [row for row in rows() if row["verdict"] is not None]
    counts = {word: sum(row["verdict"] == word for row in table) for word in VERDICTS}
    lines = [
        "# The gallery",
        "",
        "Every figure is computed with the library. The expectation of the lecture or the paper was fixed before the",
        "run; the verdict follows from the results of the run, with the number of random starts that agree.",
        "",
        f"{', '.join(f'{count} {word}' for word, count in counts.items())}; {len(table)} figures in all.",
        "Stale: the code that computed the results has changed since.",
        "",
        "`python -m regard_lectures.gallery lectures/gallery` computes and draws all figures and writes this page;",
        "with `--redraw` it only draws the stored results.",
    ]
    for row in table:
        lines += ["", f"## {row['id']} {row['title']}", "", f"{row['claim']}", ""]
        lines += [f"![{row['title']}]({row['id']}.png)", ""]
        lines += [f"Expected: {row['expected']}", ""] if row["expected"] != row["claim"] else []
        lines += [f"Found: {row['found']}", ""] if row["found"] else []
        old = ", stale" if row["stale"] else ""
        lines += [f"**{row['last']}**{old}. Decks {row['deck']}. `{row['command']} --check`, about {row['cost']:g} s."]
    records.replaced(folder / "README.md", ("\n".join(lines) + "\n").encode())


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m regard_lectures.gallery", description="Compute and draw figures.")
    parser.add_argument("folder", type=Path, help="folder of the pictures and of their page, such as lectures/gallery")
    parser.add_argument("ids", nargs="*", metavar="ID", help="figures, such as 2.4; all of them if none is given")
    parser.add_argument("--redraw", action="store_true", help="draw the stored results instead of computing them")
    given = parser.parse_args(words)
    check_known(parser, given.ids)
    show(given.folder, given.ids, recorded if given.redraw else computed)
    index(given.folder)


def check_known(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    if unknown := [name for name in names if name not in FIGURES]:
        parser.error(f"unknown figure: {', '.join(unknown)}; `regard figure --list` lists them")


if __name__ == "__main__":
    main()
