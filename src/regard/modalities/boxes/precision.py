"""Average precision: how well boxes are found, by COCO's definition.

Microsoft COCO: Common Objects in Context (Lin et al., 2014), https://arxiv.org/abs/1405.0312, and its evaluation,
https://cocodataset.org/#detection-eval
Of each image and class, the detections in the order of their scores each take the free box that they overlap most, if
by enough; what takes none is a false one. Over all images, by falling score, that gives a precision for each recall; it
is made monotone, read at 101 recalls and averaged. AP is the mean over classes and over ten overlaps, 0.5 to 0.95.

A crowd, one box around many things, need not be found, and what lies in it by enough of its own area is not counted.

Shapes: n detections, m boxes, t overlaps that count as enough, c classes. Boxes are by corners, in pixels.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.nn.boxes import box_area, intersection, iou, safe_divisor

ENOUGH = tuple(0.5 + 0.05 * i for i in range(10))
RECALLS = 101
MOST = 100  # detections of one class in an image; those with less score are not counted
CELLS = 1 << 18  # steps of scores of all classes, where detections are counted and not kept
FEWEST = 1 << 10  # of one class
SUREST = 500.0  # log-odds that are told apart
WRONG = float(1 << 26)  # more right ones than this are never in one step
AREAS = {"all": (0.0, 1e10), "small": (0.0, 32.0**2), "medium": (32.0**2, 96.0**2), "large": (96.0**2, 1e10)}


@dataclass(frozen=True, eq=False)
class ScoredBoxes:
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
def judge_image(
    found: ScoredBoxes,
    boxes: Tensor,
    labels: Tensor,
    classes: int,
    within: tuple[float, float] = AREAS["all"],
    crowds: Tensor | None = None,
) -> Judged:
    """One image: its detections against its boxes (m, 4), (m,). Those outside of ``within``, an area in pixels, and
    those that are ``crowds``, (m,), need not be found, and a detection of theirs is neither right nor wrong."""
    kept, right, wrong = [], [], []
    crowds = torch.zeros_like(labels, dtype=torch.bool) if crowds is None else crowds
    spare = outside(boxes, within) | crowds
    for label in sorted({label for label in found.classes.tolist() if label < classes}):  # others nobody has named
        own = (found.classes == label).nonzero()[:, 0]
        own = own[found.scores[own].sort(descending=True, stable=True).indices][:MOST]
        there = labels == label
        taken, missed = match(found.boxes[own], boxes[there], spare[there], crowds[there])
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
    return (box_area(boxes) < within[0]) | (box_area(boxes) > within[1])


def match(found: Tensor, boxes: Tensor, spare: Tensor, crowds: Tensor) -> tuple[Tensor, Tensor]:
    """Detections of one class by falling score, (n, 4) and (m, 4) -> (t, n) right, (t, n) without any box. A crowd is
    never taken: it may be found many times."""
    enough = torch.tensor(ENOUGH, dtype=torch.float64, device=found.device)[:, None]
    shape = len(ENOUGH), len(found)
    right, missed = (torch.zeros(shape, dtype=torch.bool, device=found.device) for _ in range(2))
    if not len(boxes):
        return right, ~missed
    one, two = found[:, None].double(), boxes.double()
    common = torch.where(crowds, intersection(one, two) / safe_divisor(box_area(one)), iou(one, two))  # (n, m)
    free = torch.ones(len(ENOUGH), len(boxes), dtype=torch.bool, device=found.device)
    rows = torch.arange(len(ENOUGH), device=found.device)
    for i in range(len(found)):
        able = free & (common[i] >= enough - 1e-12)
        able = torch.where((able & ~spare).any(1, keepdim=True), able & ~spare, able)  # one to be found comes first
        value = torch.where(able, common[i], -1.0)
        best = len(boxes) - 1 - value.flip(1).argmax(1)  # of equal ones the last, as theirs
        hit = able.any(1)
        free[rows[hit], best[hit]] = crowds[best[hit]]
        right[:, i], missed[:, i] = hit & ~spare[best], ~hit
    return right, missed


@torch.no_grad()
def average_precision(images: Sequence[Judged]) -> Precision:
    """Exactly, from all detections."""
    every = joined_judgements(images)
    order = every.scores.sort(descending=True, stable=True).indices
    columns = []
    for label, wanted in enumerate(every.wanted.double()):
        own = order[every.classes[order] == label]
        columns.append(area_under(every.right[:, own], every.wrong[:, own], wanted))
    return Precision(torch.stack(columns, 1))


def joined_judgements(images: Sequence[Judged]) -> Judged:
    """All of them as one."""
    return Judged(
        torch.cat([x.scores for x in images]),
        torch.cat([x.classes for x in images]),
        torch.cat([x.right for x in images], 1),
        torch.cat([x.wrong for x in images], 1),
        torch.stack([x.wanted for x in images]).sum(0),
    )


@torch.no_grad()
def tally(judged: Judged) -> Tensor:
    """Counts that add up over images, of detections whose scores are log-odds, the highest first: (t, c, steps). Each
    is the number of right ones, and ``WRONG`` for each wrong one: both are whole, and so is every sum of them."""
    classes = len(judged.wanted)
    steps = max(CELLS // max(classes, 1), FEWEST)
    place = step_of(judged.scores, steps) + judged.classes * steps
    counts = torch.zeros(len(ENOUGH), classes * steps, dtype=torch.float64, device=place.device)
    counts.index_add_(1, place, judged.right.double() + WRONG * judged.wrong.double())
    return counts.unflatten(-1, (classes, steps))


def step_of(odds: Tensor, steps: int) -> Tensor:
    """From 0, the surest, to steps - 1. They are even in asinh(2 log(p / (1 - p))): finest near a half, and wider only
    where a net is so sure that its log-odds are far apart anyway."""
    odds = torch.nan_to_num(odds.double(), nan=-SUREST).clamp(-SUREST, SUREST)
    share = (2 * odds).asinh() / math.asinh(2 * SUREST)
    return ((1 - share) / 2 * steps).long().clamp(0, steps - 1)


@torch.no_grad()
def tallied_precision(counts: Tensor, wanted: Tensor) -> Precision:
    """(t, c, steps), (c,): exactly, but for the order of those within one step"""
    wrong = (counts / WRONG).floor()
    right = counts - WRONG * wrong
    return Precision(torch.stack([area_under(right[:, i], wrong[:, i], wanted[i]) for i in range(len(wanted))], 1))


def area_under(right: Tensor, wrong: Tensor, wanted: Tensor) -> Tensor:
    """Counts by falling score, (t, n) -> (t,). In what order those of one count came is not known: the wrong ones are
    taken to stand evenly among the right ones, as they do in the mean over all orders."""
    if not wanted:
        return torch.full((len(right),), torch.nan, dtype=torch.float64, device=right.device)
    return torch.stack(
        [averaged(hits.long(), misses.double(), wanted) for hits, misses in zip(right, wrong, strict=True)]
    )


def averaged(right: Tensor, wrong: Tensor, wanted: Tensor) -> Tensor:
    """Of one overlap: (n,), (n,) -> ()"""
    place = torch.arange(len(right), device=right.device).repeat_interleave(right)  # of each right one
    hits = torch.arange(1, len(place) + 1, dtype=torch.float64, device=right.device)
    if not len(hits):
        return hits.sum()
    within = hits - (right.cumsum(0) - right)[place]  # the how manieth of its count, from 1
    misses = (wrong.cumsum(0) - wrong)[place] + wrong[place] * within / (right[place] + 1)
    best = (hits / (hits + misses)).flip(0).cummax(0).values.flip(0)
    asked = torch.arange(RECALLS, dtype=torch.float64, device=right.device) * 0.01  # linspace rounds some otherwise
    reached = torch.searchsorted(hits / wanted, asked)
    return torch.where(reached < len(best), best[reached.clamp(max=len(best) - 1)], 0.0).mean()
