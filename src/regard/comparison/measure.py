"""What a piece of code costs: seconds, bytes, operations, and how they grow."""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import thread_time
from typing import Any

import torch
from torch.autograd.profiler import profile
from torch.utils.flop_counter import FlopCounterMode


def time_fastest(works: Sequence[Callable[[], object]], rounds: int = 9) -> list[float]:
    """The fastest run of each, on one thread and in that thread's own time.

    They take turns, round after round, so that a busy moment of the machine does not fall on one of them alone.
    """
    best = [math.inf] * len(works)
    with on_threads(1):
        for _ in range(rounds):
            for i, work in enumerate(works):
                spent = 0.0
                while spent < 0.005:  # a short one several times
                    start = thread_time()
                    work()
                    spent += (took := thread_time() - start)
                    best[i] = min(best[i], took)
    return [float(f"{time:.3g}") for time in best]


def peak_bytes(work: Callable[[], object]) -> int:
    """The most that all tensors made by ``work`` took at once, its result and the kernels' own buffers included."""
    # torch.profiler's own would load the compiler first, and read every event afterwards
    with on_threads(1), hushed(), profile(use_kineto=True, profile_memory=True) as found:
        kept = work()
    del kept
    now = most = 0
    recorded: Any = found
    for event in recorded.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most


@contextmanager
def on_threads(count: int) -> Iterator[None]:
    """On one thread, costs do not depend on how many cores there are."""
    threads = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def hushed() -> Iterator[None]:
    """The profiler announces itself on the standard error, from below Python; nobody asked."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def count_operations(work: Callable[[], object]) -> int:
    """Multiplications and additions of the matrix products; a fused kernel shows none."""
    with FlopCounterMode(display=False) as counter:
        work()
    return int(counter.get_total_flops())


def cost_exponent(sizes: Sequence[int], costs: Sequence[float]) -> float:
    """The exponent p of cost ~ size^p, by least squares on logarithms."""
    x, y = [math.log(size) for size in sizes], [math.log(cost) for cost in costs]
    middle, height = sum(x) / len(x), sum(y) / len(y)
    rise = sum((a - middle) * (b - height) for a, b in zip(x, y, strict=True))
    return rise / sum((a - middle) ** 2 for a in x)
