"""What every test may ask for: a device, the folder of real data; and the same random numbers in every run.

torch is imported where it is used: the process that only hands tests to workers starts without it.
"""

import gc
import os
import zlib
from collections.abc import Generator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

import regard
from tests.quick import pytest_runtest_call  # noqa: F401 (a hook: a quick test that takes too long fails)

if TYPE_CHECKING:
    import torch

ROOT = Path(__file__).resolve().parent.parent

TRAINING = {"comparison", "contracts", "models", "parity", "tasks", "train", "verbs"}  # folders of tests that train

# Before torch is imported: sums keep their order on any machine, and workers do not fight for the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cpu", help="where parity tests run: cpu, cuda, cuda:1, mps (default: cpu)")
    parser.addoption("--write-verified", action="store_true", help="measure anew how close the references are")
    parser.addoption("--write-golden", action="store_true", help="freeze twins and names anew: tests/golden")


def pytest_report_header(config: pytest.Config) -> str:
    return f"regard {regard.__version__} from {Path(regard.__file__).parent}, torch {version('torch')}"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Twenty thousand tests are all kept: to look among them for garbage again and again takes seconds."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> "torch.device":
    """The device of --device. One that this machine lacks is an error, not a skip: nothing would have been checked."""
    import torch

    chosen = torch.device(request.config.getoption("--device"))
    torch.empty(1, device=chosen)
    return chosen


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data: $REGARD_DATA, or shared/data beside the repository."""
    folder = Path(os.environ.get("REGARD_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"needs real data, and there is no folder {folder}: name it by REGARD_DATA (docs/data.md)")
    return folder


@pytest.fixture(scope="session", autouse=True)
def compiler(request: pytest.FixtureRequest) -> None:
    """PyTorch imports it at the first step of an optimizer: that is no fault of the test that happens to come first."""
    if TRAINING & {item.path.parent.name for item in request.session.items}:
        import_module("torch._dynamo")


def start_random(number: int) -> None:
    """As torch.manual_seed, which writes down its callers for every kind of device that is not here: a millisecond."""
    import torch

    seed = torch.manual_seed if torch.accelerator.is_available() else torch.default_generator.manual_seed
    seed(number)


@pytest.fixture(autouse=True)
def seed(request: pytest.FixtureRequest) -> None:
    """Each test has its own random numbers, the same whatever ran before it and on whichever worker."""
    start_random(zlib.crc32(request.node.nodeid.encode()))


class TorchRandom:
    """torch's generator as hypothesis wants it, so that each example starts alike and a failing one can be repeated."""

    def seed(self, value: int) -> None:
        start_random(value)

    def getstate(self) -> "torch.Tensor":
        import torch

        return torch.get_rng_state()

    def setstate(self, state: "torch.Tensor") -> None:
        import torch

        torch.set_rng_state(state)


TORCH_RANDOM = TorchRandom()  # hypothesis keeps only a weak reference
hypothesis.register_random(TORCH_RANDOM)

# The same examples in every run; HYPOTHESIS_PROFILE=search looks for new ones. No deadline: a busy machine is no fault.
hypothesis.settings.register_profile("repeat", deadline=None, derandomize=True, max_examples=50)
hypothesis.settings.register_profile("search", deadline=None, max_examples=1000, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeat"))
