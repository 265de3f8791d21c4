"""The figures of vision: how their nets are taught, what they draw, and every check can fail."""

from pathlib import Path
from typing import Any

import pytest
import torch

from regard.figures.table import FIGURES
from regard.figures.vision import (
    corners,
    late_token,
    lessons,
    nested,
    variance,
)
from regard.models.cait import CaiT
from tests.test_figures import every_check_fails

SPOILED: dict[str, list[tuple[str, Any]]] = {
    "5.1": [
        ("layers.0", [[1.0]]),
        ("measured.7", 16),
        *((f"nets.{name}.0", 1) for name in (*nested.NETS, "the library’s cnn-small")),
    ],
    "5.2": [
        ("by hand", 0.1),
        ("changed", 0.1),
        ("alike", 0.1),
        ("far", 0.0),
        ("widths.1", 8),
        ("row.0", 0.5),
    ],
    "5.2b": [
        ("field", 40),
        ("convolutions alone.right", [0.5, 0.9]),
        ("with a non-local block.right", [0.5, 0.9]),
        ("with a non-local block.weights", 1_000_000),
    ],
    "5.6": [
        ("ViT.0", [9, 9]),
        ("ViT, late token.5", [9, 9]),
        ("CaiT.5", [10, 10]),
        ("class row", 0.1),
        ("patches", 0.1),
    ],
    "5.7": [
        ("stages.1.grid", [56, 56]),
        ("stages.1.width", 96),
        ("stages.2.blocks", 2),
        ("stages.3.windows", 4),
        ("stages.3.pixels", 112),
        ("vit.0", 49),
    ],
    "5.7b": [
        ("shifted.count", 4),
        ("shifted.windows", 9),
        ("shifted.shift", [0, 0]),
        ("masks.3", ["1" * 16] * 16),
        ("plain.leaks", 1),
        ("shifted.leaks", 1),
        ("plain.blind", 1),
        ("rolled.3", [0] * 16),
    ],
    "5.7c": [
        ("windows.operations.2", 1),
        ("windows.seconds.4", 1.0),
        ("all look at all.seconds.4", 1e-9),
    ],
    "5.8": [
        ("order.Swin", ["attention", "norm", "MLP", "norm"]),
        ("order.Swin v2", ["norm", "attention", "norm", "MLP"]),
        ("kernel.Swin v2", "Softmax"),
        ("unscaled", 0.5),
        ("linear", 0.33),
        ("logarithms.16", [3.0]),
        ("logarithms.8", [1.5] * 15),
    ],
    "5.8b": [
        *((f"{name}.loss", [1.0, 1.0]) for name in variance.TINTS),
        *((f"Swin.{when}", [1.0, 1.0]) for when in variance.TIMES),
        *((f"Swin v2.{when}", [1.0, 9.0]) for when in variance.TIMES),
    ],
    "5.9": [
        ("by hand", 0.1),
        ("weights.0", [0.2] * 9),
        ("weights", [[1.0]]),
        ("summed", 0.1),
        ("even", 0.1),
    ],
    "5.11": [
        ("stem.3", [128, 28, 28]),
        ("stages.2.grid", [7, 7]),
        ("stages.2.width", 256),
        ("stages.1.heads", 4),
        ("stages.0.blocks", 4),
        ("shrinks.0.asking", 196),
        ("value", 1),
        ("weights", 9_000_000),
    ],
}


def test_all_of_these_figures_are_in_the_table() -> None:
    assert [name for name in FIGURES if FIGURES[name].startswith("regard.figures.vision.") and name in SPOILED] == list(
        SPOILED
    )


@pytest.mark.parametrize("name", list(SPOILED))
def test_every_check_can_fail(name: str) -> None:
    every_check_fails(name, SPOILED[name])


def test_a_varied_image_is_the_same_image_moved_or_mirrored() -> None:
    images = torch.arange(1.0, 1 + 8 * 25).view(8, 1, 5, 5)
    course = lessons.Course(1, moved=1)
    found = lessons.varied(images, course)
    wide = torch.nn.functional.pad(images, (1, 1, 1, 1))
    for new, old in zip(found, wide, strict=True):
        moves = [old[:, i : i + 5, j : j + 5] for i in range(3) for j in range(3)]
        mirrored = torch.nn.functional.pad(old[:, 1:-1, 1:-1].flip(-1), (1, 1, 1, 1))
        moves += [mirrored[:, i : i + 5, j : j + 5] for i in range(3) for j in range(3)]
        assert sum(torch.equal(new, move) for move in moves) == 1
    assert not torch.equal(found, images)
    assert torch.equal(lessons.varied(images, lessons.Course(1, mirrored=False, moved=0)), images)


def test_a_course_teaches_by_its_seed_and_leaves_a_net_for_use() -> None:
    images = torch.randn(40, 1, 6, 6)
    labels = (images[:, 0, 0, 0] > 0).long()
    losses = []
    for _ in range(2):
        torch.manual_seed(3)
        net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, 2), torch.nn.BatchNorm1d(2))
        torch.randn(5 + len(losses))  # what is drawn elsewhere changes nothing
        losses.append(lessons.taught(net, images, labels, lessons.Course(30, 20, 0.05, False, 0), 1))
    assert losses[0] == losses[1]
    assert losses[0][-1] < 0.8 * losses[0][0]
    assert not net.training
    assert lessons.share(net, images, labels) > 0.8


def test_photographs_are_those_of_their_labels(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_DATA", str(shared_data))
    images, labels = lessons.photos("test")
    assert images.shape == (2000, 3, 32, 32)
    assert labels[:4].tolist() == [3, 8, 8, 0]  # a cat, two ships, an airplane: as everybody has seen them
    assert abs(float(images.mean())) < 0.1
    assert float(images.std()) == pytest.approx(1, abs=0.1)
    sky = images[labels == 0].mean((0, 2, 3))
    assert sky[2] > sky[0]  # above airplanes it is blue


# The parts --------------------------------------------------------------------------------------


def test_two_digits_in_opposite_corners() -> None:
    kinds = [torch.full((3, corners.DIGIT, corners.DIGIT), float(kind + 1)) for kind in range(corners.KINDS)]
    images, labels = corners.pairs(kinds, 200)
    side = corners.DIGIT
    ends = images[:, 0, [0, 0, -1, -1], [0, -1, 0, -1]]  # the four corners
    assert ((ends > 0).sum(1) == 2).all()
    falls = ends[:, 0] > 0
    assert torch.equal(falls, ends[:, 3] > 0)  # opposite, not beside each other
    first, second = torch.where(falls, ends[:, 0], ends[:, 1]), torch.where(falls, ends[:, 3], ends[:, 2])
    assert torch.equal(first == second, labels == 1)
    assert 50 < int(labels.sum()) < 150
    assert 50 < int(falls.sum()) < 150
    assert not images[:, :, side:-side].any()


def test_a_token_that_enters_late_is_not_seen_before() -> None:
    net = late_token.Inserted(CaiT(late_token.config(3)), 2).double()
    images = torch.randn(1, 1, 12, 12, dtype=torch.float64)
    shapes = late_token.shapes(net, images)
    assert shapes == [[9, 9], [9, 9], [10, 10]]


def test_a_class_has_a_share_for_each_start_and_one_curve() -> None:
    images = torch.randn(60, 1, 4, 4)
    labels = (images[:, 0, 0, 0] > 0).long()
    nets = {"linear": lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 2))}
    course = lessons.Course(2 * lessons.EVERY, 20, 0.05, False, 0)
    found = lessons.class_of(nets, (images, labels), (images, labels), course, range(3))["linear"]
    assert len(found["right"]) == 3
    assert min(found["right"]) > 0.8
    assert found["weights"] == 34
    assert len(found["loss"]) == 2
    assert found["loss"][1] < found["loss"][0]
