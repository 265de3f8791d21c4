"""The figures of a ViT, of its recipe and of where it looks: every check can fail, and their parts do what they say."""

from pathlib import Path
from typing import Any

import pytest
import torch

from regard.figures.looking import clutter, covered, rolled
from regard.figures.table import FIGURES
from regard.figures.vision import coarse_and_fine, strip, words_of_pixels
from tests.test_figures import every_check_fails

SPOILED: dict[str, list[tuple[str, Any]]] = {
    "5.3": [
        ("by hand", 0.1),
        ("moved along", 0.1),
        ("moved alone", 0.0),
        ("patches", [49, 16]),
        ("words of huge", 196),
        *((f"weights.{name}", 1_000_000) for name in words_of_pixels.COUNTS),
    ],
    "5.5b": [
        ("off.cutmix", 0.1),
        ("off.mixup", 0.1),
        ("sums", 0.1),
        ("areas.0", 0.3),
        ("areas.1", 0.9),
        ("squares", [144.0, 100.0]),
    ],
    "5.10": [
        ("sums.0", 0.1),
        ("leaks.1", 0.1),
        ("squares.2", -0.1),
        ("power", [0.5, 0.4, 0.6, 0.7]),
    ],
    "11.3": [
        ("right", 0.1),
        ("ratio.trained", 1.0),
        ("ratio.untrained", 3.0),
        ("sums", 0.5),
    ],
    "11.4": [
        ("ranks", [-0.5]),
        ("ranks of ink", [-0.5]),
        ("inside", 0.0),
        ("curves.covering", [1.0]),
        ("curves.rollout", [2.0]),
    ],
}


def test_all_of_these_figures_are_in_the_table() -> None:
    assert [name for name in FIGURES if name in SPOILED] == list(SPOILED)


@pytest.mark.parametrize("name", list(SPOILED))
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


def test_ranks_are_those_of_scipy() -> None:
    from scipy.stats import spearmanr

    one, two = torch.rand(8, 8), torch.rand(8, 8)
    assert covered.ranks(one, two) == pytest.approx(spearmanr(one.flatten(), two.flatten()).statistic)
    assert covered.ranks(one, one.exp()) == pytest.approx(1)


def test_power_beyond_a_radius() -> None:
    place = torch.arange(28) / 28
    wave = torch.cos(2 * torch.pi * 10 * place).expand(1, 28, 28)
    assert coarse_and_fine.outside(wave, 9) == pytest.approx(1)
    assert coarse_and_fine.outside(wave, 10) == pytest.approx(0, abs=1e-6)


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
