"""Average precision: how well boxes are found, by COCO's definition.

Microsoft COCO: Common Objects in Context (Lin et al., 2014), https://arxiv.org/abs/1405.0312, and its evaluation,
https://cocodataset.org/#detection-eval
Of each image and class, the detections in the order of their scores each take the free box that they overlap most, if
by enough; what takes none is a false one. Over all images, by falling score, that gives a precision for each recall; it
is made monotone, read at 101 recalls and averaged. AP is the mean over classes and over ten overlaps, 0.5 to 0.95.

Differs from COCO's: there are no crowds.

Shapes: n detections, m boxes, t overlaps that count as enough, c classes. Boxes are by corners, in pixels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.nn.boxes import area, overlap

ENOUGH = tuple(0.5 + 0.05 * i for i in range(10))
RECALLS = 101
MOST = 100  # detections of one class in an image; those with less score are not counted
BINS = 1 << 10  # of scores, where detections are counted and not kept
AREAS = {"all": (0.0, 1e10), "small": (0.0, 32.0**2), "medium": (32.0**2, 96.0**2), "large": (96.0**2, 1e10)}


@dataclass(frozen=True, eq=False)
class Found:
    """The detections of one image."""

    scores: Tensor  # (n,)
    classes: Tensor  # (n,)
    boxes: Tensor  # (n, 4)


@dataclass(frozen=True, eq=False)
class Judged:
    """The detections that were counted, and what became of each."""

    scores: Tensor  # (n,)
    classes: Tensor  # (n,)
    right: Tensor  # (t, n) bool
    wrong: Tensor  # (t, n) bool; what is neither is outside of the areas asked for
    wanted: Tensor  # (c,): boxes that were to be found


@dataclass(frozen=True, eq=False)
class Precision:
    """``table`` is AP by overlap and class, NaN of a class without a box."""

    table: Tensor  # (t, c)

    @property
    def all(self) -> float:
        return mean(self.table)

    def at(self, enough: float) -> float:
        """AP50 is at(0.5)."""
        return mean(self.table[ENOUGH.index(near(enough))])

    def by_class(self, enough: float | None = None) -> list[float]:
        rows = self.table if enough is None else self.table[ENOUGH.index(near(enough))][None]
        return [float(x) for x in rows.mean(0)]


def near(enough: float) -> float:
    return min(ENOUGH, key=lambda x: abs(x - enough))


def mean(table: Tensor) -> float:
    """Over what there is; NaN when there is nothing."""
    known = table[~table.isnan()]
    return float(known.mean()) if len(known) else float("nan")


@torch.no_grad()
def judge(
    found: Found, boxes: Tensor, labels: Tensor, classes: int, within: tuple[float, float] = AREAS["all"]
) -> Judged:
    """One image: its detections against its boxes (m, 4), (m,). Boxes outside of ``within``, an area in pixels, need
    not be found, and a detection of theirs is neither right nor wrong."""
    kept, right, wrong = [], [], []
    spare = outside(boxes, within)
    for label in sorted(set(found.classes.tolist())):
        own = (found.classes == label).nonzero()[:, 0]
        own = own[found.scores[own].sort(descending=True, stable=True).indices][:MOST]
        there = labels == label
        taken, missed = match(found.boxes[own], boxes[there], spare[there])
        kept.append(own)
        right.append(taken)
        wrong.append(missed & ~outside(found.boxes[own], within))
    wanted = torch.bincount(labels[~spare], minlength=classes)
    if not kept:
        nobody = torch.zeros(len(ENOUGH), 0, dtype=torch.bool, device=boxes.device)
        return Judged(found.scores[:0], found.classes[:0], nobody, nobody, wanted)
    order = torch.cat(kept)
    return Judged(found.scores[order], found.classes[order], torch.cat(right, 1), torch.cat(wrong, 1), wanted)


def outside(boxes: Tensor, within: tuple[float, float]) -> Tensor:
    return (area(boxes) < within[0]) | (area(boxes) > within[1])


def match(found: Tensor, boxes: Tensor, spare: Tensor) -> tuple[Tensor, Tensor]:
    """Detections of one class by falling score, (n, 4) and (m, 4) -> (t, n) right, (t, n) without any box"""
    enough = torch.tensor(ENOUGH, dtype=torch.float64, device=found.device)[:, None]
    shape = len(ENOUGH), len(found)
    right, missed = (torch.zeros(shape, dtype=torch.bool, device=found.device) for _ in range(2))
    if not len(boxes):
        return right, ~missed
    common = overlap(found[:, None].double(), boxes.double())  # (n, m)
    free = torch.ones(len(ENOUGH), len(boxes), dtype=torch.bool, device=found.device)
    rows = torch.arange(len(ENOUGH), device=found.device)
    for i in range(len(found)):
        able = free & (common[i] >= enough - 1e-12)
        able = torch.where((able & ~spare).any(1, keepdim=True), able & ~spare, able)  # one to be found comes first
        value = torch.where(able, common[i], -1.0)
        best = len(boxes) - 1 - value.flip(1).argmax(1)  # of equal ones the last, as theirs
        hit = able.any(1)
        free[rows[hit], best[hit]] = False
        right[:, i], missed[:, i] = hit & ~spare[best], ~hit
    return right, missed


@torch.no_grad()
def average_precision(images: Sequence[Judged]) -> Precision:
    """Exactly, from all detections."""
    scores, classes = torch.cat([x.scores for x in images]), torch.cat([x.classes for x in images])
    right, wrong = torch.cat([x.right for x in images], 1), torch.cat([x.wrong for x in images], 1)
    wanted = torch.stack([x.wanted for x in images]).sum(0)
    order = scores.sort(descending=True, stable=True).indices
    columns = []
    for label in range(len(wanted)):
        own = order[classes[order] == label]
        columns.append(area_under(right[:, own].double(), wrong[:, own].double(), wanted[label].double()))
    return Precision(torch.stack(columns, 1))


@torch.no_grad()
def tally(judged: Judged) -> Tensor:
    """Counts that add up over images: (2, t, c, BINS), right and wrong ones by score, the highest first."""
    classes = len(judged.wanted)
    place = ((1 - judged.scores.double()) * BINS).long().clamp(0, BINS - 1) + judged.classes * BINS
    counts = torch.zeros(2, len(ENOUGH), classes * BINS, dtype=torch.float64, device=place.device)
    for part, hits in zip(counts, (judged.right, judged.wrong), strict=True):
        part.index_add_(1, place, hits.double())
    return counts.unflatten(-1, (classes, BINS))


@torch.no_grad()
def tallied_precision(counts: Tensor, wanted: Tensor) -> Precision:
    """(2, t, c, BINS), (c,): as exact as scores in BINS steps can be"""
    pairs = [area_under(counts[0, :, i], counts[1, :, i], wanted[i]) for i in range(len(wanted))]
    return Precision(torch.stack(pairs, 1))


def area_under(right: Tensor, wrong: Tensor, wanted: Tensor) -> Tensor:
    """Counts by falling score, (t, n) -> (t,)"""
    if not wanted:
        return torch.full((len(right),), torch.nan, dtype=torch.float64, device=right.device)
    if not right.shape[1]:
        return torch.zeros(len(right), dtype=torch.float64, device=right.device)
    hits, misses = right.double().cumsum(1), wrong.double().cumsum(1)
    recall, precision = hits / wanted, hits / (hits + misses).clamp(min=torch.finfo(torch.float64).eps)
    best = precision.flip(1).cummax(1).values.flip(1)
    asked = torch.linspace(0, 1, RECALLS, dtype=torch.float64, device=right.device).expand(len(right), -1).contiguous()
    place = torch.searchsorted(recall.contiguous(), asked)
    reached = place < recall.shape[1]
    return torch.where(reached, best.gather(1, place.clamp(max=recall.shape[1] - 1)), 0.0).mean(1)
