"""Mean attention distance in texts: steps from token to token. Over images: test_image.py."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from regard.errors import InputError
from regard.look.distance import mean_distance
from regard.look.maps import Map, look_at
from regard.look.rollout import rolled_out
from regard.look.subwords import merge_subwords
from regard.models import gpt, transformer
from regard.nn.axis import Axis


def reading(weights: Tensor) -> Map:
    axis = Axis("text", weights.shape[-1])
    return Map("one", weights, axis, axis)


def counted(weights: Tensor) -> float:
    """Of one head, token by token."""
    n = len(weights)
    return sum(float(weights[i, j]) * abs(i - j) for i in range(n) for j in range(n)) / n


def test_tokens_are_counted() -> None:
    torch.manual_seed(0)
    weights = torch.randn(2, 3, 7, 7).double().softmax(-1)
    found = mean_distance(reading(weights))
    assert found.shape == (2, 3)
    for i in range(2):
        for j in range(3):
            assert float(found[i, j]) == pytest.approx(counted(weights[i, j]))


def test_known_heads() -> None:
    assert float(mean_distance(reading(torch.eye(5)[None, None]))) == 0
    before = torch.cat((torch.eye(5)[:1], torch.eye(5)[:-1]))  # each looks at the one before it, the first at itself
    assert float(mean_distance(reading(before[None, None]))) == pytest.approx(4 / 5)
    even = torch.full((1, 1, 6, 6), 1 / 6).double()
    assert float(mean_distance(reading(even))) == pytest.approx((6 * 6 - 1) / (3 * 6))  # (n^2 - 1) / 3n
    weights = torch.eye(4).flip(0)
    weights[1:] = 0  # three tokens may look at nothing: the first alone counts
    assert float(mean_distance(reading(weights[None, None]))) == 3


def test_a_net_that_reads() -> None:
    torch.manual_seed(0)
    net = gpt.GPT(gpt.Config(vocab=11, length=8, dim=8, depth=2, heads=2)).eval()
    ids = torch.randint(11, (2, 6))
    with torch.no_grad():
        seen = look_at(net, "*", lambda: net(ids), table=gpt.AXES, axes=net.axes(ids)).maps
    for one in (*seen.values(), rolled_out(seen.values())):
        found = mean_distance(one)
        assert found.shape == one.weights.shape[:2]
        assert float(found[1, 0]) == pytest.approx(counted(one.weights[1, 0]), abs=1e-5)
    named = replace(seen["blocks.0.mixer"], rows=(words := Axis("text", 6, tuple("abcdef"))), columns=words)
    assert torch.allclose(mean_distance(merge_subwords(named)), mean_distance(seen["blocks.0.mixer"]))


def test_two_texts_have_no_distance() -> None:
    """Not even where they are as long as each other."""
    config = transformer.Config(vocab=11, dim=8, depth=1, heads=2, hidden=16)
    net, ids = transformer.Transformer(config).eval(), torch.randint(11, (2, 5))
    with torch.no_grad():
        seen = look_at(net, "*", lambda: net(ids, ids), table=transformer.AXES, axes=net.axes(ids, ids)).maps
    assert mean_distance(seen["encoder.0.mixer"]).shape == mean_distance(seen["decoder.0.mixer"]).shape == (2, 2)
    with pytest.raises(InputError, match="self-attention over a text"):
        mean_distance(seen["decoder.0.cross"])
    unnamed = replace(seen["encoder.0.mixer"], rows=Axis("rows", 5), columns=Axis("columns", 5))
    with pytest.raises(InputError, match="rows of 5 and columns of 5"):
        mean_distance(unnamed)


def test_weights_below_0_have_no_distance() -> None:
    with pytest.raises(InputError, match="not defined for negative weights"):
        mean_distance(reading(torch.tensor([[[[0.5, -0.5], [1.0, 0.0]]]])))
