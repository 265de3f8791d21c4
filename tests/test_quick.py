"""Tests that take too long are told apart from those that wait, those that are marked, and those that fail anyway."""

import pytest

from tests import quick

pytest_plugins = ["pytester"]

FILE = """
import subprocess, sys, time
import pytest

BUSY = "import time\\nwhile time.process_time() < 0.3: pass"

def work():
    start = time.process_time()
    while time.process_time() - start < 0.3:
        pass

@pytest.fixture
def prepared():
    work()

def test_busy():
    work()

def test_busy_child():
    subprocess.run([sys.executable, "-c", BUSY], check=True)

def test_wrong():
    work()
    assert False, "for another reason"

def test_waits():
    time.sleep(0.3)

def test_prepares(prepared):
    assert True

@pytest.mark.slow
def test_marked():
    work()
"""


def test_only_unmarked_work_counts(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makeini("[pytest]\nmarkers = slow: takes long\n")
    pytester.makepyfile(FILE)
    with monkeypatch.context() as patched:
        patched.setattr(quick, "LIMIT", 0.2)
        patched.setattr(quick, "slowdown", lambda: 1.0)
        result = pytester.runpytest_inprocess("-p", "no:cacheprovider", plugins=[quick])
    result.assert_outcomes(passed=3, failed=3)
    names = [line.split("::")[1].split(" ")[0] for line in result.outlines if line.startswith("FAILED")]
    assert names == ["test_busy", "test_busy_child", "test_wrong"]
    told = [line for line in result.outlines if line.startswith("This test took")]
    assert len(told) == 2
    assert all("a quick one may take 0.2 s" in line for line in told)
    result.stdout.fnmatch_lines(["*AssertionError: for another reason"])


def test_a_crowded_core_is_no_fault(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """What took 0.3 s there would have taken 0.15 s alone."""
    pytester.makepyfile(FILE.split("@pytest.fixture")[0] + "def test_busy():\n    work()\n")
    with monkeypatch.context() as patched:
        patched.setattr(quick, "LIMIT", 0.2)
        patched.setattr(quick, "slowdown", lambda: 2.0)
        pytester.runpytest_inprocess("-p", "no:cacheprovider", plugins=[quick]).assert_outcomes(passed=1)


@pytest.mark.parametrize(("took", "expected"), [(0.1, 1.0), (0.5, 1.25), (9.0, 2.0)])
def test_how_crowded_it_is(took: float, expected: float, monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([1.0, 1.0 + took])
    with monkeypatch.context() as patched:  # this test is itself measured, before and after
        patched.setattr(quick, "YARDSTICK", 0.4)
        patched.setattr(quick, "yardstick", lambda: None)
        patched.setattr(quick, "spent", lambda: next(readings))
        slowdown = quick.slowdown()
    assert slowdown == pytest.approx(expected)


def test_every_test_is_measured(request: pytest.FixtureRequest) -> None:
    """The conftest has the hook, and its limit is the one that CONTRIBUTING names."""
    hooks = request.config.hook.pytest_runtest_call.get_hookimpls()
    assert any(hook.function is quick.pytest_runtest_call for hook in hooks)
    assert quick.LIMIT == 3.0
