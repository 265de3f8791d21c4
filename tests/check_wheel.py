"""`make wheel` runs this with the wheels installed: both packages come from them, with every file of the source."""

import filecmp
import sys
from pathlib import Path
from types import ModuleType

import regard
import regard_lectures

ROOT = Path(__file__).resolve().parent.parent


def check(package: ModuleType, source: Path) -> None:
    installed = Path(str(package.__file__)).resolve().parent
    if not installed.is_relative_to(Path(sys.prefix).resolve()):
        sys.exit(f"{package.__name__} comes from {installed}, not from the environment {sys.prefix}")
    files = [
        path.relative_to(source) for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    wrong = [str(name) for name in files if not (installed / name).is_file()]
    wrong += [
        f"{name} (differs)"
        for name in files
        if (installed / name).is_file() and not filecmp.cmp(source / name, installed / name, shallow=False)
    ]
    if wrong:
        told = ", ".join(sorted(wrong))
        sys.exit(f"not in the wheel as in {source.relative_to(ROOT)} (see package-data in its pyproject.toml): {told}")
    print(f"the wheel holds all {len(files)} files of {source.relative_to(ROOT)}, installed in {installed}")


check(regard, ROOT / "src" / "regard")
check(regard_lectures, ROOT / "lectures" / "src" / "regard_lectures")
