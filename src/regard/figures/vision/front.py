"""5.11b: speed against accuracy: nine small nets on photographs, each taught by the same short course.

LeViT (Graham et al., 2021), figure 1, in miniature: images a second, on one thread in batches of 32, and photographs
labelled rightly. A net is on the front if none of the others is both faster and better. All have about half a million
weights but the convolutional net, and learn from the same batches; what a net would reach in the end is another
question. Needs cifar10_subset below REGARD_DATA.
"""

from collections.abc import Callable
from functools import partial

import torch
from matplotlib.figure import Figure
from torch import nn

from regard import style
from regard.comparison.measure import seconds
from regard.figures.figure import Check, Numbers, above, equal, seeded
from regard.figures.vision.lessons import Course, photos, share, taught
from regard.models import cait, deit, levit, mixer, perceiver, resnet, swin, vit, volo
from regard.nn.folding import fold
from regard.zoo import parameters

TITLE = "Speed against accuracy"
DECKS = ("004",)
CLAIM = "Taught by one short course, LeViT is on the front of speed and accuracy."
COST = 400.0
SEED = 0

BATCH = 32
COURSE = Course(steps=300, batch=32, rate=2e-3, moved=0)
NETS: dict[str, Callable[[], nn.Module]] = {
    "CNN": lambda: resnet.ResNet(
        resnet.Config(width=32, stem="small", layer="plain", depths=(1, 1, 2), dims=(32, 64, 128), classes=10)
    ),
    "ViT": lambda: vit.ViT(
        vit.Config(image=32, patch=4, classes=10, dim=96, depth=5, heads=3, hidden=384, pool="mean")
    ),
    "DeiT": lambda: deit.DeiT(deit.Config(image=32, patch=4, classes=10, dim=96, depth=5, heads=3, hidden=384)),
    "CaiT": lambda: cait.CaiT(
        cait.Config(image=32, patch=4, classes=10, dim=96, depth=4, looks=1, heads=3, hidden=384)
    ),
    "Swin": lambda: swin.Swin(swin.PRESETS["swin-cifar"]),
    "VOLO": lambda: volo.VOLO(
        volo.Config(
            image=32, patch=4, classes=10, stem_dim=16, fine_dim=48, outlookers=2, fine_heads=2, fine_hidden=96,
            dim=96, depth=4, heads=3, hidden=288, looks=1,
        )
    ),
    "LeViT": lambda: levit.LeViT(
        levit.Config(
            image=32, patch=4, classes=10, distilled=False, dim=(64, 96, 128), depth=(2, 2, 2), heads=(2, 3, 4),
            hidden=(128, 192, 256),
        )
    ),
    "Mixer": lambda: mixer.Mixer(mixer.Config(image=32, patch=4, classes=10, dim=96, depth=5, tokens=96, hidden=384)),
    "Perceiver": lambda: perceiver.Perceiver(
        perceiver.Config(
            image=32, classes=10, bands=8, latents=32, dim=96, depth=2, repeats=2, looks=1, heads=3, hidden=384,
            cross_hidden=384, pool="mean",
        )
    ),
}  # fmt: skip


def compute() -> Numbers:
    images, labels = photos("train")
    tested, wanted = photos("test")
    numbers: Numbers = {"tested": len(wanted), "nets": {}}
    ready = []
    for name, make in NETS.items():
        with seeded(SEED):
            net = make()
        weights = parameters(net)
        taught(net, images, labels, COURSE, SEED)
        numbers["nets"][name] = {"right": share(net, tested, wanted), "weights": weights}
        fold(net)  # as for use: batch norms become part of the maps beside them
        ready.append(net)
    with torch.inference_mode():
        took = seconds([partial(net, tested[:BATCH]) for net in ready], rounds=5)
    for name, time in zip(NETS, took, strict=True):
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
        f"CIFAR-10, one course for all: {COURSE.steps} steps of {COURSE.batch} photographs. Across, images a "
        f"second on one thread; up, {numbers['tested']:,} others labelled\nrightly. Line: the front, where none is "
        "both faster and better. Beside the names, thousands of weights. One start each."
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
        says = f"{name}  {own['weights'] / 1000:.0f}k"
        style.end_label(axes, own["speed"], own["right"], says, tint, dx=9, size=10.5)
    axes.set_xscale("log")
    speeds, shares = [own["speed"] for own in nets.values()], [own["right"] for own in nets.values()]
    ticks = [tick for tick in (200, 500, 1000, 2000, 5000, 10000) if min(speeds) / 1.5 < tick < 1.5 * max(speeds)]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.set(xlim=(min(speeds) / 1.15, max(speeds) * 1.45), ylim=(min(shares) - 0.03, max(shares) + 0.03))
    axes.yaxis.set_major_formatter(lambda value, _: style.percent(value))
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("images a second")
    return figure


def holds(numbers: Numbers) -> list[Check]:
    nets = numbers["nets"]
    return [
        *(above(f"{name}: share of right labels", nets[name]["right"], 0.2) for name in NETS),
        equal("seconds: LeViT is on the front (expected: yes)", "LeViT" in unbeaten(nets), True),
    ]
