"""5.11b: speed against accuracy: nine small nets on photographs, each taught by the same short course.

LeViT (Graham et al., 2021), figure 1, in miniature: images a second, on one thread in batches of 32, and photographs
labelled rightly. A net is on the front if none of the others is both faster and better. All have from 0.25 to 0.7
million weights, and learn from the same batches; what a net would reach in the end is another
question. ViT and DeiT hardly differ but in how they start: by Xavier's rule, as ViT's authors do, and by a truncated
normal. Needs cifar10_subset below REGARD_DATA.
"""

from functools import partial
from statistics import fmean

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from regard import style
from regard.comparison.measure import time_fastest
from regard.nn.folding import fold
from regard.zoo import count_parameters
from regard_lectures.figure import Check, Numbers, above, aside, in_starts
from regard_lectures.vision.lessons import photos, pupil, share
from regard_lectures.vision.small import COURSE, FRONT, SEEDS

TITLE = "Speed against accuracy"
DECKS = ("004",)
CLAIM = "Taught by one short course, LeViT is on the front of speed and accuracy."
EXPECTED = "LeViT is on the front: no other of the nets is both faster and right more often."
FOUND = (
    "LeViT is the fastest, with 1,362 images a second and 51.4 %, and so on the front in 3 of 3 starts; the CNN, at "
    "1,208, has 65.0 %, also of 3 starts; those of DeiT, CaiT, VOLO, Mixer and Perceiver are one each."
)
COST = 10000.0
SEED = 0

BATCH = 32
OFTEN = ("CNN", "ViT", "Swin", "LeViT")  # by three starts; the others, which are there to compare with, by one


def compute() -> Numbers:
    tested, wanted = photos("test")
    numbers: Numbers = {"tested": len(wanted), "nets": {}}
    ready = []
    for name, make in FRONT.items():
        nets = [pupil(name, make, COURSE, seed).net for seed in (SEEDS if name in OFTEN else SEEDS[:1])]
        starts = [share(net, tested, wanted) for net in nets]
        numbers["nets"][name] = {"right": fmean(starts), "starts": starts, "weights": count_parameters(nets[0])}
        fold(nets[0])  # as for use: batch norms become part of the maps beside them
        ready.append(nets[0])
    with torch.inference_mode():
        took = time_fastest([partial(net, tested[:BATCH]) for net in ready], rounds=5)
    for name, time in zip(FRONT, took, strict=True):
        numbers["nets"][name]["speed"] = round(BATCH / time, 1)
    return numbers


def unbeaten(nets: Numbers) -> list[str]:
    """Those that no other beats in both."""
    return [
        name
        for name, own in nets.items()
        if not any(one["speed"] > own["speed"] and one["right"] > own["right"] for one in nets.values())
    ]


def draw(numbers: Numbers) -> Figure:
    note = (
        f"CIFAR-10, one course for all: {COURSE.steps:,} steps of {COURSE.batch} photographs. Across, images a "
        f"second on one thread; up, {numbers['tested']:,} others\nlabelled rightly; beside the names, weights. Line: "
        "the front, where none is both faster and better. Three starts where\nthere are small dots; one elsewhere."
    )
    figure = style.page(TITLE, note, height=5.8)
    axes = figure.subplots()
    nets = numbers["nets"]
    best = sorted(unbeaten(nets), key=lambda name: nets[name]["speed"])
    axes.plot(
        [nets[name]["speed"] for name in best], [nets[name]["right"] for name in best], color=style.LINE, lw=5, zorder=1
    )
    for name, own in nets.items():
        tint = style.WEIGHT if name in best else style.SECOND
        axes.plot([own["speed"]], [own["right"]], "o", color=tint, ms=8, zorder=3)
        if len(own["starts"]) > 1:
            axes.plot([own["speed"]] * len(own["starts"]), own["starts"], "o", color=style.INK, ms=3, zorder=4)
        says = f"{name}  {own['weights'] / 1000:.0f}k"
        style.end_label(axes, own["speed"], own["right"], says, tint, dx=-80 if name == "VOLO" else 9, size=10.5)
    axes.set_xscale("log")
    speeds, shares = [own["speed"] for own in nets.values()], [own["right"] for own in nets.values()]
    ticks = [tick for tick in (250, 350, 500, 700, 1000, 1400, 2000, 2800) if min(speeds) < tick < 1.4 * max(speeds)]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.set(xlim=(min(speeds) / 1.15, max(speeds) * 1.45), ylim=(min(shares) - 0.03, max(shares) + 0.03))
    axes.yaxis.set_major_locator(MultipleLocator(0.05))
    axes.yaxis.set_major_formatter(lambda value, _: style.percent(value))
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("images a second")
    return figure


def checks(numbers: Numbers) -> list[Check]:
    nets = numbers["nets"]
    return [
        *(aside(above(f"{name}: share of right labels", nets[name]["right"], 0.2)) for name in FRONT),
        in_starts("seconds: LeViT is on the front", ["LeViT" in unbeaten(start) for start in by_start(nets)]),
    ]


def by_start(nets: Numbers) -> list[Numbers]:
    """Each start of LeViT beside the others as they are in the mean."""
    return [nets | {"LeViT": nets["LeViT"] | {"right": right}} for right in nets["LeViT"]["starts"]]
