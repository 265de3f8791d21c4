"""5.2b: two digits in opposite corners: are they the same? A convolutional net with a non-local block, and without.

The image has 64 x 64 pixels, 36 of them between the digits, and no unit of the net sees more than 35 in a row; so none
sees both, and the mean over all places cannot tell whether two of a kind were there: it is a sum of what either corner
says. One block in which every place looks at all others (Wang et al., 2018), before the last convolution, is enough.
Digits are MNIST's, two of the same kind by different hands, made smaller. Needs mnist below REGARD_DATA.
"""

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.models.resnet import Config, ResNet
from regard.nn.convolution import receptive_field
from regard.zoo import count_parameters
from regard_lectures.curves import named
from regard_lectures.figure import Check, Numbers, aside, below, seeded, starts_above, starts_below
from regard_lectures.labelled_images import pixels_of, read, shades
from regard_lectures.toys import fit, means
from regard_lectures.vision.lessons import EVERY, paced, share

TITLE = "Two far corners"
DECKS = ("004",)
CLAIM = "A convolutional net that never sees both corners guesses; with one non-local block it compares them."
EXPECTED = (
    "A small net of convolutions whose field is smaller than the image fails, below 60 %; with one non-local block it"
    " succeeds, above 80 %."
)
FOUND = "Convolutions alone are right in 49.0, 51.2 and 47.9 %, with a block in 96.2, 94.5 and 96.0 %."
COST = 190.0
SEED = 0

IMAGE, DIGIT, KINDS = 64, 14, 4  # pixels a side; the digits 0, 1, 2 and 3
SEEDS, STEPS, BATCH, RATE, TESTS = 3, 1000, 64, 3e-3, 1000
WHITE = 2.0  # what the nets are given of it, for nearly all of an image is black
WAYS: dict[str, tuple[int, ...]] = {"convolutions alone": (), "with a non-local block": (1,)}
TINTS = {"convolutions alone": style.SECOND, "with a non-local block": style.WEIGHT}


def net_with(blocks: tuple[int, ...]) -> ResNet:
    """The same but for the stages that end with a block."""
    return ResNet(
        Config(channels=1, classes=2, width=16, layer="plain", depths=(2, 1), dims=(32, 32), nonlocals=blocks)
    )


def digits(split: str) -> list[Tensor]:
    """Of each kind, made smaller.  -> (n, digit, digit) for each"""
    images, labels = read("mnist", split)
    small = F.interpolate(images, (DIGIT, DIGIT), mode="area")[:, 0]
    return [small[labels == kind] for kind in range(KINDS)]


def pairs(kinds: list[Tensor], count: int) -> tuple[Tensor, Tensor]:
    """Half of them the same, on either diagonal.  -> (n, 1, image, image); (n,): 1 where they are the same"""
    labels, top = torch.randint(2, (count,)), torch.randint(KINDS, (count,))
    other = torch.where(labels == 1, top, (top + torch.randint(1, KINDS, (count,))) % KINDS)
    images = torch.zeros(count, 1, IMAGE, IMAGE)
    ends = slice(0, DIGIT), slice(IMAGE - DIGIT, IMAGE)
    for image, one, two, falls in zip(images, top.tolist(), other.tolist(), torch.rand(count) < 0.5, strict=True):
        left, right = ends if falls else ends[::-1]
        for kind, rows, columns in ((one, ends[0], left), (two, ends[1], right)):
            image[0, rows, columns] = kinds[kind][int(torch.randint(len(kinds[kind]), ()))]
    return images, labels


def compute() -> Numbers:
    kinds = digits("train")
    with seeded(SEED + 1000):
        tested, wanted = pairs(digits("test"), TESTS)
    numbers: Numbers = {"field": receptive_field(net_with(()).backbone.windows()).size, "between": IMAGE - 2 * DIGIT}
    numbers["images"] = [shades(tested[i, 0]) for i in (int((wanted == 1).int().argmax()), int(wanted.int().argmin()))]
    for name, blocks in WAYS.items():
        rates, curves = [], []
        for seed in range(SEED, SEED + SEEDS):
            with seeded(seed):
                net = net_with(blocks)

                def loss(net: ResNet = net) -> Tensor:
                    images, labels = pairs(kinds, BATCH)
                    return F.cross_entropy(net(WHITE * images), labels)

                history = fit(net.parameters(), loss, steps=STEPS, rate=RATE)
            rates.append(share(net, WHITE * tested, wanted))
            curves.append(paced(history))
        numbers[name] = {"right": rates, "weights": count_parameters(net), "loss": [round(x, 4) for x in means(curves)]}
    return numbers


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Half of all images hold two of a kind. The net sees at most {numbers['field']} pixels in a row, and "
        f"between the digits there are {numbers['between']}.\nLeft, two test images, with the largest field; "
        f"right, the loss while learning, mean of {SEEDS} starts (ln 2 is a guess),\n"
        "and how many test images each of them has right."
    )
    figure = style.page(TITLE, note, height=5.4)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.9))
    left.axis("off")
    panels = [left.inset_axes((0.06, 0.53, 0.88, 0.44)), left.inset_axes((0.06, 0.0, 0.88, 0.44))]
    for axes, rows, says in zip(panels, numbers["images"], ("the same", "different"), strict=True):
        axes.imshow(pixels_of(rows), cmap="gray_r", vmin=0, vmax=15)
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set(visible=True, color=style.LINE)
        axes.set_ylabel(says, size=11, color=style.INK)
        side = numbers["field"]
        style.frame(axes, (IMAGE - side) / 2, (IMAGE - side) / 2, side, side, style.SECOND)
    right.set_ylim(0, 0.8)
    right.axhline(0.6931, color=style.EDGE, lw=1, ls=":")
    steps = [EVERY * (i + 1) for i in range(STEPS // EVERY)]
    shown, tints = {}, {}
    for name, tint in TINTS.items():
        right_in_each = ", ".join(f"{100 * rate:.1f}" for rate in numbers[name]["right"])
        says = f"{name}\n{right_in_each} % right"
        shown[says], tints[says] = (steps, numbers[name]["loss"]), tint
    named(right, shown, tints, wide=0.62)
    right.set_xlabel("steps")
    right.set_title("loss")
    return figure


def checks(numbers: Numbers) -> list[Check]:
    alone, looking = (numbers[name] for name in WAYS)
    more = looking["weights"] / alone["weights"]
    return [
        aside(below("the largest field less the pixels between the digits", numbers["field"] - numbers["between"], 0)),
        starts_below("convolutions alone: share of right answers", alone["right"], 0.6),
        starts_above("with a block: share of right answers", looking["right"], 0.8),
        aside(below("weights with the block over those without", more, 1.2)),
    ]
