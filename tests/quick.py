"""A quick test is quick: one that takes longer than a few seconds of processor time fails, unless it is marked slow.

Processor time and not the clock's, so that a busy machine is no fault; of this process, all its threads, and the
processes that it has waited for. What fixtures do is not counted: many tests may share it. Two programs on the two
threads of one core each need more processor time than alone, up to half as much again: so a test that seems too long
is measured by a yardstick, work of a known length, at that moment.
"""

import os
from collections.abc import Generator

import pytest

LIMIT = 3.0  # seconds of a core that does nothing else
YARDSTICK = 0.15  # seconds that `yardstick` takes on such a core
elsewhere = 0.0  # seconds that a test used in processes of which the system does not tell; it adds them itself


def spent() -> float:
    """Seconds of processor time until now, of this process and those that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system + elsewhere


def yardstick() -> int:
    """Always the same work, of the interpreter alone."""
    total = 0
    for i in range(4_000_000):
        total += i & 7
    return total


def slowdown() -> float:
    """How many times longer than alone work takes now; at least 1, and at most 2, whatever the machine."""
    before = spent()
    yardstick()
    return min(max((spent() - before) / YARDSTICK, 1.0), 2.0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    before = spent()
    yield  # a test that failed raises here, and keeps its own reason
    seconds = spent() - before
    if seconds > LIMIT and item.get_closest_marker("slow") is None and (seconds := seconds / slowdown()) > LIMIT:
        pytest.fail(
            f"This test took {seconds:.1f} s of processor time; a quick one may take {LIMIT:g} s. Make it smaller, "
            "share its work by a fixture, or mark it with pytest.mark.slow.",
            pytrace=False,
        )
