"""Before any reference is imported."""

import pytest

from tests.guard import mend_torchvision


@pytest.fixture(scope="session", autouse=True)
def mended() -> None:
    mend_torchvision()
