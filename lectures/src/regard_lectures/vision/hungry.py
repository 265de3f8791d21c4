"""5.3b: how many images a ViT needs, against a convolutional net (Dosovitskiy et al., 2021, figures 3 and 4, in small).

Garments of Fashion-MNIST, 1,000 to 25,000, and photographs of CIFAR-10, 1,000 to 10,000. A convolution knows beforehand
that what belongs together is near, and that it is the same everywhere; a ViT has to learn it from images. More images
are learned from for longer, both nets for as many steps. That the gap narrows was expected of photographs too: from
1,000 to 10,000 both nets gain as much.

Differs from the paper: the sets are subsets of one, and nothing is pre-trained; from the spec sheet: the ViT has 4
layers of width 64, not 6 of 96, so that it can learn for long enough. Needs fashion_mnist_30k and cifar10_subset below
REGARD_DATA.
"""

from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import nn

from regard import style
from regard.zoo import count_parameters
from regard_lectures.figure import Check, Numbers, above, aside, starts_above, starts_below
from regard_lectures.vision import small
from regard_lectures.vision.lessons import SETS, Course, pupil, share
from regard_lectures.vision.starts import ahead, leads

TITLE = "A ViT is hungry for images"
DECKS = ("002", "003", "004")
CLAIM = "With few images a convolutional net is far ahead of a ViT; with more of them the gap closes."
EXPECTED = (
    "With the fewest images the convolutional net is over 2 points ahead of the ViT; with all of them the gap is "
    "below 0.7 of that, on garments and on photographs."
)
FOUND = (
    "On garments the lead of the convolutional net shrinks from 9.4 to 6.0 points (0.63), on photographs it stays, "
    "9.2 and 9.6 points (1.04), means of 2 starts."
)
COST = 6500.0
SEED = 0

SEEDS = range(2)


NETS: dict[str, dict[str, Callable[[], nn.Module]]] = {
    "garments": {"CNN": partial(small.lean_cnn, 1), "ViT": partial(small.lean_vit, 1, 28)},
    "photos": {"CNN": partial(small.lean_cnn, 3), "ViT": small.lean_vit},
}
COURSES = {
    "garments": {
        1000: Course("garments", steps=1600, known=1000),
        5000: Course("garments", steps=4000, known=5000),
        25000: Course("garments", steps=10000),
    },
    "photos": {
        1000: Course("photos", steps=800, known=1000),
        3000: Course("photos", steps=1600, known=3000),
        10000: small.COURSE,
    },
}
TITLES = {"garments": "Fashion-MNIST, labelled rightly, %", "photos": "CIFAR-10, labelled rightly, %"}
TINTS = {"CNN": style.SECOND, "ViT": style.WEIGHT}


def shares_of(data: str, name: str, course: Course) -> list[float]:
    asked = SETS[data]("test")
    return [share(pupil(f"lean {name}", NETS[data][name], course, seed).net, *asked) for seed in SEEDS]


def compute() -> Numbers:
    return {
        "tested": {data: len(SETS[data]("test")[1]) for data in NETS},
        "weights": {
            data: {name: count_parameters(make()) for name, make in nets.items()} for data, nets in NETS.items()
        },
        "right": {
            data: {name: [shares_of(data, name, course) for course in courses.values()] for name in TINTS}
            for data, courses in COURSES.items()
        },
    }


def draw(numbers: Numbers) -> Figure:
    note = (
        "Both learn from the same images for as many steps, the more the more images there are; a dot for each of "
        f"{len(SEEDS)} starts,\nlines through the means. Below, how many points the ViT is behind. Weights: "
        + "; ".join(
            ", ".join(f"{name} {count / 1000:.0f}k" for name, count in own.items())
            for own in numbers["weights"].values()
        )
        + "."
    )
    figure = style.page(TITLE, note, height=6.2)
    panels = figure.subplots(2, 2, height_ratios=(2.2, 1))
    for (upper, lower), data in zip(panels.T, COURSES, strict=True):
        curves(upper, list(COURSES[data]), numbers["right"][data])
        upper.set_title(TITLES[data])
        labels = [f"{count:,}" for count in COURSES[data]]
        style.bars(lower, labels, gaps(numbers, data), form="{:.1f}".format)
        lower.set_title("points behind")
        lower.set_xlabel("images to learn from")
    return figure


def curves(axes: Axes, counts: Sequence[int], right: dict[str, list[list[float]]]) -> None:
    for name, tint in TINTS.items():
        means = [100 * fmean(some) for some in right[name]]
        axes.plot(counts, means, "-", color=tint)
        for count, some in zip(counts, right[name], strict=True):
            axes.plot([count] * len(some), [100 * one for one in some], "o", color=tint, ms=5, alpha=0.75, mew=0)
        style.end_label(axes, counts[-1], means[-1], name, tint, dy=4 if name == "CNN" else -4)
    axes.set_xscale("log")
    axes.set_xticks(counts, [f"{count:,}" for count in counts])
    axes.set_xlim(counts[0] * 0.85, counts[-1] * 2)
    axes.minorticks_off()
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)


def gaps_of_starts(numbers: Numbers, data: str) -> list[list[float]]:
    """The same in each start."""
    one, other = (numbers["right"][data][name] for name in TINTS)
    return [leads(some, others) for some, others in zip(one, other, strict=True)]


def gaps(numbers: Numbers, data: str) -> list[float]:
    """Points by which the convolutional net is ahead, for each number of images."""
    one, other = ([100 * fmean(some) for some in numbers["right"][data][name]] for name in TINTS)
    return [x - y for x, y in zip(one, other, strict=True)]


def checks(numbers: Numbers) -> list[Check]:
    checks = []
    for data, right in numbers["right"].items():
        fewest, *_, most = COURSES[data]
        first, *_, last = gaps_of_starts(numbers, data)
        closed = [late / early for early, late in zip(first, last, strict=True)]
        checks += [
            starts_above(f"{data}, {fewest:,} images: the convolutional net is ahead by, points", first, 2),
            starts_below(f"{data}, {most:,} images: the gap over that of {fewest:,}", closed, 0.7),
            *(
                aside(above(f"{data}, {name}: points won from {fewest:,} images to all", ahead(some[-1], some[0]), 5))
                for name, some in right.items()
            ),
        ]
    good = numbers["right"]["garments"]["CNN"][-1]
    return [*checks, aside(starts_above("garments, CNN: labelled rightly after all images, share", good, 0.85))]
