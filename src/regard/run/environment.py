"""What a run's numbers may depend on besides its seed."""

import os
import platform
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

import regard
from regard.errors import InputError
from regard.storage.documents import read_json


def environment_now() -> dict[str, Any]:
    return {
        "regard": regard.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
        "processes": int(os.environ.get("WORLD_SIZE", "1")),
        "commit": commit(),
        "began": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def environment_changes(folder: Path) -> str:
    """What is not as it was when the run began, of what its bits may depend on."""
    now, before = environment_now(), {}
    with suppress(InputError, OSError):  # it only informs: one that is gone or broken stops nobody
        before = read_json(folder / "environment.json")
    keys = [key for key in ("regard", "torch", "threads", "processes") if before.get(key, now[key]) != now[key]]
    return ", ".join(f"{key} was {before[key]} and is {now[key]}" for key in keys)


def commit(folder: Path = Path()) -> str:
    """Of a folder, the one it is started in unless told otherwise, if that is in a repository."""
    words = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    try:
        asked = subprocess.run(words, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout.strip() if asked.returncode == 0 else ""
