"""The same weights under another attention, to see what becomes of a trained model: swapped(model, "performer").

It takes an attention with the same projections and nothing else to learn; what would leave a weight over, or begin one
anew, is refused. What a mechanism draws by chance, such as random features, comes from the seed.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.model import Model
from regard.nn.config import show_value
from regard.nn.mechanisms import Choice, can_drop
from regard.zoo import FAMILIES, config_data, empty_net, read_config


def swapped(model: Model, attention: Choice, seed: int = 0) -> Model:
    """Return a copy of a model with another attention mechanism and the same weights. The copies share no memory."""
    config = swapped_config(model, attention)
    own = dict(model.net.named_parameters())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = FAMILIES[model.family].net(config)
    with torch.no_grad():
        for key, parameter in net.named_parameters():
            parameter.copy_(own[key])
        theirs = dict(model.net.named_buffers())
        for key, buffer in net.named_buffers():
            if same_shape(buffer, theirs.get(key)):
                buffer.copy_(theirs[key])
    return replace(model, net=net.train(model.net.training), name="")


def can_swap(model: Model, attention: Choice) -> bool:
    try:
        swapped_config(model, attention)
    except InputError:
        return False
    return True


def swapped_config(model: Model, attention: Choice) -> Any:
    """The config of the same net under another attention, if its weights, each of them, fit there."""
    if not FAMILIES[model.family].has("attention"):
        raise InputError(f"the attention of a {model.family} model cannot be changed", got=show_value(attention))
    data = config_data(model.config) | {"attention": attention}
    if "attention_dropout" in data and not can_drop(attention):
        data["attention_dropout"] = 0.0
    try:
        config = read_config(model.family, data, "")
        wanted = dict(empty_net(model.family, config).named_parameters())
    except InputError as error:
        raise InputError("this model does not support this attention", got=error.got, expected=error.expected) from None
    own = dict(model.net.named_parameters())
    odd = [key for key in sorted(own.keys() | wanted.keys()) if not same_shape(own.get(key), wanted.get(key))]
    if odd:
        raise InputError(
            "the weights do not fit this attention",
            got=f"{show_value(attention)}: {', '.join(odd[:3])}{' ...' if len(odd) > 3 else ''}",
            expected="an attention with the same projections and no other parameters, such as performer or local",
        )
    return config


def same_shape(one: Tensor | None, other: Tensor | None) -> bool:
    return one is not None and other is not None and one.shape == other.shape
