"""`regard doctor`."""

import importlib
import json
import os
import platform
import re
import shutil
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import timedelta
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

import regard
from regard.cli.options import Json
from regard.comparison import machine

if TYPE_CHECKING:
    import torch
    from torch import nn

State = Literal["ok", "warning", "wrong"]
COLOURS: dict[State, str] = {"ok": "\x1b[32m", "warning": "\x1b[33m", "wrong": "\x1b[31m"}
FOR_DEVELOPERS = {"parity", "bench", "dev"}  # extras that no user needs
INDENT = " " * 22
COMPILERS = ("c++", "g++", "clang++")


@dataclass(frozen=True)
class Check:
    """``wrong`` means that regard cannot do its work here; a warning, that some of it is missing or slow."""

    name: str
    state: State
    found: str
    fix: str = ""


def run(as_json: Json = False) -> None:
    """Check this installation: versions, threads, GPU, memory, disk, extras, and a short self-test.

    Example: regard doctor
    """
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    checks = []
    for check in examine():
        checks.append(check)
        if not as_json:
            print(shown(check, colour), flush=True)
    healthy = all(check.state != "wrong" for check in checks)
    print(json.dumps({"ok": healthy, "checks": list(map(asdict, checks))}, indent=2) if as_json else verdict(checks))
    if not healthy:
        raise typer.Exit(1)


def shown(check: Check, colour: bool) -> str:
    state = f"{check.state:<8}"
    state = f"{COLOURS[check.state]}{state}\x1b[0m" if colour else state
    found = folded(check.found) + (f"\n{INDENT}fix: {folded(check.fix)}" if check.fix else "")
    return f"{state} {check.name:<12} {found}"


def folded(text: str) -> str:
    width = max(40, shutil.get_terminal_size((120, 24)).columns - len(INDENT) - 12)
    return f"\n{INDENT}".join(textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False))


def verdict(checks: list[Check]) -> str:
    wrong, warnings = (sum(check.state == state for check in checks) for state in ("wrong", "warning"))
    if wrong:
        return f"\n{wrong} of {len(checks)} checks failed: regard will not work until this is fixed."
    return f"\nregard works, with {warnings} warning{'s' * (warnings > 1)}." if warnings else "\nAll checks passed."


def examine() -> Iterator[Check]:
    """All checks, in order; those that need torch only if there is one."""
    for group in (python, packages, extras, room, folders):
        yield from guarded(group)
    loaded = list(guarded(load_torch))
    yield from loaded
    if all(check.state == "ok" for check in loaded):
        for group in (threads, arithmetic, gpu, distribution, compiler, learning, storing, speed):
            yield from guarded(group)


def guarded(group: Callable[[], Iterator[Check]]) -> Iterator[Check]:
    """A check that breaks has found something too, and must not hide the others."""
    try:
        yield from group()
    except Exception as error:
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        yield Check(
            group.__name__.replace("_", " "), "wrong", what, "report this, with the full output of regard doctor"
        )


# Versions ----------------------------------------------------------------------------------------


def python() -> Iterator[Check]:
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}, {sys.executable}"
    good = sys.version_info >= (3, 11)
    yield Check("python", "ok" if good else "wrong", found, "" if good else "install Python 3.11 or newer")
    yield Check("regard", "ok", f"{regard.__version__}, in {Path(regard.__file__).parent}")


@dataclass(frozen=True)
class Requirement:
    name: str
    versions: str  # >=2.6,<3
    extra: str  # "" for what is always needed


def requirements() -> list[Requirement]:
    """What the installed package says that it needs."""
    found = []
    for line in metadata.requires("regard") or ():
        stated, _, condition = line.partition(";")
        extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)", condition)
        name, versions = re.fullmatch(r"\s*([\w.-]+)\s*(?:\[[^]]*\])?\s*(.*?)\s*", stated).groups()  # type: ignore[union-attr]
        found.append(Requirement(name, versions, extra[1] if extra else ""))
    return found


def installed(requirement: Requirement) -> str:
    """Its version; empty when it is missing."""
    try:
        return metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return ""


def problem(requirement: Requirement) -> str:
    """What is wrong with a package; empty when nothing is."""
    if not (version := installed(requirement)):
        return f"{requirement.name} is missing"
    good = meets(version, requirement.versions)
    return "" if good else f"{requirement.name} is {version}, not {requirement.versions}"


def meets(version: str, wanted: str) -> bool:
    """Whether 2.13.0+cpu is >=2.6,<3. Only numbers are compared."""

    def numbers(text: str) -> tuple[int, ...]:
        found = [int(part) for part in re.findall(r"\d+", re.split(r"[^\d.]", text.strip())[0])]
        return tuple([*found, 0, 0, 0, 0][:4])

    for part in filter(None, wanted.replace(" ", "").strip("()").split(",")):
        sign, bound = re.fullmatch(r"([<>=!~]=?|)=?(.*)", part).groups()  # type: ignore[union-attr]
        here, there = numbers(version), numbers(bound)
        holds = {">=": here >= there, "<=": here <= there, ">": here > there, "<": here < there, "==": here == there}
        if not holds.get(sign, True):
            return False
    return True


def packages() -> Iterator[Check]:
    try:
        needed = [requirement for requirement in requirements() if not requirement.extra]
    except metadata.PackageNotFoundError:
        yield Check(
            "packages", "warning", "regard runs from a source folder and is not installed", "pip install --editable ."
        )
        return
    wrong = [what for what in map(problem, needed) if what]
    for what in wrong:
        yield Check("packages", "wrong", what, "reinstall regard: pip install --upgrade . in its checkout")
    if not wrong:
        yield Check("packages", "ok", ", ".join(f"{one.name} {installed(one)}" for one in needed))


def extras() -> Iterator[Check]:
    """What is not installed is no fault, what is half installed may be one."""
    found: dict[str, list[Requirement]] = {}
    for requirement in requirements():
        if requirement.extra and requirement.extra not in FOR_DEVELOPERS:
            found.setdefault(requirement.extra, []).append(requirement)
    for extra, needed in found.items():
        wrong = [what for what in map(problem, needed) if what]
        install = f"pip install {' '.join(one.name for one in needed)}"
        if not wrong:
            yield Check(f"[{extra}]", "ok", ", ".join(f"{one.name} {installed(one)}" for one in needed))
        elif not any(map(installed, needed)):
            yield Check(f"[{extra}]", "ok", f"not installed; to install it: {install}")
        else:
            yield Check(f"[{extra}]", "warning", ", ".join(wrong), install)


# The machine -------------------------------------------------------------------------------------


def room() -> Iterator[Check]:
    from regard.train.formatting import format_bytes

    memory = machine.memory()
    if memory.free is None:
        yield Check("memory", "ok", format_bytes(memory.total))
        return
    total, free = memory.total, memory.free
    found = f"{format_bytes(free)} of {format_bytes(total)} available"
    few = free < 2e9
    yield Check(
        "memory", "warning" if few else "ok", found, "close other programs, or use smaller batches" if few else ""
    )


def folders() -> Iterator[Check]:
    from regard.data.archives import cache_folder

    yield folder("folder", Path.cwd(), "change to a writable folder: runs are written to the current folder")
    yield folder("cache", cache_folder(), "set REGARD_CACHE to a writable folder")


def folder(name: str, path: Path, fix: str) -> Check:
    """Whether it can be written to, tried by writing; one that does not exist would be made in its parent."""
    from regard.train.formatting import format_bytes

    place = next(parent for parent in (path, *path.parents) if parent.exists())
    try:
        handle, file = tempfile.mkstemp(prefix=".regard-doctor-", dir=place)
        try:
            os.write(handle, b"x" * 4096)
            os.fsync(handle)
        finally:
            os.close(handle)
            os.unlink(file)
    except OSError as error:
        return Check(name, "wrong", f"{path} is not writable: {error.strerror}", fix)
    free = shutil.disk_usage(place).free
    if free < 1e9:
        return Check(name, "warning", f"{path}, only {format_bytes(free)} free", "free some space: checkpoints need it")
    return Check(name, "ok", f"{path}, {format_bytes(free)} free")


# torch -------------------------------------------------------------------------------------------


def load_torch() -> Iterator[Check]:
    try:
        torch = importlib.import_module("torch")
    except Exception as error:  # a broken build fails in many ways
        yield Check(
            "torch", "wrong", f"cannot be imported: {str(error).splitlines()[0]}", "pip install --force-reinstall torch"
        )
        return
    built = f"CUDA {torch.version.cuda}" if torch.version.cuda else "the CPU"
    yield Check("torch", "ok", f"{torch.__version__}, built for {built}")


def threads() -> Iterator[Check]:
    import torch

    cores = machine.cores()
    count = torch.get_num_threads()
    found = f"compute threads: {count}, cores: {cores}"
    if count > cores:
        yield Check(
            "threads",
            "warning",
            f"{found}; more threads than cores slow down computation",
            f"set OMP_NUM_THREADS={cores}",
        )
    elif count < cores and (name := next((x for x in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if x in os.environ), "")):
        yield Check("threads", "ok", f"{found} ({name}={os.environ[name]})")
    else:
        yield Check("threads", "ok", found)


def arithmetic() -> Iterator[Check]:
    import torch

    stated = re.search(r"BLAS_INFO=([\w-]+)", torch.__config__.show())
    blas = stated[1] if stated else "unknown"
    onednn = "with" if torch.backends.mkldnn.is_available() else "without"
    slow = blas in ("unknown", "generic")
    fix = "install a torch build with MKL, OpenBLAS or Accelerate" if slow else ""
    yield Check("BLAS", "warning" if slow else "ok", f"{blas}, {onednn} oneDNN", fix)
    level = torch.backends.cpu.get_cpu_capability()
    half = sorted({"avx512_bf16", "amx_bf16", "bf16"} & cpu_flags())
    in_half = f"bfloat16 in hardware ({', '.join(half)})" if half else "no bfloat16 in hardware"
    plain = level == "DEFAULT" and platform.machine() in ("x86_64", "AMD64")
    found = f"{level}, {in_half}"
    yield Check(
        "CPU", "warning" if plain else "ok", found, "use a CPU with AVX2: without it, training is slow" if plain else ""
    )


def cpu_flags() -> set[str]:
    path = Path("/proc/cpuinfo")
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", path.read_text() if path.exists() else "", re.MULTILINE)
    return set(found[1].split()) if found else set()


def gpu() -> Iterator[Check]:
    import torch

    from regard.train.formatting import format_bytes

    for i in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(i)
        half = "bfloat16" if torch.cuda.is_bf16_supported() else "no bfloat16"
        yield Check("GPU", "ok", f"{about.name}, {format_bytes(about.total_memory)}, {half}")
    if torch.cuda.device_count():
        return
    if Path("/dev/nvidia0").exists():
        fix = "install a torch build for CUDA and a matching driver"
        yield Check("GPU", "warning", f"a GPU is present, but torch {torch.__version__} cannot use it", fix)
    elif torch.backends.mps.is_available():
        yield Check("GPU", "ok", "Apple GPU (mps)")
    else:
        yield Check("GPU", "ok", "none; regard runs on the CPU")


def distribution() -> Iterator[Check]:
    """A group of one process, and one sum: it fails where the host's own name leads nowhere."""
    import torch
    import torch.distributed as dist

    there = shutil.which("torchrun") or shutil.which("torchrun", path=str(Path(sys.executable).parent))
    found = there or "not on the PATH; use python -m torch.distributed.run instead"
    yield Check("torchrun", "ok", found)
    fix = "make this machine's host name resolvable, or set GLOO_SOCKET_IFNAME to a network interface"
    if not dist.is_available() or not dist.is_gloo_available():
        yield Check(
            "gloo",
            "warning",
            "not available in this torch build: no multi-process training",
            "install another torch build",
        )
        return
    if dist.is_initialized():  # within a run
        yield Check("gloo", "ok", "in use")
        return
    try:
        with tempfile.TemporaryDirectory(prefix="regard-doctor-") as place:
            meeting = (Path(place).resolve() / "meeting").as_uri()
            dist.init_process_group("gloo", meeting, timedelta(seconds=5), world_size=1, rank=0)
            try:
                dist.all_reduce(torch.ones(1))
            finally:
                dist.destroy_process_group()
    except RuntimeError as error:
        yield Check("gloo", "warning", str(error).splitlines()[0], fix)
    else:
        yield Check("gloo", "ok", "a process group of one works")


def compiler() -> Iterator[Check]:
    there = next(filter(None, map(shutil.which, (os.environ.get("CXX", ""), *COMPILERS))), None)
    yield Check("compiler", "ok", there or "none; required only for torch.compile")


# The self-test -----------------------------------------------------------------------------------


def learning() -> Iterator[Check]:
    """A tiny GPT learns one batch by heart."""
    import torch

    for device in ("cpu", *(["cuda"] if torch.cuda.is_available() else [])):
        model = tiny().to(device).train()
        began = time.monotonic()
        losses = learn(model.net, torch.device(device))
        took = time.monotonic() - began
        found = f"on {device}: loss {losses[0]:.2f} to {losses[-1]:.2f} in {len(losses)} steps, {took:.1f} s"
        good = losses[-1] < 0.5 * losses[0]
        fix = "" if good else "reinstall torch, or check the memory for hardware errors: these results are wrong"
        yield Check("learning", "ok" if good else "wrong", found, fix)


def tiny() -> "regard.Model":
    """The same weights each time, whatever was drawn before or is drawn after."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = {"vocab": 32, "length": 16, "dim": 32, "depth": 2, "heads": 2}
        return regard.build("gpt-tiny", **config, dropout=0.0, attention_dropout=0.0, embedding_dropout=0.0)


def learn(net: "nn.Module", device: "torch.device", steps: int = 40, seconds: float = 2.0) -> list[float]:
    """The loss of each step; on a slow machine fewer of them."""
    import torch
    import torch.nn.functional as F

    ids = torch.randint(32, (8, 16), generator=torch.Generator().manual_seed(0)).to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    losses: list[float] = []
    began = time.monotonic()
    while len(losses) < steps and (len(losses) < 12 or time.monotonic() - began < seconds):
        loss = F.cross_entropy(net(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def storing() -> Iterator[Check]:
    """What is saved comes back to the bit."""
    import torch

    model = tiny()
    with tempfile.TemporaryDirectory(prefix="regard-doctor-") as folder:
        place = Path(folder, "model")
        regard.save(model, place)
        again = regard.load(place).state_dict()
    same = all(torch.equal(x, again[name]) for name, x in model.state_dict().items())
    found = f"{len(again)} tensors saved and loaded" if same else "the loaded tensors differ from the saved ones"
    yield Check(
        "storing", "ok" if same else "wrong", found, "" if same else "check the disk and the memory for hardware errors"
    )


def speed() -> Iterator[Check]:
    import torch

    size = 512
    x = torch.full((size, size), 1 / size)
    x @ x  # the first one also prepares
    count, began = 0, time.monotonic()
    while (took := time.monotonic() - began) < 0.3:
        x @ x
        count += 1
    rate = 2 * size**3 * count / took / 1e9
    slow = rate < 5
    fix = "check what else is running on this machine" if slow else ""
    yield Check("speed", "warning" if slow else "ok", f"{rate:.0f} GFLOP/s (float32 matrix multiplication)", fix)
