"""The losses of a generator and its judge: closed forms, second derivatives, what is measured."""

import math
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.modalities.drawing.adversarial import Imitate, twice_differentiable
from regard.modalities.drawing.diffaugment import DiffAugment
from regard.modalities.drawing.moments import distance_of_sums, moment_sums, small_pixels
from regard.models import transgan_critic
from regard.models.transgan_critic import MultiScaleCritic
from regard.tasks.classify import ClassifyBatch


@dataclass
class NoiseConfig:
    noise: int = 4


class Spread(nn.Module):
    """An image of noise: the smallest generator."""

    def __init__(self, side: int = 2) -> None:
        super().__init__()
        self.config, self.side = NoiseConfig(), side
        self.map = nn.Linear(4, side**2)

    def forward(self, noise: Tensor) -> Tensor:
        found: Tensor = self.map(noise).unflatten(1, (1, self.side, self.side))
        return found


class Linear(nn.Module):
    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.weights = nn.Parameter(weights)

    def forward(self, images: Tensor) -> Tensor:
        return (images * self.weights).sum((1, 2, 3)) + 0.5


def batch_of(images: Tensor) -> ClassifyBatch:
    return ClassifyBatch(images, torch.zeros(len(images), dtype=torch.long))


def losses(task: Imitate, images: Tensor, step: int = 0) -> dict[str, dict[str, Tensor]]:
    """Each term divided by its count, without its weight."""
    batch = batch_of(images)
    counts = task.counts(batch)
    return {
        loss.part: {name: term.sum / counts[term.count] for name, term in loss.terms.items()}
        for loss in task.losses(batch, step)
    }


def test_the_penalty_of_a_linear_critic() -> None:
    """Its gradient is w everywhere: (|w| - 1)^2 of each image, |.| over all pixels."""
    weights = torch.randn(3, 4, 4, dtype=torch.float64)
    task = Imitate(Spread(4).double(), Linear(weights))
    found = task.penalties(torch.randn(5, 3, 4, 4).double(), torch.randn(5, 3, 4, 4).double())
    assert torch.allclose(found, (weights.norm() - 1).square().expand(5), atol=1e-12)
    (slope,) = torch.autograd.grad(found.sum(), task.parts["discriminator"].weights)  # type: ignore[arg-type]
    assert torch.allclose(slope, 5 * 2 * (weights.norm() - 1) * weights / weights.norm(), atol=1e-10)


def test_the_penalty_is_taken_between_the_images() -> None:
    places = []

    class Watched(Linear):
        def forward(self, images: Tensor) -> Tensor:
            places.append(images.detach())
            return super().forward(images)

    task = Imitate(Spread(), Watched(torch.ones(1, 2, 2)))
    task.penalties(torch.zeros(100, 1, 2, 2), torch.ones(100, 1, 2, 2))
    (between,) = places
    assert (between.flatten(1).std(1) == 0).all()  # one share for all pixels of an image
    shares = between[:, 0, 0, 0]
    assert 0 <= shares.min() < 0.1
    assert 0.9 < shares.max() <= 1


@pytest.mark.parametrize(
    ("loss", "discriminator", "generator"),
    [
        ("wasserstein", lambda real, fake: fake - real, lambda fake: -fake),
        ("hinge", lambda real, fake: (1 + fake).clamp(min=0) + (1 - real).clamp(min=0), lambda fake: -fake),
        (
            "non-saturating",
            lambda real, fake: -(real.sigmoid().log() + (1 - fake.sigmoid()).log()),
            lambda fake: -fake.sigmoid().log(),
        ),
    ],
)
def test_the_losses_are_those_of_their_papers(loss: Any, discriminator: Any, generator: Any) -> None:
    maker, judge = Spread().double(), Linear(torch.randn(1, 2, 2).double())
    task = Imitate(maker, judge, loss=loss, penalty=0, drift=0.1)
    real = torch.randn(64, 1, 2, 2, dtype=torch.float64)
    torch.manual_seed(3)
    found = losses(task, real)
    torch.manual_seed(3)
    noise, other = (torch.randn(64, 4, dtype=torch.float64) for _ in range(2))
    scored = judge(real)
    assert found["discriminator"].keys() == {"loss", "drift"}
    assert torch.allclose(found["discriminator"]["loss"], discriminator(scored, judge(maker(noise))).mean())
    assert torch.allclose(found["discriminator"]["drift"], scored.square().mean())
    assert torch.allclose(found["generator"]["loss"], generator(judge(maker(other))).mean())


def test_the_generator_follows_every_few_steps() -> None:
    task = Imitate(Spread(), Linear(torch.ones(1, 2, 2)), critic_steps=3, larger=2)
    real = torch.randn(4, 1, 2, 2)
    parts = [list(losses(task, real, step)) for step in range(6)]
    assert [len(some) for some in parts] == [1, 1, 2, 1, 1, 2]
    assert task.counts(batch_of(real)) == {"images": 4.0, "drawn": 8.0}


def test_the_discriminator_teaches_nothing_to_the_generator_by_its_own_loss() -> None:
    task = Imitate(Spread(), Linear(torch.ones(1, 2, 2)))
    first = next(task.losses(batch_of(torch.randn(4, 1, 2, 2)), 0))
    sum(term.sum for term in first.terms.values()).backward()  # type: ignore[union-attr]
    assert all(x.grad is None for x in task.parts["generator"].parameters())
    assert all(x.grad is not None for x in task.parts["discriminator"].parameters())


def test_real_and_drawn_images_are_changed_alike_and_noise_learns_through_it() -> None:
    calls = []

    class Counting(DiffAugment):
        def __call__(self, images: Tensor) -> Tensor:
            calls.append(images)
            return super().__call__(images)

    task = Imitate(Spread(4), Linear(torch.ones(1, 4, 4)), augment=Counting(1.0, 0.25, 0.25))
    real = torch.randn(4, 1, 4, 4)
    _, generator = task.losses(batch_of(real), 0)
    assert len(calls) == 4  # real, drawn, between, and what the generator is taught by
    assert torch.equal(calls[0], real)
    generator.terms["loss"].sum.backward()
    assert all(x.grad is not None and x.grad.abs().sum() > 0 for x in task.parts["generator"].parameters())


def critic(**changes: Any) -> nn.Module:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"image": 4, "channels": 1, "patch": 2, "dim": 8, "depth": (1, 1), "heads": 1}
    return MultiScaleCritic(transgan_critic.Config(**sizes | changes)).double()


@pytest.mark.parametrize("attention", ["softmax", "additive"])
def test_a_critic_with_attention_has_second_derivatives(attention: str) -> None:
    """Numerically: of its scores by its images."""
    net, images = critic(attention=attention), torch.randn(1, 1, 4, 4, dtype=torch.float64, requires_grad=True)

    def score(x: Tensor) -> Tensor:
        with twice_differentiable(net):
            found: Tensor = net(x)
        return found

    assert torch.autograd.gradgradcheck(score, images)
    assert torch.allclose(score(images), net(images), atol=1e-12)


def test_the_penalty_has_the_gradient_that_differences_have() -> None:
    net = critic()
    task = Imitate(Spread(4).double(), net)
    real, fake = torch.randn(2, 2, 1, 4, 4, dtype=torch.float64).unbind()
    weight: Any = net.get_parameter("fine_blocks.0.mixer.q.weight")

    def penalty() -> Tensor:
        torch.manual_seed(1)
        return task.penalties(real, fake).sum()

    (slope,) = torch.autograd.grad(penalty(), weight)
    toward = torch.randn_like(weight)
    with torch.no_grad():
        ends = []
        for sign in (1, -1):
            weight += sign * 1e-5 * toward
            ends.append(float(penalty()))
            weight -= sign * 1e-5 * toward
    assert float((slope * toward).sum()) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6)


def test_fused_attention_has_none() -> None:
    """Why the way is chosen. Where PyTorch learns it, the way around it is no longer needed."""
    net, images = critic(), torch.randn(1, 1, 4, 4, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(net(images).sum(), images, create_graph=True)
    with pytest.raises(RuntimeError, match="derivative"):
        slope.square().sum().backward()


def test_only_the_penalty_leaves_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    net, fused = critic(), []
    original = F.scaled_dot_product_attention

    def counted(*given: Any, **named: Any) -> Tensor:
        fused.append(1)
        return original(*given, **named)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counted)
    real = torch.randn(2, 1, 4, 4).double()
    for penalty, wanted in ((0.0, 6), (10.0, 6)):  # three attentions, for real and for drawn images
        fused.clear()
        next(Imitate(Spread(4).double(), net, penalty=penalty).losses(batch_of(real), 0))
        assert len(fused) == wanted


def test_the_gap_of_two_normal_distributions_is_their_distance() -> None:
    """In one dimension: a critic of slope 1 tells |m1 - m2|, the Wasserstein distance of N(m1, 1) and N(m2, 1)."""
    torch.manual_seed(0)
    judge = nn.Sequential(nn.Flatten(), nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1), nn.Flatten(0))
    for name in ("1.weight", "3.weight"):  # a slope above 0: from below, in one dimension, the penalty bars the way
        judge.get_parameter(name).data.abs_()

    class Shifted(nn.Module):
        config = NoiseConfig(1)

        def forward(self, noise: Tensor) -> Tensor:
            return noise[:, :, None, None]

    task = Imitate(Shifted(), judge, drift=0.0)
    optimizer = torch.optim.Adam(judge.parameters(), 5e-3, betas=(0.0, 0.9))
    for step in range(300):
        real = batch_of(torch.randn(128, 1, 1, 1) + 1.5)
        loss = next(task.losses(real, step))
        optimizer.zero_grad()
        sum(term.weight * term.sum / 128 for term in loss.terms.values()).backward()  # type: ignore[union-attr]
        optimizer.step()
    with torch.no_grad():
        sums = task.evaluate(batch_of(torch.randn(4096, 1, 1, 1) + 1.5))
    assert task.metrics(sums)["gap"] == pytest.approx(1.5, abs=0.2)


def test_the_distance_of_pixels_has_its_closed_forms() -> None:
    """|m|^2 + f (1 - s)^2 of N(0, 1) and N(m, s^2); 0 of the same; and it is symmetric."""
    torch.manual_seed(0)
    basis = torch.linalg.qr(torch.randn(64, 8, dtype=torch.float64)).Q
    one = torch.cat((basis, -basis)) * 8  # mean 0, the identity as covariance
    assert torch.allclose(one.mT @ one / 128, torch.eye(8).double(), atol=1e-12)
    shift = torch.randn(8, dtype=torch.float64)
    two = shift + 0.5 * one
    sums = moment_sums(one), moment_sums(two)
    assert distance_of_sums(*sums, 128) == pytest.approx(float(shift @ shift) + 8 * 0.25, abs=1e-9)
    assert distance_of_sums(*sums[::-1], 128) == pytest.approx(distance_of_sums(*sums, 128), abs=1e-9)
    assert distance_of_sums(sums[0], sums[0], 128) == pytest.approx(0, abs=1e-9)
    parts = [moment_sums(some) for some in one.split(50)]
    assert torch.allclose(sum(parts, torch.zeros(9, 8)), sums[0])
    turned = torch.linalg.qr(torch.randn(8, 8, dtype=torch.float64)).Q  # covariances that do not commute
    mixed = one * torch.arange(1.0, 9.0) @ turned
    spread = turned.mT @ torch.diag(torch.arange(1.0, 9.0).double().square()) @ turned
    trace = torch.linalg.eigvals(torch.diag(torch.arange(1.0, 9.0).double().square()) @ spread).real.sqrt().sum()
    wanted = 2 * sum(i * i for i in range(1, 9)) - 2 * float(trace)
    assert distance_of_sums(moment_sums(one * torch.arange(1.0, 9.0)), moment_sums(mixed), 128) == pytest.approx(wanted)


def test_pixels_are_averaged_to_a_small_grid() -> None:
    images = torch.arange(2 * 16 * 16.0).view(1, 2, 16, 16)
    assert small_pixels(images).shape == (1, 2 * 64)
    assert float(small_pixels(images)[0, 0]) == (0 + 1 + 16 + 17) / 4
    assert small_pixels(images[..., :4, :4]).shape == (1, 2 * 16)


def test_metrics_are_of_means() -> None:
    task = Imitate(Spread(), Linear(torch.ones(1, 2, 2)))
    torch.manual_seed(0)
    with torch.no_grad():
        found = task.metrics(task.evaluate(batch_of(torch.randn(50, 1, 2, 2))))
    assert found.keys() == {"pixel distance", "gap"}
    assert all(math.isfinite(x) for x in found.values())
    assert task.goal == "pixel distance"
