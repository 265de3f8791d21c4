"""The figures of ViT, DeiT, HAT and of where a ViT looks: every check can fail, and their parts do what they say."""

from pathlib import Path
from typing import Any

import pytest
import torch

from lectures.tests.test_figures import NAMES, every_check_fails
from regard.data.counter_rng import MIX, philox
from regard.modalities.images.mixing import draw_mix
from regard.tasks import adversarial
from regard_lectures.looking import clutter, covered, far_heads, rolled
from regard_lectures.table import FIGURES
from regard_lectures.vision import (
    coarse_and_fine,
    distilled,
    fine_detail,
    hungry,
    pushed,
    recipe,
    strip,
    three_panels,
    words_of_pixels,
)

SPOILED: dict[str, list[tuple[str, Any]]] = {
    "5.3": [
        ("by hand", 0.1),
        ("moved along", 0.1),
        ("moved alone", 0.0),
        ("patches", [49, 16]),
        ("words of huge", 196),
        *((f"weights.{name}", 1_000_000) for name in words_of_pixels.COUNTS),
    ],
    "5.3b": [
        *((f"right.{data}.CNN.0", [0.1, 0.1]) for data in hungry.NETS),
        *((f"right.{data}.ViT.2", [0.1, 0.1]) for data in hungry.NETS),
        *((f"right.{data}.CNN.2", [0.1, 0.1]) for data in hungry.NETS),
    ],
    "5.3c": [
        ("weights.0", 86_000_000),
        ("weights.1", 14_000_000),
        *((f"ours.{data}.CNN.right", 0.1) for data in hungry.NETS),
    ],
    "5.3d": [
        ("exact", 0.5),
        ("another image", 0.5),
        ("on its shape", 0.1),
        ("on the other", 0.9),
    ],
    "5.4": [
        ("right", 0.1),
        ("near.neighbours", -0.5),
        ("near before.neighbours", 0.5),
        ("near.row or column", -1.0),
        ("peak", 0.5),
        ("smooth", 0.0),
        ("smooth before", 0.5),
    ],
    "5.5": [("guess", 8), ("loss", 9.0), ("off", 0.1), ("alone", [0.0, 0.1])],
    "5.5b": [
        ("off.cutmix", 0.1),
        ("off.mixup", 0.1),
        ("sums", 0.1),
        ("areas.0", 0.3),
        ("areas.1", 0.9),
        ("squares", [144.0, 100.0]),
    ],
    "5.5c": [
        ("teacher", 0.1),
        ("right.hard, with token", [0.1, 0.1, 0.1]),
        ("cosine.hard, with token", [0.995, 0.995, 0.995]),
        ("cosine.none", [0.1, 0.1, 0.1]),
    ],
    "5.5d": [
        ("long.full recipe", [0.1, 0.1]),
        ("known.none", 0.1),
        ("short.mixup", [0.1]),
    ],
    "5.5e": [
        ("rates.deit-small", 1e6),
        ("rates.levit-256", 0.1),
        ("rates.deit-base", 1e6),
        ("ours.DeiT.right", 0.1),
    ],
    "5.10": [
        ("sums.0", 0.1),
        ("leaks.1", 0.1),
        ("squares.2", -0.1),
        ("power", [0.5, 0.4, 0.6, 0.7]),
    ],
    "5.10b": [
        ("clean.ViT", [0.1]),
        ("high.ViT", [1.0] * len(fine_detail.HIGH)),
        ("high.ViT, HAT", [0.0] * len(fine_detail.HIGH)),
        ("low.ViT", [0.0] * len(fine_detail.LOW)),
        ("clean.ViT, HAT", [0.1]),
    ],
    "5.10c": [
        *((f"beyond.{name}", 0.1) for name in fine_detail.NETS),
        ("beyond.photographs", 0.9),
        ("beyond.even noise", 0.5),
        ("largest", 1.0),
    ],
    "11.3": [
        ("right", 0.1),
        ("ratio.trained", 1.0),
        ("ratio.untrained", 3.0),
        ("sums", 0.5),
    ],
    "11.3b": [
        ("ranks", [0.1]),
        ("ratio.flow", 0.5),
        ("seconds.flow", 1e-9),
    ],
    "11.4": [
        ("ranks", [-0.5]),
        ("ranks of ink", [-0.5]),
        ("inside", 0.0),
        ("curves.covering", [1.0]),
        ("curves.rollout", [2.0]),
    ],
    "11.5": [
        ("right", 0.1),
        ("even", 1.0),
        ("distances.0", [1.0, 1.0, 1.0]),
        ("distances.5", [0.0, 30.0, 0.0]),
        ("before.0", [0.0, 90.0, 0.0]),
        ("distances.4", [0.0, 90.0, 0.0]),
    ],
    "11.7": [
        ("by hand", 0.1),
        ("sums", 0.1),
        ("heads.colour, one hidden.weights", [0.1] * 24),
        ("heat", {"0.25": {"weights": [1 / 24] * 24}, "1.0": {"weights": [0.5] * 2}, "4.0": {"weights": [1.0]}}),
    ],
    "11.8": [
        ("loss.4", 4.5),
        ("loss.4", 1.0),
        ("loss.2", 3.0),
        ("moved.3", 0.0),
        ("moved.-1", 0.1),
        ("entering", [512]),
        ("slope.2", 0.0),
        ("slope.-1", 0.3),
    ],
    "11.8b": [
        ("weights.LSTM", 300_000),
        ("nats.stories.LSTM.0", [2.0, 2.0]),
        ("nats.stories.Transformer", [[9.0, 9.0]] * 5),
        ("nats.Shakespeare.LSTM.0", [9.0]),
    ],
    "11.8c": [
        ("encoders", [100_544, 100_545]),
        ("rows.text.together", 0.1),
        ("rows.image.together", 0.1),
        ("rows.text.alone", 0.72),
        ("rows.image.alone", 0.84),
    ],
}


def test_all_of_these_figures_are_in_the_table() -> None:
    assert [name for name in FIGURES if name in SPOILED] == list(SPOILED)


@pytest.mark.parametrize("name", [name for name in SPOILED if name in NAMES])
def test_every_check_can_fail(name: str) -> None:
    every_check_fails(name, SPOILED[name])


def test_shuffled_words_are_the_same_patches() -> None:
    images, order = torch.arange(784.0).view(1, 1, 28, 28), torch.randperm(16)
    cut = torch.nn.functional.unfold(images, 7, stride=7)
    moved = torch.nn.functional.unfold(words_of_pixels.shuffled(images, order), 7, stride=7)
    assert torch.equal(moved, cut[..., order])


def test_mixes_of_one_kind_alone() -> None:
    assert all(strip.mix_of("mixup", step).box is None for step in range(20))
    assert all(strip.mix_of("cutmix", step).box is not None for step in range(20))


def test_a_batch_by_no_recipe_is_as_it_was() -> None:
    images, labels = torch.randn(4, 3, 32, 32), torch.tensor([0, 3, 3, 9])
    shown, wanted = recipe.served(recipe.NONE, images, labels, 0, 1)
    assert torch.equal(shown, images)
    assert torch.equal(wanted, torch.nn.functional.one_hot(labels, 10).float())


def test_a_batch_by_each_part() -> None:
    """Labels are mixed as the step's draw says, with the batch turned around; parts change what they should."""
    images, labels = torch.randn(6, 3, 32, 32), torch.arange(6)
    _, hard = recipe.served(recipe.NONE, images, labels, 0, 1)
    for name in ("mixup", "CutMix"):
        part = recipe.PARTS[name]
        shown, wanted = recipe.served(part, images, labels, 0, 1)
        share = draw_mix(philox(MIX, 0, 1), (32, 32), mixup=part.mixup, cutmix=part.cutmix).share
        assert torch.allclose(wanted, share * hard + (1 - share) * hard.flip(0))
        assert not torch.equal(shown, images)
    for part in (recipe.Recipe(erasing=1.0), recipe.PARTS["RandAugment"]):
        shown, wanted = recipe.served(part, images, labels, 0, 1)
        assert all(bool((one != old).any()) for one, old in zip(shown, images, strict=True))
        assert torch.equal(wanted, hard)
    _, wanted = recipe.served(recipe.PARTS["label smoothing"], images, labels, 0, 1)
    assert torch.allclose(wanted, 0.9 * hard + 0.01)
    _, wanted = recipe.served(recipe.PARTS["repeated augmentation"], images, labels, 0, 1)
    assert wanted.argmax(-1).tolist() == [0, 0, 0, 1, 1, 1]


def test_smooth_tiles_and_rough_ones() -> None:
    rough = torch.ones(1, 3, 4, 4)
    rough[..., ::2, 1::2] = rough[..., 1::2, ::2] = -1
    assert three_panels.smoothness(torch.ones(1, 3, 4, 4)) == pytest.approx(1)
    assert three_panels.smoothness(rough) == pytest.approx(-1)


def test_the_reach_of_a_convolution() -> None:
    assert far_heads.reach(1) == pytest.approx((4 + 4 * 2**0.5) / 9)
    places = [(i, j) for i in range(8) for j in range(8)]
    mean = sum(((a - c) ** 2 + (b - d) ** 2) ** 0.5 for a, b in places for c, d in places) / 64**2
    assert far_heads.even_by_counting(8, 8) == pytest.approx(mean)


def test_ranks_are_those_of_scipy() -> None:
    from scipy.stats import spearmanr

    one, two = torch.rand(8, 8), torch.rand(8, 8)
    assert covered.ranks(one, two) == pytest.approx(spearmanr(one.flatten(), two.flatten()).statistic)
    assert covered.ranks(one, one.exp()) == pytest.approx(1)


def test_power_beyond_a_radius() -> None:
    place = torch.arange(32) / 32
    wave = torch.cos(2 * torch.pi * 10 * place).expand(1, 32, 32)
    assert coarse_and_fine.outside(wave, 9) == pytest.approx(1)
    assert coarse_and_fine.outside(wave, 10) == pytest.approx(0, abs=1e-6)
    assert pushed.beyond(wave[None]) == pytest.approx(1)
    assert float(pushed.level(torch.randn(200, 1, 32, 32)).sub(1).abs().max()) < 0.2


def test_what_is_pushed_is_in_the_box_and_raises_the_loss() -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))
    images, labels = torch.randn(20, 1, 28, 28), torch.randint(10, (20,))
    change = pushed.added(net, images, labels)
    assert float(change.abs().max()) <= adversarial.BOX + 1e-6
    loss = torch.nn.functional.cross_entropy
    with torch.no_grad():
        assert loss(net(images + change), labels) > loss(net(images), labels)
    assert all(weight.grad is None or not weight.grad.any() for weight in net.parameters())


def test_scenes_have_their_digit_in_its_box(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_DATA", str(shared_data))
    monkeypatch.setattr(clutter, "SCRAPS", 0)
    torch.manual_seed(0)
    found = clutter.scenes(5, "test")
    for image, box in zip(found.images[:, 0], found.boxes, strict=True):
        assert not bool((image[~box] > clutter.INK).any())  # all ink is inside
        left, top, width, height = rolled.edges(box)
        inside = image[top : top + height, left : left + width] > clutter.INK
        assert all(
            bool(side.any()) for side in (inside[0], inside[-1], inside[:, 0], inside[:, -1])
        )  # and no box is smaller
    cells = torch.rand(2, 8, 8)
    assert torch.allclose(clutter.per_pixel(cells).sum((1, 2)), cells.sum((1, 2)))


def test_each_way_to_learn_from_a_teacher(monkeypatch: pytest.MonkeyPatch) -> None:
    teacher = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 10)).requires_grad_(False)
    monkeypatch.setattr(distilled, "teacher", lambda: teacher)
    torch.manual_seed(0)
    net = distilled.DeiT(distilled.SIZES)
    images, labels = torch.randn(4, 3, 32, 32), torch.randint(10, (4,))
    both, loss = net.answers(images), torch.nn.functional.cross_entropy
    for way, other in {"none": labels, "hard, with token": teacher(images).argmax(-1)}.items():
        wanted = (loss(both.label, labels) + loss(both.teacher, other)) / 2
        assert torch.allclose(distilled.WAYS[way][1](net, images, labels, 0), wanted)


def test_hat_adds_up_what_all_passes_teach() -> None:
    """In the first two thirds of the steps three passes, whose slopes are those of their sum; then one."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 10))
    images, labels = torch.randn(4, 3, 32, 32), torch.randint(10, (4,))

    def slope(step: int) -> torch.Tensor:
        net.zero_grad()
        fine_detail.hardened(net, images, labels, step).backward()
        assert net[1].weight.grad is not None
        return net[1].weight.grad.clone()

    net.zero_grad()
    for loss in adversarial.adversarial_losses(net, images, labels):
        loss.backward()
    assert net[1].weight.grad is not None
    together, last = net[1].weight.grad.clone() / 4, 2 * fine_detail.COURSE.steps // 3
    assert torch.allclose(slope(last), together, atol=1e-6)
    (plain,) = torch.autograd.grad(torch.nn.functional.cross_entropy(net(images), labels), net[1].weight)
    assert torch.allclose(slope(last + 1), plain, atol=1e-6)


def test_the_hungry_are_alike() -> None:
    for nets in hungry.NETS.values():
        net: Any = nets["ViT"]()
        assert (net.config.depth, net.config.dim, net.config.patch) == (4, 64, 4)
