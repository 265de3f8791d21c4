"""Dropout by sixteen bits a number: its share, its mean, its gradient, and when it does nothing."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.checkpoint import checkpoint

from regard.nn.dropout import STEPS, Dropout
from tests.contracts.tools import close, numbers


@given(st.floats(0.0, 1.0, exclude_max=True))
def test_what_stays_grows_by_what_is_dropped(p: float) -> None:
    """The growth is one over the share that the bits can keep, which is p to half a step."""
    share = min(round(p * STEPS), STEPS - 1) / STEPS
    assert abs(share - p) <= 1 / STEPS
    y = Dropout(p)(torch.ones(4000, dtype=torch.float64))
    assert set(y.tolist()) <= {0.0, 1 / (1 - share)}
    assert abs(float((y != 0).double().mean()) - (1 - share)) < 5 * (share * (1 - share) / 4000) ** 0.5 + 1e-3


@pytest.mark.parametrize("p", [0.1, 0.25, 0.5, 0.9])
def test_the_mean_stays(p: float) -> None:
    y = Dropout(p)(torch.ones(1 << 20, dtype=torch.float64))
    assert abs(float(y.mean()) - 1) < 5 * (p / (1 - p) / (1 << 20)) ** 0.5


def test_each_share_of_the_bits_is_equally_likely() -> None:
    """All sixteen bits are random, and each of the four numbers that share a draw."""
    for p in (1 / 256, 1 / 16):
        dropped = (Dropout(p)(torch.ones(1 << 18, 4)) == 0).double()
        for share in dropped.mean(0).tolist():
            assert abs(share - p) < 5 * (p / (1 << 18)) ** 0.5
        assert abs(float((dropped[:, 0] * dropped[:, 1]).mean()) - p * p) < 5 * p / (1 << 9)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (0, 4), (2, 3, 4)])
def test_any_shape_and_type(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.randn(shape).to(dtype)
    y = Dropout(0.25)(x)
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
    kept = y != 0
    close(y[kept], (x.double() / 0.75).to(dtype)[kept], 1e-2 if dtype in (torch.bfloat16, torch.float16) else 1e-6)


def test_half_precision_is_not_biased() -> None:
    """1/0.9 is no bfloat16: the product is rounded, not the factor."""
    y = Dropout(0.1)(torch.full((1000,), 3.0, dtype=torch.bfloat16))
    assert set(y.tolist()) == {0.0, float(torch.tensor(3.0 * STEPS / (STEPS - 6554)).bfloat16())}


def test_the_place_decides_whatever_the_layout() -> None:
    x = torch.rand(6, 10) + 1
    torch.manual_seed(2)
    plain = Dropout(0.5)(x)
    torch.manual_seed(2)
    assert torch.equal(Dropout(0.5)(x.T.contiguous().T), plain)


def test_gradient() -> None:
    x = numbers(40, 30, grad=True)
    y = Dropout(0.3)(x)
    toward = numbers(40, 30)
    slope = torch.autograd.grad((y * toward).sum(), x, retain_graph=True)[0]
    close(slope, (y / x).detach() * toward)
    squares = torch.autograd.grad((y**2).sum(), x, create_graph=True)[0]
    close(torch.autograd.grad(squares.sum(), x)[0], 2 * (y / x).detach() ** 2)


def test_the_seed_decides() -> None:
    x, drop = torch.ones(1000), Dropout(0.5)
    torch.manual_seed(1)
    first, second = drop(x), drop(x)
    torch.manual_seed(1)
    assert torch.equal(drop(x), first)
    assert not torch.equal(first, second)


def test_recomputing_drops_the_same() -> None:
    x, drop = numbers(50, grad=True), Dropout(0.5)
    y = checkpoint(drop, x, use_reentrant=False)
    torch.rand(3)
    close(torch.autograd.grad(y.sum(), x)[0], (y / x).detach())


def test_when_nothing_is_dropped() -> None:
    x = torch.randn(5)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert torch.equal(Dropout(1e-9)(x), x)


def test_when_all_is_dropped() -> None:
    assert not Dropout(1.0)(torch.randn(5)).any()


def test_compiled_and_without_memory() -> None:
    drop = Dropout(0.5)
    assert set(torch.compile(drop, backend="eager", fullgraph=True)(torch.ones(100)).tolist()) == {0.0, 2.0}
    assert drop(torch.ones(3, device="meta")).shape == (3,)


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_what_is_no_share(p: float) -> None:
    with pytest.raises(ValueError, match="must be from 0 to 1"):
        Dropout(p)


def test_it_says_what_it_is() -> None:
    assert repr(Dropout(0.1)) == "Dropout(p=0.1)"
