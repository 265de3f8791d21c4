"""Memory against depth: python -m benchmarks.reversible [--depths 2,6,12,24] [--length 4096]

Peak memory of one forward and one backward pass of a stack of reversible layers, and of the same layers as ordinary
autograd keeps them. Each has a process of its own: peak memory is that of a process. What a process holds before,
weights and inputs too, does not count, nor do the gradients of weights, which grow with depth in any stack.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch import nn

from regard.nn.feedforward import FeedForward
from regard.nn.mask import CAUSAL
from regard.nn.mechanisms import build_mixer
from regard.nn.residual import Branch
from regard.nn.reversible import ReversibleBlock, Streams, run_reversible
from regard.nn.site import Site

DIM, HEADS, HIDDEN, DROPOUT = 256, 4, 1024, 0.1
KINDS = ("reversible", "ordinary")
AIM = 1.3  # times the memory of the shallowest stack


def stack(depth: int, length: int) -> nn.ModuleList:
    """As in a Reformer: every other layer hashes."""
    site = Site(dim=DIM, heads=HEADS, length=length, causal=True)
    return nn.ModuleList(
        ReversibleBlock(
            build_mixer(("chunked", "lsh")[i % 2], site),
            FeedForward(DIM, HIDDEN, dropout=DROPOUT),
            lambda: nn.LayerNorm(DIM),
            lambda: Branch(DIM, dropout=DROPOUT),
            HIDDEN,
        )
        for i in range(depth)
    )


def work(kind: str, depth: int, length: int) -> None:
    """What a process does: one pass, and what it took."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    blocks = stack(depth, length).train()
    run(kind, blocks, 64)  # what is loaded or made once is no part of it
    for parameter in blocks.parameters():
        parameter.grad = None
    before, start = status("VmRSS"), time.process_time()
    run(kind, blocks, length)
    learned = sum(parameter.grad.nbytes for parameter in blocks.parameters() if parameter.grad is not None) / 2**20
    print(json.dumps({"megabytes": status("VmHWM") - before - learned, "seconds": time.process_time() - start}))


def run(kind: str, blocks: nn.ModuleList, length: int) -> None:
    x = torch.randn(1, length, DIM, requires_grad=True)
    y = Streams(x, x)
    if kind == "reversible":
        y = run_reversible(list(blocks), y, mask=CAUSAL)
    else:
        for block in blocks:
            y = block(y, mask=CAUSAL)
    (y.first + y.second).sum().backward()


def status(field: str) -> float:
    """Of this process, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def measured(kind: str, depth: int, length: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.reversible", "--work", kind]
    command += ["--depths", str(depth), "--length", str(length)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reversible", description="Memory against depth.")
    parser.add_argument("--depths", default="2,6,12,24")
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--work", choices=KINDS, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    depths = [int(depth) for depth in chosen.depths.split(",")]
    if chosen.work is not None:
        work(chosen.work, depths[0], chosen.length)
        return
    found = {kind: {depth: measured(kind, depth, chosen.length) for depth in depths} for kind in KINDS}
    if chosen.json:
        print(json.dumps(found, indent=2))
        return
    for kind, row in found.items():
        print(kind, *(f"{depth}: {one['megabytes']:.0f} MB {one['seconds']:.1f} s" for depth, one in row.items()))
        last, first = (row[depth]["megabytes"] for depth in (depths[-1], depths[0]))
        aim = "" if kind == "ordinary" else f" (aim: at most {AIM:g}, {'reached' if last / first <= AIM else 'missed'})"
        what = "weights and their gradients not counted"
        print(f"{kind}: {depths[-1]} layers take {last / first:.2f} times the memory of {depths[0]}, {what}{aim}")


if __name__ == "__main__":
    main()
