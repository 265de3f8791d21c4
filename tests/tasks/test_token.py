"""Distillation through a token, and images made harder while they are learned."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.modalities.images.frequencies import frequency_distances
from regard.modalities.images.mixing import smoothed
from regard.models.deit import Config, DeiT
from regard.tasks.adversarial import BOX, STEP, adversarial_losses, apart
from regard.tasks.token import hard_distillation, soft_distillation

SMALL = Config(image=8, patch=4, dim=16, depth=1, heads=2, hidden=24, classes=3, channels=1)


def test_hard_distillation_by_its_equation() -> None:
    label, token, teacher, y = torch.randn(4, 5), torch.randn(4, 5), torch.randn(4, 5), torch.randint(5, (4,))
    wanted = 0.5 * F.cross_entropy(label, y) + 0.5 * F.cross_entropy(token, teacher.argmax(-1))
    torch.testing.assert_close(hard_distillation(label, token, y, teacher) / 4, wanted)
    torch.testing.assert_close(hard_distillation(label, token, smoothed(y, 5), teacher) / 4, wanted)  # a share each


def test_soft_distillation_by_its_equation() -> None:
    label, token, teacher, y = torch.randn(4, 5), torch.randn(4, 5), torch.randn(4, 5), torch.randint(5, (4,))
    p, q = (teacher / 3).softmax(-1), (token / 3).softmax(-1)
    divergence = (p * (p.log() - q.log())).sum(-1).mean()
    wanted = 0.9 * F.cross_entropy(label, y) + 0.1 * 9 * divergence
    torch.testing.assert_close(soft_distillation(label, token, y, teacher) / 4, wanted)
    torch.testing.assert_close(
        soft_distillation(label, teacher, y, teacher, share=0.5) / 4, 0.5 * F.cross_entropy(label, y)
    )


@pytest.mark.parametrize("loss", [hard_distillation, soft_distillation])
def test_each_head_learns_from_its_own_teacher(loss) -> None:
    """Another label moves the class head alone, another teacher the other; the teacher learns nothing."""
    net, images, y = DeiT(SMALL), torch.randn(4, 1, 8, 8), torch.tensor([0, 1, 2, 0])
    teacher = torch.randn(4, 3, requires_grad=True)

    def slopes(y: Tensor, teacher: Tensor) -> tuple[Tensor, Tensor]:
        said = net.answers(images)
        return torch.autograd.grad(
            loss(said.label, said.teacher, y, teacher), (net.head.weight, net.teacher_head.weight)
        )

    label, token = slopes(y, teacher)
    assert label.any()
    assert token.any()
    other = slopes((y + 1) % 3, teacher)
    assert not torch.equal(other[0], label)
    assert torch.equal(other[1], token)
    other = slopes(y, teacher.roll(1, -1))
    assert torch.equal(other[0], label)
    assert not torch.equal(other[1], token)
    said = net.answers(images)
    (slope,) = torch.autograd.grad(loss(said.label, said.teacher, y, teacher) + 0 * teacher.sum(), teacher)
    assert not slope.any()


def test_a_batch_may_be_split() -> None:
    label, token, teacher, y = torch.randn(4, 5), torch.randn(4, 5), torch.randn(4, 5), torch.randint(5, (4,))
    for loss in (hard_distillation, soft_distillation):
        parts = [loss(label[i], token[i], y[i], teacher[i]) for i in (slice(0, 1), slice(1, 4))]
        torch.testing.assert_close(sum(parts), loss(label, token, y, teacher))


# ---------------------------------------------------------------------------------------------------------------- HAT


class Seen(nn.Module):
    """Remembers what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.shown = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 5)).double(), []

    def forward(self, images: Tensor) -> Tensor:
        self.shown.append(images.detach().clone())
        return self.net(images)


def test_hat_by_its_algorithm() -> None:
    """Three passes, each a step of 1/255 up the loss within 2/255, and all their gradients added up."""
    net, images, y = Seen(), torch.randn(4, 3, 8, 8).double(), torch.randint(5, (4,))
    losses = []
    for loss in adversarial_losses(net, images, y):
        loss.backward()
        losses.append(loss.detach())
    found = [x.grad.clone() for x in net.parameters()]
    net.zero_grad()
    change, clean, wanted = torch.zeros_like(images), net.net(images).detach(), []
    for i in range(3):
        torch.testing.assert_close(net.shown[i], images + change, rtol=0, atol=1e-15)
        change = change.detach().requires_grad_()
        logits = net.net(images + change)
        right = F.cross_entropy(logits, y, reduction="sum")
        p, q = logits.softmax(-1), clean.softmax(-1)
        both = (p * (p.log() - q.log())).sum() + (q * (q.log() - p.log())).sum()
        loss = right if i == 0 else (3 * right + 0.01 * both) / 2
        wanted.append(loss.detach())
        loss.backward()
        change = (change.detach() + change.grad.sign() / 255).clamp(-2 / 255, 2 / 255)
    torch.testing.assert_close(losses, wanted)
    torch.testing.assert_close(found, [x.grad for x in net.parameters()])
    assert losses[1] / 1.5 > losses[0]  # harder than before


def test_the_change_stays_in_its_box() -> None:
    net, images, y = Seen(), torch.randn(2, 3, 8, 8).double(), torch.randint(5, (2,))
    for loss in adversarial_losses(net, images, y, passes=6):
        loss.backward()
    away = [float((shown - images).abs().max()) for shown in net.shown]
    assert away == pytest.approx([0, STEP, BOX, BOX, BOX, BOX], abs=1e-12)
    std = torch.tensor([0.5, 0.25, 1.0]).view(3, 1, 1).double()
    net.shown.clear()
    for loss in adversarial_losses(net, images, y, std=std):
        loss.backward()
    last = (net.shown[-1] - images).abs().amax((0, 2, 3))
    torch.testing.assert_close(last, BOX / std.flatten())


def test_it_must_be_pulled_back() -> None:
    passes = adversarial_losses(Seen(), torch.randn(2, 3, 8, 8).double(), torch.tensor([0, 1]))
    next(passes)
    with pytest.raises(RuntimeError, match="not called on the loss"):
        next(passes)


def test_images_and_labels_are_left_alone() -> None:
    net, images = Seen(), torch.randn(2, 3, 8, 8).double().requires_grad_()
    kept, y = images.detach().clone(), smoothed(torch.tensor([0, 1]), 5, 0.1).double()
    for loss in adversarial_losses(net, images, y):
        loss.backward()
    assert torch.equal(images, kept)
    assert images.grad is None


def test_the_change_of_a_signed_step_is_mostly_fine() -> None:
    """Signs of a rough slope have their power at high frequencies: of all, more lie beyond half of the way."""
    net, images, y = Seen(), torch.randn(64, 3, 8, 8).double(), torch.randint(5, (64,))
    for loss in adversarial_losses(net, images, y):
        loss.backward()
    power = torch.fft.fft2(net.shown[-1] - images).abs().square().mean((0, 1))
    far = frequency_distances(8, 8, power.device) > 2
    assert float(power[far].sum()) > float(power[~far].sum())


def test_apart_is_zero_for_alike_and_symmetric() -> None:
    one, two = torch.randn(3, 4), torch.randn(3, 4)
    torch.testing.assert_close(apart(one, two), apart(two, one))
    assert float(apart(one, one + 1)) == pytest.approx(0, abs=1e-5)
    assert float(apart(one, two)) > 0
