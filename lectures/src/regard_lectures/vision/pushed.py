"""5.10c: the power spectrum of what HAT adds to images (Bai et al., 2022): is it fine?

The change that raises a net's loss, after two steps, for the nets of 5.10b. Power is the mean of each ring of
frequencies, so noise that is even over all of them is a level line; beside it, that of the photographs themselves. Four
fifths of all frequencies are beyond half of the highest one, so even noise has four fifths of its power there: a share
above one half says little. Expected was more power there than noise has; less was found, least after HAT. Needs
cifar10_subset below REGARD_DATA.
"""

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.modalities.images.frequencies import frequency_distances, power_spectrum
from regard.tasks.adversarial import BOX, adversarial_losses
from regard_lectures.figure import Check, Numbers, above, aside, below, plain, within
from regard_lectures.vision.fine_detail import NETS
from regard_lectures.vision.lessons import photos

TITLE = "What HAT adds is fine"
DECKS = ("004",)
CLAIM = "Most of the power that raises the loss is beyond half of the highest frequency, where photographs have little."
EXPECTED = (
    "The power of what HAT adds concentrates beyond half of the highest frequency: above one half of it is there, and"
    " more than even noise has."
)
FOUND = (
    "Of what raises the loss of the convolutional net, the ViT and the ViT after HAT 76, 70 and 59 % of the power are"
    " beyond half, of even noise 81 %, of photographs 7 %."
)
COST = 2400.0
SEED = 0

LOOKED, HALF = 500, 8  # photographs; half of the highest frequency, 16 waves


def compute() -> Numbers:
    images, labels = (part[:LOOKED] for part in photos("test"))
    found = {name: added(make(SEED), images, labels) for name, make in NETS.items()}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        noise = BOX * torch.randn_like(images).sign()
    everything = {**found, "even noise": noise, "photographs": images - images.mean((-2, -1), keepdim=True)}
    return {
        "rings": {name: plain(level(x), 5) for name, x in everything.items()},
        "beyond": {name: beyond(x) for name, x in everything.items()},
        "largest": max(float(x.abs().max()) for x in found.values()),
    }


def added(net: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """What the last of three passes has added to the images.  -> (n, 3, h, w)"""
    seen: list[Tensor] = []

    def watched(x: Tensor) -> Tensor:
        seen.append(x.detach())
        logits: Tensor = net(x)
        return logits

    for loss in adversarial_losses(watched, images, labels):
        loss.backward()
    net.zero_grad()
    return seen[-1] - images


def level(x: Tensor) -> Tensor:
    """The mean power of each ring over the mean of all frequencies.  (n, 3, h, w) -> (rings,)"""
    power = torch.fft.fft2(x).abs().square().mean()
    return (power_spectrum(x).mean((0, 1)) / power)[: 2 * HALF + 1]  # up to the highest frequency along a side


def beyond(x: Tensor) -> float:
    """The share of power beyond half of the highest frequency."""
    power = torch.fft.fft2(x).abs().square()
    far = frequency_distances(x.shape[-2], x.shape[-1], x.device) > HALF
    return float(power[..., far].sum() / power.sum())


TINTS = {
    "convolutional": style.SECOND,
    "ViT": style.WEIGHT,
    "ViT, HAT": style.KEY,
    "even noise": style.EDGE,
    "photographs": style.INK,
}


def draw(numbers: Numbers) -> Figure:
    note = (
        "The power of each frequency over the mean of all, ring by ring: of what is added to raise the loss of three "
        "nets, of even noise\nand of the photographs. Right, the share beyond half of the highest frequency (dashed).\n"
        f"Expected: a larger share than that of even noise; found in {finer(numbers)} of {len(NETS)} nets."
    )
    figure = style.page(TITLE, note, height=5.0)
    left, right = figure.subplots(1, 2, width_ratios=(1.4, 1))
    for name, tint in TINTS.items():
        rings = numbers["rings"][name]
        left.plot(range(1, len(rings)), rings[1:], color=tint, ls=":" if name == "even noise" else "-")
    left.axvline(HALF, color=style.LINE, lw=1.2, ls=(0, (4, 3)))
    left.set_yscale("log")
    left.set_yticks([0.1, 1, 10], ["0.1", "1", "10"])
    left.minorticks_off()
    left.set_xlabel("waves over the image")
    left.set_title("power, over the mean")
    left.grid(axis="y")
    left.spines["left"].set_visible(False)
    names = list(TINTS)
    right.barh(range(len(names)), [numbers["beyond"][name] for name in names], 0.62, color=list(TINTS.values()))
    for i, name in enumerate(names):
        right.text(numbers["beyond"][name] + 0.02, i, style.percent(numbers["beyond"][name]), va="center", size=11)
    right.set_yticks(range(len(names)), names)
    right.set(xlim=(0, 1.15), ylim=(len(names) - 0.5, -0.5), xticks=[])
    right.spines["bottom"].set_visible(False)
    right.set_title("share of power beyond half")
    return figure


def finer(numbers: Numbers) -> int:
    """How many nets have a larger share beyond half than even noise has."""
    return sum(numbers["beyond"][name] > numbers["beyond"]["even noise"] for name in NETS)


def checks(numbers: Numbers) -> list[Check]:
    share = numbers["beyond"]
    level, noise = share["photographs"], share["even noise"]
    return [
        *(above(f"{name}: share of power beyond half", share[name], 0.5) for name in NETS),
        *(above(f"{name}: that share over even noise's", share[name] / noise, 1) for name in NETS),
        *(aside(above(f"{name}: that share over the photographs'", share[name] / level, 3)) for name in NETS),
        aside(within("even noise: the same share, which is that of the frequencies", noise, 0.76, 0.84)),
        aside(below("the largest change, over the box", numbers["largest"] / BOX, 1 + 1e-4)),
    ]
