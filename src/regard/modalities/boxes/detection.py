"""Detection: a set of boxes and their classes for each image.

End-to-End Object Detection with Transformers (Carion et al., 2020), https://arxiv.org/abs/2005.12872, section 3.1
Each box is matched with one query, so that the sum over the pairs of
    - p(class) + 5 |b - b'|_1 - 2 GIoU(b, b')
is least (the Hungarian algorithm); a matched query shall say its box and class, all others that there is nothing. The
same for what is said after each layer of the decoder, each with a matching of its own.

Shapes: b batch, q queries, m boxes of an image at most, c classes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from regard.models.detr import DETROutput
from regard.nn.boxes import corners, crowds, generalised_iou
from regard.tasks.task import Loss, Task, Term

from .precision import Judged, Precision, ScoredBoxes, joined_judgements, judge_image, tallied_precision, tally

SHOWN = 8


@dataclass(frozen=True, eq=False)
class BoxedBatch:
    """Images of any sizes, each at the top left of its place, and their boxes."""

    images: Tensor  # (b, channels, height, width)
    boxes: Tensor  # (b, m, 4): centre x, centre y, width, height, as shares of the image
    classes: Tensor  # (b, m), -1 where there is no box; crowds are below it (``nn.boxes.crowded``), and only measured
    sizes: Tensor | None = None  # (b, 2): rows and columns of each image, if any is smaller than its place


def collate_boxes(images: Sequence[Tensor], boxes: Sequence[Tensor], classes: Sequence[Tensor]) -> BoxedBatch:
    """One batch of single examples: (channels, rows, columns), (m, 4), (m,)"""
    height, width = (max(x.shape[i] for x in images) for i in (1, 2))
    most = max(len(x) for x in classes)
    sizes = torch.tensor([x.shape[1:] for x in images])
    whole = bool((sizes == torch.tensor([height, width])).all())
    return BoxedBatch(
        torch.stack([F.pad(x, (0, width - x.shape[2], 0, height - x.shape[1])) for x in images]),
        torch.stack([F.pad(x, (0, 0, 0, most - len(x))) for x in boxes]),
        torch.stack([F.pad(x, (0, most - len(x)), value=-1) for x in classes]),
        None if whole else sizes,
    )


@dataclass(frozen=True)
class LossWeights:
    """How much each part of the loss and of the matching counts."""

    label: float = 1.0
    box: float = 5.0
    overlap: float = 2.0
    nothing: float = 0.1  # the class of most queries, and so of little weight; in the loss alone
    earlier: float = 1.0  # what the layers before the last say; 0: they are not heard


PAPER_WEIGHTS = LossWeights()


@dataclass(frozen=True, eq=False)
class DetectionSums:
    """Sums over a batch, of what is divided by its ``slots`` and, twice, by its boxes."""

    label: Tensor
    box: Tensor
    overlap: Tensor


@torch.no_grad()
def matching_costs(detected: DETROutput, batch: BoxedBatch, weights: LossWeights) -> Tensor:
    """What it would cost that a query stands for a box.  -> (b, q, m)"""
    precise = torch.promote_types(detected.logits.dtype, torch.float32)
    chances, said = detected.logits.to(precise).softmax(-1), detected.boxes.to(precise)
    wanted = batch.boxes.to(precise)
    chance = chances.gather(2, batch.classes.clamp(min=0)[:, None].expand(-1, chances.shape[1], -1))  # (b, q, m)
    distance = (said[:, :, None] - wanted[:, None]).abs().sum(-1)
    common = generalised_iou(corners(said)[:, :, None], corners(wanted)[:, None])
    return weights.box * distance - weights.label * chance - weights.overlap * common


@torch.no_grad()
def match_queries(detected: DETROutput, batch: BoxedBatch, weights: LossWeights) -> Tensor:
    """-> (b, m): the query of each box, -1 of those that are none, or for which no query is left"""
    cost = matching_costs(detected, batch, weights)
    worst = torch.finfo(cost.dtype).max  # so that what is no number is matched last
    table = torch.nan_to_num(cost, nan=worst, posinf=worst, neginf=worst).cpu().double().numpy()
    found = np.full(batch.classes.shape, -1)
    for row, real in enumerate((batch.classes >= 0).cpu().numpy()):
        queries, boxes = linear_sum_assignment(table[row][:, real])
        found[row, np.flatnonzero(real)[boxes]] = queries
    return torch.from_numpy(found).to(batch.classes.device)


def set_loss(detected: DETROutput, batch: BoxedBatch, weights: LossWeights) -> DetectionSums:
    """Of one layer's answers."""
    queries = match_queries(detected, batch, weights)
    rows, columns = (queries >= 0).nonzero(as_tuple=True)
    picked = queries[rows, columns]
    nothing = detected.logits.shape[-1] - 1
    labels = torch.full(detected.logits.shape[:2], nothing, device=queries.device)
    labels[rows, picked] = batch.classes[rows, columns]
    logits = detected.logits.flatten(0, 1)
    balance = torch.ones(nothing + 1, dtype=logits.dtype, device=logits.device)
    balance[-1] = weights.nothing
    said, wanted = detected.boxes[rows, picked], batch.boxes[rows, columns].to(detected.boxes.dtype)
    return DetectionSums(
        F.cross_entropy(logits, labels.flatten(), balance, reduction="sum"),
        (said - wanted).abs().sum(),
        (1 - generalised_iou(corners(said), corners(wanted))).sum(),
    )


def decode_boxes(detected: DETROutput, sizes: Tensor, threshold: float = 0.0) -> list[ScoredBoxes]:
    """What each image holds, in pixels of images of these sizes, (b, 2), rows and columns. Each query tells its
    likeliest class that is not "nothing"; those with a lower score than the threshold are left out."""
    scores, classes = detected.logits.softmax(-1)[..., :-1].max(-1)
    boxes, kept = in_pixels(detected.boxes, sizes), scores > threshold
    return [ScoredBoxes(*(x[i][kept[i]] for x in (scores, classes, boxes))) for i in range(len(kept))]


def all_said(detected: DETROutput, sizes: Tensor) -> list[ScoredBoxes]:
    """The same of every query, its score as log-odds: these still tell apart what as a probability is 1, or 0."""
    logits = detected.logits.double()
    best, classes = logits[..., :-1].max(-1)
    odds = best - logits.scatter(-1, classes[..., None], -torch.inf).logsumexp(-1)
    return [ScoredBoxes(*one) for one in zip(odds, classes, in_pixels(detected.boxes, sizes), strict=True)]


def in_pixels(boxes: Tensor, sizes: Tensor) -> Tensor:
    """By centre and as shares -> by corners, in pixels of images of these sizes: (b, q, 4), (b, 2) -> (b, q, 4)"""
    return corners(boxes) * sizes.flip(1).repeat(1, 2)[:, None].to(boxes)


class Detect(Task):
    goal = "-AP"

    def __init__(self, net: nn.Module, names: Sequence[str], weights: LossWeights = PAPER_WEIGHTS) -> None:
        self.parts = {"net": net}
        self.net: Any = net
        self.names, self.weights = names, weights

    def counts(self, batch: BoxedBatch) -> Mapping[str, float]:
        """Boxes, and queries by their weight: those that will be matched, though not yet known, are so many."""
        queries, boxes = self.net.config.queries, (batch.classes >= 0).sum(1)
        taken = float(boxes.clamp(max=queries).sum())
        others = queries * len(boxes) - taken
        return {"boxes": float(boxes.sum()), "slots": taken + self.weights.nothing * others}

    def losses(self, batch: BoxedBatch, step: int) -> Iterator[Loss]:
        detected = self.detected(batch)
        terms = self.terms(detected, batch, "", 1.0)
        for i, one in enumerate(detected.earlier if self.weights.earlier else ()):
            terms |= self.terms(one, batch, f" {i}", self.weights.earlier)
        yield Loss("net", terms)

    def terms(self, detected: DETROutput, batch: BoxedBatch, layer: str, share: float) -> dict[str, Term]:
        parts, weights = set_loss(detected, batch, self.weights), self.weights
        return {
            f"label{layer}": Term(parts.label, "slots", share * weights.label),
            f"box{layer}": Term(parts.box, "boxes", share * weights.box),
            f"overlap{layer}": Term(parts.overlap, "boxes", share * weights.overlap),
        }

    def detected(self, batch: BoxedBatch) -> DETROutput:
        found: DETROutput = self.net(batch.images, batch.sizes)
        return found

    def evaluate(self, batch: BoxedBatch) -> Mapping[str, Tensor]:
        """The loss is that of training: of all layers that are heard."""
        detected, counts = self.detected(batch), self.counts(batch)
        sums = {"label": torch.zeros(()), "box": torch.zeros(()), "overlap": torch.zeros(())}
        heard = [(1.0, detected), *((self.weights.earlier, one) for one in detected.earlier)]
        for share, one in heard if self.weights.earlier else heard[:1]:
            parts = set_loss(one, batch, self.weights)
            sums = {name: x + share * getattr(parts, name) for name, x in sums.items()}
        sums |= {name: torch.tensor(count, device=batch.images.device) for name, count in counts.items()}
        every = all_said(detected, image_sizes(batch))
        judged = joined_judgements([judged_image(one, batch, i, len(self.names)) for i, one in enumerate(every)])
        return sums | {"found": tally(judged), "wanted": judged.wanted}

    def metrics(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        boxes, slots = (max(float(sums[name]), 1e-9) for name in ("boxes", "slots"))
        label, box, common = (float(sums[name]) for name in ("label", "box", "overlap"))
        weights = self.weights
        loss = weights.label * label / slots + (weights.box * box + weights.overlap * common) / boxes
        precision: Precision = tallied_precision(sums["found"], sums["wanted"])
        found = {"loss": loss, "AP": precision.all, "AP50": precision.at(0.5), "AP75": precision.at(0.75)}
        return found | {f"AP50 {name}": x for name, x in zip(self.names, precision.by_class(0.5), strict=True)}

    @torch.no_grad()
    def show(self, batch: BoxedBatch) -> str:
        """The likeliest answers of the first image, and what is there."""
        found = decode_boxes(self.detected(batch), image_sizes(batch))[0]
        order = found.scores.sort(descending=True).indices[:SHOWN]
        there = [self.told(int(label), box) for box, label in zip(*boxes_of_image(batch, 0), strict=True)]
        said = [f"{float(found.scores[i]):.2f} {self.told(int(found.classes[i]), found.boxes[i])}" for i in order]
        return f"ground truth: {'; '.join(there) or 'none'}\ndetected: {'; '.join(said) or 'none'}"

    def told(self, label: int, box: Tensor) -> str:
        return f"{self.names[label]} at {', '.join(f'{float(x):.0f}' for x in box)}"


def image_sizes(batch: BoxedBatch) -> Tensor:
    """-> (b, 2)"""
    if batch.sizes is not None:
        return batch.sizes
    return torch.tensor(batch.images.shape[-2:], device=batch.images.device).expand(len(batch.images), 2)


def judged_image(found: ScoredBoxes, batch: BoxedBatch, i: int, classes: int) -> Judged:
    """What was found in one image, held against its boxes and its crowds."""
    there = batch.classes[i] != -1
    boxes = corners(batch.boxes[i][there]) * image_sizes(batch)[i].flip(0).repeat(2)
    crowd, labels = crowds(batch.classes[i][there])
    return judge_image(found, boxes, labels, classes, crowds=crowd)


def boxes_of_image(batch: BoxedBatch, i: int) -> tuple[Tensor, Tensor]:
    """Those of one image, by corners in pixels, and their classes: (m, 4), (m,)"""
    real = batch.classes[i] >= 0
    return corners(batch.boxes[i][real]) * image_sizes(batch)[i].flip(0).repeat(2), batch.classes[i][real]
