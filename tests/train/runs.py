"""Runs so small that each takes a moment, started by the command line within the test's own process."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from regard.cli.app import main

STEPS = 20
RUN = """
[task]
kind = "translate"
[data]
kind = "reverse"
rows = 200
longest = 5
budget = 300
[model]
name = "transformer-small"
dim = 16
depth = 1
heads = 2
hidden = 32
dropout = 0.1
[train]
steps = 20
log = 3
evaluate = 8
save = 4
average = 3
threads = 1
[optimizer]
kind = "adam"
rate = 5e-3
[schedule]
kind = "inverse-sqrt"
warmup = 5
"""


def written(folder: Path, text: str = RUN, name: str = "tiny.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def trained(folder: Path, *changes: str, text: str = RUN) -> Path:
    """A run that has come to its end. -> its folder"""
    path = written(folder, text)
    assert main(["train", str(path), f"folder={folder / 'run'}", *changes]) == 0
    return folder / "run"


def lines(folder: Path, kind: str = "metrics") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"{kind}.jsonl").read_text("utf-8").splitlines()]


def steps(folder: Path) -> list[int]:
    return sorted(int(path.name[5:]) for path in (folder / "checkpoints").iterdir())


def fingerprint(folder: Path, last: int = STEPS) -> dict[str, str]:
    """What must not depend on interruptions: weights, optimizer, metrics, the final model, which checkpoints stay."""
    checkpoint = folder / "checkpoints" / f"step-{last:06d}"
    files = [
        *sorted(checkpoint.glob("*.safetensors")),
        folder / "metrics.jsonl",
        folder / "model" / "model.safetensors",
    ]
    assert len(files) >= 4
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    return {**found, "steps": str(steps(folder))}


def refused(capsys: pytest.CaptureFixture[str], *words: str, code: int = 2) -> str:
    """What a command line that must fail says."""
    capsys.readouterr()
    assert main(list(words)) == code
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    assert "fault in regard" not in out + err
    return out + err


def tree(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def contents(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
