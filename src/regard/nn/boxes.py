"""Boxes: their corners, and how much two of them have in common.

Generalized Intersection over Union (Rezatofighi et al., 2019), https://arxiv.org/abs/1902.09630
    IoU  = |A and B| / |A or B|
    GIoU = IoU - (|C| - |A or B|) / |C|, C the smallest box around both
The second is below 0 for boxes that do not touch, and falls with their distance, so it still says where to go.

Shapes: n and m boxes. By centre: centre x, centre y, width, height. By corners: left, top, right, bottom.
"""

import torch
from torch import Tensor


def corners(boxes: Tensor) -> Tensor:
    """Centre format (x, y, width, height) to corner format (x1, y1, x2, y2), (..., 4) -> (..., 4)"""
    centre, half = boxes[..., :2], boxes[..., 2:] / 2
    return torch.cat((centre - half, centre + half), -1)


def crowd_class(label: int) -> int:
    """Encode the class of a crowd box, which is neither a target nor to be detected. In a padded list of classes, -1 is
    no box."""
    return -2 - label


def crowds(classes: Tensor) -> tuple[Tensor, Tensor]:
    """Which boxes are crowds, and the decoded class of each: (m,) -> (m,), (m,)"""
    found = classes <= crowd_class(0)
    return found, torch.where(found, -2 - classes, classes)


def box_area(boxes: Tensor) -> Tensor:
    """Area of boxes in corner format, (..., 4) -> (...)"""
    return (boxes[..., 2:] - boxes[..., :2]).clamp(min=0).prod(-1)


def intersection(one: Tensor, two: Tensor) -> Tensor:
    """Area of the intersection of boxes in corner format, (..., 4), (..., 4) -> (...)"""
    low, high = torch.maximum(one[..., :2], two[..., :2]), torch.minimum(one[..., 2:], two[..., 2:])
    return (high - low).clamp(min=0).prod(-1)


def iou(one: Tensor, two: Tensor) -> Tensor:
    """Intersection over union of pairs of boxes in corner format: (..., 4), (..., 4) -> (...); 0 for two boxes without
    an area"""
    both = intersection(one, two)
    return both / safe_divisor(box_area(one) + box_area(two) - both)


def generalised_iou(one: Tensor, two: Tensor) -> Tensor:
    """Generalised IoU of boxes in corner format, from -1 to 1: (..., 4), (..., 4) -> (...)"""
    both = intersection(one, two)
    union = box_area(one) + box_area(two) - both
    low, high = torch.minimum(one[..., :2], two[..., :2]), torch.maximum(one[..., 2:], two[..., 2:])
    around = (high - low).clamp(min=0).prod(-1)
    return both / safe_divisor(union) - (around - union) / safe_divisor(around)


def safe_divisor(x: Tensor) -> Tensor:
    """What can be divided by: a box without an area has nothing in common with any, and is no NaN."""
    return x.clamp(min=torch.finfo(x.dtype).tiny)
