"""Guidance by its identities."""

import pytest
import torch
from torch import Tensor

from regard.sample.guidance import guided, guided_denoiser

SHAPE = (3, 2, 4, 4)


def test_scales() -> None:
    with_it, without = torch.randn(SHAPE), torch.randn(SHAPE)
    assert torch.equal(guided(with_it, without, 1.0), with_it)
    assert torch.equal(guided(with_it, without, 1.0, rescale=0.7), with_it)
    assert torch.equal(guided(with_it, without, 0.0), without)
    assert torch.allclose(guided(with_it, without, 7.5), 7.5 * with_it - 6.5 * without, atol=1e-5)


def test_rescaled_predictions_have_the_spread_of_unguided_ones() -> None:
    """Each image its own, and the mean moves with it."""
    with_it, without = torch.randn(SHAPE) * torch.tensor([1.0, 2.0, 3.0]).view(-1, 1, 1, 1), torch.randn(SHAPE)
    plain, whole, half = (guided(with_it, without, 5.0, share) for share in (0.0, 1.0, 0.5))
    assert (plain.flatten(1).std(1) > with_it.flatten(1).std(1) * 2).all()
    assert torch.allclose(whole.flatten(1).std(1), with_it.flatten(1).std(1))
    assert torch.allclose(half, (plain + whole) / 2, atol=1e-6)
    assert torch.allclose(whole * (plain / whole).mean((1, 2, 3), keepdim=True), plain, rtol=1e-4)


def test_a_constant_prediction_stays_finite() -> None:
    """As of a net whose last layer begins at zero."""
    assert torch.equal(guided(torch.zeros(SHAPE), torch.zeros(SHAPE), 3.0, 0.7), torch.zeros(SHAPE))


@pytest.mark.parametrize(("scale", "asked"), [(1.0, ["with"]), (3.0, ["with", "without"])])
def test_only_what_counts_is_computed(scale: float, asked: list[str]) -> None:
    calls: list[str] = []

    def denoiser(name: str, value: float) -> object:
        def denoise(noisy: Tensor, time: Tensor) -> Tensor:
            calls.append(name)
            return noisy * value + time.view(-1, 1, 1, 1)

        return denoise

    both = guided_denoiser(denoiser("with", 2.0), denoiser("without", 1.0), scale)  # type: ignore[arg-type]
    found = both(torch.ones(SHAPE), torch.tensor([1, 2, 3]))
    assert calls == asked
    assert found[:, 0, 0, 0].tolist() == [1 + scale + time for time in (1, 2, 3)]
