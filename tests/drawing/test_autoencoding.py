"""The task of an autoencoder: its loss, its metrics, and that it learns."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.distributions import Normal, kl_divergence

from regard.modalities.drawing.autoencoding import Autoencode, divergence, pixel_distance
from regard.models.autoencoder import FAMILY, Autoencoder, LatentGaussian
from regard.tasks.classify import ClassifyBatch
from tests.contracts.tools import close, stirred

SMALL = FAMILY.example()


def batch(count: int = 4, side: int = 8) -> ClassifyBatch:
    return ClassifyBatch(torch.randn(count, 3, side, side, dtype=torch.float64), torch.zeros(count))


def task(**settings: Any) -> Autoencode:
    torch.manual_seed(0)
    return Autoencode(stirred(Autoencoder(SMALL)), **settings)


def test_the_divergence_is_that_of_two_normal_distributions() -> None:
    mean, log_variance = torch.randn(2, 3, 4, 4).double(), torch.randn(2, 3, 4, 4).double()
    said = Normal(mean, (0.5 * log_variance).exp())
    wanted = kl_divergence(said, Normal(torch.zeros(()).double(), 1.0)).sum()
    close(divergence(LatentGaussian(mean, log_variance)), wanted, 1e-10)
    assert divergence(LatentGaussian(torch.zeros(1, 2), torch.zeros(1, 2))) == 0


def test_distances() -> None:
    drawn, images = torch.tensor([[[[1.0, -2.0]]]]), torch.zeros(1, 1, 1, 2)
    assert pixel_distance(drawn, images, "l1") == 3
    assert pixel_distance(drawn, images, "l2") == 5
    with pytest.raises(ValueError, match=r"\(1, 1, 1, 3\) became \(1, 1, 1, 2\)"):
        pixel_distance(drawn, torch.zeros(1, 1, 1, 3), "l1")


@pytest.mark.parametrize(("distance", "kl"), [("l1", 0.0), ("l2", 0.5)])
def test_the_loss_of_a_step(distance: Any, kl: float) -> None:
    """Of latents that were drawn at random, by the numbers of the images."""
    own, given = task(distance=distance, kl=kl), batch()
    torch.manual_seed(3)
    (loss,) = own.losses(given, 0)
    counts = own.counts(given)
    found = sum(term.weight * term.sum / counts[term.count] for term in loss.terms.values())
    torch.manual_seed(3)
    said = own.net.encode(given.inputs)
    gap = own.net.decode(said.sample()) - given.inputs
    wanted = (gap.abs() if distance == "l1" else gap.square()).mean() + kl * divergence(said) / given.inputs.numel()
    close(found, wanted, 1e-10)
    assert loss.part == "net"


def test_metrics_are_those_of_all_images() -> None:
    """Whichever batches they came in; and nothing is left to chance."""
    own, given = task(distance="l2", kl=0.1), batch(5)
    with torch.no_grad():
        whole = own.metrics(own.evaluate(given))
        parts = [own.evaluate(ClassifyBatch(x, torch.zeros(len(x)))) for x in given.inputs.split((2, 3))]
        latents = own.net.encode(given.inputs).mean
        gap = own.net(given.inputs) - given.inputs
    joined = own.metrics({name: parts[0][name] + parts[1][name] for name in parts[0]})
    assert joined == pytest.approx(whole)
    assert whole["MAE"] == pytest.approx(float(gap.abs().mean()))
    assert whole["MSE"] == pytest.approx(float(gap.square().mean()))
    assert whole["latent mean"] == pytest.approx(float(latents.mean()))
    assert whole["latent std"] == pytest.approx(float(latents.std(unbiased=False)))
    share = latents.numel() / given.inputs.numel()
    assert whole["loss"] == pytest.approx(whole["MSE"] + 0.1 * whole["kl"] * share)


def test_it_learns_a_few_images() -> None:
    torch.manual_seed(0)
    net = Autoencoder(replace(SMALL, latent=4))
    own, images = Autoencode(net), torch.nn.functional.interpolate(torch.randn(4, 3, 2, 2), size=8)
    given, optimizer = ClassifyBatch(images, torch.zeros(4)), torch.optim.Adam(net.parameters(), 1e-2)
    with torch.no_grad():
        before = own.metrics(own.evaluate(given))["MAE"]
    for step in range(40):
        (loss,) = own.losses(given, step)
        total = sum(term.weight * term.sum for term in loss.terms.values()) / images.numel()
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
    with torch.no_grad():
        assert own.metrics(own.evaluate(given))["MAE"] < 0.5 * before
