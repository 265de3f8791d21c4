"""What the library's own tests may ask for, these may too."""

from tests.conftest import seed, shared_data  # noqa: F401 (fixtures)
from tests.quick import pytest_runtest_call  # noqa: F401 (a hook: a quick test that takes too long fails)
