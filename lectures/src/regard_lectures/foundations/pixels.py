"""1.1b: a perceptron, to which an image is a list of pixels, and a convolutional net, which knows their neighbours.

Both have as many weights, and learn from the same 1,000 images of MNIST; errors are counted on its 10,000 test images.
"""

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.models.mlp import MLP, Config
from regard_lectures.figure import Check, Numbers, above, aside, seeded, starts_above, starts_below
from regard_lectures.labelled_images import learn, pixels_of, read, said, shades

TITLE = "Who knows what is near"
DECKS = ("004",)
CLAIM = "With as many weights and 1,000 images to learn from, a convolutional net reads more digits than a perceptron."
EXPECTED = "With as many weights and 1,000 training images, a convolutional net beats a perceptron on flattened images."
FOUND = "The perceptron makes 2.2 to 2.7 times as many errors as the convolutional net, in all of 5 starts."
COST = 60.0
SEED = 0

IMAGES, SEEDS, STEPS, BATCH, RATE = 1000, 5, 400, 50, 2e-3
HIDDEN = 36  # so that both have as many weights
SHOWN = 12  # the first test images that the perceptron reads wrongly and the other rightly


def digits(split: str) -> tuple[Tensor, Tensor]:
    """-> (n, 1, 28, 28) of mean 0 and spread 1, about; (n,)"""
    pixels, labels = read("mnist", split)
    return (pixels - 0.1307) / 0.3081, labels


def convolutional() -> nn.Module:
    """Two layers of filters, each followed by a look at the largest of four."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 10),
    )


def perceptron() -> nn.Module:
    return MLP(Config(hidden=HIDDEN))


def compute() -> Numbers:
    images, labels = digits("train")
    tested, wanted = digits("test")
    numbers: Numbers = {"tested": len(wanted)}
    guesses: dict[str, Tensor] = {}
    for name, make in (("perceptron", perceptron), ("convolutional", convolutional)):
        wrong = []
        for seed in range(SEED, SEED + SEEDS):
            with seeded(seed):
                some = torch.randperm(len(images))[:IMAGES]
                model = make()
                learn(model, images[some], labels[some], steps=STEPS, batch=BATCH, rate=RATE)
            guess = said(model, tested)
            wrong.append(int((guess != wanted).sum()))
            guesses.setdefault(name, guess)
        numbers[name] = {"wrong": wrong, "weights": sum(weight.numel() for weight in model.parameters())}
    missed = (guesses["perceptron"] != wanted) & (guesses["convolutional"] == wanted)
    places = missed.nonzero()[:SHOWN, 0]
    small = F.avg_pool2d(tested[places] * 0.3081 + 0.1307, 2)[:, 0]  # half as wide, so that the record stays small
    numbers["shown"] = {
        "images": [shades(image) for image in small],
        "guesses": guesses["perceptron"][places].tolist(),
        "labels": wanted[places].tolist(),
    }
    return numbers


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Test images of MNIST read wrongly after learning from {IMAGES:,}, mean and range of {SEEDS} seeds. Right: "
        "some that\nthe perceptron reads wrongly and the other rightly, with what it takes them for (seed 0)."
    )
    figure = style.page(TITLE, note, height=5.2)
    halves = figure.add_gridspec(1, 2, width_ratios=(1, 1.15))
    axes, right = figure.add_subplot(halves[0]), figure.add_subfigure(halves[1])
    names = {"perceptron": style.SECOND, "convolutional": style.WEIGHT}
    shares = {name: [wrong / numbers["tested"] for wrong in numbers[name]["wrong"]] for name in names}
    labels = [f"{name}\n{numbers[name]['weights'] / 1000:.1f}k weights" for name in names]
    means = [sum(rates) / SEEDS for rates in shares.values()]
    bars = axes.bar(labels, means, 0.6, color=list(names.values()))
    axes.bar_label(bars, [style.percent(mean, 1) for mean in means], padding=-27, size=12, color="white", weight="bold")
    axes.vlines(range(2), list(map(min, shares.values())), list(map(max, shares.values())), color=style.INK, lw=1.6)
    axes.set(yticks=[])
    axes.spines["left"].set_visible(False)
    for text in axes.get_xticklabels():
        text.set(size=11.5, color=style.INK)
    shown = numbers["shown"]
    for i, panel in enumerate(right.subplots(3, 4).flat):
        panel.axis("off")
        if i < len(shown["images"]):
            panel.imshow(pixels_of(shown["images"][i]), cmap="gray_r", vmin=0, vmax=15, interpolation="bilinear")
            panel.set_title(f"{shown['labels'][i]}, not {shown['guesses'][i]}", loc="center", size=11, pad=2)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    flat, near = numbers["perceptron"], numbers["convolutional"]
    weights = sorted((flat["weights"], near["weights"]))
    ratios = [one / two for one, two in zip(flat["wrong"], near["wrong"], strict=True)]
    shares = [wrong / numbers["tested"] for wrong in near["wrong"]]
    return [
        aside(above("weights, fewer over more", weights[0] / weights[1], 0.98)),
        starts_above("errors of the perceptron over the other's", ratios, 1.5),
        aside(starts_below("share of errors of the convolutional net", shares, 0.07)),
    ]
