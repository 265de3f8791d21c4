"""A quick test is quick: one that takes longer than a few seconds of processor time fails, unless it is marked slow.

Processor time and not the clock's, so that a busy machine is no fault; of this process, all its threads, and the
processes that it has waited for. What fixtures do is not counted: many tests may share it.
"""

import os
from collections.abc import Generator

import pytest

LIMIT = 3.0  # seconds
elsewhere = 0.0  # seconds that a test used in processes of which the system does not tell; it adds them itself


def spent() -> float:
    """Seconds of processor time until now, of this process and those that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system + elsewhere


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    before = spent()
    yield  # a test that failed raises here, and keeps its own reason
    seconds = spent() - before
    if seconds > LIMIT and item.get_closest_marker("slow") is None:
        pytest.fail(
            f"This test took {seconds:.1f} s of processor time; a quick one may take {LIMIT:g} s. Make it smaller, "
            "share its work by a fixture, or mark it with pytest.mark.slow.",
            pytrace=False,
        )
