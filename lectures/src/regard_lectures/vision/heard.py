"""5.12c: a small DETR learns to find shapes, as the paper has it and with one thing changed.

Carion et al. (2020): every layer of the decoder is asked, not only the last (auxiliary losses), and what is no object
has a weight of 0.1, for most queries shall say "nothing" and would drown the others. Generated scenes of 64 x 64;
average precision at an overlap of one half, and how many things a scene is said to hold, on scenes that were held out.
"""

from dataclasses import replace
from typing import Any

import torch
from matplotlib.figure import Figure

from regard import style
from regard.modalities.boxes.detection import PAPER_WEIGHTS, BoxedBatch, Detect, LossWeights, decode_boxes, image_sizes
from regard.modalities.boxes.precision import average_precision
from regard.modalities.boxes.shapes import SHAPE_NAMES, Shapes
from regard.modalities.images.processor import Images
from regard.models.detr import DETR, PRESETS
from regard.train.optimizers import AdamW, build_optimizer, set_rate
from regard.train.schedules import CosineSchedule
from regard_lectures.curves import named
from regard_lectures.figure import Check, Numbers, above, aside, seeded, starts_above, starts_below
from regard_lectures.toys import means
from regard_lectures.vision.scenes import batch_of, judged

TITLE = "Every layer is asked, and silence weighs little"
DECKS = ("003",)
CLAIM = "Asked after the last layer alone, DETR learns more slowly; with silence at full weight it first finds nothing."
EXPECTED = (
    "Without auxiliary losses DETR learns more slowly; with “nothing” at full weight it says at first that a scene is"
    " empty."
)
FOUND = (
    "Over the training mean AP50 is 0.07 higher than with the last layer alone (3 of 3 starts; at the very end 2 of "
    "3) and 0.19 higher than with silence at full weight, which at first tells of 0.01 things a scene, against 6.5."
)
COST = 2600.0
SEED = 0

SEEDS = range(3)
STEPS, BATCH, RATE, WARM = 3000, 16, 8e-4, 150
MARKS = (100, 200, 300, 400, 600, 800, 1000, 1300, 1600, 2000, 2500, 3000)
HELD_OUT = 150
WAYS: dict[str, LossWeights] = {
    "as in the paper": PAPER_WEIGHTS,
    "last layer alone": replace(PAPER_WEIGHTS, earlier=0.0),
    "silence weighs 1": replace(PAPER_WEIGHTS, nothing=1.0),
}
TINTS = {"as in the paper": style.WEIGHT, "last layer alone": style.SECOND, "silence weighs 1": style.QUERY}
IMAGES = Images(size=64, fit="within", mean=(0.5,), std=(0.25,))


def compute() -> Numbers:
    shown = Shapes(HELD_OUT, 1)
    held_out = batch_of([shown[i] for i in range(HELD_OUT)], IMAGES)
    there = float((held_out.classes >= 0).sum() / HELD_OUT)
    ways: Numbers = {}
    for name, weights in WAYS.items():
        runs = [taught(weights, held_out, seed) for seed in SEEDS]
        ways[name] = {what: [[round(x, 4) for x in run[what]] for run in runs] for what in ("AP50", "told")}
    return {"there": there, "ways": ways}


def taught(weights: LossWeights, held_out: BoxedBatch, seed: int) -> dict[str, list[float]]:
    """AP50 and the things told of a scene, at each mark."""
    rows = Shapes(STEPS * BATCH, 10 + seed)
    schedule, curve = CosineSchedule(warmup=WARM), {"AP50": [0.0], "told": []}
    with seeded(seed):
        net = DETR(PRESETS["detr-small"])
        task = Detect(net, SHAPE_NAMES, weights)
        optimizer = build_optimizer(AdamW(rate=RATE, betas=(0.9, 0.999), eps=1e-8, decay=1e-4), net)
        for step in range(STEPS):
            batch = batch_of([rows[step * BATCH + i] for i in range(BATCH)], IMAGES)
            counts = task.counts(batch)
            (loss,) = task.losses(batch, step)
            value: Any = sum(term.weight * term.sum / counts[term.count] for term in loss.terms.values())
            value.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
            set_rate(optimizer, RATE * schedule.factor(step, STEPS))
            optimizer.step()
            optimizer.zero_grad()
            if step + 1 in MARKS:
                measure(net, held_out, curve)
    return curve


@torch.no_grad()
def measure(net: DETR, batch: BoxedBatch, curve: dict[str, list[float]]) -> None:
    net.eval()
    told = net(batch.images)
    found = average_precision(judged(decode_boxes(told, image_sizes(batch)), batch, len(SHAPE_NAMES)))
    curve["AP50"].append(found.at(0.5))
    something = told.logits.argmax(-1) < told.logits.shape[-1] - 1
    curve["told"].append(float(something.sum(1).double().mean()))
    net.train()


def draw(numbers: Numbers) -> Figure:
    note = (
        f"A DETR of 2 + 2 layers and 10 queries, {STEPS:,} steps of {BATCH} generated scenes, means of"
        f" {len(SEEDS)} starts. Left: AP50\non {HELD_OUT} scenes that were held out. Right: queries that say anything"
        f" but “nothing”; a scene holds {numbers['there']:.1f} things (dotted)."
    )
    figure = style.page(TITLE, note, height=5.2)
    left, right = figure.subplots(1, 2)
    ways = numbers["ways"]
    left.set_ylim(0, 1)
    named(left, {name: ((0, *MARKS), means(ways[name]["AP50"])) for name in WAYS}, TINTS, wide=0.62)
    left.set_title("AP50")
    right.axhline(numbers["there"], color=style.EDGE, lw=1, ls=":")
    named(right, {name: (MARKS, means(ways[name]["told"])) for name in WAYS}, TINTS, wide=0.62)
    right.set_title("things said to be in a scene")
    for axes in (left, right):
        axes.set_xlabel("steps")
    return figure


def area(curve: list[float]) -> float:
    """The mean of AP50 over the whole training: who learns sooner has more."""
    marks = (0, *MARKS)
    pieces = zip(marks, marks[1:], curve, curve[1:], strict=False)
    return sum((right - left) * (one + two) / 2 for left, right, one, two in pieces) / STEPS


def early(told: list[float]) -> float:
    """Things told of a scene, on average over the first measures."""
    first = [x for mark, x in zip(MARKS, told, strict=True) if mark <= STEPS // 5]
    return sum(first) / len(first)


def checks(numbers: Numbers) -> list[Check]:
    ways = numbers["ways"]
    full, last, loud = (list(map(area, ways[name]["AP50"])) for name in WAYS)
    told = {name: list(map(early, ways[name]["told"])) for name in WAYS}
    sooner, heard = ([one - other for one, other in zip(full, some, strict=True)] for some in (last, loud))
    return [
        aside(above("as in the paper: AP50 at the end", means(ways["as in the paper"]["AP50"])[-1], 0.5)),
        starts_above("mean AP50 over the training, more than with the last layer alone", sooner, 0),
        starts_above("the same over silence at full weight", heard, 0),
        starts_below("silence at full weight: things told of a scene at first", told["silence weighs 1"], 0.5),
        starts_above("as in the paper: the same", told["as in the paper"], 1),
    ]
