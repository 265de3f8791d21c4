"""What a piece of code costs: seconds, bytes, operations, and how they grow."""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import thread_time
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode


def seconds(work: Callable[[], object], *, enough: float = 0.2, least: int = 5) -> float:
    """The fastest of several runs on one thread, in the time of that thread: other work on the machine does not count."""
    times: list[float] = []
    with one_thread():
        work()
        while len(times) < least or (sum(times) < enough and len(times) < 50):
            start = thread_time()
            work()
            times.append(thread_time() - start)
    return min(times)


def peak_bytes(work: Callable[[], object]) -> int:
    """The most that all tensors made by ``work`` took at once, its result and the kernels' own buffers included."""
    with (
        one_thread(),
        hushed(),
        profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as found,
    ):
        kept = work()
    del kept
    now = most = 0
    recorded: Any = found.profiler
    for event in recorded.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most


@contextmanager
def one_thread() -> Iterator[None]:
    """Costs do not depend on how many cores there are."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
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


def operations(work: Callable[[], object]) -> int:
    """Multiplications and additions of the matrix products; a fused kernel shows none."""
    with FlopCounterMode(display=False) as counter:
        work()
    return int(counter.get_total_flops())


def slope(sizes: list[int], costs: list[float]) -> float:
    """The exponent p of cost ~ size^p, by least squares on logarithms."""
    x, y = [math.log(size) for size in sizes], [math.log(cost) for cost in costs]
    middle, height = sum(x) / len(x), sum(y) / len(y)
    rise = sum((a - middle) * (b - height) for a, b in zip(x, y, strict=True))
    return rise / sum((a - middle) ** 2 for a in x)
