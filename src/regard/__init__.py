"""The transformer family: every attention mechanism and every model, small, readable and open to inspection.

>>> import regard
>>> model = regard.build("gpt-small")

Importing this does not import torch: each name below is loaded from its module when it is first used.
"""

import importlib
from types import FunctionType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.adapting import adapted
    from regard.api.callbacks import StopTraining, TrainingEvent
    from regard.api.training import check, evaluate, resume, train
    from regard.api.tuning import tune
    from regard.building import build, prepare
    from regard.comparison.comparing import compare
    from regard.folders import convert, export, load, save
    from regard.model import Model
    from regard.nn.tap import capture, listen
    from regard.plugins import register
    from regard.swapping import swapped
    from regard.zoo import catalog

__version__ = "0.1.0"
__all__ = [
    "Model",
    "StopTraining",
    "TrainingEvent",
    "__version__",
    "adapted",
    "build",
    "capture",
    "catalog",
    "check",
    "compare",
    "convert",
    "evaluate",
    "export",
    "listen",
    "load",
    "prepare",
    "register",
    "resume",
    "save",
    "swapped",
    "train",
    "tune",
]

HOMES = {
    "StopTraining": "regard.api.callbacks",
    "TrainingEvent": "regard.api.callbacks",
    "check": "regard.api.training",
    "evaluate": "regard.api.training",
    "resume": "regard.api.training",
    "train": "regard.api.training",
    "tune": "regard.api.tuning",
    "adapted": "regard.adapting",
    "compare": "regard.comparison.comparing",
    "Model": "regard.model",
    "build": "regard.building",
    "convert": "regard.folders",
    "export": "regard.folders",
    "load": "regard.folders",
    "prepare": "regard.building",
    "register": "regard.plugins",
    "save": "regard.folders",
    "swapped": "regard.swapping",
    "catalog": "regard.zoo",
    "capture": "regard.nn.tap",
    "listen": "regard.nn.tap",
}


def __getattr__(name: str) -> object:
    if name not in HOMES:
        raise AttributeError(f"module 'regard' has no attribute {name!r}; available names: {', '.join(HOMES)}")
    value: object = getattr(importlib.import_module(HOMES[name]), name)
    if isinstance(value, FunctionType):
        from regard.nn.arguments import explain_arguments

        value = explain_arguments(value)
    globals()[name] = value  # found once, then as fast as any other name
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *HOMES})
