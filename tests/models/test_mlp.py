"""The multi-layer perceptron against PyTorch's own layers, its equation, and slopes by finite differences."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.mlp import MLP, Config, LinearStack
from tests.contracts.tools import close, stirred


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_it_is_the_sequence_of_its_layers(depth: int) -> None:
    config = Config(image=3, channels=2, classes=5, hidden=7, depth=depth, activation="tanh")
    model, images = stirred(MLP(config)).eval(), drawn(4, 2, 3, 3)
    layers: list[nn.Module] = [nn.Flatten()]
    for i, affine in enumerate(model.layers.maps):
        layers += [*([nn.Tanh()] if i else []), affine]
    close(model(images), nn.Sequential(*layers)(images))
    assert len(model.layers.maps) == depth


def test_the_last_numbers_are_logits() -> None:
    """No activation after the last map: numbers of both signs, and of any size."""
    model = stirred(MLP(Config(image=2, classes=30, hidden=9))).eval()
    found = 100 * model(drawn(8, 1, 2, 2))
    assert (found < 0).any()
    assert (found > 1).any()


def test_a_bias_is_a_column_beside_the_weights() -> None:
    """[W b] [x; 1] = W x + b, and PyTorch multiplies from the other side."""
    model, x = stirred(LinearStack([3, 6, 2], F.relu)), drawn(4, 3)
    for affine in model.maps:
        wide = torch.cat((affine.weight, affine.bias[:, None]), 1)
        x = F.relu(x) if x.shape[1] == 6 else x
        by_hand = torch.stack([wide @ torch.cat((row, torch.ones(1, dtype=torch.float64))) for row in x])
        close(affine(x), by_hand)
        x = affine(x)
    assert x.shape == (4, 2)


def test_slopes_are_finite_differences() -> None:
    model, x = stirred(LinearStack([3, 6, 2], torch.tanh)), drawn(4, 3)
    loss = model(x).square().sum()
    loss.backward()
    for weight in model.parameters():
        place = weight.shape.numel() // 2
        found = []
        for step in (1e-5, -1e-5):
            with torch.no_grad():
                weight.view(-1)[place] += step
                found.append(float(model(x).square().sum()))
                weight.view(-1)[place] -= step
        assert weight.grad is not None
        assert float(weight.grad.view(-1)[place]) == pytest.approx((found[0] - found[1]) / 2e-5, rel=1e-6)


def test_dropout_is_between_the_maps_only() -> None:
    """Neither a pixel nor a logit is dropped: with one map nothing is."""
    images = drawn(64, 1, 2, 2)
    single = stirred(MLP(Config(image=2, depth=1, dropout=0.9))).train()
    assert torch.equal(single(images), single(images))
    double = stirred(MLP(Config(image=2, depth=2, hidden=5, dropout=0.9))).train()
    assert not torch.equal(double(images), double(images))
    assert (double(images) != 0).all()
