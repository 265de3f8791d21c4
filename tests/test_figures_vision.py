"""The figures of vision: how their nets are taught, what they draw, and every check can fail."""

from pathlib import Path

import pytest
import torch

from regard.figures.vision import lessons


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
