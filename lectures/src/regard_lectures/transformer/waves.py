"""3.2: the sinusoidal positional encoding (Fig. 12 of deck 003), 50 x 128 and 2048 x 512, and distances in it.

PE[p, 2i] = sin(p / 10000^(2i/d)), PE[p, 2i+1] = cos(the same). The dot product of two positions depends on their
distance alone, sum_i cos(w_i k), and p + k is p turned by a fixed rotation. The table is a formula, so it is drawn
from the library's own function and not stored.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.nn.positions import sinusoid
from regard_lectures.figure import Check, Numbers, below, plain

TITLE = "Positional encoding"
DECKS = ("003", "001", "004")
CLAIM = (
    "The product of two positions depends on their distance alone; a step of k is a rotation; all have length √(d/2)."
)
EXPECTED = (
    "The product of two positions is the sum of cos(w_i k) and depends on their distance alone; a step of k is a"
    " rotation; the norm is √(d/2)."
)
FOUND = "All of it holds to 1e-7."
COST = 0.3
SEED = 0

SMALL, LARGE = (50, 128), (2048, 512)
REACH = 100
ANCHORS = [100, 700, 1900]
MEAN = 8  # positions in a row of the large picture


def table(size: tuple[int, int]) -> Tensor:
    return sinusoid(torch.arange(size[0]), size[1]).double()


def compute() -> Numbers:
    pe = table(LARGE)
    width = LARGE[1]
    kernels = torch.stack([pe[p - REACH : p + REACH + 1] @ pe[p] for p in ANCHORS])
    frequency = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    offsets = torch.arange(-REACH, REACH + 1, dtype=torch.float64)
    law = torch.cos(offsets[:, None] * frequency).sum(1)
    turned = turn(pe[:-REACH], frequency, REACH)
    return {
        "kernel": plain(kernels[0] / (width / 2), 4),
        "anchors": float((kernels - kernels[0]).abs().max() / (width / 2)),
        "law": float((kernels - law).abs().max() / (width / 2)),
        "rotation": float((turned - pe[REACH:]).abs().max()),
        "norm": float((pe.norm(dim=1) / (width / 2) ** 0.5 - 1).abs().max()),
        "peak": float((kernels[0].argmax() - REACH).abs()),
    }


def turn(pe: Tensor, frequency: Tensor, steps: int) -> Tensor:
    """Each pair of features turned by its own angle: R_k PE[p]."""
    sin, cos = pe[:, ::2], pe[:, 1::2]
    c, s = (frequency * steps).cos(), (frequency * steps).sin()
    return torch.stack((sin * c + cos * s, cos * c - sin * s), -1).flatten(1)


def draw(numbers: Numbers) -> Figure:
    note = "Above, a row for each position, a column for each feature. Below, how like two positions are, by distance."
    figure = style.page(TITLE, note, height=6.4)
    figure.set_layout_engine("none")
    for left, size, pixels in ((90, SMALL, (256, 250)), (440, LARGE, (512, 256))):
        rows, columns = size
        axes = area(figure, left, 768 - 156 - pixels[1], *pixels)
        values = table(size)
        if size == LARGE:  # its rows are finer than pixels
            values = values.unflatten(0, (-1, MEAN)).mean(1)
        colours, place = style.SIGNED.resampled(65), (0, columns, rows, 0)
        shown = axes.imshow(
            values.numpy(), colours, vmin=-1, vmax=1, extent=place, aspect="auto", interpolation="nearest"
        )
        means = f", means of {MEAN}," if size == LARGE else ""
        axes.set(title=f"{rows} positions{means} × {columns} features", xlabel="feature", ylabel="position")
        axes.set(xticks=[0, columns // 2, columns], yticks=[0, rows // 2, rows])
        axes.spines[:].set_visible(False)
    bar = figure.colorbar(shown, cax=area(figure, 1010, 400, 16, 170), ticks=[-1, 0, 1])
    bar.ax.set_yticklabels(["−1", "0", "1"])
    bar.outline.set_visible(False)
    axes = area(figure, 90, 66, 1060, 190)
    axes.plot(range(-REACH, REACH + 1), numbers["kernel"], color=style.WEIGHT)
    axes.set(
        title="$PE_p · PE_{p+k}$ as a share of $d/2$, the same for every $p$", xlabel="distance $k$", ylim=(0, 1.05)
    )
    axes.set(xticks=range(-REACH, REACH + 1, 25), xlim=(-1.04 * REACH, 1.04 * REACH))
    axes.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    return figure


def area(figure: Figure, left: float, low: float, width: float, height: float) -> Axes:
    """Axes at these pixels of the picture, so that a feature is a whole number of them wide."""
    across, up = (120 * inches for inches in figure.get_size_inches())
    return figure.add_axes((left / across, low / up, width / across, height / up))


def checks(numbers: Numbers) -> list[Check]:
    return [
        below(
            "the product depends on the distance alone: largest difference of three places", numbers["anchors"], 1e-6
        ),
        below("it is the sum of cos(w_i k): largest difference", numbers["law"], 1e-6),
        below("100 steps are a rotation of each pair: largest difference", numbers["rotation"], 1e-5),
        below("every position has length sqrt(d/2): largest relative difference", numbers["norm"], 1e-6),
        below("a position is most like itself: distance of the peak", numbers["peak"], 0.5),
    ]
