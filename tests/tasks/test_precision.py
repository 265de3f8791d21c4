"""Average precision: cases that can be counted by hand, and what COCO's own code says of some drawn at random."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.modalities.boxes.precision import (
    AREAS,
    ENOUGH,
    Judged,
    Precision,
    ScoredBoxes,
    area_under,
    average_precision,
    joined_judgements,
    judge_image,
    tallied_precision,
    tally,
)

BOX = [10.0, 10.0, 20.0, 20.0]
FAR = [50.0, 50.0, 60.0, 60.0]


def found(*rows: tuple[float, int, list[float]]) -> ScoredBoxes:
    scores, classes, boxes = zip(*rows, strict=True) if rows else ((), (), ())
    return ScoredBoxes(
        torch.tensor(scores), torch.tensor(classes, dtype=torch.long), torch.tensor(boxes).reshape(-1, 4)
    )


def truth(*rows: tuple[int, list[float]]) -> tuple[Tensor, Tensor]:
    classes, boxes = zip(*rows, strict=True) if rows else ((), ())
    return torch.tensor(boxes).reshape(-1, 4), torch.tensor(classes, dtype=torch.long)


def test_all_found_and_none_found() -> None:
    there = truth((0, BOX), (1, FAR))
    assert average_precision([judge_image(found((0.3, 0, BOX), (0.9, 1, FAR)), *there, 2)]).all == 1
    assert average_precision([judge_image(found(), *there, 2)]).all == 0
    assert average_precision([judge_image(found((0.3, 1, BOX), (0.9, 0, FAR)), *there, 2)]).all == 0


def test_a_false_one_before_and_behind_the_right_one() -> None:
    """Behind, it costs nothing; before, every precision is a half."""
    there = truth((0, BOX))
    behind = average_precision([judge_image(found((0.9, 0, BOX), (0.3, 0, FAR)), *there, 1)])
    before = average_precision([judge_image(found((0.3, 0, BOX), (0.9, 0, FAR)), *there, 1)])
    assert (behind.all, before.all) == (1.0, 0.5)


def test_a_second_detection_of_the_same_box_is_false() -> None:
    precision = average_precision(
        [judge_image(found((0.9, 0, BOX), (0.8, 0, BOX), (0.7, 0, FAR)), *truth((0, BOX), (0, FAR)), 1)]
    )
    wanted = (51 * 1.0 + 50 * 2 / 3) / 101  # to recall 0.5 all was right, then two of three
    assert precision.all == pytest.approx(wanted)


def test_how_much_overlap_is_enough() -> None:
    """Half of the box twice as wide: an overlap of 0.7 counts up to there."""
    wide = [10.0, 10.0, 24.2857143, 20.0]  # 100 / 142.857 = 0.7
    precision = average_precision([judge_image(found((0.9, 0, wide)), *truth((0, [10.0, 10.0, 20.0, 20.0])), 1)])
    assert precision.at(0.5) == 1
    assert precision.at(0.75) == 0
    assert precision.all == pytest.approx(0.5, abs=0.1)


def test_of_two_boxes_the_one_with_more_overlap_is_taken() -> None:
    near, other = [10.0, 10.0, 20.0, 20.0], [12.0, 10.0, 22.0, 20.0]
    judged = judge_image(found((0.9, 0, other), (0.8, 0, near)), *truth((0, near), (0, other)), 1)
    assert judged.right.all()


def test_classes_without_a_box_do_not_count() -> None:
    precision = average_precision([judge_image(found((0.9, 0, BOX), (0.8, 2, FAR)), *truth((0, BOX)), 3)])
    assert precision.all == 1
    first, second, third = precision.by_class()
    assert first == 1
    assert np.isnan([second, third]).all()


def test_a_class_that_the_data_has_not_does_not_count() -> None:
    """A net may have more classes than its data."""
    judged = judge_image(found((0.9, 3, BOX), (0.8, 0, BOX)), *truth((0, BOX)), 2)
    assert judged.classes.tolist() == [0]
    assert tallied_precision(tally(judged), judged.wanted).all == 1


def test_areas() -> None:
    """What is too large need not be found, and whoever finds it is neither right nor wrong."""
    large = [0.0, 0.0, 50.0, 50.0]
    seen = found((0.9, 0, large), (0.8, 0, BOX))
    small = average_precision([judge_image(seen, *truth((0, BOX), (0, large)), 1, AREAS["small"])])
    assert small.all == 1
    missed = average_precision([judge_image(found((0.9, 0, BOX)), *truth((0, BOX), (0, large)), 1, AREAS["medium"])])
    assert missed.all == 0


def scene(draw: np.random.Generator, classes: int) -> tuple[ScoredBoxes, tuple[Tensor, Tensor]]:
    """Boxes, and detections near some of them: right and wrong classes, doubles, some out of nowhere."""
    count = int(draw.integers(0, 7))
    low = draw.uniform(0, 300, (count, 2))
    boxes = np.concatenate([low, low + draw.uniform(5, 150, (count, 2))], 1)
    labels = draw.integers(0, classes, count)
    pick = draw.integers(0, max(count, 1), int(draw.integers(0, 12)) if count else 0)
    noise = draw.normal(0, 4, (len(pick), 4))
    wrong = draw.random(len(pick)) < 0.2
    told = np.where(wrong, draw.integers(0, classes, len(pick)), labels[pick] if count else 0)
    extra = draw.uniform(0, 300, (3, 2))
    said = np.concatenate([boxes[pick] + noise, np.concatenate([extra, extra + draw.uniform(5, 100, (3, 2))], 1)])
    said[:, 2:] = np.maximum(said[:, 2:], said[:, :2] + 1)
    scores = draw.random(len(said)).round(2)  # so that some are equal
    classes_said = np.concatenate([told, draw.integers(0, classes, 3)])
    return (
        ScoredBoxes(torch.from_numpy(scores), torch.from_numpy(classes_said).long(), torch.from_numpy(said)),
        (torch.from_numpy(boxes).reshape(-1, 4), torch.from_numpy(labels).long()),
    )


def scenes(seed: int, count: int = 40, classes: int = 3) -> list[tuple[ScoredBoxes, tuple[Tensor, Tensor]]]:
    draw = np.random.default_rng(seed)
    return [scene(draw, classes) for _ in range(count)]


# COCO's own code (pycocotools 2.0.11, COCOeval) on scenes(seed): AP, AP50, AP75, and of small, medium and large boxes.
THEIRS = {
    0: (0.145952330990, 0.241828582147, 0.161376355832, 0.031638735302, 0.153963531008, 0.310686818681),
    1: (0.154334651495, 0.241990646149, 0.170960171319, 0.037816886263, 0.173529773377, 0.378112109938),
    2: (0.164792183902, 0.267761351566, 0.205974502498, 0.032780361369, 0.164636399420, 0.348651764982),
    3: (0.178547017079, 0.281936906754, 0.215561751796, 0.047296800618, 0.201814630121, 0.406435996163),
}


@pytest.mark.parametrize("seed", THEIRS)
def test_what_cocos_own_code_says(seed: int) -> None:
    def precision(name: str):
        return average_precision([judge_image(seen, *there, 3, AREAS[name]) for seen, there in scenes(seed)])

    whole = precision("all")
    ours = (whole.all, whole.at(0.5), whole.at(0.75), *(precision(name).all for name in ("small", "medium", "large")))
    assert ours == pytest.approx(THEIRS[seed], abs=1e-9)


def tallied(judged: list[Judged]) -> Precision:
    """In two batches."""
    parts = [joined_judgements(judged[:20]), joined_judgements(judged[20:])]
    return tallied_precision(tally(parts[0]) + tally(parts[1]), parts[0].wanted + parts[1].wanted)


WAYS = {  # what a net may do with the log-odds of its scores: all are near 0, near 1, or near both
    "as they are": lambda odds: odds,
    "sharpened": lambda odds: 20 * odds,
    "flat": lambda odds: odds / 50,
    "sure": lambda odds: odds / 3 + 12,
    "unsure": lambda odds: odds / 3 - 12,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", THEIRS)
def test_counts_that_add_up_say_the_same_whatever_the_scores(seed: int, way: str) -> None:
    draw, judged = np.random.default_rng(seed), []
    for seen, there in scenes(seed):
        odds = torch.logit(seen.scores + torch.from_numpy(draw.uniform(0.001, 0.009, len(seen.scores)) * 0.9), 1e-4)
        judged.append(judge_image(replace(seen, scores=WAYS[way](odds)), *there, 3))
    exact = average_precision(judged)
    told = tallied(judged)
    assert told.all == pytest.approx(exact.all, abs=0.002)
    assert told.at(0.5) == pytest.approx(exact.at(0.5), abs=0.002)


def test_of_equal_scores_none_comes_first() -> None:
    """A right and a wrong one: the precision is 1 in one order, 1/2 in the other, and told between them in both."""
    there = truth((0, BOX))
    told = []
    for seen in (found((0.5, 0, BOX), (0.5, 0, FAR)), found((0.5, 0, FAR), (0.5, 0, BOX))):
        judged = judge_image(seen, *there, 1)
        told.append(tallied_precision(tally(judged), judged.wanted).all)
    assert average_precision([judge_image(found((0.5, 0, FAR), (0.5, 0, BOX)), *there, 1)]).all == 0.5
    assert told[0] == told[1] == pytest.approx(1 / 1.5)


def test_a_crowd_is_neither_found_nor_missed() -> None:
    """COCO's rule: what lies in a crowd by enough of its own area does not count, however often; what has a box of its
    own is right all the same."""
    crowd = torch.tensor([False, True])
    wide = [0.0, 0.0, 100.0, 100.0]
    boxes, labels = truth((0, BOX), (0, wide))
    within = [50.0, 50.0, 60.0, 60.0]  # a hundredth of the crowd, and all of itself
    half = [90.0, 0.0, 110.0, 10.0]
    seen = found((0.9, 0, within), (0.8, 0, within), (0.7, 0, half), (0.6, 0, BOX))
    judged = judge_image(seen, boxes, labels, 1, crowds=crowd)
    assert judged.wanted.tolist() == [1]
    assert judged.right.any(0).tolist() == [False, False, False, True]
    assert judged.wrong[0].tolist() == [False] * 4
    assert judged.wrong[1].tolist() == [False, False, True, False]  # at an overlap of 0.55
    assert judge_image(seen, boxes, labels, 1).wrong[0].any()  # as things of their own


@pytest.mark.parametrize("seed", [0, 1])
def test_counts_that_add_up_say_nearly_the_same(seed: int) -> None:
    """Exactly the same, when no two scores share a step."""
    judged = [judge_image(replace(seen, scores=seen.scores.logit(1e-4)), *there, 3) for seen, there in scenes(seed)]
    exact = average_precision(judged)
    assert tallied(judged).all == pytest.approx(exact.all, abs=0.02)  # many scores are equal
    steps = iter(np.random.default_rng(seed).permutation(1024))
    apart = []
    for seen, there in scenes(seed):
        scores = torch.tensor([float(next(steps)) / 1024 - 0.5 for _ in seen.scores])
        apart.append(judge_image(ScoredBoxes(scores, seen.classes, seen.boxes), *there, 3))
    exact = average_precision(apart)
    assert tallied(apart).all == pytest.approx(exact.all, abs=1e-12)


def test_ten_overlaps() -> None:
    assert np.allclose(ENOUGH, np.linspace(0.5, 0.95, 10))


@pytest.mark.parametrize("boxes", [10, 20, 30, 70, 100])
def test_a_recall_on_the_grid_is_reached(boxes: int) -> None:
    """Recalls of so many boxes are points of the grid. COCO's own code takes them from numpy, and one that is an ulp
    off would ask for the next detection."""
    wanted, right = float(boxes), torch.ones(boxes, dtype=torch.bool)
    wrong = torch.arange(boxes) % 3 == 1  # a false one stands after each of these
    judged = torch.stack((right, wrong), 1).flatten(), torch.stack((right, torch.zeros_like(right)), 1).flatten()
    true = judged[1][judged[0]]
    hits, misses = np.cumsum(true.numpy()), np.cumsum(~true.numpy())
    precision = np.maximum.accumulate((hits / (hits + misses))[::-1])[::-1]
    places = np.searchsorted(hits / wanted, np.linspace(0, 1, 101))
    expected = np.where(places < len(precision), precision[np.minimum(places, len(precision) - 1)], 0.0).mean()
    found = area_under(true[None], ~true[None], torch.tensor(wanted, dtype=torch.float64))
    assert float(found[0]) == pytest.approx(expected, abs=1e-12)
