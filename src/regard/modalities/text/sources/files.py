"""What kinds of data have in common that come as tables or texts in files."""

from pathlib import Path
from typing import Any

from regard.data.files import find_file
from regard.modalities.run_parts import RunPlan
from regard.modalities.splits import SPLITS

PATHS = SPLITS  # settings that name files

# Of little examples.
ANIMALS = ["dog", "cat", "bird", "fish"]
WORDS = {"kind": "words", "size": 64}


def no_files(train: tuple[str, ...] | None) -> list[str]:
    return ["train is empty"] if train is not None and not train else []


def paths_of(plan: RunPlan) -> dict[str, list[Path]]:
    """The files of each split that has any."""
    given: dict[str, Any] = {split: getattr(plan.data, split) for split in SPLITS}
    return {split: [find_file(name, plan.base) for name in names] for split, names in given.items() if names}
