"""5.7b: windows, shifted windows, the roll and the mask of Swin (Liu et al., 2021, figures 2 and 4), from the net.

A grid of 8 x 8 patches in windows of 4 x 4. Shifted by half of one, nine windows of unlike sizes would be needed;
rolled around the edge, four do, and a mask keeps apart what only the roll has brought together. The cuts, the labels
and the masks are those of the library's layer; the slopes of what it says show that nothing leaks.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard import style
from regard.models.swin import Config, Swin
from regard.nn.mixers.windows import WindowAttention, cut_windows, window_neighbours
from regard_lectures.figure import Check, Numbers, above, equal, seeded
from regard_lectures.labelled_images import pixels_of, shades
from regard_lectures.vision.photo import portrait

TITLE = "Windows, shifted and rolled"
DECKS = ("004",)
CLAIM = "Rolled around its edge, a grid of shifted windows needs no more of them, and a mask lets nothing through."
EXPECTED = (
    "Rolled around the edge, nine pieces of shifted windows fit into four, and nothing leaks from one piece into "
    "another."
)
FOUND = "9 pieces are in 4 windows; 0 places move another piece, and each moves its own."
COST = 1.0
SEED = 0

GRID, WINDOW = 8, 4
CONFIG = Config(image=16, patch=2, classes=2, dim=8, depth=(2,), heads=(2,), hidden=16, window=WINDOW)


def mixers() -> list[WindowAttention]:
    return [part for part in Swin(CONFIG).double().eval().modules() if isinstance(part, WindowAttention)]


def compute() -> Numbers:
    with seeded(SEED):
        plain, shifted = mixers()
        x = torch.randn(1, GRID, GRID, CONFIG.dim, dtype=torch.float64)
    numbers: Numbers = {"image": shades(portrait(64))}
    for name, mixer in (("plain", plain), ("shifted", shifted)):
        cut = mixer.cut(GRID, GRID)
        pairs = window_neighbours(cut, torch.device("cpu"))
        places = cut.places()  # of each window, the row and column of each position
        groups = torch.zeros(GRID, GRID, dtype=torch.long)
        count = 0
        for window, spots in enumerate(places):
            labels: dict[tuple[bool, ...], int] = {}
            for i, spot in enumerate(spots):
                assert spot is not None
                row = (True,) * len(spots) if pairs is None else tuple(pairs[window, i].tolist())
                if row not in labels:
                    labels[row], count = count, count + 1
                groups[spot] = labels[row]
        slopes = torch.autograd.functional.jacobian(lambda y, mixer=mixer: mixer(y).sum(-1)[0], x)  # (r, c, 1, r, c, d)
        moved = slopes.abs().sum((2, 5)).flatten(2).flatten(0, 1) > 0  # (places, places)
        same = groups.flatten()[:, None] == groups.flatten()
        numbers[name] = {
            "groups": groups.tolist(),
            "count": count,
            "windows": cut.count,
            "shift": list(cut.shift),
            "leaks": int((moved & ~same).sum()),
            "blind": int((~moved & same).sum()),
        }
    cut = shifted.cut(GRID, GRID)
    pairs = window_neighbours(cut, torch.device("cpu"))
    assert pairs is not None
    numbers["masks"] = [["".join("1" if x else "0" for x in row) for row in window] for window in pairs.tolist()]
    numbers["rolled"] = cut_windows(torch.tensor(numbers["shifted"]["groups"])[None, :, :, None], cut)[..., 0].tolist()
    return numbers


def draw(numbers: Numbers) -> Figure:
    note = (
        "A grid of 8 x 8 patches in windows of 4 x 4, shifted by 2 in every other layer. Rolled up and to the "
        "left, nine pieces make four\nfull windows again; right, who may look at whom in each of them (16 x 16): "
        "where pieces meet, only within a piece."
    )
    figure = style.page(TITLE, note, height=4.55)
    axes = style.stage(figure)
    size, y = 2.15, 0.75
    for x, name, title in ((0.3, "plain", "1  windows"), (2.65, "shifted", "2  shifted")):
        on_photo(axes, x, y, size, numbers["image"], 0)
        borders(axes, x, y, size, numbers[name]["groups"])
        style.write(axes, x, y + size + 0.22, title, ha="left", size=12, weight="bold")
        style.write(axes, x, y - 0.22, f"{numbers[name]['count']} pieces", ha="left", size=10.5, color=style.SOFT)
    shift = numbers["shifted"]["shift"][0]
    on_photo(axes, 5.0, y, size, numbers["image"], shift)
    groups = torch.tensor(numbers["shifted"]["groups"]).roll((-shift, -shift), (0, 1)).tolist()
    borders(axes, 5.0, y, size, groups)
    middle = WINDOW * size / GRID
    axes.plot([5.0 + middle] * 2, [y, y + size], color=style.QUERY, lw=2.4, zorder=5)
    axes.plot([5.0, 5.0 + size], [y + middle] * 2, color=style.QUERY, lw=2.4, zorder=5)
    style.frame(axes, 5.0, y, size, size, style.QUERY, 2.4)
    style.write(axes, 5.0, y + size + 0.22, "3  rolled", ha="left", size=12, weight="bold")
    says = f"{numbers['shifted']['windows']} windows"
    style.write(axes, 5.0, y - 0.22, says, ha="left", size=10.5, color=style.QUERY)
    masks(axes, 7.45, y, size, numbers["masks"])
    style.write(axes, 7.45, y + size + 0.22, "4  masks", ha="left", size=12, weight="bold")
    style.write(axes, 7.45, y - 0.22, "blue: may look", ha="left", size=10.5, color=style.WEIGHT)
    return figure


def on_photo(axes: Axes, x: float, y: float, size: float, image: list[str], shift: int) -> None:
    pixels = torch.tensor(pixels_of(image), dtype=torch.float32)
    moved = shift * len(image) // GRID
    extent = (x, x + size, y, y + size)
    axes.imshow(
        pixels.roll((-moved, -moved), (0, 1)), cmap="gray", vmin=-5, vmax=16, extent=extent, zorder=2, aspect="auto"
    )
    for i in range(GRID + 1):
        place = i * size / GRID
        axes.plot([x + place, x + place], [y, y + size], color="white", lw=0.5, zorder=3)
        axes.plot([x, x + size], [y + place, y + place], color="white", lw=0.5, zorder=3)
    width, height = axes.figure.get_size_inches()  # type: ignore[union-attr]
    axes.set(xlim=(0, width), ylim=(0, height))


def borders(axes: Axes, x: float, y: float, size: float, groups: list[list[int]]) -> None:
    """Lines wherever two neighbours belong to unlike pieces."""
    cell, top = size / GRID, y + size
    for i in range(GRID):
        for j in range(GRID):
            if j + 1 < GRID and groups[i][j] != groups[i][j + 1]:
                at = x + (j + 1) * cell
                axes.plot([at, at], [top - i * cell, top - (i + 1) * cell], color=style.WEIGHT, lw=2.2, zorder=4)
            if i + 1 < GRID and groups[i][j] != groups[i + 1][j]:
                at = top - (i + 1) * cell
                axes.plot([x + j * cell, x + (j + 1) * cell], [at, at], color=style.WEIGHT, lw=2.2, zorder=4)
    style.frame(axes, x, y, size, size, style.WEIGHT, 2.2)


def masks(axes: Axes, x: float, y: float, size: float, windows: list[list[str]]) -> None:
    """Two by two, as the windows lie."""
    gap = 0.12
    side = (size - gap) / 2
    for k, rows in enumerate(windows):
        left, low = x + (k % 2) * (side + gap), y + (1 - k // 2) * (side + gap)
        shown = [[int(bit) for bit in row] for row in rows]
        axes.imshow(
            shown,
            cmap=style.WEIGHTS,
            vmin=0,
            vmax=1.4,
            extent=(left, left + side, low, low + side),
            zorder=2,
            aspect="auto",
        )
        style.frame(axes, left, low, side, side, style.EDGE, 0.8)
    width, height = axes.figure.get_size_inches()  # type: ignore[union-attr]
    axes.set(xlim=(0, width), ylim=(0, height))


def checks(numbers: Numbers) -> list[Check]:
    plain, shifted = numbers["plain"], numbers["shifted"]
    allowed = [sum(row.count("1") for row in window) for window in numbers["masks"]]
    return [
        equal("pieces, plain and shifted", str([plain["count"], shifted["count"]]), str([4, 9])),
        equal("windows, plain and shifted", str([plain["windows"], shifted["windows"]]), str([4, 4])),
        equal("shift of the second layer", str(shifted["shift"]), str([WINDOW // 2, WINDOW // 2])),
        equal("pairs that may look, in each window", str(allowed), str([256, 128, 128, 64])),
        equal("plain: places that move another piece", plain["leaks"], 0),
        equal("shifted: places that move another piece", shifted["leaks"], 0),
        equal("places that move none of their own piece", plain["blind"] + shifted["blind"], 0),
        above("kinds of pieces in the last window", len(set(numbers["rolled"][-1])), 3),
    ]
