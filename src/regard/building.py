"""Models with random weights, and models made ready for inference."""

from dataclasses import replace
from typing import Any, TypeVar

from torch import nn

from regard.model import Model
from regard.nn.inference import prepare_net
from regard.zoo import FAMILIES, empty_net, find_preset

Anything = TypeVar("Anything", Model, nn.Module)


def build(name: str, **changes: Any) -> Model:
    """A model of a named size with random weights, any key of its config changed: build("gpt-small", dropout=0.0)."""
    family, config = find_preset(name, changes)
    empty_net(family, config)  # an attention that this model cannot take is refused before memory is used
    return Model(family, FAMILIES[family].net(config))


def prepare(model: Anything) -> Anything:
    """A frozen copy for inference: batch norms are part of the maps beside them, q, k and v are one product, and
    activations overwrite what they are given. It cannot be trained or saved: keep the original."""
    if isinstance(model, Model):
        return replace(model, net=prepare_net(model.net))
    return prepare_net(model)
