"""A run's checkpoints: each a folder that is there whole or not at all, with the SHA-256 of every file in it.

checkpoints/step-000200/  state.json  model.safetensors  optimizer.safetensors  ...  manifest.json
"""

import hashlib
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from regard.errors import CheckpointError, InputError
from regard.storage.atomic import atomic_folder, storable_tensors, write_file
from regard.storage.documents import json_bytes, read_json

from .distribution import World
from .shards import plain_tensor, read_shards, sharded, write_shards

MANIFEST, STATE = "manifest.json", "state.json"
NAME = re.compile(r"step-(\d+)")
HIDDEN = ".step-"  # one that is being written, or thrown away


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What was saved after ``step`` updates: plain data, and tables of tensors by file name."""

    step: int
    data: dict[str, Any]
    tensors: dict[str, dict[str, Tensor]]


class Checkpoints:
    """All of one run's, the newest whole one first."""

    def __init__(self, folder: Path, world: World) -> None:
        self.folder, self.world = Path(folder), world

    def place(self, step: int) -> Path:
        return self.folder / f"step-{step:06d}"

    def save(self, checkpoint: Checkpoint) -> None:
        """Every process calls this; the first writes what all have alike, each its own shards."""
        target = self.place(checkpoint.step)
        with self.world.together():
            if any(sharded(table) for table in checkpoint.tensors.values()):
                self.save_shards(target, checkpoint)
            elif self.world.first:
                self.save_whole(target, checkpoint)

    def save_whole(self, target: Path, checkpoint: Checkpoint) -> None:
        content = {name: storable_tensors(table, target / name) for name, table in checkpoint.tensors.items()}
        with self.fresh(target, content) as fresh:
            for name, table in content.items():
                write_file(fresh / f"{name}.safetensors", table)
            self.seal(fresh, checkpoint)

    def save_shards(self, target: Path, checkpoint: Checkpoint) -> None:
        """PyTorch's distributed checkpoint, as safetensors; the folder appears when all processes are done."""
        with ExitStack() as stack:
            with self.world.together():
                own = stack.enter_context(self.fresh(target, checkpoint.tensors)) if self.world.first else ""
            fresh = Path(self.world.tell(str(own)))
            for name, table in checkpoint.tensors.items():
                write_shards(fresh / name, table)
            if self.world.first:
                self.seal(fresh, checkpoint)

    @contextmanager
    def fresh(self, target: Path, tables: Mapping[str, Mapping[str, Tensor]]) -> Iterator[Path]:
        """A folder to write into, which becomes the target. Only a damaged one can stand there: it was passed over."""
        with atomic_folder(target, sum(x.nbytes for table in tables.values() for x in table.values())) as fresh:
            if target.exists():
                throw_away(target)
            yield fresh

    def seal(self, fresh: Path, checkpoint: Checkpoint) -> None:
        write_file(fresh / STATE, json_bytes({"step": checkpoint.step, **checkpoint.data}))
        sums = {name: digest(fresh / name) for name in content_of(fresh)}
        write_file(fresh / MANIFEST, json_bytes({"files": sums}))

    def newest(self, report: Any = lambda problem: None) -> Path | None:
        """The newest whole one. One that is damaged is named to ``report`` and passed over."""
        for _, path in sorted(self.all(), reverse=True):
            if problem := find_damage(path):
                report(f"{path} is damaged and is skipped: {problem}")
            else:
                return path
        return None

    def all(self) -> list[tuple[int, Path]]:
        with suppress(FileNotFoundError):
            found = [(NAME.fullmatch(path.name), path) for path in self.folder.iterdir()]
            return sorted((int(match[1]), path) for match, path in found if match)
        return []

    def keep(self, steps: set[int]) -> None:
        """Throw the others away; each vanishes in one step. One that cannot be thrown away is no reason to stop."""
        if self.world.first:
            for step, path in self.all():
                if step not in steps:
                    with suppress(OSError):
                        throw_away(path)

    def sweep(self) -> None:
        """Remove what a crash left half written or half thrown away."""
        if self.world.first:
            with suppress(FileNotFoundError):
                for path in self.folder.iterdir():
                    if path.name.startswith(HIDDEN):
                        remove_path(path)


def throw_away(path: Path) -> None:
    hidden = path.with_name(f"{HIDDEN}{uuid.uuid4().hex}")
    os.replace(path, hidden)
    remove_path(hidden)


def remove_path(path: Path) -> None:
    """A folder, or a file where a folder should be."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def find_damage(path: Path) -> str:
    """What is wrong with a checkpoint; empty when each file is there as it was written."""
    try:
        manifest = read_json(path / MANIFEST).get("files")
    except (CheckpointError, OSError) as error:
        return f"{MANIFEST} cannot be read ({str(error).splitlines()[0]})"
    if not isinstance(manifest, dict):
        return f"{MANIFEST} has no list of files"
    present = set(content_of(path)) - {MANIFEST}
    if wrong := sorted(present ^ set(manifest)):
        return f"missing or unexpected files: {', '.join(map(repr, wrong[:5]))}"
    for name, wanted in manifest.items():
        try:
            if digest(path / name) != wanted:
                return f"{name!r} does not match its SHA-256"
        except OSError as error:
            return f"{name!r} cannot be read ({error.strerror})"
    return ""


def read_checkpoint(path: Path, empty: Callable[[str, str, torch.Size, torch.dtype], Tensor]) -> Checkpoint:
    """A whole checkpoint. What was sharded is read into what ``empty(table, name, shape, dtype)`` makes."""
    data = read_json(path / STATE)
    tensors = {file.name.removesuffix(".safetensors"): load_file(file) for file in sorted(path.glob("*.safetensors"))}
    for folder in sorted(x for x in path.iterdir() if x.is_dir()):
        tensors[folder.name] = read_shards(folder, partial(empty, folder.name))
    return Checkpoint(int(data.pop("step")), data, tensors)


def read_weights(path: Path, *names: str) -> dict[str, Tensor]:
    """The first of these tables of tensors that a checkpoint has, whole, also where it was sharded."""
    for name in names:
        if (file := path / f"{name}.safetensors").is_file():
            return load_file(file)
        if (path / name).is_dir():
            return read_shards(path / name, plain_tensor)
    raise CheckpointError("the checkpoint does not have these weights", where=str(path), expected=" or ".join(names))


def best_checkpoint(checkpoints: Checkpoints, report: Callable[[str], None]) -> Path:
    """The best one, as the newest whole one remembers it; or that, if none was measured or the best is damaged."""
    newest = checkpoints.newest(report)
    if newest is None:
        there = bool(checkpoints.all())
        what = "all checkpoints of the run are damaged" if there else "the run has no checkpoint yet"
        fix = "restore the files" if there else "train it first"
        raise InputError(what, where=str(checkpoints.folder.parent), fix=fix)
    best = dict(checkpoints.all()).get(read_json(newest / STATE).get("best_step", 0))
    if best is None or best == newest:
        return newest
    if problem := find_damage(best):
        report(f"the best checkpoint {best} is damaged and is skipped: {problem}")
        return newest
    return best


def content_of(folder: Path) -> Iterator[str]:
    """The names of all files within, with / between folders, sorted."""
    yield from sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
