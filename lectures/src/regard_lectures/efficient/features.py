"""10.3: how far random features are from exact attention, against their number, for small and for larger scores.

Three estimates of exp(q.k / sqrt e): by sines and cosines, by positive features of independent directions, by positive
features of orthogonal ones; and those of the library, to which the size of their own noise is added.

For larger scores (q and k of size 1) estimates by sines and cosines may be negative: with up to 256 directions they are
off by many times the values, positive features by a fraction of them. But up to 1,024 directions that is worse than a
plain mean of all values, and with 4,096 a tenth better: where scores are large, features hardly know whom to look at.
"""

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.comparison.measure import cost_exponent
from regard.nn.kernels.directions import Layout, draw_directions
from regard.nn.kernels.performer import Exponentials
from regard.nn.kernels.rfa import FourierFeatures
from regard_lectures.figure import Check, Numbers, above, aside, below, seeded, within

TITLE = "Random features instead of softmax"
DECKS = ("004", "001")
CLAIM = (
    "Errors of small scores fall as the root of the features; for larger ones sines and cosines fail, positives do not."
)
EXPECTED = (
    "For small scores errors fall as the root of the number of features, and orthogonal directions help a little; for "
    "large ones the error of sines and cosines is above 3 with up to 1,024 directions, that of positive features stays "
    "at 0.2 to 0.3."
)
FOUND = (
    "Small scores' errors fall as m to the -0.48; for large ones positive features err by 0.26 down to 0.14 (a plain "
    "mean by 0.15), sines and cosines by 7.7 to 170 with up to 256 directions, but by 1.8 with 512 and 0.77 with "
    "1,024."
)
COST = 40.0
SEED = 0

WIDTH, LENGTH, DRAWS = 16, 64, 12
COUNTS = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096]
MOST = 1024  # directions, of what is expected of sines and cosines
SPREADS = {"small": 0.25, "large": 1.0}  # of the entries of queries and keys
TINTS = {
    "sines and cosines": style.SECOND,
    "positive, independent": style.EDGE,
    "positive, orthogonal": style.WEIGHT,
    "with noise added": style.INK,
}


def compute() -> Numbers:
    numbers: Numbers = {"counts": COUNTS, "errors": {}, "uniform": {}}
    with seeded(SEED), torch.no_grad():
        for size, spread in SPREADS.items():
            q, k, v = (torch.randn(4, LENGTH, WIDTH).double() * scale for scale in (spread, spread, 1.0))
            exact = F.scaled_dot_product_attention(q, k, v)
            numbers["uniform"][size] = rms(v.mean(-2, keepdim=True) - exact)
            numbers["errors"][size] = {name: [error(name, m, q, k, v, exact) for m in COUNTS] for name in TINTS}
    return numbers


def error(name: str, m: int, q: Tensor, k: Tensor, v: Tensor, exact: Tensor) -> float:
    """Over several draws."""
    found = []
    for seed in range(DRAWS):
        layout: Layout = "independent" if name == "positive, independent" else "orthogonal"
        w = draw_directions(m, WIDTH, layout, "chi", torch.Generator().manual_seed(seed))
        added = 2.0 if name == "with noise added" else 0.0
        scale = WIDTH**-0.25
        lift = FourierFeatures(w, scale) if name == "sines and cosines" else Exponentials(w, scale, added)
        a, b = (lifted.values * lifted.level.exp() for lifted in (lift(q), lift(k)))
        weights = a @ b.mT
        found.append(weights / weights.sum(-1, keepdim=True) @ v - exact)
    return rms(torch.stack(found))


def rms(x: Tensor) -> float:
    return float(x.square().mean().sqrt())


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Error of the output, root of the mean square; {LENGTH} tokens, a head of width {WIDTH}, {DRAWS} draws.\n"
        "Dashed: the error of a plain mean of all values."
    )
    figure = style.page(TITLE, note, height=5.4)
    panels = figure.subplots(1, 2)
    for axes, (size, spread) in zip(panels, SPREADS.items(), strict=True):
        found = numbers["errors"][size]
        axes.axhline(numbers["uniform"][size], color=style.INK, linestyle="--", linewidth=1)
        for name, errors in found.items():
            axes.plot(numbers["counts"], errors, color=TINTS[name], marker="o", label=name)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(numbers["counts"], [f"{m:,}" for m in numbers["counts"]])
        axes.minorticks_off()
        axes.set_xlabel("random directions")
        axes.set_title(f"entries of q and k of size {spread:g}")
        axes.set_ylim(top=1.8 * max(max(errors) for errors in found.values()))
    panels[0].legend(loc="upper right", frameon=False)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    small, large = (numbers["errors"][size] for size in SPREADS)
    counts = numbers["counts"]
    waves = [x for count, x in zip(counts, large["sines and cosines"], strict=True) if count <= MOST]
    return [
        *(
            within(f"growth, small, {name}", cost_exponent(counts, small[name]), -0.62, -0.42)
            for name in ("positive, independent", "positive, orthogonal")
        ),
        above(f"large: least error of sines and cosines, up to {MOST:,} directions", min(waves), 3.0),
        within("large: most error of positives", max(large["positive, orthogonal"]), 0.2, 0.3),
        within("large: least error of positives", min(large["positive, orthogonal"]), 0.2, 0.3),
        aside(above("large: growth, positive", cost_exponent(counts, large["positive, orthogonal"]), -0.3)),
        aside(
            below("small: error of 4,096 positives over that of a plain mean", relative(numbers, "small", 4096), 0.3)
        ),
        below(
            "small: orthogonal / independent", mean_ratio(small, "positive, orthogonal", "positive, independent"), 1.0
        ),
        aside(
            below(
                "large: with noise added / positive",
                mean_ratio(large, "with noise added", "positive, orthogonal"),
                1.0,
            )
        ),
    ]


def relative(numbers: Numbers, size: str, count: int) -> float:
    """The error of so many positive features, over that of a plain mean."""
    found = numbers["errors"][size]["positive, orthogonal"][numbers["counts"].index(count)]
    return float(found / numbers["uniform"][size])


def mean_ratio(errors: dict[str, list[float]], one: str, other: str) -> float:
    return sum(a / b for a, b in zip(errors[one], errors[other], strict=True)) / len(errors[one])
