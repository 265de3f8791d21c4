"""Who made the first number that is none."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from regard.train.nonfinite import bad_gradients, bad_weights, finite, first_bad_layer


class Root(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sqrt()


@dataclass
class Pair:
    one: Tensor
    two: list[Tensor]


class Wrapped(nn.Module):
    def __init__(self, inner: nn.Module, wrap: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.inner, self.wrap = inner, wrap

    def forward(self, x: Tensor) -> object:
        return self.wrap(self.inner(x))


def chain(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers)


def test_the_first_innermost_module() -> None:
    """-1 has no root: the second layer of the inner chain is to blame, not the chain, nor what follows."""
    net = chain(nn.Identity(), chain(nn.ReLU(), nn.Identity(), Root()), nn.Identity())
    assert first_bad_layer({"net": net}, lambda: net(torch.ones(3))) == ""
    net[1][0] = nn.Identity()
    assert first_bad_layer({"net": net}, lambda: net(-torch.ones(3))) == "1.2 (Root)"


def test_a_bad_input_is_told() -> None:
    net = chain(nn.Identity(), Root())
    found = first_bad_layer({"net": net}, lambda: net(torch.tensor([torch.nan])))
    assert found == "0 (Identity, whose input was already non-finite)"


def test_of_several_parts_the_part_is_named() -> None:
    one, two = chain(nn.Identity()), chain(Root())
    assert first_bad_layer({"one": one, "two": two}, lambda: two(one(-torch.ones(2)))) == "two.0 (Root)"
    root = Root()
    assert first_bad_layer({"net": root}, lambda: root(-torch.ones(2))) == "net (Root)"


@pytest.mark.parametrize("wrap", [lambda x: {"a": x}, lambda x: (1, [x]), lambda x: Pair(torch.ones(1), [x])])
def test_outputs_of_any_form_are_looked_into(wrap: Callable[[Tensor], object]) -> None:
    net = Wrapped(nn.Identity(), lambda x: wrap(x.sqrt()))
    assert first_bad_layer({"net": net}, lambda: net(-torch.ones(2))) == "net (Wrapped)"
    assert first_bad_layer({"net": net}, lambda: net(torch.ones(2))) == ""


def test_nothing_is_left_behind() -> None:
    net = chain(Root())
    with pytest.raises(ZeroDivisionError):
        first_bad_layer({"net": net}, lambda: 1 // 0)
    assert not any(layer._forward_hooks for layer in net.modules())


def test_finite() -> None:
    assert finite(torch.ones(2))
    assert finite(torch.tensor([1, 2]))
    assert finite("text")
    assert finite(None)
    assert not finite(torch.tensor([1.0, torch.inf]))
    assert not finite(torch.tensor([1.0, torch.nan]).bfloat16())


def test_bad_weights_and_gradients_by_name() -> None:
    net = chain(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2, bias=False))
    assert (bad_weights(net), bad_gradients(net)) == ([], [])
    for i in (0, 1):
        net[i].weight.grad = torch.full((2, 2), torch.nan)
    net[2].weight.grad = torch.zeros(2, 2)
    with torch.no_grad():
        net[1].bias[0] = -torch.inf
    assert bad_weights(net) == ["1.bias"]
    assert bad_gradients(net) == ["1.weight", "0.weight"]  # the gradient comes from the end
