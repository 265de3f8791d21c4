"""Killed anywhere, nothing is lost: the same bits come out. Slow; `make chaos` runs it.

A run is killed with SIGKILL at random moments, often inside the writing of a checkpoint, and resumed by the command
that a user would type, until it is done. Then its weights, its optimizer and its metrics must be those of a run that
nobody disturbed.
"""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regard.train.checkpoint import find_damage

pytestmark = pytest.mark.slow

RUN = """
folder = "{folder}"
[task]
kind = "translate"
[data]
kind = "reverse"
rows = 600
longest = 6
budget = 300
[model]
name = "transformer-small"
dim = 128
depth = 1
heads = 4
hidden = 512
dropout = 0.1
[train]
steps = {steps}
log = 7
evaluate = 20
save = 5
keep = 2
threads = 1
"""
STEPS = 60
KILLS = {1: 30, 2: 20}
INSIDE = {1: 9, 2: 6}  # how many of them at least within the writing of a checkpoint


def command(processes: int, *words: str) -> list[str]:
    start = [sys.executable, "-m"]
    if processes > 1:
        start += ["torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), "-m"]
    return [*start, "regard", *words]


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def finish(processes: int, *words: str) -> None:
    done = subprocess.run(
        command(processes, *words), capture_output=True, text=True, env=environment(), timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def family(pid: int) -> list[int]:
    """A process and all that it started."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            try:
                found += [int(child) for child in task.read_text().split()]
            except OSError:
                continue
    return found


def fingerprint(folder: Path) -> dict[str, str]:
    last = folder / "checkpoints" / f"step-{STEPS:06d}"
    assert not find_damage(last)
    files = [*sorted(last.glob("*.safetensors")), folder / "metrics.jsonl", folder / "model" / "model.safetensors"]
    assert len(files) == 4
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def writing(folder: Path) -> bool:
    """Whether a checkpoint is being written: its hidden folder is there."""
    try:
        return any(path.name.startswith(".step-") for path in (folder / "checkpoints").iterdir())
    except FileNotFoundError:
        return False


def kill(
    folder: Path, words: list[str], processes: int, chance: random.Random, *, inside: bool, longest: float
) -> bool:
    """Start, and kill all of it without warning. -> whether it was ended by the kill"""
    started = subprocess.Popen(
        command(processes, *words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment()
    )
    deadline = time.monotonic() + chance.uniform(0.0, longest)
    skip = chance.randrange(3) if inside else 0  # which of the writes
    busy = False
    while started.poll() is None:
        if not inside and time.monotonic() > deadline:
            break
        now = inside and writing(folder)
        if now and not busy:
            skip -= 1
        busy = now
        if now and skip < 0:
            time.sleep(chance.uniform(0.0, 0.004))
            break
        time.sleep(0.0005)
    alive = started.poll() is None
    for pid in reversed(family(started.pid)):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    started.wait()
    return alive


@pytest.mark.parametrize("processes", [1, 2])
def test_killed_anywhere(tmp_path: Path, processes: int) -> None:
    chance = random.Random(processes)
    for name in ("whole", "killed"):
        (tmp_path / f"{name}.toml").write_text(RUN.format(folder=tmp_path / name, steps=STEPS))
    began = time.monotonic()
    finish(processes, "train", str(tmp_path / "whole.toml"))
    took = time.monotonic() - began
    wanted, folder = fingerprint(tmp_path / "whole"), tmp_path / "killed"
    kills = inside = rounds = 0
    while kills < KILLS[processes] or inside < INSIDE[processes]:
        begun = (folder / "run.toml").exists()
        words = ["resume", str(folder)] if begun else ["train", str(tmp_path / "killed.toml")]
        if kill(folder, words, processes, chance, inside=kills % 2 == 0, longest=took):
            kills += 1
            inside += writing(folder)  # what was left half written
        if (folder / "model").is_dir() and not writing(folder):  # it got to its end before we struck: once more
            assert fingerprint(folder) == wanted
            rounds += 1
            os.rename(folder, tmp_path / f"done-{rounds}")
    begun = (folder / "run.toml").exists()
    finish(processes, *(["resume", str(folder)] if begun else ["train", str(tmp_path / "killed.toml")]))
    print(f"{processes} processes: {kills} kills, {inside} inside a checkpoint's writing, {rounds + 1} runs to the end")
    assert fingerprint(folder) == wanted


def confined(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A shell of its own, in which a small disk can be mounted."""
    return subprocess.run(
        ["unshare", "-rm", "sh", "-c", script],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=600,
        check=False,
    )


def can_mount(folder: Path) -> bool:
    try:
        return confined(f"mount -t tmpfs -o size=1m tmpfs {folder}", folder).returncode == 0
    except FileNotFoundError:
        return False


def inspect(disk: Path) -> str:
    """Python that tells what a full disk left behind: the newest whole checkpoint, loaded."""
    return (
        "import json, sys; from pathlib import Path; from regard.train.checkpoint import Checkpoints, read_checkpoint; "
        "from regard.train.distribution import ALONE; from regard.train.shards import plain_tensor; "
        f"path = Checkpoints(Path({str(disk / 'run' / 'checkpoints')!r}), ALONE).newest(); "
        "found = None if path is None else read_checkpoint(path, lambda table, *rest: plain_tensor(*rest)); "
        "step, count = (found.step, len(found.tensors['net'])) if found else (None, 0); "
        "print(json.dumps({'step': step, 'tensors': count}))"
    )


def test_a_full_disk_and_one_that_cannot_be_written(tmp_path: Path) -> None:
    """At twenty points: the earlier checkpoint loads, the exit code is not 0, the message names path and bytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if not can_mount(disk):
        pytest.skip("this machine lets nobody mount a small disk, so a full one cannot be tried")
    (tmp_path / "run.toml").write_text(RUN.format(folder=disk / "run", steps=STEPS))
    train = " ".join(command(1, "train", str(tmp_path / "run.toml")))
    check = f'{sys.executable} -c "{inspect(disk)}"'
    points = earlier = 0
    for size in (*range(3600, 7000, 120), "ro-15", "ro-30"):
        if isinstance(size, int):
            script = f"mount -t tmpfs -o size={size}k tmpfs {disk} && {train} 2>&1; echo EXIT $?; {check}"
        else:
            wait = f"while [ ! -d {disk}/run/checkpoints/step-0000{size[3:]} ]; do sleep 0.01; done"
            script = (
                f"mount -t tmpfs -o size=64m tmpfs {disk} && ({train} 2>&1; echo EXIT $?) & "
                f"{wait}; mount -o remount,ro {disk}; wait; {check}"
            )
        told = confined(script, disk).stdout
        code = int(told.split("EXIT ")[1].split()[0])
        left = json.loads(told.strip().splitlines()[-1])
        if code == 0:  # the disk was large enough
            assert left["step"] == STEPS
            continue
        points += 1
        earlier += left["step"] is not None
        assert code == 2, told
        assert str(disk / "run") in told, told
        assert "bytes" in told, told
        assert "Traceback" not in told, told
        assert left["step"] is None or (left["step"] % 5 == 0 and left["tensors"] > 10), told
        if not isinstance(size, int):
            assert left["step"] is not None
    print(f"{points} points of failure, an earlier checkpoint at {earlier} of them")
    assert points >= 20
    assert earlier >= 10
