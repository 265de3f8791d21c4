"""5.10b: which frequencies nets see by: a convolutional net, a ViT, and a ViT after HAT (Bai et al., 2022, section 3).

All learn photographs of CIFAR-10. The convolutional net is taught by the shortest course after which it is as good as
the ViT, by the same test photographs, so that what they make of filtered images can be compared. HAT is the ViT's
training with every image pushed three times towards what is misjudged, for the first two thirds of all steps; pixels
are pushed as the authors' code does it, in units of the normalised image. Needs cifar10_subset below REGARD_DATA.
"""

from collections.abc import Callable
from functools import cache, partial
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.modalities.images.frequencies import high_pass, low_pass
from regard.tasks.adversarial import PASSES, adversarial_losses
from regard_lectures.figure import Check, Numbers, above, aside, below
from regard_lectures.vision.lessons import Course, photos, pupil, share
from regard_lectures.vision.small import COURSE, lean_cnn, lean_vit

TITLE = "Which frequencies nets see by"
DECKS = ("004",)
CLAIM = "Of fine detail alone a ViT makes less than a convolutional net that is as good; HAT narrows the gap."
EXPECTED = (
    "As good on whole photographs, a ViT is behind a convolutional net on their fine parts; after HAT the gap is "
    "smaller."
)
FOUND = (
    "On fine parts the ViT is 6.6 points behind a convolutional net that is as good to within 1.3 points, and 9.0 "
    "points behind after HAT: 1.36 times the gap, means of 2 starts."
)
COST = 2400.0
SEED = 0
SEEDS = range(2)

LOW, HIGH = (1, 2, 3, 4, 6, 8, 11, 16), (0, 1, 2, 3, 4, 6, 8)  # waves over the image
LADDER = (600, 1000, 1400, 1800)  # steps that the convolutional net may take


def hardened(net: nn.Module, images: Tensor, labels: Tensor, step: int) -> Tensor:
    """HAT: what its passes teach is added up, the last one by who asks."""
    passes = PASSES if 3 * step < 2 * COURSE.steps else 1
    for i, loss in enumerate(adversarial_losses(net, images, labels, passes=passes)):
        if i + 1 < passes:
            (loss / len(images)).backward()
    return loss / len(images)


def plain_vit(seed: int) -> nn.Module:
    return pupil("lean ViT", lean_vit, COURSE, seed).net


def hat_vit(seed: int) -> nn.Module:
    return pupil("lean ViT HAT", lean_vit, COURSE, seed, hardened).net


@cache
def as_good(seed: int) -> nn.Module:
    """A convolutional net of the shortest course after which it is as good as the ViT."""
    asked = photos("test")
    goal = share(plain_vit(seed), *asked)
    for steps in LADDER:
        net = pupil("lean CNN", partial(lean_cnn, 3), Course("photos", steps=steps), seed).net
        if share(net, *asked) >= goal:
            break
    return net


NETS: dict[str, Callable[[int], nn.Module]] = {"convolutional": as_good, "ViT": plain_vit, "ViT, HAT": hat_vit}


def compute() -> Numbers:
    tested, wanted = photos("test")
    numbers: Numbers = {"tested": len(wanted), "clean": {}, "low": {}, "high": {}}
    for name, make in NETS.items():
        nets = [make(seed) for seed in SEEDS]
        numbers["clean"][name] = [share(net, tested, wanted) for net in nets]
        for kind, part, radii in (("low", low_pass, LOW), ("high", high_pass, HIGH)):
            filtered = [part(tested, radius) for radius in radii]
            numbers[kind][name] = [fmean(share(net, images, wanted) for net in nets) for images in filtered]
    return numbers


TINTS = {"convolutional": style.SECOND, "ViT": style.WEIGHT, "ViT, HAT": style.KEY}


def draw(numbers: Numbers) -> Figure:
    clean = "; ".join(f"{name}: {style.percent(fmean(some), 1)}" for name, some in numbers["clean"].items())
    lead, gain = (f"{x:.1f}".replace("-", "−") for x in (gap(numbers, "high", "ViT"), won(numbers, "high")))
    note = (
        f"{numbers['tested']:,} unseen photographs, means of {len(SEEDS)} starts. Whole ones: {clean}.\n"
        "Expected on fine parts: the convolutional net ahead, and that HAT narrows it. Found, in the mean over radii\n"
        f"from 1 on: it is ahead by {lead} points, and HAT brings the ViT {gain}."
    )
    figure = style.page(TITLE, note, height=5.2)
    left, right = figure.subplots(1, 2, sharey=True)
    curves(left, LOW, numbers["low"], "only frequencies up to, waves")
    curves(right, HIGH, numbers["high"], "only frequencies beyond, waves")
    left.set_title("coarse parts, labelled rightly")
    right.set_title("fine parts")
    for i, (name, tint) in enumerate(TINTS.items()):
        left.text(0.97, 0.1 + 0.075 * (2 - i), name, color=tint, weight="bold", ha="right", transform=left.transAxes)
    return figure


def curves(axes: Axes, radii: tuple[int, ...], found: dict[str, list[float]], label: str) -> None:
    for name, tint in TINTS.items():
        axes.plot(radii, found[name], "o-", color=tint)
    axes.axhline(0.1, color=style.EDGE, lw=1, ls=":")
    axes.set(ylim=(0, 1), xticks=radii)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])
    axes.set_xlabel(label)
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)


def gap(numbers: Numbers, kind: str, name: str) -> float:
    """Points by which the convolutional net is ahead with one part alone, the mean over all radii but 0."""
    radii = {"low": LOW, "high": HIGH}[kind]
    both = zip(radii, numbers[kind]["convolutional"], numbers[kind][name], strict=True)
    return 100 * fmean(one - other for radius, one, other in both if radius)


def won(numbers: Numbers, kind: str) -> float:
    """Points that HAT has won with one part alone, in the same mean."""
    return gap(numbers, kind, "ViT") - gap(numbers, kind, "ViT, HAT")


def checks(numbers: Numbers) -> list[Check]:
    clean = {name: fmean(some) for name, some in numbers["clean"].items()}
    apart = 100 * abs(clean["convolutional"] - clean["ViT"])
    coarse, fine, after = gap(numbers, "low", "ViT"), gap(numbers, "high", "ViT"), gap(numbers, "high", "ViT, HAT")
    return [
        aside(below("clean: the convolutional net and the ViT differ by, points", apart, 1.5)),
        above("fine parts: the convolutional net over the ViT, points", fine, 0),
        below("fine parts: the same after HAT, over that before", after / fine, 1),
        aside(above("fine parts: the convolutional net over the ViT, less that on coarse ones", fine - coarse, 0)),
        aside(below("clean: points lost by HAT", 100 * (clean["ViT"] - clean["ViT, HAT"]), 3)),
    ]
