"""The figures of vision: how their nets are taught, what they draw, and every check can fail."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from lectures.tests.test_figures import NAMES, every_check_fails, module, recorded, spoiled
from regard.models.cait import CaiT
from regard.nn.mixers.windows import WindowAttention
from regard_lectures.figure import verdict
from regard_lectures.table import FIGURES
from regard_lectures.vision import (
    corners,
    effective,
    front,
    larger_windows,
    late_token,
    layer_scale,
    lessons,
    nested,
    outlookers,
    shifts,
    small,
    tiny_imagenet,
    variance,
)

SPOILED: dict[str, list[tuple[str, Any]]] = {
    "5.1": [
        ("layers.0", [[1.0]]),
        ("measured.7", 16),
        *((f"nets.{name}.0", 1) for name in (*nested.NETS, "the library’s cnn-small")),
    ],
    "5.1b": [
        *((f"fields.{layers}.spread", 9.0) for layers in effective.LAYERS),
        ("fields.8.bell", 0.5),
        ("right", 0.1),
        ("heads.0", [0.1, 0.1, 0.1, 0.1]),
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
        ("convolutions alone.right", [0.5, 0.9, 0.9]),
        ("with a non-local block.right", [0.5] * 3),
        ("with a non-local block.weights", 1_000_000),
    ],
    "5.6": [
        ("ViT.0", [9, 9]),
        ("ViT, late token.5", [9, 9]),
        ("CaiT.5", [10, 10]),
        ("class row", 0.1),
        ("patches", 0.1),
    ],
    "5.6b": [
        ("late token, none.weights", 1000),
        *((f"{name}.right", [0.1] * 3) for name in layer_scale.WAYS),
        ("first token, none.right", [0.99] * 3),
        ("late token, none.right", [0.99] * 3),
    ],
    "5.6c": [
        ("right", 0.1),
        ("on garment", [0.1] * 4),
        ("from even", 0.0),
        ("heads apart", 0.0),
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
    "5.7d": [
        ("ViT.weights", 1000),
        *((f"{name}.right", [0.1] * 3) for name in shifts.TINTS),
        ("Swin without shifts.right", [0.99] * 3),
    ],
    "5.7e": [
        *((f"measured.{name}.right", 0.1) for name in tiny_imagenet.QUOTED),
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
        *((f"{name}.loss", [[1.0, 1.0]] * 3) for name in variance.TINTS),
        *((f"Swin.{when}", [[1.0, 1.0]] * 3) for when in variance.TIMES),
        *((f"Swin v2.{when}", [[1.0, 9.0]] * 3) for when in variance.TIMES),
    ],
    "5.8c": [
        *((f"{name}.trained", [0.1] * 3) for name in larger_windows.KINDS),
        ("Swin v2, log-spaced.larger", [0.0] * 3),
    ],
    "5.9": [
        ("by hand", 0.1),
        ("weights.0", [0.2] * 9),
        ("weights", [[1.0]]),
        ("summed", 0.1),
        ("even", 0.1),
    ],
    "5.9b": [
        *((f"{name}.right", [0.1] * 3) for name in outlookers.NETS),
        ("two outlookers, four blocks.operations", 10**9),
        ("two outlookers, four blocks.weights", 10**9),
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
    "5.11b": [
        *((f"nets.{name}.right", 0.1) for name in front.FRONT),
        ("nets.CNN", {"right": 0.99, "speed": 1e9, "weights": 1}),
    ],
}


def test_all_of_these_figures_are_in_the_table() -> None:
    table = [name for name in FIGURES if FIGURES[name].startswith("regard_lectures.vision.")]
    assert [name for name in table if name in SPOILED] == list(SPOILED)


@pytest.mark.parametrize("name", [name for name in SPOILED if name in NAMES])
def test_every_check_can_fail(name: str) -> None:
    every_check_fails(name, SPOILED[name])


@pytest.mark.parametrize(
    ("name", "path", "value", "now"),
    [
        ("5.2b", "with a non-local block.right", [0.95, 0.5, 0.5], "partly"),
        ("5.6b", "late token, LayerScale.right", [0.9] * 3, "confirmed"),
        ("5.6c", "on garment", [0.9] * 4, "confirmed"),
        ("5.7d", "Swin.right", [0.45] * 3, "contradicted"),
        ("5.7e", "measured.Swin.right", 0.99, "confirmed"),
        ("5.9b", "two outlookers, four blocks.right", [0.82] * 3, "partly"),
    ],
)
def test_the_verdict_turns_with_the_numbers(name: str, path: str, value: Any, now: str) -> None:
    numbers = recorded(name)["numbers"]
    assert verdict(module(name).checks(numbers)) == recorded(name)["verdict"]
    assert verdict(module(name).checks(spoiled(numbers, path, value))) == now


def test_a_varied_image_is_the_same_image_moved_or_mirrored() -> None:
    images = torch.arange(1.0, 1 + 8 * 25).view(8, 1, 5, 5)
    course = lessons.Course("photos", 1, moved=1)
    found = lessons.varied(images, course)
    wide = torch.nn.functional.pad(images, (1, 1, 1, 1))
    for new, old in zip(found, wide, strict=True):
        moves = [old[:, i : i + 5, j : j + 5] for i in range(3) for j in range(3)]
        mirrored = torch.nn.functional.pad(old[:, 1:-1, 1:-1].flip(-1), (1, 1, 1, 1))
        moves += [mirrored[:, i : i + 5, j : j + 5] for i in range(3) for j in range(3)]
        assert sum(torch.equal(new, move) for move in moves) == 1
    assert not torch.equal(found, images)
    assert torch.equal(lessons.varied(images, lessons.Course("photos", 1, mirrored=False, moved=0)), images)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Images whose first pixel is their label, in place of garments; nets are kept in a folder of the test."""

    def read(split: str) -> tuple[torch.Tensor, torch.Tensor]:
        images = torch.randn(60, 1, 6, 6, generator=torch.Generator().manual_seed(len(split)))
        return images, (images[:, 0, 0, 0] > 0).long()

    monkeypatch.setitem(lessons.SETS, "garments", read)
    monkeypatch.chdir(tmp_path)


COURSE = lessons.Course("garments", 2 * lessons.EVERY, 20, 0.05, mirrored=False, moved=0)


def line() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, 2), torch.nn.BatchNorm1d(2))


@pytest.mark.usefixtures("few")
def test_a_course_teaches_by_its_seed_and_leaves_a_net_for_use() -> None:
    losses = []
    for _ in range(2):
        torch.manual_seed(3)
        net = line()
        torch.randn(5 + len(losses))  # what is drawn elsewhere changes nothing
        losses.append(lessons.taught(net, COURSE, 1))
    assert losses[0] == losses[1]
    assert losses[0][-1] < 0.8 * losses[0][0]
    assert not net.training
    assert lessons.share(net, *lessons.SETS["garments"]("train")) > 0.8


@pytest.mark.usefixtures("few")
def test_some_images_are_picked_by_the_seed() -> None:
    images, labels = lessons.SETS["garments"]("train")
    course = replace(COURSE, known=10)
    some, theirs = lessons.known(course, 0)
    where = [int((images == one).all((1, 2, 3)).nonzero()) for one in some]
    assert len(set(where)) == 10
    assert torch.equal(labels[where], theirs)
    assert torch.equal(lessons.known(course, 0)[0], some)
    assert not torch.equal(lessons.known(course, 1)[0], some)
    assert len(lessons.known(COURSE, 0)[0]) == 60


@pytest.mark.usefixtures("few")
def test_a_pupil_is_taught_once_for_each_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    first = lessons.pupil("a line", line, COURSE, 0)
    with monkeypatch.context() as context:
        context.setattr(lessons, "taught", lambda *_: pytest.fail("it was taught again"))
        again = lessons.pupil("a line", line, COURSE, 0)
    assert again.losses == first.losses
    images = lessons.SETS["garments"]("test")[0]
    assert torch.equal(again.net(images), first.net(images))  # batch norm's statistics too
    assert not again.net.training
    others = [replace(COURSE, steps=41), replace(COURSE, known=30), replace(COURSE, rate=0.01)]
    assert all(lessons.pupil("a line", line, course, 0).losses != first.losses for course in others)
    assert lessons.pupil("a line", line, COURSE, 1).losses != first.losses
    assert len(list(Path("runs/nets").iterdir())) == 5


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


def test_a_net_without_shifts_is_the_same_but_for_them() -> None:
    def moved(net: torch.nn.Module) -> list[int]:
        return [part.shift for part in net.modules() if isinstance(part, WindowAttention)]

    plain, fixed = small.NETS["Swin"](), small.NETS["Swin without shifts"]()
    assert max(moved(plain)) == 2
    assert set(moved(fixed)) == {0}
    assert len(moved(fixed)) == len(moved(plain))


def test_the_front_is_what_nobody_beats_in_both() -> None:
    nets = {
        "slow and good": {"speed": 1.0, "right": 0.9},
        "fast and bad": {"speed": 9.0, "right": 0.1},
        "beaten": {"speed": 2.0, "right": 0.4},
        "between": {"speed": 3.0, "right": 0.5},
    }
    assert front.unbeaten(nets) == ["slow and good", "fast and bad", "between"]


def test_a_token_that_enters_late_is_not_seen_before() -> None:
    net = late_token.Inserted(CaiT(late_token.config(3)), 2).double()
    images = torch.randn(1, 1, 12, 12, dtype=torch.float64)
    shapes = late_token.shapes(net, images)
    assert shapes == [[9, 9], [9, 9], [10, 10]]


def test_outlookers_see_their_neighbours_before_patches_are_merged() -> None:
    net = outlookers.Outlooking().eval()
    images = torch.zeros(1, 1, 28, 28, requires_grad=True)
    fine = net.fine(images)
    for block in net.outlookers:
        fine = block(fine)
    fine[0, 7, 7].sum().backward()
    assert images.grad is not None
    rows = images.grad[0, 0].abs().sum(1).nonzero()[:, 0]
    assert 6 < int(rows[-1] - rows[0]) + 1 < 28  # more than its own two pixels, less than all
    assert net(images).shape == (1, 10)


@pytest.mark.usefixtures("few")
def test_a_class_has_a_share_for_each_start_and_one_curve() -> None:
    found = lessons.class_of({"linear": line}, COURSE, range(3))["linear"]
    assert len(found["right"]) == 3
    assert min(found["right"]) > 0.6
    assert found["weights"] == 78
    assert len(found["loss"]) == 2
    assert found["loss"][1] < found["loss"][0]
