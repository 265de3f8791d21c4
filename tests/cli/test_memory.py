"""Memory that is kept: harmless wherever it runs, called once or twice, and it changes no number."""

import os
import subprocess
import sys

import pytest
import torch

import regard.cli.memory
from regard.cli.memory import tune
from tests.forked import called

LINUX = sys.platform.startswith("linux")


def said(script: str, **environment: str) -> list[str]:
    """What a new process prints: what is done to the C library cannot be undone in this one."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
    )
    return done.stdout.split()


KEEPS = """
import ctypes, resource, sys
from pathlib import Path
from regard.cli.memory import tune

def resident():
    return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0]) // 1024 if LINUX else 0

LINUX = sys.platform.startswith("linux")
before = resident()
for _ in range(TIMES):
    tune()
print("torch" in sys.modules, resident() - before < 8)
block = bytearray(48 << 20)
del block
faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    block = bytearray(48 << 20)
    del block
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults)
"""


@pytest.mark.skipif(not LINUX, reason="how memory is kept is a matter of glibc")
@pytest.mark.parametrize("times", [0, 1, 3])
def test_freed_memory_is_used_again(times: int) -> None:
    """Without it each large block is taken anew from the system, page by page; being called takes no memory yet."""
    torch, small, faults = said(KEEPS.replace("TIMES", str(times)))
    assert (torch, small) == ("False", "True")
    assert int(faults) < 100 if times else int(faults) > 10_000


@pytest.mark.skipif(not LINUX, reason="how memory is kept is a matter of glibc")
def test_it_can_be_switched_off() -> None:
    assert int(said(KEEPS.replace("TIMES", "1"), REGARD_MALLOC="0")[2]) > 10_000


@pytest.mark.skipif(not LINUX, reason="how memory is kept is a matter of glibc")
def test_a_limit_on_addresses_is_no_fault() -> None:
    limited = f"import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n{KEEPS}"
    torch, small, faults = said(limited.replace("TIMES", "1"))
    assert (torch, small) == ("False", "True")
    assert int(faults) < 100, "no large pages, but what is freed is still kept"


def test_elsewhere_it_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("the C library was touched")

    monkeypatch.setattr(regard.cli.memory.ctypes, "CDLL", fail)
    monkeypatch.setattr(sys, "platform", "darwin")
    tune()
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("REGARD_MALLOC", "0")
    tune()
    monkeypatch.delenv("REGARD_MALLOC")
    monkeypatch.setattr(regard.cli.memory.ctypes, "CDLL", lambda _: object())  # another C library
    tune()


def trained(keeping: bool) -> str:
    if keeping:
        tune()
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(5):
        optimizer.zero_grad()
        (net(torch.randn(256, 64)) ** 2).mean().backward()
        optimizer.step()
    return sum(float(p.double().abs().sum()) for p in net.parameters()).hex()


def test_it_changes_no_number() -> None:
    assert called(trained, True) == called(trained, False)


CALLS = """
import os, sys
import regard.cli.memory
from regard.cli.app import main

def tune():
    print("torch" in sys.modules, flush=True)
    os._exit(0)  # what comes next, takes long

regard.cli.memory.tune = tune
main(["VERB", "nowhere"])
"""


@pytest.mark.parametrize("verb", ["train", "resume", "check", "evaluate"])
def test_a_verb_calls_it_before_torch(verb: str) -> None:
    assert said(CALLS.replace("VERB", verb)) == ["False"]
