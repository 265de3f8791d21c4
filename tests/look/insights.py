"""Small models to look into."""

from typing import Any

import torch
from torch import nn

from regard.look.changes import Change
from regard.look.trace import Trace, record_run
from regard.zoo import FAMILIES

TEXT = "Where are my keys?"


def seen_by(model: nn.Module, images: torch.Tensor, changes: list[Change]) -> Trace[Any]:
    axes = model.axes(images)
    return record_run(model, "*", lambda: model(images), table=FAMILIES["swin"].axes, axes=axes, changes=changes)
