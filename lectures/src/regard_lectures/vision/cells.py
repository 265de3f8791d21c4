"""5.12f: blood cells found by DETR and by fixed anchors, as many minutes of training each.

BCCD: 205 images to train on, 72 to test. DETR is that of the recipe bccd, from nothing. The other (anchors.py) has the
same convolutions, the same batches and the same optimizer, nine anchors at each place, a focal loss and non-maximum
suppression, and clips its gradient later; it is trained for as long as DETR's steps take here, both measured in turns
in seconds of the processor.
Needs bccd below REGARD_DATA.
"""

from time import process_time
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import nn

from regard import style
from regard.modalities.boxes.detection import BoxedBatch, decode_boxes, image_sizes
from regard.modalities.boxes.drawing import class_colour
from regard.modalities.boxes.precision import ScoredBoxes, average_precision
from regard.models.resnet import ResNetSizes
from regard.run.job import PreparedRun
from regard.run.training import reopen_run
from regard.train.optimizers import build_optimizer, set_rate
from regard.train.runfile import settings_of_part
from regard_lectures.figure import Check, Numbers, above, aside, plain, seeded, within
from regard_lectures.runs import RUNS, by_recipe
from regard_lectures.vision.anchors import Anchors, common_sides, focal_loss, found_by
from regard_lectures.vision.scenes import frame, judged, kept, photograph, show

TITLE = "Queries against anchors"
DECKS = ("003",)
CLAIM = "Trained from nothing for as many minutes, fixed anchors find blood cells better than DETR."
EXPECTED = "Trained from nothing for as many minutes, fixed anchors find blood cells better than DETR."
FOUND = "Fixed anchors have a mean AP50 of 0.736, DETR 0.530; one start each."
COST = 5000.0
SEED = 0

TIMED = 6  # steps of each by which their cost is known
SHOWN, WIDE = 3, 72  # images, and their width in the record
SURE = {"DETR": 0.5, "fixed anchors": 0.4}
TINTS = {"DETR": style.WEIGHT, "fixed anchors": style.SECOND}


def compute() -> Numbers:
    model, job = by_recipe("bccd"), reopen_run(RUNS / "bccd")
    names = list(model.labels)
    config = model.config
    sizes = ResNetSizes(
        width=config.width, stem=config.stem, layer=config.layer, depths=config.depths, dims=config.dims
    )
    with seeded(SEED):
        rival = Anchors(sizes, len(names), common_sides([batch for _, batch in batches(job, "held_out")]))
        slow, fast = seconds(job, rival)
        steps = round(job.run.train.steps * slow / fast)
        learn(rival, job, steps)
    numbers: Numbers = {
        "names": names,
        "steps": {"DETR": job.run.train.steps, "fixed anchors": steps},
        "minutes": {"DETR": job.run.train.steps * slow / 60, "fixed anchors": steps * fast / 60},
        "weights": {"DETR": count(model.net), "fixed anchors": count(rival)},
        "AP50": {},
        "AP": {},
        "shown": [],
    }
    tested = batches(job, "test")
    for name, net in (("DETR", model.net), ("fixed anchors", rival)):
        every = [told(net, batch) for _, batch in tested]
        found = average_precision(
            [one for own, (_, batch) in zip(every, tested, strict=True) for one in judged(own, batch, len(names))]
        )
        numbers["AP50"][name] = [round(x, 4) for x in found.by_class(0.5)] + [round(found.at(0.5), 4)]
        numbers["AP"][name] = round(found.all, 4)
        for i in range(SHOWN):
            if name == "DETR":
                source: Any = job.sources.splits["test"].source
                numbers["shown"].append({"image": kept(source[int(tested[0][0][i])].image, WIDE)})
            numbers["shown"][i][name] = drawn(every[0][i], tested[0][1], i, SURE[name])
    return numbers


def batches(job: PreparedRun, split: str) -> list[tuple[list[int], BoxedBatch]]:
    data = job.sources.splits[split]
    return [(rows := [int(x) for x in data.rows(i)], data.collate(rows, i)) for i in range(len(data))]


def count(net: nn.Module) -> int:
    return sum(x.numel() for x in net.parameters())


def seconds(job: PreparedRun, rival: Anchors) -> tuple[float, float]:
    """Of the processor, for a step of DETR and for one of the other, taken in turns. Weights stay as they are."""
    data, took = job.sources.splits["train"], ([0.0], [0.0])
    for step in range(TIMED + 1):
        for i in (0, 1):
            start = process_time()
            batch = data.collate([int(x) for x in data.rows(step)], step)
            net: Any = rival.train() if i else job.model.net.train()
            if i:
                focal_loss(net(batch.images, batch.sizes), batch).backward()
            else:
                (loss,) = job.task.losses(batch, step)
                torch.stack([term.sum for term in loss.terms.values()]).sum().backward()
            net.zero_grad()
            if step:  # the first is not counted
                took[i][0] += process_time() - start
    return took[0][0] / TIMED, took[1][0] / TIMED


def learn(net: Anchors, job: PreparedRun, steps: int) -> None:
    """By the settings of the recipe, on the same batches and as many more as there is time for."""
    data, run = job.sources.splits["train"], job.run
    how, rate = settings_of_part(run.optimizer, "net"), settings_of_part(run.schedule, "net")
    optimizer = build_optimizer(how, net.train())
    for step in range(steps):
        batch = data.collate([int(x) for x in data.rows(step)], step)
        focal_loss(net(batch.images, batch.sizes), batch).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        set_rate(optimizer, how.rate * rate.factor(step, steps))
        optimizer.step()
        optimizer.zero_grad()


@torch.no_grad()
def told(net: Any, batch: BoxedBatch) -> list[ScoredBoxes]:
    said = net.eval()(batch.images, batch.sizes)
    return found_by(said, batch) if isinstance(net, Anchors) else decode_boxes(said, image_sizes(batch))


def drawn(found: ScoredBoxes, batch: BoxedBatch, i: int, sure: float) -> Numbers:
    """Boxes by centre, as shares of the image, of what is surer than this."""
    some = found.scores > sure
    boxes = found.boxes[some] / image_sizes(batch)[i].flip(0).repeat(2)
    centre, size = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
    return {"boxes": plain(torch.cat((centre, size), 1), 3), "kinds": found.classes[some].tolist()}


def draw(numbers: Numbers) -> Figure:
    minutes = numbers["minutes"]["DETR"]
    note = (
        f"BCCD, 72 test images scaled down to 96 x 72, both from nothing and {minutes:.0f} minutes of one thread.\n"
        f"Steps: {numbers['steps']['DETR']:,} and {numbers['steps']['fixed anchors']:,}; weights:"
        f" {numbers['weights']['DETR'] / 1000:.0f}k and {numbers['weights']['fixed anchors'] / 1000:.0f}k; one start"
        " each. Below, what each finds in three of the images."
    )
    figure = style.page(TITLE, note, height=8.6)
    halves = figure.add_gridspec(2, 1, height_ratios=(1, 1.75))
    upper, lower = figure.add_subfigure(halves[0]), figure.add_subfigure(halves[1])
    scores(upper.subplots(), numbers)
    panels = lower.subplots(2, SHOWN)
    for row, name in zip(panels, TINTS, strict=True):
        for axes, one in zip(row, numbers["shown"], strict=True):
            show(axes, photograph(one["image"]))
            for box, kind in zip(one[name]["boxes"], one[name]["kinds"], strict=True):
                frame(axes, box, kind, line=1.5)
        row[0].set_ylabel(name, color=TINTS[name], weight="bold", size=11)
    return figure


def scores(axes: Axes, numbers: Numbers) -> None:
    groups = [*numbers["names"], "mean"]
    for i, name in enumerate(TINTS):
        places = [x + (i - 0.5) * 0.4 for x in range(len(groups))]
        container = axes.bar(places, numbers["AP50"][name], 0.38, color=TINTS[name])
        axes.bar_label(container, [f"{100 * x:.0f}" for x in numbers["AP50"][name]], padding=2, size=10.5)
        axes.text(len(groups) - 0.35, 0.9 - 0.14 * i, name, color=TINTS[name], weight="bold", size=11)
    axes.set_xticks(range(len(groups)), [*(f"■ {name}" for name in numbers["names"]), "mean"])
    axes.set(ylim=(0, 1.08), yticks=[], xlim=(-0.6, len(groups) + 0.35))
    axes.set_title("AP50, in percent")
    axes.spines["left"].set_visible(False)
    for i, text in enumerate(axes.get_xticklabels()):  # in the colours of the boxes below
        text.set(size=11.5, color=style.INK if i == len(groups) - 1 else class_colour(i))


def checks(numbers: Numbers) -> list[Check]:
    minutes = numbers["minutes"]
    return [
        aside(
            within("minutes of anchors over minutes of DETR", minutes["fixed anchors"] / minutes["DETR"], 0.99, 1.01)
        ),
        aside(above("DETR: mean AP50", numbers["AP50"]["DETR"][-1], 0.1)),
        aside(above("fixed anchors: mean AP50", numbers["AP50"]["fixed anchors"][-1], 0.5)),
        above("fixed anchors over DETR, mean AP50", difference(numbers), 0),
    ]


def difference(numbers: Numbers) -> float:
    found: float = numbers["AP50"]["fixed anchors"][-1] - numbers["AP50"]["DETR"][-1]
    return found
