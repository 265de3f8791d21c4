"""Spectra of maps: singular values, their mass, the effective rank, moduli of eigenvalues."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.errors import InputError
from regard.look.maps import Map, look_at
from regard.look.spectrum import cumulative_share, effective_rank, moduli, singular_values, spectrum_of
from regard.models import mixer
from regard.nn.axis import Axis


def mapped(weights: Tensor) -> Map:
    return Map("one", weights, Axis("text", weights.shape[-2]), Axis("text", weights.shape[-1]))


def random(*shape: int) -> Tensor:
    torch.manual_seed(0)
    return torch.randn(*shape).double().softmax(-1)


def test_looking_at_oneself_has_full_rank_and_looking_everywhere_has_rank_one() -> None:
    own = spectrum_of(mapped(torch.eye(7).double()[None, None]))
    assert torch.allclose(own.rank, torch.tensor(7.0).double())
    assert torch.allclose(own.mass, torch.arange(1, 8).double() / 7)
    even = spectrum_of(mapped(torch.full((2, 3, 7, 7), 1 / 7)))  # in single precision, as maps are
    assert torch.allclose(even.rank, torch.ones(2, 3), atol=1e-4)
    assert torch.allclose(even.mass, torch.ones(2, 3, 7), atol=1e-5)


def test_the_rank_of_known_values() -> None:
    """Shares 1/2, 1/4, 1/4 have an entropy of 3/2 log 2, in nats; squares of the values would have another."""
    turned, _ = torch.linalg.qr(torch.randn(3, 3).double())
    found = spectrum_of(mapped((turned * torch.tensor([2.0, 1.0, 1.0])).mT[None, None]))
    assert torch.allclose(found.singular[0, 0], torch.tensor([2.0, 1.0, 1.0]).double())
    assert torch.allclose(found.mass[0, 0], torch.tensor([0.5, 0.75, 1.0]).double())
    assert float(found.rank) == pytest.approx(2**1.5)


def test_a_product_of_thin_matrices_holds_all_in_its_rank() -> None:
    torch.manual_seed(0)
    found = spectrum_of(mapped((torch.randn(2, 1, 30, 4) @ torch.randn(2, 1, 4, 20)).double()))
    assert found.singular.shape == (2, 1, 20)
    assert torch.allclose(found.mass[..., 3], torch.ones(2, 1).double(), atol=1e-6)
    assert float(found.mass[..., 2].max()) < 1 - 1e-3
    assert float(found.rank.min()) > 1
    assert float(found.rank.max()) <= 4 + 1e-5


def test_numpy_agrees() -> None:
    weights = random(2, 3, 6, 6)
    found = spectrum_of(mapped(weights))
    for i in range(2):
        for j in range(3):
            values = np.linalg.svd(weights[i, j].numpy(), compute_uv=False)
            shares = values / values.sum()
            assert np.allclose(found.singular[i, j], values)
            assert np.allclose(found.mass[i, j], np.cumsum(shares))
            assert float(found.rank[i, j]) == pytest.approx(math.exp(-sum(shares * np.log(shares))))
            eigenvalues = np.linalg.eigvals(weights[i, j].numpy())
            assert found.moduli is not None
            assert np.allclose(found.moduli[i, j], sorted(abs(eigenvalues), reverse=True))


def test_positions_may_change_places() -> None:
    """Rows and columns alone for singular values; eigenvalues only where both go together."""
    weights, order = random(1, 2, 6, 6), torch.tensor([3, 0, 5, 1, 4, 2])
    before, rows = spectrum_of(mapped(weights)), spectrum_of(mapped(weights[..., order, :]))
    assert torch.allclose(before.singular, rows.singular)
    assert torch.allclose(before.rank, rows.rank)
    assert torch.allclose(moduli(weights), moduli(weights[..., order, :][..., order]))
    assert not torch.allclose(moduli(weights), moduli(weights[..., order, :]), atol=1e-3)


def test_eigenvalues_of_a_causal_map_are_its_diagonal() -> None:
    scores = torch.randn(1, 1, 6, 6).double().masked_fill(torch.ones(6, 6).triu(1) > 0, -torch.inf)
    weights = scores.softmax(-1)
    found = spectrum_of(mapped(weights))
    assert found.moduli is not None
    assert torch.allclose(found.moduli[0, 0], weights[0, 0].diagonal().sort(descending=True).values)
    assert float(found.moduli[0, 0, 0]) == pytest.approx(1)  # rows sum to 1
    turn = torch.tensor([[0.0, -2.0], [2.0, 0.0]])  # 2i and -2i
    assert torch.allclose(moduli(turn), torch.tensor([2.0, 2.0]))


def test_a_batch_is_its_rows() -> None:
    weights = random(3, 2, 5, 8)
    together = spectrum_of(mapped(weights))
    assert together.moduli is None  # rows are not columns
    for i in range(3):
        alone = spectrum_of(mapped(weights[i : i + 1]))
        assert torch.allclose(alone.singular[0], together.singular[i])
        assert torch.allclose(alone.mass[0], together.mass[i])
        assert torch.allclose(alone.rank[0], together.rank[i])


def test_half_precision_and_nobody_who_looks() -> None:
    assert torch.allclose(effective_rank(singular_values(torch.eye(4, dtype=torch.bfloat16))), torch.tensor(4.0))
    nothing = spectrum_of(mapped(torch.zeros(1, 1, 3, 3)))
    assert float(nothing.rank) == 0
    assert torch.equal(nothing.mass, torch.zeros(1, 1, 3))
    assert torch.equal(cumulative_share(torch.zeros(3)), torch.zeros(3))
    with pytest.raises(InputError, match="empty map"):
        spectrum_of(mapped(torch.zeros(1, 1, 0, 0)))


def test_influence_has_a_spectrum_too() -> None:
    net = mixer.MLPMixer(mixer.Config(image=8, patch=4, channels=1, classes=3, dim=8, depth=1, tokens=8, hidden=16))
    images = torch.randn(2, 1, 8, 8)
    seen = look_at(net, "*", lambda: net(images), table=mixer.AXES, axes=net.axes(images)).maps["blocks.0.mixer"]
    assert seen.kind == "influence"
    found = spectrum_of(seen)
    assert found.rank.shape == (2, 1)
    assert torch.allclose(spectrum_of(replace(seen, weights=5 * seen.weights)).rank, found.rank)  # of any scale
