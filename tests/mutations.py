"""Break the core on purpose, one line at a time, and see whether the contracts notice: ``python -m tests.mutations``.

Each mutation is applied to a copy of the source in a temporary folder, and the named files of tests run against
that copy until the first failure. A mutation that no test notices has survived: a test is missing, or the line
is not needed. Words after the command pick mutations by names or files; -j runs several at once.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutation_table import MUTATIONS, Mutation

ROOT = Path(__file__).resolve().parent.parent


def file_of(name: str) -> str:
    """ "mask" is tests/contracts/test_mask.py, and "train/engine" tests/train/test_engine.py."""
    folder, _, word = name.rpartition("/")
    return str(Path("tests") / (folder if "/" in name else "contracts") / f"test_{word}.py")


def run(mutation: Mutation | None, folder: Path) -> tuple[bool, str]:
    """Whether the tests pass on this copy, and their last words."""
    tests = [file_of(name) for name in (mutation.tests if mutation else "mask").split()]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 2):  # 1: a test failed; 2: not even importable
        raise SystemExit(f"pytest did not run:\n{done.stdout}{done.stderr}")
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return done.returncode == 0, failed[0] if failed else ""


def attempt(mutation: Mutation) -> tuple[Mutation, bool, str]:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copytree(ROOT / "src", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        path = folder / "regard" / mutation.file
        text = path.read_text()
        if text.count(mutation.old) != mutation.times:  # someone is at work in the source
            return mutation, True, "its line is gone"
        path.write_text(text.replace(mutation.old, mutation.new))
        survived, words = run(mutation, folder)
    return mutation, survived, words


def stale(mutation: Mutation) -> bool:
    return (ROOT / "src/regard" / mutation.file).read_text().count(mutation.old) != mutation.times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only the mutations whose names or files hold one of these")
    parser.add_argument("-j", type=int, default=1, metavar="N", help="how many at once")
    options = parser.parse_args()
    chosen = [m for m in MUTATIONS if not options.words or any(word in f"{m.name} {m.file}" for word in options.words)]
    if gone := [m.name for m in chosen if stale(m)]:
        print("These mutations no longer find their lines; mend them:", *gone, sep="\n  ")
        return 2
    survivors = []
    with ThreadPoolExecutor(options.j) as pool:
        for mutation, survived, words in pool.map(attempt, chosen):
            print("SURVIVED" if survived else "noticed ", f"{mutation.name}  ({mutation.file})  {words}", flush=True)
            survivors += [mutation.name] if survived else []
    print(f"{len(chosen)} mutations, {len(survivors)} survived", *survivors, sep="\n  ")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
