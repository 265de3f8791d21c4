"""10.9c: MLP-Mixer, ViT and a convolutional net of equal size, on garments whose patches are in order or are not.

All 49 patches of Fashion-MNIST's images are put into one other order, the same for every image, and each net is trained
anew. ViT has learned positions and Mixer a weight for each place, which mean nothing before training: started along
with the patches, both learn the same, step by step; started as ever, they differ by chance. A convolutional net expects
what belongs together side by side. The tiles are rows of the first layer's weights over the patches, less those that
training began with: learned on shuffled images and put back into order, they look like those of the others.
Needs fashion_mnist_30k below REGARD_DATA.
"""

from collections.abc import Callable
from statistics import fmean
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.models.mixer import Config as OfMixer
from regard.models.mixer import MLPMixer
from regard.models.vit import Config as OfViT
from regard.models.vit import ViT
from regard.nn.block import Block
from regard.nn.mixers.tokens import TokenMLP
from regard.zoo import count_parameters
from regard_lectures.efficient.two_mlps import along
from regard_lectures.figure import Check, Numbers, above, aside, below, plain, seeded, starts_above, starts_below
from regard_lectures.labelled_images import garments, learn, right

TITLE = "Patches in another order"
DECKS = ("004",)
CLAIM = (
    "Trained anew on patches in a fixed other order, Mixer and ViT are as good as before; a convolutional net is not."
)
EXPECTED = (
    "Trained anew on patches in one fixed other order, Mixer and ViT are as good as before, and a convolutional net is "
    "not."
)
FOUND = (
    "Mixer changes by +0.6, +0.8 and -0.1 points, ViT by -0.5, -0.9 and -0.1, the convolutional net by -3.3, -5.0 and "
    "-4.4: as expected in 3 of 3 starts."
)
COST = 750.0
SEED = 0

SIDE, PATCH = 7, 4  # patches in a row, pixels in a patch's row
SEEDS, STEPS, BATCH, RATE = 3, 1200, 64, 2e-3
AGAIN = 10  # first steps of a training that starts along with the patches
TILES = 12  # of the first layer's weights, the largest


def mixer() -> nn.Module:
    return MLPMixer(
        OfMixer(image=SIDE * PATCH, patch=PATCH, channels=1, classes=10, dim=64, depth=4, tokens=72, hidden=128)
    )


def vit() -> nn.Module:
    return ViT(
        OfViT(
            image=SIDE * PATCH, patch=PATCH, channels=1, classes=10, dim=64, depth=3, heads=4, hidden=112, pool="mean"
        )
    )


def convolutional() -> nn.Module:
    """Three layers of filters; of each feature the mean over all places is read."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(64, 136, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(136, 10),
    )


NETS: dict[str, Callable[[], nn.Module]] = {"Mixer": mixer, "ViT": vit, "convolutional": convolutional}


def shuffled(images: Tensor, order: Tensor) -> Tensor:
    """(n, 1, height, width), (patches,) -> the same size"""
    cut = images.unflatten(3, (SIDE, PATCH)).unflatten(2, (SIDE, PATCH)).transpose(3, 4)  # (n, 1, side, side, p, p)
    turned = cut.flatten(2, 3)[:, :, order].unflatten(2, (SIDE, SIDE))
    return turned.transpose(3, 4).flatten(4, 5).flatten(2, 3)


@torch.no_grad()
def started_along(net: nn.Module, order: Tensor) -> None:
    """What a net has for each place is put into the order of the patches."""
    if isinstance(net, ViT):
        net.positions.copy_(net.positions[:, order].clone())
    for part in net.modules():
        if isinstance(part, TokenMLP):
            along(part, order)


def compute() -> Numbers:
    images, labels = garments("train")
    tested, wanted = garments("test")
    with seeded(SEED):
        order = torch.randperm(SIDE * SIDE)
    kinds = {
        "in order": (images, tested),
        "shuffled": (shuffled(images, order), shuffled(tested, order)),
    }
    numbers: Numbers = {"tested": len(wanted), "tiles": {}, "alike": {}}
    for name, make in NETS.items():
        numbers[name] = {"weights": count_parameters(make()), "in order": [], "shuffled": []}
        for kind, (own, asked) in kinds.items():
            for seed in range(SEED, SEED + SEEDS):
                with seeded(seed):
                    net = make()
                    first = over_patches(net).clone() if isinstance(net, MLPMixer) else None
                    learn(net, own, labels, steps=STEPS, batch=BATCH, rate=RATE)
                numbers[name][kind].append(right(net, asked, wanted))
                if isinstance(net, MLPMixer) and first is not None and seed == SEED:
                    table = over_patches(net) - first
                    put_back = table if kind == "in order" else table[:, order.argsort()]
                    numbers["alike"][kind] = neighbours_alike(table)
                    numbers["alike"][f"{kind}, put back"] = neighbours_alike(put_back)
                    numbers["tiles"][kind] = plain(largest(put_back), 2)
        if name != "convolutional":
            numbers[name]["again"] = again(make, images, labels, order)
    return numbers


def again(make: Callable[[], nn.Module], images: Tensor, labels: Tensor, order: Tensor) -> float:
    """The first steps of training in order, and shuffled from a start along: the largest difference of the loss."""
    found = []
    for turned in (torch.arange(SIDE * SIDE), order):
        with seeded(SEED):
            net = make()
            started_along(net, turned)
            own = shuffled(images, turned)
            found.append(learn(net, own, labels, steps=AGAIN, batch=BATCH, rate=RATE))
    return max(abs(one - two) for one, two in zip(*found, strict=True))


def over_patches(net: MLPMixer) -> Tensor:
    """The first layer's weights from the patches to the hidden units.  -> (hidden, patches)"""
    block: Any = net.blocks[0]
    assert isinstance(block, Block)
    assert isinstance(block.mixer, TokenMLP)
    return block.mixer.mlp.up.weight.detach()


def largest(table: Tensor) -> Tensor:
    """The rows with the largest weights, each over its own largest.  (hidden, patches) -> (tiles, side, side)"""
    rows = table[table.norm(dim=-1).topk(TILES).indices]
    return (rows / rows.abs().amax(-1, keepdim=True)).unflatten(-1, (SIDE, SIDE))


def neighbours_alike(table: Tensor) -> float:
    """The correlation of weights of patches that are side by side, or one above the other.  (hidden, patches)"""
    grids = (table - table.mean(-1, keepdim=True)).unflatten(-1, (SIDE, SIDE))
    across, down = grids[:, :, :-1] * grids[:, :, 1:], grids[:, :-1] * grids[:, 1:]
    return float((across.mean() + down.mean()) / 2 / grids.square().mean())


TINTS = {"Mixer": style.WEIGHT, "ViT": style.KEY, "convolutional": style.SECOND}


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Fashion-MNIST, {numbers['tested']:,} test images labelled rightly: patches in order (left bars), or shuffled "
        f"and trained\nanew (right bars); {SEEDS} starts each, dots. Below, how the weights of {TILES} of Mixer’s "
        "hidden units\nover the 7 x 7 patches have changed: learned in order, and learned shuffled and put back."
    )
    figure = style.page(TITLE, note, height=6.6)
    halves = figure.add_gridspec(2, 1, height_ratios=(1.5, 1))
    upper, lower = figure.add_subfigure(halves[0]), figure.add_subfigure(halves[1])
    shares(upper.subplots(), numbers)
    panels = lower.subplots(2, TILES)
    for row, kind in zip(panels, ("in order", "shuffled"), strict=True):
        for axes, tile in zip(row, numbers["tiles"][kind], strict=True):
            show(axes, tile)
        row[0].set_ylabel(kind if kind == "in order" else "put back", size=10, color=style.INK)
    return figure


def shares(axes: Axes, numbers: Numbers) -> None:
    for i, (name, tint) in enumerate(TINTS.items()):
        for side, kind in ((-0.2, "in order"), (0.2, "shuffled")):
            found = numbers[name][kind]
            colour = tint if side < 0 else style.mix(tint, 0.55)
            container = axes.bar([i + side], [fmean(found)], 0.38, color=colour)
            said = style.percent(fmean(found), 1)
            axes.bar_label(container, [said], label_type="center", color="white", size=12, weight="bold")
            axes.plot([i + side] * len(found), found, "o", color=style.INK, ms=4)
    labels = [f"{name}, {numbers[name]['weights'] / 1000:.0f}k weights" for name in TINTS]
    axes.set_xticks(range(len(TINTS)), labels)
    axes.set(yticks=[], ylim=(0, 1))
    axes.spines["left"].set_visible(False)
    for text in axes.get_xticklabels():
        text.set(size=11.5, color=style.INK)


def show(axes: Axes, tile: list[list[float]]) -> None:
    axes.pcolormesh(tile, cmap=style.SIGNED, vmin=-1, vmax=1)
    axes.set(xlim=(0, SIDE), ylim=(SIDE, 0), aspect="equal", xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def changes(numbers: Numbers, name: str) -> list[float]:
    """Points won or lost by another order, of each start."""
    found = numbers[name]
    return [100 * (mixed - plain) for mixed, plain in zip(found["shuffled"], found["in order"], strict=True)]


def checks(numbers: Numbers) -> list[Check]:
    sizes = sorted(numbers[name]["weights"] for name in NETS)
    alike, fixed, near = numbers["alike"], ("Mixer", "ViT"), "convolutional"
    won = {name: changes(numbers, name) for name in NETS}
    beyond = [-fall - max(map(abs, others)) for fall, *others in zip(won[near], *(won[x] for x in fixed), strict=True)]
    return [
        aside(above("weights, fewest over most", sizes[0] / sizes[-1], 0.97)),
        *(
            aside(starts_above(f"{name}, in order: share of right labels", numbers[name]["in order"], 0.8))
            for name in NETS
        ),
        *(starts_below(f"{name}: change by another order, points", [abs(x) for x in won[name]], 1.5) for name in fixed),
        *(
            below(f"{name}, started along: largest difference of the loss, first steps", numbers[name]["again"], 1e-3)
            for name in fixed
        ),
        starts_above("convolutional: points lost by another order", [-x for x in won[near]], 2),
        starts_above("the same beyond Mixer's and ViT's larger change", beyond, 1),
        aside(above("weights of neighbours, correlation, learned in order", alike["in order"], 0.1)),
        aside(below("the same, learned shuffled", alike["shuffled"], 0.1)),
        aside(above("the same, put back", alike["shuffled, put back"], 0.1)),
    ]
