"""10.7b: Fashion-MNIST as a set of 784 pixels, read by a Perceiver (Jaegle et al., 2021), and as images by a small CNN.

All pixels are put into one other order, the same for every image. To the Perceiver nothing has changed as long as each
pixel keeps its place beside it: it need not even be trained again, and if it is, it learns the same. A convolutional
net, trained anew, finds no neighbours any more. Needs fashion_mnist_30k below REGARD_DATA, whose split into 25,000
images to learn from and 5,000 to be tested is not the official one.
"""

from statistics import fmean

import torch
from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.models.perceiver import Config, Perceiver
from regard.nn.tap import capture
from regard.zoo import count_parameters
from regard_lectures.figure import Check, Numbers, above, aside, below, close, seeded, starts_above
from regard_lectures.foundations.pixels import convolutional
from regard_lectures.labelled_images import garments, learn, pixels_of, right, shades

TITLE = "Pixels in any order"
DECKS = ("004",)
CLAIM = "If each pixel brings its place along, their order is nothing to a Perceiver; a convolutional net needs it."
EXPECTED = (
    "A Perceiver labels more than 85 % of Fashion-MNIST rightly; after one fixed permutation of pixels it is "
    "unchanged, and a convolutional net falls."
)
FOUND = (
    "The Perceiver has 85.02 % right, in one start, and its answers move by 7e-7 with the pixels in another order; a "
    "convolutional net falls from 89.2 to 86.3 %, by 2.5 to 3.2 points in 3 of 3 starts."
)
COST = 700.0
SEED = 0

SIDE = 28
SMALL = Config(
    image=SIDE, channels=1, classes=10, bands=8, latents=32, dim=64, depth=2, repeats=2, looks=2, heads=4,
    hidden=128, cross_hidden=128, pool="mean",
)  # fmt: skip
STEPS, BATCH, RATE = 4000, 32, 2e-3
SEEDS, SHORT, NEAR = 3, 1200, 64  # starts, steps and images a step of the convolutional net
AGAIN = 5  # first steps of a second training, in the other order
SHOWN, MAPS = 0, 6  # a test image, and the latents that are seen looking at it
LOOK = "latents.cross.look.weights"


class Moved(nn.Module):
    """A Perceiver that gets its pixels in another order, each with its own place."""

    def __init__(self, net: Perceiver, order: Tensor) -> None:
        super().__init__()
        self.net, self.order = net, order

    def forward(self, images: Tensor) -> Tensor:
        """(b, 1, height, width) -> (b, c)"""
        return self.net.head(self.net.latents(self.net.inputs(images)[:, self.order]).mean(1))


def mixed(images: Tensor, order: Tensor) -> Tensor:
    """(n, 1, height, width), (height * width,) -> the same size"""
    return images.flatten(2)[..., order].unflatten(-1, images.shape[2:])


def compute() -> Numbers:
    images, labels = garments("train")
    tested, wanted = garments("test")
    with seeded(SEED):
        order = torch.randperm(SIDE * SIDE)
    numbers: Numbers = {"tested": len(wanted)}
    with seeded(SEED):
        net = Perceiver(SMALL)
        learn(net, images, labels, steps=STEPS, batch=BATCH, rate=RATE)
    moved = Moved(net, order)
    numbers["perceiver"] = {
        "weights": count_parameters(net),
        "straight": right(net, tested, wanted),
        "places along": right(moved, tested, wanted),
        "places left behind": right(net, mixed(tested, order), wanted),
        "apart": apart(net, moved, tested[:200]),
        "again": again(images, labels, order),
    }
    numbers["convolutional"] = {"weights": count_parameters(convolutional()), "straight": [], "mixed": []}
    for seed in range(SEED, SEED + SEEDS):
        for name, own, asked in (
            ("straight", images, tested),
            ("mixed", mixed(images, order), mixed(tested, order)),
        ):
            with seeded(seed):
                near = convolutional()
                learn(near, own, labels, steps=SHORT, batch=NEAR, rate=RATE)
            numbers["convolutional"][name].append(right(near, asked, wanted))
    one = tested[SHOWN : SHOWN + 1]
    numbers["shown"] = [shades(grey(x)[0, 0]) for x in (one, mixed(one, order))]
    numbers["maps"] = [shades(x / x.max()) for x in looks(net, one)[:MAPS]]
    return numbers


@torch.no_grad()
def apart(net: nn.Module, other: nn.Module, images: Tensor) -> float:
    """The largest difference of what two nets say, over the spread of what one does."""
    one, two = net(images), other(images)
    return float((one - two).abs().max() / one.std())


def again(images: Tensor, labels: Tensor, order: Tensor) -> float:
    """The first steps of training with pixels in either order, from one start: the largest difference of the loss."""
    found = []
    for turned in (torch.arange(SIDE * SIDE), order):
        with seeded(SEED):
            net = Moved(Perceiver(SMALL), turned)
            found.append(learn(net, images, labels, steps=AGAIN, batch=BATCH, rate=RATE))
    return max(abs(one - two) for one, two in zip(*found, strict=True))


@torch.no_grad()
def looks(net: Perceiver, image: Tensor) -> Tensor:
    """Where each latent looks first.  (1, 1, height, width) -> (m, height, width)"""
    with capture(net, LOOK) as seen:
        net(image)
    return seen[LOOK][0][0, 0].unflatten(-1, image.shape[2:])


def grey(images: Tensor) -> Tensor:
    """Pixels from 0 to 1 again."""
    return (images * 0.353 + 0.286).clamp(0, 1)


def draw(numbers: Numbers) -> Figure:
    own, near = numbers["perceiver"], numbers["convolutional"]
    note = (
        f"Of {numbers['tested']:,} test images of Fashion-MNIST, those that are labelled rightly, by a Perceiver of "
        f"{own['weights'] / 1000:.0f}k weights\nand a convolutional net of {near['weights'] / 1000:.0f}k, {SEEDS} "
        "starts, each a dot. Below, a garment in both orders, and where six\nof the trained Perceiver’s "
        f"{SMALL.latents} latents look first."
    )
    figure = style.page(TITLE, note, height=6.5)
    halves = figure.add_gridspec(2, 1, height_ratios=(1.75, 1))
    upper, lower = figure.add_subfigure(halves[0]), figure.add_subfigure(halves[1])
    shares(upper.subplots(), numbers)
    panels = lower.subplots(1, 2 + MAPS)
    for axes, picture, title in zip(panels, numbers["shown"], ("as it is", "mixed"), strict=False):
        tile(axes, picture, title, "gray_r")
    for i, (axes, picture) in enumerate(zip(panels[2:], numbers["maps"], strict=True)):
        tile(axes, picture, f"latent {i + 1}", style.WEIGHTS)
    return figure


def shares(axes: Axes, numbers: Numbers) -> None:
    own, near = numbers["perceiver"], numbers["convolutional"]
    pale = {"Perceiver": style.mix(style.WEIGHT, 0.5), "CNN": style.mix(style.SECOND, 0.5)}
    bars = {
        "Perceiver": ([own["straight"]], style.WEIGHT),
        "Perceiver, mixed,\nplaces along": ([own["places along"]], style.WEIGHT),
        "Perceiver, mixed,\nplaces left behind": ([own["places left behind"]], pale["Perceiver"]),
        "convolutional": (near["straight"], style.SECOND),
        "convolutional, mixed,\ntrained anew": (near["mixed"], pale["CNN"]),
    }
    heights = [fmean(found) for found, _ in bars.values()]
    form = [style.percent(height, 1) for height in heights]
    container = axes.bar(list(bars), heights, 0.62, color=[tint for _, tint in bars.values()])
    axes.bar_label(container, form, label_type="center", size=12.5, color="white", weight="bold")
    for i, (found, _) in enumerate(bars.values()):
        if len(found) > 1:
            axes.plot([i + 0.08 * (j - 1) for j in range(len(found))], found, "o", color=style.INK, ms=4)
    axes.set(yticks=[], ylim=(0, 1))
    axes.spines["left"].set_visible(False)
    for text in axes.get_xticklabels():
        text.set(size=10.5, color=style.INK)


def tile(axes: Axes, picture: list[str], title: str, colours: str | Colormap) -> None:
    axes.imshow(pixels_of(picture), cmap=colours, vmin=0, vmax=15, interpolation="nearest")
    axes.axis("off")
    axes.set_title(title, size=10.5, loc="center", pad=3)


def checks(numbers: Numbers) -> list[Check]:
    own, near = numbers["perceiver"], numbers["convolutional"]
    falls = [100 * (one - two) for one, two in zip(near["straight"], near["mixed"], strict=True)]
    return [
        above("Perceiver: share of right labels", own["straight"], 0.85),
        below("mixed, places along: what it says moves by", own["apart"], 1e-4),
        close("mixed, places along: share of right labels", own["places along"], own["straight"], 0.001),
        below("training in either order: largest difference of the loss, first steps", own["again"], 1e-3),
        aside(below("mixed, places left behind: share of right labels", own["places left behind"], 0.5)),
        aside(starts_above("convolutional: share of right labels", near["straight"], 0.87)),
        starts_above("convolutional: points lost when mixed", falls, 2),
    ]
