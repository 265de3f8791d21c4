"""`make wheel` runs this where the wheel is installed: regard comes from there, with every file of the source."""

import filecmp
import sys
from pathlib import Path

import regard

SOURCE = Path(__file__).resolve().parent.parent / "src" / "regard"
INSTALLED = Path(regard.__file__).resolve().parent


def main() -> None:
    if not INSTALLED.is_relative_to(Path(sys.prefix).resolve()):
        sys.exit(f"regard comes from {INSTALLED}, not from the environment {sys.prefix}")
    files = [
        path.relative_to(SOURCE) for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    wrong = [str(name) for name in files if not (INSTALLED / name).is_file()]
    wrong += [
        f"{name} (differs)"
        for name in files
        if (INSTALLED / name).is_file() and not filecmp.cmp(SOURCE / name, INSTALLED / name, shallow=False)
    ]
    if wrong:
        sys.exit("not in the wheel as in src/regard (see package-data in pyproject.toml): " + ", ".join(sorted(wrong)))
    print(f"the wheel holds all {len(files)} files of src/regard, installed in {INSTALLED}")


main()
