"""The training loop. The package can also be called: ``regard.train(...)`` is ``regard.api.training.train``."""

import importlib
import inspect
import sys
from types import ModuleType
from typing import Any

HOME = "regard.api.training"  # of the function that has the same name


class CallablePackage(ModuleType):
    """A package that is also the function of its name: whatever is imported first, ``regard.train(...)`` trains."""

    def __call__(self, *given: Any, **named: Any) -> Any:
        return importlib.import_module(HOME).train(*given, **named)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(importlib.import_module(HOME).train)


sys.modules[__name__].__class__ = CallablePackage
