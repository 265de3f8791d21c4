"""5.10: a picture's coarse and its fine part (Bai et al., 2022): its Fourier transform within a radius, and beyond.

The two parts add up to the picture, and share no frequency: so their squares add up too. The garment is from
Fashion-MNIST, whose licence allows it to be shown. Needs fashion_mnist_30k below REGARD_DATA.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.modalities.images.frequencies import frequency_distances, high_pass, low_pass
from regard_lectures.figure import Check, Numbers, above, below, equal
from regard_lectures.labelled_images import pixels_of, read, shades

TITLE = "A picture is its coarse part and its fine part"
DECKS = ("004",)
CLAIM = "Coarse and fine part add up to the picture, whatever the radius; most of its power is within a few waves."
EXPECTED = "Coarse and fine part add up to the picture, whatever the radius, and share no frequency."
FOUND = "The parts add up to within 3e-17 a pixel, their squares to within 2e-16; 90 % of the power is within 4 waves."
COST = 3.0
SEED = 0

RADII = (2, 4, 7, 10)
SHOWN, MANY = 40, 500  # which garment is drawn, and how many are measured


def compute() -> Numbers:
    images = read("fashion_mnist_30k", "test")[0][:MANY, 0].double()
    numbers: Numbers = {name: [] for name in ("low", "high", "sums", "leaks", "power", "squares")}
    numbers["image"] = shades(images[SHOWN])
    for radius in RADII:
        low, high = low_pass(images, radius), high_pass(images, radius)
        numbers["low"].append(shades(low[SHOWN].clamp(0, 1)))
        numbers["high"].append(shades((high[SHOWN] / 1.2 + 0.5).clamp(0, 1)))
        numbers["sums"].append(float((low + high - images).abs().max()))
        numbers["leaks"].append(max(outside(low, radius), 1 - outside(high, radius)))
        parts, total = low.square().sum() + high.square().sum(), images.square().sum()
        numbers["power"].append(float(low.square().sum() / total))
        numbers["squares"].append(float(parts / total - 1))
    return numbers


def outside(images: Tensor, radius: float) -> float:
    """The share of the power beyond a radius.  (n, h, w)"""
    power = torch.fft.fft2(images).abs().square()
    beyond = frequency_distances(images.shape[-2], images.shape[-1], images.device) > radius
    return float(power[:, beyond].sum() / power.sum())


def draw(numbers: Numbers) -> Figure:
    note = (
        "A garment of 28 x 28 pixels, and what is left of it within (upper row) and beyond (lower row) so many waves "
        f"over its side.\nIn the fine part grey is zero. Of {MANY} garments’ power, within: "
    )
    shares = (f"{style.percent(share)} ({radius})" for radius, share in zip(RADII, numbers["power"], strict=True))
    note += ", ".join(shares) + "."
    figure = style.page(TITLE, note, height=5.6)
    grid = figure.add_gridspec(2, 1 + len(RADII), width_ratios=(1.25, *[1] * len(RADII)))
    whole = figure.add_subplot(grid[:, 0])
    show(whole, numbers["image"], "the picture")
    for i, radius in enumerate(RADII):
        show(figure.add_subplot(grid[0, i + 1]), numbers["low"][i], f"within {radius} waves")
        show(figure.add_subplot(grid[1, i + 1]), numbers["high"][i], f"beyond {radius}")
    return figure


def show(axes: Axes, image: list[str], title: str) -> None:
    axes.imshow(pixels_of(image), cmap="gray_r", vmin=0, vmax=15)
    axes.set(xticks=[], yticks=[])
    axes.set_title(title, size=11, loc="center", pad=4)
    axes.spines[:].set_visible(True)
    axes.spines[:].set_color(style.LINE)


def checks(numbers: Numbers) -> list[Check]:
    power = numbers["power"]
    return [
        below("coarse and fine less the picture, largest pixel", max(numbers["sums"]), 1e-12),
        below("power that is in the wrong part, share", max(numbers["leaks"]), 1e-12),
        below("squares of both parts over the picture's, off by", max(map(abs, numbers["squares"])), 1e-12),
        equal("more within a larger radius", power == sorted(set(power)), True),
        above(f"share of the power within {RADII[1]} waves", power[1], 0.8),
    ]
