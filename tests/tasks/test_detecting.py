"""Detection: boxes in common, matching, the loss of sets, and the task."""

from dataclasses import replace
from itertools import permutations

import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from regard.modalities.boxes.detection import (
    PAPER_WEIGHTS,
    BoxedBatch,
    Detect,
    LossWeights,
    all_said,
    collate_boxes,
    decode_boxes,
    judged_image,
    match_queries,
    set_loss,
)
from regard.modalities.boxes.detector import Detector
from regard.modalities.boxes.precision import average_precision
from regard.modalities.images.processor import Images
from regard.models.detr import DETR, DETROutput
from regard.nn.boxes import corners, crowd_class, generalised_iou, iou
from tests.contracts.tools import close, numbers
from tests.models.test_detr import SMALL


def drawn(*shape: int) -> Tensor:
    """Boxes by centre, within the image."""
    centre = torch.rand(*shape, 2, dtype=torch.float64) * 0.6 + 0.2
    return torch.cat((centre, torch.rand(*shape, 2, dtype=torch.float64) * 0.3 + 0.05), -1)


def scene(queries: int = 5, boxes: tuple[int, ...] = (3, 0, 1), classes: int = 4) -> tuple[DETROutput, BoxedBatch]:
    b, most = len(boxes), max(boxes)
    labels = torch.randint(classes, (b, most)).masked_fill(torch.arange(most) >= torch.tensor(boxes)[:, None], -1)
    detected = DETROutput(numbers(b, queries, classes + 1), drawn(b, queries))
    return detected, BoxedBatch(torch.zeros(b, 3, 8, 8), drawn(b, most), labels)


# --------------------------------------------------------------------------------------------------------------- boxes


def test_overlap_by_counting_squares() -> None:
    one, two = torch.tensor([0.0, 0.0, 4.0, 3.0]), torch.tensor([2.0, 1.0, 6.0, 4.0])
    assert iou(one, two) == 4 / 20
    assert generalised_iou(one, two) == pytest.approx(4 / 20 - (24 - 20) / 24)


def test_generalised_overlap() -> None:
    one, two = corners(drawn(500)), corners(drawn(500))
    both = generalised_iou(one, two)
    assert (both > -1).all()
    assert (both <= iou(one, two) + 1e-12).all()
    close(generalised_iou(one, one), torch.ones(500).double())
    close(both, generalised_iou(two, one))
    inner = torch.cat((one[:, :2] + 0.01, one[:, 2:] - 0.01), 1)
    close(generalised_iou(one, inner), iou(one, inner))


def test_boxes_apart_still_feel_each_other() -> None:
    one = torch.tensor([0.0, 0.0, 1.0, 1.0], dtype=torch.float64, requires_grad=True)
    apart = torch.tensor([5.0, 5.0, 6.0, 6.0], dtype=torch.float64)
    (pull,) = torch.autograd.grad(generalised_iou(one, apart), one)
    assert (pull[2:] > 0).all()
    (none,) = torch.autograd.grad(iou(one, apart), one)
    assert not none.any()


def test_boxes_without_an_area_are_no_nan() -> None:
    point = torch.tensor([0.5, 0.5, 0.5, 0.5], requires_grad=True)
    value = generalised_iou(point, torch.tensor([0.5, 0.5, 0.5, 0.5])) + iou(point, point)
    value.backward()
    assert value.isfinite()
    assert point.grad is not None
    assert point.grad.isfinite().all()


# ------------------------------------------------------------------------------------------------------------ matching


def cost(detected: DETROutput, batch: BoxedBatch, row: int, query: int, box: int) -> float:
    chance = detected.logits[row, query].softmax(-1)[batch.classes[row, box]]
    said, wanted = detected.boxes[row, query], batch.boxes[row, box]
    return float(5 * (said - wanted).abs().sum() - chance - 2 * generalised_iou(corners(said), corners(wanted)))


@pytest.mark.parametrize("seed", range(5))
def test_no_other_matching_costs_less(seed: int) -> None:
    torch.manual_seed(seed)
    detected, batch = scene(5, (4, 2, 0))
    found = match_queries(detected, batch, PAPER_WEIGHTS)
    for row, count in enumerate((4, 2, 0)):
        assert (found[row, count:] == -1).all()
        ways = permutations(range(5), count)
        least = min(sum(cost(detected, batch, row, q, i) for i, q in enumerate(way)) for way in ways)
        own = sum(cost(detected, batch, row, int(q), i) for i, q in enumerate(found[row, :count]))
        assert own == pytest.approx(least)


def test_more_boxes_than_queries() -> None:
    detected, batch = scene(2, (4,))
    found = match_queries(detected, batch, PAPER_WEIGHTS)
    assert sorted(found[0].tolist())[:2] == [-1, -1]
    assert sorted(found[0].tolist())[2:] == [0, 1]
    assert all(x.isfinite() for x in vars(set_loss(detected, batch, PAPER_WEIGHTS)).values())


def test_what_is_no_number_is_matched_last() -> None:
    detected, batch = scene(5, (4,))
    detected.boxes[0, 2] = torch.nan
    assert 2 not in match_queries(detected, batch, PAPER_WEIGHTS)[0]


def test_the_loss_is_of_sets() -> None:
    """In another order of the queries, or of the boxes, it is the same."""
    detected, batch = scene(5, (3, 1))
    wanted = set_loss(detected, batch, PAPER_WEIGHTS)
    q, m = torch.randperm(5), torch.randperm(3)
    moved = DETROutput(detected.logits[:, q], detected.boxes[:, q])
    other = BoxedBatch(batch.images, batch.boxes[:, m], batch.classes[:, m])
    for found in (set_loss(moved, batch, PAPER_WEIGHTS), set_loss(detected, other, PAPER_WEIGHTS)):
        for name, x in vars(wanted).items():
            close(getattr(found, name), x)


def test_without_boxes_there_is_nothing_to_say() -> None:
    detected, batch = scene(5, (0, 0))
    parts = set_loss(detected, batch, PAPER_WEIGHTS)
    assert parts.box == parts.overlap == 0
    close(parts.label, -0.1 * detected.logits.log_softmax(-1)[..., -1].sum())


# ------------------------------------------------------------------------------------------------------------ the task


def images(sizes: list[tuple[int, int]]) -> list[Tensor]:
    return [torch.randn(3, *size, dtype=torch.float64) for size in sizes]


def examples() -> BoxedBatch:
    sizes, boxes = [(12, 16), (8, 5), (12, 9), (4, 4)], (2, 0, 3, 1)
    return collate_boxes(images(sizes), [drawn(x) for x in boxes], [torch.randint(3, (x,)) for x in boxes])


def test_together() -> None:
    batch = examples()
    assert batch.images.shape == (4, 3, 12, 16)
    assert (batch.classes >= 0).sum(1).tolist() == [2, 0, 3, 1]
    assert batch.sizes is not None
    assert batch.sizes.tolist() == [[12, 16], [8, 5], [12, 9], [4, 4]]
    assert not batch.images[1, :, 8:].any()
    assert collate_boxes(images([(4, 4)] * 2), [drawn(0)] * 2, [torch.zeros(0).long()] * 2).sizes is None


def part(batch: BoxedBatch, rows: slice) -> BoxedBatch:
    sizes = None if batch.sizes is None else batch.sizes[rows]
    return BoxedBatch(batch.images[rows], batch.boxes[rows], batch.classes[rows], sizes)


def test_any_split_of_a_batch_gives_the_same_gradient() -> None:
    net, batch = DETR(SMALL).double(), examples()
    task = Detect(net, ("a", "b", "c"))
    totals = task.counts(batch)
    found = []
    for pieces in ([slice(0, 4)], [slice(0, 1), slice(1, 2), slice(2, 4)]):
        net.zero_grad()
        for rows in pieces:
            (loss,) = task.losses(part(batch, rows), 0)
            sum(term.weight * term.sum / totals[term.count] for term in loss.terms.values()).backward()
        found.append({name: x.grad.clone() for name, x in net.named_parameters()})
    counts = [task.counts(part(batch, slice(i, i + 1))) for i in range(4)]
    for name, x in totals.items():
        assert sum(one[name] for one in counts) == pytest.approx(x)
    for name, x in found[0].items():
        close(found[1][name], x)


def test_every_layer_has_its_loss() -> None:
    task = Detect(DETR(replace(SMALL, decoder_depth=3)).double(), ("a", "b", "c"))
    (loss,) = task.losses(examples(), 0)
    assert list(loss.terms) == [f"{x}{i}" for i in ("", " 0", " 1") for x in ("label", "box", "overlap")]
    assert {term.weight for name, term in loss.terms.items() if name.startswith("box")} == {5.0}


def test_what_is_evaluated_adds_up() -> None:
    task, batch = Detect(DETR(SMALL).double().eval(), ("a", "b", "c")), examples()
    with torch.no_grad():
        whole = task.evaluate(batch)
        parts = [task.evaluate(part(batch, slice(i, i + 1))) for i in range(4)]
    for name, x in whole.items():
        close(sum(one[name].double() for one in parts), x.double(), 1e-6)
    metrics = task.metrics(whole)
    assert list(metrics) == ["loss", "AP", "AP50", "AP75", "AP50 a", "AP50 b", "AP50 c"]
    assert task.show(batch).startswith("ground truth: ")
    assert task.goal.removeprefix("-") in metrics


@pytest.mark.parametrize("earlier", [0.0, 0.5, 1.0])
def test_the_held_out_loss_is_made_of_what_training_is(earlier: float) -> None:
    net, batch = DETR(replace(SMALL, decoder_depth=3)).double().eval(), examples()
    task = Detect(net, ("a", "b", "c"), LossWeights(earlier=earlier))
    with torch.no_grad():
        (loss,) = task.losses(batch, 0)
        counts = task.counts(batch)
        trained = sum(float(term.sum) * term.weight / counts[term.count] for term in loss.terms.values())
        assert task.metrics(task.evaluate(batch))["loss"] == pytest.approx(trained, rel=1e-6)


class Oracle(torch.nn.Module):
    """It knows the answers."""

    def __init__(self, batch: BoxedBatch, queries: int, classes: int) -> None:
        super().__init__()
        self.config = replace(SMALL, queries=queries, classes=classes)
        logits = torch.zeros(len(batch.classes), queries, classes + 1)
        logits[..., -1] = 20.0
        boxes = drawn(len(batch.classes), queries).float()
        for row, labels in enumerate(batch.classes.tolist()):
            for i, label in enumerate(labels):
                if label >= 0:
                    logits[row, i] = 20.0 * torch.nn.functional.one_hot(torch.tensor(label), classes + 1)
                    boxes[row, i] = batch.boxes[row, i]
        self.said = DETROutput(logits, boxes)

    def forward(self, images: Tensor, sizes: Tensor | None = None) -> DETROutput:
        return self.said


def test_who_knows_the_answers_has_all_of_them() -> None:
    batch = examples()
    task = Detect(Oracle(batch, 6, 3), ("a", "b", "c"))
    metrics = task.metrics(task.evaluate(batch))
    assert metrics["loss"] == pytest.approx(0, abs=1e-5)
    assert metrics["AP"] == pytest.approx(1)


def test_boxes_in_pixels() -> None:
    logits = torch.tensor([[[4.0, 0.0, 0.0], [0.0, 1.0, 5.0]]])
    boxes = torch.tensor([[[0.5, 0.5, 0.5, 0.2], [0.1, 0.1, 0.1, 0.1]]])
    (found,) = decode_boxes(DETROutput(logits, boxes), torch.tensor([[100, 200]]), threshold=0.5)
    assert found.classes.tolist() == [0]
    close(found.boxes, torch.tensor([[50.0, 40.0, 150.0, 60.0]]), 1e-5)
    assert len(decode_boxes(DETROutput(logits, boxes), torch.tensor([[100, 200]]))[0].scores) == 2


class Said(torch.nn.Module):
    """A net that says what it was told to, of images that tell by their first pixel which one they are."""

    def __init__(self, detected: DETROutput) -> None:
        super().__init__()
        self.detected, self.config = detected, replace(SMALL, queries=detected.logits.shape[1])

    def forward(self, images: Tensor, sizes: Tensor | None = None) -> DETROutput:
        some = images[:, 0, 0, 0].long()
        return DETROutput(self.detected.logits[some], self.detected.boxes[some])


@pytest.mark.parametrize("sharpness", [1.0, 8.0, 20.0])
def test_what_is_told_of_all_batches_is_the_exact_precision(sharpness: float) -> None:
    """Also of a net whose scores are 1.000 nearly all, in single precision."""
    torch.manual_seed(1)
    b, m, names = 40, 6, ("a", "b", "c")
    boxes, labels = drawn(b, m).float(), torch.randint(3, (b, m))
    logits = torch.randn(b, 10, 4)
    logits[:, :m].scatter_add_(2, labels[:, :, None], torch.rand(b, m, 1) * 2)
    said = torch.cat((boxes + 0.02 * torch.randn(b, m, 4), drawn(b, 10 - m).float()), 1)
    detected = DETROutput(sharpness * logits, said)
    images = torch.zeros(b, 3, 64, 64)
    images[:, 0, 0, 0] = torch.arange(b)
    task = Detect(Said(detected), names)
    parts = [BoxedBatch(images[i : i + 7], boxes[i : i + 7], labels[i : i + 7]) for i in range(0, b, 7)]
    sums = [task.evaluate(part) for part in parts]
    told = task.metrics({name: sum(one[name] for one in sums) for name in sums[0]})
    whole = BoxedBatch(images, boxes, labels)
    sizes = torch.full((b, 2), 64)
    exact = average_precision([judged_image(one, whole, i, 3) for i, one in enumerate(all_said(detected, sizes))])
    if sharpness == 1:  # where probabilities tell all apart, they give the same
        plain = decode_boxes(detected, sizes)
        assert average_precision([judged_image(one, whole, i, 3) for i, one in enumerate(plain)]).all == exact.all
    assert 0.05 < exact.all < 0.95
    assert told["AP"] == pytest.approx(exact.all, abs=0.002)
    assert told["AP50"] == pytest.approx(exact.at(0.5), abs=0.002)


def test_crowds_are_neither_learned_nor_asked_for() -> None:
    detected, batch = scene()
    classes = batch.classes.clone()
    classes[0, 0] = crowd_class(int(classes[0, 0]))
    marked, without = replace(batch, classes=classes), replace(batch, classes=classes.clamp(min=-1))
    task = Detect(Said(detected), ("a", "b", "c", "d"))
    assert task.counts(marked) == task.counts(without)
    assert torch.equal(match_queries(detected, marked, PAPER_WEIGHTS), match_queries(detected, without, PAPER_WEIGHTS))
    for one, other in zip(
        vars(set_loss(detected, marked, PAPER_WEIGHTS)).values(),
        vars(set_loss(detected, without, PAPER_WEIGHTS)).values(),
        strict=True,
    ):
        assert torch.equal(one, other)
    whole = DETROutput(
        torch.tensor([[[9.0, 0, 0, 0, 0]]]), batch.boxes[:1, :1] * torch.tensor([1, 1, 0.9, 0.9])
    )  # a detection of the crowd
    label = torch.full((1, 1), crowd_class(0))
    one = BoxedBatch(torch.zeros(1, 3, 64, 64), batch.boxes[:1, :1], label)
    judged = judged_image(decode_boxes(whole, torch.tensor([[64, 64]]))[0], one, 0, 4)
    assert not judged.right.any()
    assert not judged.wrong.any()
    assert judged.wanted.tolist() == [0, 0, 0, 0]


def test_it_learns_where_things_are() -> None:
    """One batch by heart, every box of it, in 120 steps at most."""
    torch.manual_seed(0)
    batch = collate_boxes(
        [x.float() for x in images([(16, 16)] * 2)], [drawn(2).float()] * 2, [torch.tensor([0, 1])] * 2
    )
    task = Detect(DETR(SMALL), ("a", "b", "c"), LossWeights())
    totals, optimizer = task.counts(batch), torch.optim.AdamW(task.net.parameters(), 3e-3)
    losses = []
    for step in range(120):
        (loss,) = task.losses(batch, step)
        value = sum(term.weight * term.sum / totals[term.count] for term in loss.terms.values())
        losses.append(value.item())
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        if losses[-1] < 0.3 * losses[0] and step % 10 == 9 and knows(task, batch):
            return
    pytest.fail(f"the loss fell from {losses[0]} to {losses[-1]}")


def knows(task: Detect, batch: BoxedBatch) -> bool:
    task.net.eval()
    with torch.no_grad():
        found = task.metrics(task.evaluate(batch))["AP50"]
    task.net.train()
    return found == pytest.approx(1)


class Says(nn.Module):
    """A net that always gives the same."""

    def __init__(self, output: DETROutput) -> None:
        super().__init__()
        self.output = output

    def forward(self, images: Tensor, sizes: Tensor) -> DETROutput:
        return self.output


def test_boxes_are_told_in_the_pixels_of_an_image_that_is_no_square() -> None:
    """Twice as wide as high: a box over all of its width and the middle half of its height."""
    logits, box = torch.tensor([[[9.0, 0.0]]]), torch.tensor([[[0.5, 0.5, 1.0, 0.5]]])
    finding = Detector(Says(DETROutput(logits, box)), Images(size=16, fit="within"), ["shape"])
    (spotted,) = finding.detect([Image.new("RGB", (40, 20))], 0.5)
    assert spotted.size == (40, 20)
    (thing,) = spotted.things
    assert thing.label == "shape"
    assert thing.box == pytest.approx((0, 5, 40, 15))
