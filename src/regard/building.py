"""Models with random weights, and models made ready for inference."""

from dataclasses import replace
from typing import Any, TypeVar

from torch import nn

from regard.model import Model
from regard.nn.inference import prepared
from regard.zoo import FAMILIES, bare, preset

Anything = TypeVar("Anything", Model, nn.Module)


def build(name: str, **changes: Any) -> Model:
    """A model of a named size with random weights, any key of its config changed: build("gpt-small", dropout=0.0)."""
    family, config = preset(name, changes)
    bare(family, config)  # an attention that this model cannot take is refused before memory is used
    return Model(family, FAMILIES[family].net(config))


def prepare(model: Anything) -> Anything:
    """A frozen copy for inference: batch norms are part of the maps beside them, q, k and v are one product, and
    activations overwrite what they are given. It cannot be trained or saved: keep the original."""
    if isinstance(model, Model):
        return replace(model, net=prepared(model.net))
    return prepared(model)
