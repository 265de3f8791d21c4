"""A detector of the kind that DETR did without: fixed anchors at every place of a map, and what overlaps is suppressed.

Focal Loss for Dense Object Detection (Lin et al., 2017), https://arxiv.org/abs/1708.02002, in miniature: at each place
of one map stand boxes of a few sizes and forms; each says, for every class, whether it is one, and how it should be
moved. An anchor that overlaps an object by half shall find it, one by less than 0.4 nothing. Of the many that find the
same thing the surest stays (non-maximum suppression).

Shapes: b batch, a anchors, c classes, m boxes of an image.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.modalities.boxes.detection import BoxedBatch, boxes_of_image, image_sizes
from regard.modalities.boxes.precision import ScoredBoxes
from regard.models.resnet import Backbone, ResNetSizes
from regard.nn.boxes import corners, iou
from regard.nn.convolution import halved_sizes, real_pixels

NEAR, FAR = 0.5, 0.4  # overlaps from which an anchor shall find a box, and below which nothing
ALPHA, GAMMA = 0.25, 2.0  # of the focal loss
RARE = 0.01  # what each anchor says of each class at first
FORMS = (2 / 3, 1.0, 3 / 2)  # width over height
TOLD, SAME = 200, 0.5  # detections of an image before suppression; the overlap that is the same thing


@dataclass(frozen=True, eq=False)
class Anchored:
    logits: Tensor  # (b, a, c)
    moves: Tensor  # (b, a, 4)
    anchors: Tensor  # (b, a, 4) by centre, as shares of each image
    real: Tensor  # (b, a), False where an anchor stands on padding


class Anchors(nn.Module):
    """``sides`` are those of the square anchors, in pixels."""

    def __init__(self, config: ResNetSizes, classes: int, sides: tuple[float, ...]) -> None:
        super().__init__()
        self.config, self.classes = config, classes
        self.shapes = [(side * math.sqrt(form), side / math.sqrt(form)) for side in sides for form in FORMS]
        dim, each = config.dims[-1], len(self.shapes)
        self.backbone = Backbone(config)
        self.label = nn.Sequential(nn.Conv2d(dim, dim, 3, padding=1), nn.ReLU(), nn.Conv2d(dim, each * classes, 1))
        self.move = nn.Sequential(nn.Conv2d(dim, dim, 3, padding=1), nn.ReLU(), nn.Conv2d(dim, each * 4, 1))
        nn.init.constant_(self.label[-1].bias, -math.log((1 - RARE) / RARE))  # type: ignore[arg-type]

    def forward(self, images: Tensor, sizes: Tensor | None = None) -> Anchored:
        """(b, 3, height, width) -> (b, a, c) and (b, a, 4)"""
        maps = self.backbone(images, sizes)
        rows, columns = maps.shape[2:]
        each, stride = len(self.shapes), self.config.stride
        told = sizes if sizes is not None else torch.tensor(images.shape[2:]).expand(len(images), 2)
        few = halved_sizes(told, stride)
        assert few is not None
        y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
        middle = ((torch.stack((x, y), -1) + 0.5) * stride).reshape(-1, 1, 2).expand(-1, each, 2)
        shape = torch.tensor(self.shapes).expand(rows * columns, each, 2)
        anchors = torch.cat((middle, shape), -1).flatten(0, 1) / told.flip(1).repeat(1, 2)[:, None]  # (b, a, 4)
        logits = self.label(maps).unflatten(1, (each, self.classes)).permute(0, 3, 4, 1, 2).flatten(1, 3)
        moves = self.move(maps).unflatten(1, (each, 4)).permute(0, 3, 4, 1, 2).flatten(1, 3)
        return Anchored(logits, moves, anchors, real_pixels(few, rows, columns).flatten(1).repeat_interleave(each, 1))


def moved(anchors: Tensor, moves: Tensor) -> Tensor:
    """Boxes by centre: moved by shares of the anchor, and scaled.  (..., 4), (..., 4) -> (..., 4)"""
    centre = anchors[..., :2] + moves[..., :2] * anchors[..., 2:]
    return torch.cat((centre, anchors[..., 2:] * moves[..., 2:].clamp(max=3).exp()), -1)


def moves_to(anchors: Tensor, boxes: Tensor) -> Tensor:
    """The way back: how anchors would have to be moved."""
    return torch.cat(((boxes[..., :2] - anchors[..., :2]) / anchors[..., 2:], (boxes / anchors)[..., 2:].log()), -1)


def wanted(anchors: Tensor, boxes: Tensor) -> Tensor:
    """Which box each anchor shall find: its number; -1 for none; -2 if it does not matter.  (a, 4), (m, 4) -> (a,)"""
    if not len(boxes):
        return torch.full((len(anchors),), -1)
    common = iou(corners(anchors)[:, None], corners(boxes)[None])  # (a, m)
    most, which = common.max(1)
    found = torch.where(most >= NEAR, which, torch.where(most < FAR, -1, -2))
    found[common.argmax(0)] = torch.arange(len(boxes))  # each box has one, however far it is
    return found


def focal_loss(said: Anchored, batch: BoxedBatch) -> Tensor:
    """Of classes and moves together, by the number of anchors that shall find something."""
    label = move = said.logits.new_zeros(())
    count = 0
    for i in range(len(said.logits)):
        there = batch.classes[i] >= 0
        boxes, kinds, anchors = batch.boxes[i][there], batch.classes[i][there], said.anchors[i]
        which = torch.where(said.real[i], wanted(anchors, boxes), -2)
        target, some = torch.zeros_like(said.logits[i]), which >= 0
        target[some, kinds[which[some]]] = 1.0
        logits, target = said.logits[i][which > -2], target[which > -2]
        chance = logits.sigmoid()
        missed = torch.where(target > 0, 1 - chance, chance)
        weight = torch.where(target > 0, ALPHA, 1 - ALPHA) * missed**GAMMA
        label = label + (weight * F.binary_cross_entropy_with_logits(logits, target, reduction="none")).sum()
        aim = moves_to(anchors[some], boxes[which[some]])
        move = move + F.smooth_l1_loss(said.moves[i][some], aim, reduction="sum", beta=0.1)
        count += int(some.sum())
    return (label + move) / max(count, 1)


def suppressed(found: ScoredBoxes) -> ScoredBoxes:
    """Of what overlaps much and has one class, the surest."""
    order = found.scores.argsort(descending=True, stable=True).tolist()
    same = iou(found.boxes[:, None], found.boxes[None]) > SAME
    same &= found.classes[:, None] == found.classes[None]
    kept: list[int] = []
    for i in order:
        if not kept or not bool(same[i, kept].any()):
            kept.append(i)
    return ScoredBoxes(found.scores[kept], found.classes[kept], found.boxes[kept])


@torch.no_grad()
def found_by(said: Anchored, batch: BoxedBatch) -> list[ScoredBoxes]:
    """Boxes in pixels, as ``boxes_found`` gives those of DETR."""
    every, sizes = [], image_sizes(batch)
    for i in range(len(said.logits)):
        scores, classes = said.logits[i].sigmoid().where(said.real[i][:, None], -1.0).max(-1)
        best = scores.topk(min(TOLD, len(scores))).indices
        boxes = corners(moved(said.anchors[i][best], said.moves[i][best])) * sizes[i].flip(0).repeat(2)
        every.append(suppressed(ScoredBoxes(scores[best], classes[best], boxes)))
    return every


def common_sides(batches: list[BoxedBatch]) -> tuple[float, ...]:
    """The sides of squares as large as the smallest, the usual and the largest boxes, in pixels."""
    areas = torch.cat([area_of(batch, i) for batch in batches for i in range(len(batch.images))])
    return tuple(round(float(x), 1) for x in areas.sqrt().quantile(torch.tensor([0.02, 0.5, 0.97])))


def area_of(batch: BoxedBatch, i: int) -> Tensor:
    boxes, _ = boxes_of_image(batch, i)
    return (boxes[:, 2:] - boxes[:, :2]).prod(1)
