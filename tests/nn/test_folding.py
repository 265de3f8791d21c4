"""Batch norms that become part of the maps beside them: the same numbers, by fewer steps."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from regard.building import prepare
from regard.nn.batchnorm import BatchNorm, ChannelNorm, FrozenBatchNorm
from regard.nn.convolution import Convolution
from regard.nn.feedforward import IN_PLACE, Activation, FeedForward, gelu_tanh
from regard.nn.folding import Foldable, Normed, NormThenLinear
from regard.nn.mixers.non_local import NonLocal
from tests.contracts.families import inputs, net, tensors
from tests.contracts.tools import close, lived, numbers

LAYERS: dict[str, tuple[Callable[[], Foldable], tuple[int, ...]]] = {
    "linear": (lambda: Normed(nn.Linear(4, 5, bias=False)), (2, 3, 4)),
    "before": (lambda: NormThenLinear(nn.Linear(4, 5)), (3, 4)),
    "convolution": (lambda: Convolution(3, 5, 3, BatchNorm, stride=2), (2, 3, 6, 7)),
    "frozen": (lambda: Convolution(3, 5, 1, FrozenBatchNorm), (2, 3, 6, 7)),
    "non-local": (lambda: NonLocal(4), (2, 4, 3, 5)),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_a_folded_layer_says_the_same(kind: str) -> None:
    make, shape = LAYERS[kind]
    layer, x = make(), numbers(*shape)
    wanted = lived(layer)(x)
    with torch.no_grad():
        close(layer.folded()(x), wanted)


@pytest.mark.parametrize("family", ["resnet", "detr", "volo", "levit"])
def test_a_prepared_net_has_no_norms_of_channels_and_says_the_same(family: str) -> None:
    model, given = lived(net(family)), inputs(family)
    twin = prepare(prepare(model))
    assert any(isinstance(module, ChannelNorm) for module in model.modules())
    assert not any(isinstance(module, ChannelNorm) for module in twin.modules())
    assert twin.state_dict().keys() != model.state_dict().keys()
    wanted, found = tensors(model(**given)), tensors(twin(**given))
    assert found.keys() == wanted.keys()
    for name in wanted:
        close(found[name], wanted[name])


@pytest.mark.parametrize("act", [nn.functional.gelu, nn.functional.relu, gelu_tanh])
def test_a_prepared_mlp_overwrites_its_hidden_layer_alone(act: Activation) -> None:
    """What it is given stays as it was, and slopes go through it."""
    layer = FeedForward(4, 6, act).double()
    twin = prepare(nn.ModuleList([layer]))[0]
    x = numbers(2, 3, 4).requires_grad_()
    before = x.detach().clone()
    wanted, found = layer(x), twin(x)
    close(found, wanted)
    assert torch.equal(x, before)
    close(*(torch.autograd.grad(y.square().sum(), x)[0] for y in (found, wanted)))
    assert twin.act in IN_PLACE.values() or act is gelu_tanh
    assert layer.act is act


def test_folded_convolutions_stay_blind_to_padding() -> None:
    layer, x = lived(Convolution(3, 5, 3, FrozenBatchNorm, stride=2)), numbers(2, 3, 6, 7)
    sizes = torch.tensor([[6, 7], [3, 2]])
    wanted = layer(x, sizes)
    close(prepare(nn.ModuleList([layer]))[0](x, sizes), wanted)
    assert not wanted[1, :, 2:].any()
