"""Draw figures for the gallery and record what they found: python -m regard.figures.gallery docs/gallery [ID ...]

Pictures go to the folder, results to ``results/`` beside this file, from where ``regard figure --list`` reads them.
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from PIL import Image

from regard.figures.table import FIGURES, RESULTS, run


def record(folder: Path, names: list[str]) -> bool:
    """Whether all of them hold."""
    folder.mkdir(parents=True, exist_ok=True)
    good = True
    for name in names or list(FIGURES):
        start = perf_counter()
        with TemporaryDirectory(dir=folder) as out:
            result = run(name, Path(out), check=True)
            smaller(Path(out) / f"{name}.png")
            os.replace(Path(out) / f"{name}.png", folder / f"{name}.png")
            (RESULTS / f"{name}.json").write_bytes((Path(out) / f"{name}.json").read_bytes())
        print(
            f"{name:6} {perf_counter() - start:6.1f} s  holds: {result['holds']}  {result['failed'] or ''}", flush=True
        )
        good = good and bool(result["holds"])
    return good


def smaller(path: Path) -> None:
    """256 colours are enough for a drawing, and take half the room."""
    with Image.open(path) as image:
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    sys.exit(0 if record(Path(sys.argv[1]), sys.argv[2:]) else 1)
