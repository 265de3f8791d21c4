"""6.5: FID and Inception Score of real digits to which noise is added, by the features of a small classifier.

The 297 test digits of scikit-learn get normal noise of more and more strength. Their features are compared with those
of the 1,500 other digits. The network is the classifier that regard carries, so its numbers are called FID-c and IS-c,
and stand beside no published ones.
"""

from itertools import pairwise

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.folders import load
from regard.modalities.drawing.feature_networks import ClassifierFeatures
from regard.modalities.drawing.image_batches import measure
from regard.modalities.drawing.scores import fid_between, inception_score
from regard.modalities.images.digits import COUNT, TEST, Digits
from regard.modalities.images.processor import Images
from regard_lectures import labelled_images
from regard_lectures.figure import Check, Numbers, aside, in_starts, starts_at_least

TITLE = "Two scores for drawn images"
DECKS = ("003",)
CLAIM = "FID rises and the Inception Score falls, the more noise is added to real digits."
EXPECTED = "FID rises and IS falls monotonically with the noise."
FOUND = (
    "At each of 10 steps, in 5 draws of the noise: FID-c rises from 1.45 to between 26.9 and 30.5, IS-c falls from"
    " 4.62 to between 1.98 and 2.15."
)
COST = 1.4
SEED = 0

SEEDS = 5
LEVELS = [round(0.1 * i, 1) for i in range(11)]  # deviations of the noise; shades are 0 to 1
SHOWN = (0, 3)  # of the test digits


def compute() -> Numbers:
    network = ClassifierFeatures(load("digits"))
    pixels = torch.from_numpy(Digits(Images(size=8, channels=1), 0, COUNT).pixels)[:, None]
    real, test = pixels[: COUNT - TEST], pixels[COUNT - TEST :] / 255
    reference = measure(network, real.split(500))
    numbers: Numbers = {"network": network.name, "real": len(real), "test": len(test), "features": len(reference.mean)}
    numbers |= {"fid": [], "score": [], "shown": []}
    for seed in range(SEED, SEED + SEEDS):
        noise = torch.randn(test.shape, generator=torch.Generator().manual_seed(seed))
        noisy = [(test + level * noise).clamp(0, 1) for level in LEVELS]
        found = [measure(network, bytes_of(images).split(500)) for images in noisy]
        numbers["fid"].append([float(f"{fid_between(reference, one):.5g}") for one in found])
        numbers["score"].append([float(f"{inception_score(one).mean:.5g}") for one in found])
        if seed == SEED:
            numbers["shown"] = [[labelled_images.shades(images[i, 0]) for images in noisy] for i in SHOWN]
    return numbers


def bytes_of(images: Tensor) -> Tensor:
    return (255 * images).round().byte()


def draw(numbers: Numbers) -> Figure:
    note = (
        f"{numbers['test']} real digits with noise, against {numbers['real']:,} others. A small classifier sees them,"
        " so the scores are\ncalled FID-c and IS-c, and stand beside no published ones. Thin: each draw of the noise;"
        " thick: their mean."
    )
    figure = style.page(TITLE, note, height=6.6)
    figure.set_layout_engine("none")
    strip(figure.add_axes((0.03, 0.485, 0.94, 0.31)), numbers["shown"])
    places = ((0.08, 0.12, 0.38, 0.28), (0.58, 0.12, 0.38, 0.28))
    chart(figure.add_axes(places[0]), numbers["fid"], "FID-c: the less, the better", style.SECOND, least=0)
    chart(figure.add_axes(places[1]), numbers["score"], "IS-c: the more, the better", style.WEIGHT, least=1)
    return figure


def strip(axes: Axes, rows: list[list[list[str]]]) -> None:
    """A row for each digit, a column for each level, which stands below it."""
    axes.set_axis_off()
    for y, row in enumerate(rows):
        for x, image in enumerate(row):
            extent = (x - 0.44, x + 0.44, -y - 0.44, -y + 0.44)
            axes.imshow(labelled_images.pixels_of(image), cmap="Greys", vmin=0, vmax=15, extent=extent, zorder=2)
            style.frame(axes, x - 0.44, -y - 0.44, 0.88, 0.88, style.LINE, line=0.8)
    for x, level in enumerate(LEVELS):
        style.write(axes, x, -len(rows) + 0.35, f"{level:g}", size=10.5)
    axes.set(xlim=(-0.5, len(LEVELS) - 0.5), ylim=(-len(rows) + 0.1, 0.5), aspect="equal")


def chart(axes: Axes, runs: list[list[float]], title: str, tint: str, least: int) -> None:
    """``least`` is the best or worst that a score can be."""
    for run in runs:
        axes.plot(LEVELS, run, color=style.mix(tint, 0.4), lw=0.9)
    axes.plot(LEVELS, torch.tensor(runs).mean(0).tolist(), color=tint, marker="o")
    axes.set_title(title)
    axes.set_xlabel("deviation of the noise (shades are 0 to 1)")
    axes.set_xticks(LEVELS[::2])
    axes.set_ylim(bottom=least)


def rises(run: list[float]) -> bool:
    return all(before < after for before, after in pairwise(run))


def checks(numbers: Numbers) -> list[Check]:
    least = [min(run) for run in numbers["score"]]
    return [
        in_starts("FID rises at every step", [rises(run) for run in numbers["fid"]]),
        in_starts("IS falls at every step", [rises([-x for x in run]) for run in numbers["score"]]),
        aside(starts_at_least("IS is never below 1", least, 1.0)),
    ]
