"""FID, KID and IS: against closed forms, against scipy, and as streams."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm
from torch import Tensor

from regard.errors import InputError
from regard.modalities.drawing.scores import (
    KEPT,
    Features,
    FeatureSums,
    fid_between,
    fid_notes,
    frechet,
    inception_score,
    kid_between,
)

D = 6


def summed(x: Tensor, probabilities: Tensor | None = None, batch: int = 1000) -> Features:
    sums = FeatureSums("toy", "none")
    for start in range(0, len(x), batch):
        some = slice(start, start + batch)
        sums.add(x[some], None if probabilities is None else probabilities[some])
    return sums.features()


def random_covariance(d: int = D) -> Tensor:
    x = torch.randn(d, 2 * d, dtype=torch.float64)
    return x @ x.mT / d


@pytest.mark.parametrize("s", [0.0, 0.3, 1.0, 2.5])
def test_two_round_gaussians_are_as_far_apart_as_the_equation_says(s: float) -> None:
    m, one = torch.randn(D, dtype=torch.float64), torch.eye(D, dtype=torch.float64)
    expected = float(m.square().sum()) + D * (1 - s) ** 2
    assert frechet(torch.zeros(D), one, m, s**2 * one) == pytest.approx(expected, rel=1e-12)


def test_samples_of_them_come_close() -> None:
    m, s, n = torch.tensor([1.0, -0.5, 0, 0, 2, 0]), 1.5, 20_000
    found = fid_between(summed(torch.randn(n, D)), summed(m + s * torch.randn(n, D)))
    assert found == pytest.approx(float(m.square().sum()) + D * (1 - s) ** 2, rel=0.03)


def test_the_root_is_that_of_scipy() -> None:
    for _ in range(5):
        one, two, zero = random_covariance(), random_covariance(), torch.zeros(D)
        root = np.trace(sqrtm(one.numpy() @ two.numpy()).real)
        expected = float(one.trace() + two.trace()) - 2 * root
        assert frechet(zero, one, zero, two) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("count", [5, 4000])  # fewer than features, and many more
def test_a_set_is_at_no_distance_from_itself(count: int) -> None:
    x = summed(10 * torch.randn(count, 48))
    assert fid_between(x, x) < 1e-9


def test_the_order_of_sets_and_of_images_does_not_matter() -> None:
    one, two = torch.randn(500, D), torch.rand(300, D)
    found = fid_between(summed(one), summed(two))
    assert fid_between(summed(two), summed(one)) == pytest.approx(found, rel=1e-12)
    assert fid_between(summed(one[torch.randperm(500)]), summed(two)) == pytest.approx(found, rel=1e-12)


@pytest.mark.parametrize("batch", [1, 7, 300])
def test_a_stream_has_the_moments_of_all_at_once(batch: int) -> None:
    x = 1e5 + torch.randn(300, D, dtype=torch.float64)  # far from 0, where sums of squares lose their digits
    found = summed(x, batch=batch)
    assert found.samples == 300
    assert np.allclose(found.mean, x.numpy().mean(0), rtol=1e-14)
    assert np.allclose(found.covariance, np.cov(x.numpy().T), rtol=1e-8)


def test_what_is_kept_does_not_grow() -> None:
    sums = FeatureSums("toy", "none")
    for i in range(8):
        sums.add(torch.full((KEPT // 2, 1), float(i)))
    kept = sums.features().kept
    assert kept is not None
    assert len(kept) == KEPT
    assert torch.bincount(kept.flatten().long(), minlength=8).min() > KEPT / 8 * 0.6  # of each batch as many, about


def test_networks_and_resizings_are_never_mixed() -> None:
    x = summed(torch.randn(9, D))
    for compare in (fid_between, kid_between):
        with pytest.raises(InputError, match=r"different networks[\s\S]+toy and inception-2015"):
            compare(x, replace(x, network="inception-2015"))
        with pytest.raises(InputError, match=r"different resizings[\s\S]+none and bicubic"):
            compare(x, replace(x, resize="bicubic"))


def test_one_image_is_too_few_and_nan_is_no_feature() -> None:
    with pytest.raises(InputError, match="at least 2 images"):
        summed(torch.randn(1, D))
    with pytest.raises(InputError, match="not finite"):
        summed(torch.tensor([[1.0, float("nan")]]))


def test_kid_is_its_sum_over_pairs() -> None:
    x, y = torch.randn(7, D, dtype=torch.float64), torch.rand(5, D, dtype=torch.float64)

    def k(a: Tensor, b: Tensor) -> float:
        return float((a @ b / D + 1) ** 3)

    within = [np.mean([k(s[i], s[j]) for i in range(len(s)) for j in range(len(s)) if i != j]) for s in (x, y)]
    across = np.mean([k(a, b) for a in x for b in y])
    assert kid_between(summed(x), summed(y)) == pytest.approx(sum(within) - 2 * across, rel=1e-4)  # kept in 32 bits


def test_kid_has_no_bias_for_few_images_and_fid_has() -> None:
    pairs = [(summed(torch.randn(20, D)), summed(torch.randn(20, D))) for _ in range(200)]
    values = [kid_between(*pair) for pair in pairs]
    assert abs(np.mean(values)) < 3 * np.std(values) / len(values) ** 0.5
    assert np.mean([fid_between(*pair) for pair in pairs[:20]]) > 0.5  # of one and the same distribution


def one_hot(labels: Tensor) -> Features:
    return summed(torch.zeros(len(labels), 1), torch.nn.functional.one_hot(labels, 10).double(), batch=64)


def test_ten_classes_that_are_sure_score_ten() -> None:
    assert inception_score(one_hot(torch.arange(10).repeat(30))).whole == pytest.approx(10, rel=1e-12)


def test_images_that_look_alike_score_one() -> None:
    alike = torch.full((100, 10), 0.1)
    score = inception_score(summed(torch.zeros(100, 1), alike))
    assert score.mean == pytest.approx(1)
    assert score.deviation == pytest.approx(0, abs=1e-6)
    assert inception_score(one_hot(torch.full((100,), 3))).whole == pytest.approx(1)


@pytest.mark.parametrize("labels", [torch.arange(10).repeat(100), torch.arange(10).repeat_interleave(100)])
def test_splits_are_mixed_however_images_are_sorted(labels: Tensor) -> None:
    score = inception_score(one_hot(labels))
    assert 9 < score.mean < 10 + 1e-9  # 1, were a split of one class


def test_a_score_lies_between_one_and_the_number_of_classes() -> None:
    for sharpness in (0.1, 1.0, 10.0):
        probabilities = (sharpness * torch.randn(500, 7, dtype=torch.float64)).softmax(1)
        score = inception_score(summed(torch.zeros(500, 1), probabilities, batch=33))
        assert 1 <= score.mean <= 7
        assert 1 <= score.whole <= 7
        marginal = probabilities.mean(0)
        divergence = (probabilities * (probabilities / marginal).log()).sum(1).mean()
        assert score.whole == pytest.approx(float(divergence.exp()), rel=1e-10)


def test_without_a_classifier_there_is_no_score() -> None:
    with pytest.raises(InputError, match="needs a network with a classifier"):
        inception_score(summed(torch.randn(9, D)))


def test_few_images_are_told() -> None:
    few, more, many = (replace(summed(torch.randn(9, D)), samples=n) for n in (D, D + 1, 10_000))
    assert fid_notes([many, many]) == []
    assert [note.split(":")[0] for note in fid_notes([more, more])] == ["FID is too large for few images"]
    assert "singular" in fid_notes([few, few])[1]
    assert len(fid_notes([few, few])) == 2
    assert "different numbers of images, 10,000 and 7" in fid_notes([many, more])[-1]
