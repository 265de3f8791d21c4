"""The same model in other words: with every output as before, said as another library can say it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Restated:
    config: Any
    state: Mapping[str, Tensor]


Restate = Callable[[Any, Mapping[str, Tensor]], Restated]


def unchanged(config: Any, state: Mapping[str, Tensor]) -> Restated:
    return Restated(config, state)


def hidden_given(config: Any, state: Mapping[str, Tensor]) -> Restated:
    """The width of the feed-forward as a number, where it follows from the width of the model."""
    return Restated(replace(config, hidden=config.hidden or 4 * config.dim), state)


def norm_frozen(config: Any, state: Mapping[str, Tensor]) -> Restated:
    """Batch norm of the backbone as it is in use: with statistics that no longer change."""
    return Restated(replace(config, backbone_norm="frozen"), state)


def pooler_dropped(config: Any, state: Mapping[str, Tensor]) -> Restated:
    """Without the layer on the first token, where the head does not read it."""
    if config.head not in ("words", "tags", "span") or not config.pooler:
        return Restated(config, state)
    kept = {name: x for name, x in state.items() if not name.startswith("pooler.")}
    return Restated(replace(config, pooler=False), kept)


READ = ("embed.weight", ".q.weight", ".k.weight", ".v.weight", ".up.weight")  # their columns are the stream
WRITTEN = (".out.weight", ".out.bias", ".down.weight", ".down.bias", "norm.weight", "norm.bias")  # their rows


def sines_first(config: Any, state: Mapping[str, Tensor]) -> Restated:
    """Sinusoids as a half of sines and a half of cosines instead of pairs: the numbers of the stream change places, in
    all that reads or writes it. And a bias of zeros for the words, where there is none."""
    found = dict(state)
    if config.waves == "interleaved":
        order = torch.arange(config.dim, device=state["embed.weight"].device)
        order = torch.cat((order[0::2], order[1::2]))
        for name, x in state.items():
            if name.endswith(READ + WRITTEN):
                found[name] = x[:, order] if name.endswith(READ) else x[order]
    if not config.output_bias:
        found["output_bias"] = state["embed.weight"].new_zeros(config.vocab)
    return Restated(replace(config, waves="halves", output_bias=True), found)
