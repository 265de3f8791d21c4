"""5.4: what a ViT has learned of patches, after Dosovitskiy et al. (2021, figure 7): the patterns that it tells patches
by, which places it takes for near, and how far its heads look.

The net is that of the recipe cifar10: small, and taught 20 times by 9,500 photographs; so all is coarser than in the
paper. The third panel is 11.5 at full size. Patterns are the principal components of the filters that embed a patch.
Needs cifar10_subset below REGARD_DATA.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.look.distance import grid_distances
from regard.look.patches import filter_components, position_similarity
from regard.models.vit import ViT
from regard_lectures.figure import Check, Numbers, above, aside, below, plain
from regard_lectures.labelled_images import pixels_of, shades
from regard_lectures.vision.lessons import photos, share
from regard_lectures.vision.seen import LOOKED, distances, photographer, untaught

TITLE = "What a ViT has learned of patches"
DECKS = ("002", "003")
CLAIM = "Nobody told the net where patches are, yet it has learned that neighbours are alike, and smooth patterns."
EXPECTED = (
    "A place is more alike to its neighbours, its row and its column than to far places; the patterns of patches are "
    "smooth, neighbouring pixels correlated above 0.3."
)
FOUND = (
    "Similarity is 0.60 to neighbours and -0.15 to far places; neighbouring pixels of the patterns are correlated by "
    "0.23 (-0.02 before training), below the 0.3."
)
COST = 1100.0
SEED = 0

TILES = 28
FAR = 5  # patches apart, at least


def compute() -> Numbers:
    tested, wanted = photos("test")
    net, fresh = photographer(), untaught(SEED)
    filters = net.patch.projection.weight.detach()
    found = filter_components(filters, TILES)
    alike = position_similarity(net.positions.detach(), net.config.grid)
    return {
        "layers": net.config.depth,
        "patch": net.config.patch,
        "right": share(net, tested, wanted),
        "tiles": plain((15 * shown(found.tiles)).round().long()),
        "shares": plain(found.shares, 4),
        "smooth": smoothness(found.tiles[:8]),
        "smooth before": smoothness(filter_components(fresh.patch.projection.weight.detach(), TILES).tiles[:8]),
        "similarity": [[shades((one + 1) * 7 / 15) for one in row] for row in alike],
        "near": near_and_far(net),
        "near before": near_and_far(fresh),
        "peak": float((alike.flatten(2).flatten(0, 1).argmax(-1) == torch.arange(alike[0, 0].numel())).double().mean()),
        "distances": plain(distances(net, tested[:LOOKED]), 4),
    }


def shown(tiles: Tensor) -> Tensor:
    """Each by itself from 0 to 1, colours last.  (count, 3, p, p) -> (count, p, p, 3)"""
    flat = tiles.flatten(1)
    low, high = flat.amin(1), flat.amax(1)
    return ((flat - low[:, None]) / (high - low)[:, None]).view_as(tiles).movedim(1, -1)


def smoothness(tiles: Tensor) -> float:
    """The correlation of pixels side by side, or one above the other.  (count, 3, p, p)"""
    across, down = tiles[..., :-1] * tiles[..., 1:], tiles[..., :-1, :] * tiles[..., 1:, :]
    return float((across.mean() + down.mean()) / 2 / tiles.square().mean())


def near_and_far(net: ViT) -> dict[str, float]:
    """The mean similarity to the four neighbours, to the same row or column, and to patches that are far."""
    grid = net.config.grid
    alike = position_similarity(net.positions.detach(), grid).flatten(2).flatten(0, 1)  # (n, n)
    apart = grid_distances(grid)
    places = torch.cartesian_prod(*(torch.arange(size) for size in grid))
    straight = (places[:, None] == places).any(-1) & (apart >= 2)
    slant = (places[:, None] != places).all(-1) & (apart >= 2)
    picked = {"neighbours": apart == 1, "row or column": straight, "neither": slant, "far": apart >= FAR}
    return {name: float(alike[where].mean()) for name, where in picked.items()}


def draw(numbers: Numbers) -> Figure:
    near = numbers["near"]
    note = (
        f"The ViT of the recipe cifar10, {numbers['layers']} layers, photographs of 32 x 32; "
        f"{style.percent(numbers['right'])} of unseen ones are labelled rightly. Centre, a\nsmall map is one place’s "
        f"similarity with all 64: to its four neighbours {near['neighbours']:.2f} in the mean, to places {FAR} patches "
        f"away\nor more {near['far']:.2f}.".replace("-", "−")
    )
    figure = style.page(TITLE, note, height=5.1)
    parts = figure.add_gridspec(1, 3, width_ratios=(0.8, 1.1, 1.05))
    left, centre, right = (figure.add_subfigure(parts[i]) for i in range(3))
    mosaic(left.subplots(), numbers["tiles"], numbers["patch"])
    left.suptitle(f"{TILES} components of filters", size=12, x=0.02, ha="left")
    places(centre.subplots(), numbers["similarity"])
    centre.suptitle("similarity of places", size=12, x=0.02, ha="left")
    axes = right.subplots()
    side = len(numbers["similarity"])
    even = numbers["patch"] * float(grid_distances((side, side)).mean())
    axes.axhline(even, color=style.EDGE, lw=1.2, ls=":")
    scattered(axes, numbers["distances"])
    axes.text(numbers["layers"] + 0.5, even - 1.2, "dotted: looking evenly", ha="right", va="top", color=style.SOFT)
    right.suptitle("how far heads look, pixels", size=12, x=0.02, ha="left")
    return figure


def mosaic(axes: Axes, tiles: list[list[list[list[int]]]], patch: int) -> None:
    """Four in a row, white between them."""
    side = patch + 1
    wide = torch.ones(side * (TILES // 4) - 1, side * 4 - 1, 3)
    for i, tile in enumerate(tiles):
        top, left = side * (i // 4), side * (i % 4)
        wide[top : top + patch, left : left + patch] = torch.tensor(tile) / 15
    axes.imshow(wide, interpolation="nearest")
    axes.set(xticks=[], yticks=[], anchor="NW")
    axes.spines[:].set_visible(False)


def places(axes: Axes, table: list[list[list[str]]]) -> None:
    """A grid of maps, a gap between any two."""
    rows, columns = len(table), len(table[0])
    wide = torch.full((rows * (rows + 1), columns * (columns + 1)), float("nan"))
    for i, row in enumerate(table):
        for j, one in enumerate(row):
            top, left = i * (rows + 1), j * (columns + 1)
            wide[top : top + rows, left : left + columns] = torch.tensor(pixels_of(one)) / 7 - 1
    drawn = axes.imshow(wide, cmap=style.SIGNED, vmin=-1, vmax=1)
    axes.set(xticks=[], yticks=[], anchor="NW")
    axes.spines[:].set_visible(False)
    bar = axes.figure.colorbar(
        drawn, ax=axes, orientation="horizontal", shrink=0.6, aspect=30, pad=0.03, panchor=(0, 1), anchor=(0, 1)
    )
    bar.set_ticks([-1, 0, 1], labels=["−1", "0", "cosine 1"])
    bar.outline.set_visible(False)


def scattered(axes: Axes, table: list[list[float]]) -> None:
    """A dot for each head, by depth."""
    for i, heads in enumerate(table):
        axes.plot([i + 1] * len(heads), heads, "o", color=style.WEIGHT, ms=7, alpha=0.75, mew=0)
    axes.set(xlim=(0.5, len(table) + 0.5), ylim=(0, 1.1 * max(map(max, table))), xticks=range(1, len(table) + 1))
    axes.set_xlabel("layer")
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)


def checks(numbers: Numbers) -> list[Check]:
    near, before = numbers["near"], numbers["near before"]
    untaught = abs(before["neighbours"] - before["far"])
    rows = near["row or column"] - near["neither"]
    return [
        aside(above("photographs labelled rightly, share", numbers["right"], 0.4)),
        above("similarity to four neighbours over that to far places", near["neighbours"] - near["far"], 0.1),
        aside(below("the same before training", untaught, 0.05)),
        above("similarity to the same row or column over that to others", rows, 0.0),
        aside(above("places whose map peaks on themselves, share", numbers["peak"], 0.99)),
        above("neighbouring pixels of 8 components, correlation", numbers["smooth"], 0.3),
        aside(above("the same, over that before training", numbers["smooth"] - numbers["smooth before"], 0.2)),
    ]
