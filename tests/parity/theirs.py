"""transformers, imported when a test first asks it for something: only to collect tests, it is not needed."""

from typing import Any

import pytest

from tests.guard import mend_torchvision


class Reference:
    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "pytestmark":
            raise AttributeError(name)  # pytest looks at all that a module has
        mend_torchvision()  # before any reference is imported
        reason = "the reference is not installed: pip install regard[parity]"
        found = pytest.importorskip("transformers", reason=reason)
        found.utils.logging.set_verbosity_error()
        found.utils.logging.disable_progress_bar()
        value = getattr(found, name)
        setattr(self, name, value)
        return value


transformers: Any = Reference()
