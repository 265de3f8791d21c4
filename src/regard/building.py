"""Models with random weights, and models made ready for inference."""

from dataclasses import replace
from typing import Any, TypeVar

from torch import nn

from regard.model import Model
from regard.nn.inference import prepare_net
from regard.zoo import FAMILIES, empty_net, find_preset

Anything = TypeVar("Anything", Model, nn.Module)


def build(name: str, **changes: Any) -> Model:
    """Build a preset model with random weights; keyword arguments override config keys, as in
    build("gpt-small", dropout=0.0)."""
    family, config = find_preset(name, changes)
    empty_net(family, config)  # an attention that this model cannot take is refused before memory is used
    return Model(family, FAMILIES[family].net(config))


def prepare(model: Anything) -> Anything:
    """Return a frozen copy for inference: batch norms are folded into adjacent linear maps, q, k and v are computed in
    one product, and activations work in place. The copy cannot be trained or saved: keep the original."""
    if isinstance(model, Model):
        return replace(model, net=prepare_net(model.net))
    return prepare_net(model)
