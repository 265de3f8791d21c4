"""Nets that forecast, their layers PyTorch's own: one pass of each, and the gradients of both."""

from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.model import Model
from regard.models import forecaster, serieslinear, seriesrnn, transformer
from tests.parity.ours import Run, Tensors, difference
from tests.parity.references import DIM, HEADS, redraw
from tests.parity.stock import all_weights, copy_to_ours, stock, watched
from tests.parity.unrolled import layer_weights, torch_layers

SIZES: dict[str, Any] = {"horizon": 5, "quantiles": (0.1, 0.5, 0.9), "dropout": 0.0}


def windows() -> Tensor:
    return torch.randn(3, 9, generator=torch.Generator().manual_seed(0))


def differences(found: Run, wanted: Run, pairs: Iterable[tuple[Tensor, Tensor]]) -> dict[str, float]:
    """``pairs``: each weight of theirs with ours, once both have their gradients."""
    wanted.backward()
    found.backward()
    slopes = {str(i): (theirs.grad, ours.grad) for i, (theirs, ours) in enumerate(pairs)}
    return {
        "logits": difference(found.outputs, wanted.outputs),
        "gradients": difference(*({key: pair[i] for key, pair in slopes.items()} for i in (1, 0))),
        "maps": difference(found.maps, wanted.maps) if wanted.maps else 0.0,
    }


def measure_forecaster() -> dict[str, float]:
    """Both stacks are nn.Transformer's; a convolution and a map of their own stand before and after them."""
    sizes = {"dim": DIM, "depth": 2, "decoder_depth": 3, "heads": HEADS, "hidden": 28, "dropout": 0.0}
    ours = forecaster.Forecaster(forecaster.Config(**SIZES | sizes, kernel=3, activation="relu"))
    theirs = stock(transformer.Config(**sizes, vocab=2, norm="pre"))
    redraw(ours, 0)
    redraw(theirs, 1)
    stacks = all_weights(theirs, ours)
    copy_to_ours(stacks)
    ends = {name: x.detach().clone().requires_grad_() for name, x in ours.named_parameters() if "coder" not in name}
    values = windows()
    past, future = angles(range(-9, 0)), angles(range(5))
    entered = F.conv1d(F.pad(values, (2, 0))[:, None], ends["embed.weight"], ends["embed.bias"]).mT + past
    later = ~torch.ones(5, 5, dtype=torch.bool).tril()

    def through() -> Tensor:
        memory = theirs.encoder(entered)
        return theirs.decoder(memory[:, -1:] + ends["placeholder"] + future, memory, tgt_mask=later)

    with watched(theirs) as maps, torch.no_grad():
        through()
    told = values[:, -1, None, None] + F.linear(through(), ends["head.weight"], ends["head.bias"])
    seen = Model("forecaster", ours)(values, look="*").maps
    found = Run({"logits": ours(values)}, {name: one.weights for name, one in seen.items()}, [])
    pairs = [(x, own) for name, x in ends.items() for own in [ours.get_parameter(name)]]
    by_parts = Parts(stacks)
    result = differences(found, Run({"logits": told}, maps, []), pairs)
    return result | {"gradients": max(result["gradients"], difference(by_parts.ours(), by_parts.theirs()))}


class Parts:
    """The gradients of weights that are one matrix there and several here."""

    def __init__(self, pairs: list[tuple[Tensor, ...]]) -> None:
        self.pairs = pairs

    def theirs(self) -> Tensors:
        return {
            f"{i}.{j}": part
            for i, (their, *own) in enumerate(self.pairs)
            for j, part in enumerate(their.grad.chunk(len(own)))  # type: ignore[union-attr]
        }

    def ours(self) -> Tensors:
        return {f"{i}.{j}": x.grad for i, (_, *own) in enumerate(self.pairs) for j, x in enumerate(own)}  # type: ignore[misc]


def angles(places: range) -> Tensor:
    """The paper's sinusoids, by their definition: sin and cos of place / 10000^(2i/d), in turns."""
    rows = torch.tensor([[place / 10000 ** (2 * i / DIM) for i in range(DIM // 2)] for place in places]).double()
    return torch.stack((rows.sin(), rows.cos()), 2).flatten(1).float()


def measure_recurrent_forecasts() -> dict[str, float]:
    worst: dict[str, float] = {}
    for cell in ("lstm", "gru", "rnn"):
        ours = seriesrnn.SeriesRNN(seriesrnn.Config(**SIZES, hidden=24, depth=2, cell=cell))
        redraw(ours, 0)
        layers, head, values = torch_layers(ours.layers), nn.Linear(24, 15), windows()
        head.load_state_dict(ours.head.state_dict())
        last = layers(values[..., None])[0][:, -1]
        wanted = Run({"logits": values[:, -1, None, None] + head(last).reshape(3, 5, 3)}, {}, [])
        pairs = [*layer_weights(layers, ours.layers), *zip(head.parameters(), ours.head.parameters(), strict=True)]
        new = differences(Run({"logits": ours(values)}, {}, []), wanted, pairs)
        worst = {key: max(worst.get(key, 0.0), new[key]) for key in new}
    return worst


def measure_linear_forecasts() -> dict[str, float]:
    sizes = {name: SIZES[name] for name in ("horizon", "quantiles")}
    ours = serieslinear.SeriesLinear(serieslinear.Config(**sizes, length=9))
    redraw(ours, 0)
    theirs, values = nn.Linear(9, 15), windows()
    theirs.load_state_dict(ours.map.state_dict())
    wanted = Run({"logits": theirs(values).reshape(3, 5, 3)}, {}, [])
    pairs = zip(theirs.parameters(), ours.parameters(), strict=True)
    return differences(Run({"logits": ours(values)}, {}, []), wanted, pairs)
