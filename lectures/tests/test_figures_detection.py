"""The figures of detection: every check can fail; the detector with fixed anchors, and how images are kept."""

from typing import Any

import numpy as np
import pytest
import torch

from lectures.tests.test_figures import NAMES, every_check_fails
from regard.modalities.boxes.detection import BoxedBatch, collate_boxes
from regard.modalities.boxes.precision import ScoredBoxes
from regard.models.resnet import ResNetSizes
from regard.nn.boxes import corners
from regard_lectures.table import FIGURES
from regard_lectures.vision import anchors, assigned, heard, outlined, query_slots, scenes

SPOILED: dict[str, list[tuple[str, Any]]] = {
    "5.12": [("map", [[0.0]]), ("queries.kinds", [3] * 9), ("queries.kinds", [3] * 10), ("AP50", 0.5)],
    "5.12b": [
        ("chosen", [1, 1, 1, 1]),
        ("least", -99.0),
        ("greedy", -99.0),
    ],
    "5.12c": [
        ("ways.as in the paper.AP50", [[0.0] * 13] * 3),
        ("ways.last layer alone.AP50", [[1.0] * 13] * 3),
        ("ways.silence weighs 1.AP50", [[1.0] * 13] * 3),
        ("ways.silence weighs 1.told", [[3.0] * 12] * 3),
        ("ways.as in the paper.told", [[0.0] * 12] * 3),
    ],
    "5.12d": [("explained", 0.1), ("shuffled", 0.5), ("explained by objects", 0.1), ("used", [0.0] * 10)],
    "5.12e": [("found", 3), ("on", 0.1), ("more", 0.5), ("rows", 0.1), ("scenes", [])],
    "5.12f": [
        ("minutes.DETR", 99.0),
        ("AP50.DETR", [0.0] * 4),
        ("AP50.fixed anchors", [0.3] * 4),
        ("AP50.DETR", [1.0] * 4),
    ],
    "5.12g": [
        ("counted.DETR, ResNet-50", 30_000_000),
        ("counted.DETR, ResNet-101", 30_000_000),
    ],
}


def test_all_that_is_recorded_is_spoiled() -> None:
    assert [name for name in FIGURES if name.startswith("5.12")] == list(SPOILED)


@pytest.mark.parametrize("name", [name for name in SPOILED if name in NAMES])
def test_every_check_can_fail(name: str) -> None:
    every_check_fails(name, SPOILED[name])


# ------------------------------------------------------------------------------------------------------- fixed anchors

TINY = ResNetSizes(width=8, layer="basic", depths=(1, 1), dims=(8, 16))


def two_images() -> BoxedBatch:
    boxes = torch.tensor([[0.3, 0.3, 0.3, 0.4], [0.7, 0.6, 0.3, 0.3]])
    images = [torch.randn(3, 32, 40), torch.randn(3, 24, 32)]
    return collate_boxes(images, [boxes, boxes[:1]], [torch.tensor([0, 1]), torch.tensor([1])])


def test_anchors_stand_at_every_place_and_moves_have_a_way_back() -> None:
    net, batch = anchors.Anchors(TINY, 2, (8.0, 16.0)), two_images()
    said = net(batch.images, batch.sizes)
    assert said.logits.shape == (2, 4 * 5 * 6, 2)
    assert said.real.sum(1).tolist() == [4 * 5 * 6, 3 * 4 * 6]
    first = said.anchors[1, 0] * torch.tensor([32, 24, 32, 24])  # in pixels of the smaller image
    torch.testing.assert_close(first[:2], torch.tensor([4.0, 4.0]))
    assert float(first[2:].prod()) == pytest.approx(64)
    boxes = torch.rand(10, 4) * 0.5 + 0.1
    own = said.anchors[0, :10]
    torch.testing.assert_close(anchors.moved(own, anchors.moves_to(own, boxes)), boxes)


def test_who_shall_find_what() -> None:
    boxes = torch.tensor([[0.5, 0.5, 0.2, 0.2], [0.1, 0.1, 0.02, 0.02]])
    some = torch.tensor([[0.5, 0.5, 0.2, 0.2], [0.56, 0.5, 0.2, 0.2], [0.58, 0.5, 0.2, 0.2], [0.12, 0.1, 0.2, 0.2]])
    assert anchors.wanted(some, boxes).tolist() == [0, 0, -2, 1]  # the last is far, and yet the nearest
    assert anchors.wanted(some, boxes[:0]).tolist() == [-1] * 4


def test_of_what_overlaps_the_surest_of_a_class_stays() -> None:
    boxes = torch.tensor([[0.0, 0, 10, 10], [1, 0, 11, 10], [0, 0, 10, 10], [50, 50, 60, 60]])
    found = ScoredBoxes(torch.tensor([0.5, 0.9, 0.4, 0.3]), torch.tensor([0, 0, 1, 0]), boxes)
    assert [round(x, 1) for x in anchors.suppressed(found).scores.tolist()] == [0.9, 0.4, 0.3]


def test_anchors_learn_two_images_by_heart() -> None:
    torch.manual_seed(0)
    net, batch = anchors.Anchors(TINY, 2, (10.0, 14.0)), two_images()
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = anchors.focal_loss(net(batch.images, batch.sizes), batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]
    found = anchors.found_by(net(batch.images, batch.sizes), batch)
    told = scenes.judged(found, batch, 2)
    assert sum(int(one.right[0].sum()) for one in told) == 3  # at an overlap of one half
    assert anchors.common_sides([batch])[1] > 5


# ------------------------------------------------------------------------------------------------------------- helpers


def test_an_image_is_kept_in_sixteen_colours() -> None:
    image = torch.zeros(3, 30, 40, dtype=torch.uint8)
    image[0, :, :20] = 250
    found = scenes.photograph(scenes.kept(image, 40))
    assert found.shape == (30, 40, 3)
    assert np.abs(found.astype(int) - image.permute(1, 2, 0).numpy()).max() < 8
    assert scenes.scene(3).shape == (64, 64, 3)


def test_queries_that_look_at_one_place_explain_all() -> None:
    places = torch.rand(4, 2).expand(50, 4, 2)
    assert query_slots.explained(places) == pytest.approx(1.0, abs=1e-5)
    assert query_slots.explained(torch.rand(5000, 4, 2)) < 0.01
    assert query_slots.explained(query_slots.mixed(torch.rand(4, 2).expand(5000, 4, 2))) < 0.01
    kept = torch.ones(50, 4, dtype=torch.bool)
    assert query_slots.within(places, kept) == pytest.approx(1.0, abs=1e-5)
    ((x, y, size),) = query_slots.unpacked(query_slots.packed([0.25, 0.5, 0.4, 0.2]))
    assert (x, y) == pytest.approx((0.25, 0.5), abs=0.01)
    assert size == pytest.approx(0.3, abs=0.04)


def test_small_sums() -> None:
    assert assigned.greedy(torch.tensor([[1.0, 0.0], [5.0, 9.0]])) == 10.0  # the first takes what the second needs
    assert heard.area([0.0] + [1.0] * 12) == pytest.approx(1 - 50 / 3000)
    near = outlined.around(torch.tensor([[0.5, 0.5, 0.25, 0.25]]), 8, 8, 0.5).unflatten(-1, (8, 8))[0]
    assert near.sum() == 16
    assert corners(torch.tensor([0.5, 0.5, 0.1, 0.1]))[0] == pytest.approx(0.45)
