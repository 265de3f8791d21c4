"""10.1: who sees whom in full, strided and fixed attention; read off the weights of the kernels themselves.

Thirty-six places in six lines of six: stride and blocks are six wide, and one place sums up its block.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.nn.attention import Kernel, Softmax
from regard.nn.kernels.local import Local
from regard.nn.kernels.sparse import Fixed, StridedColumns
from regard.nn.mask import CAUSAL, Mask
from regard_lectures.figure import Check, Numbers, above, below, equal, seeded

TITLE = "Who sees whom, with fewer pairs"
DECKS = ("001",)
CLAIM = (
    "Strided and fixed attention see a fraction of the pairs, and two layers of them still reach every earlier place."
)
EXPECTED = (
    "Two layers of strided attention, in either order, reach every earlier place; of fixed attention, only near then "
    "far. The number of pairs is that of the formulas, and the kernels equal dense attention under the mask."
)
FOUND = (
    "Of 666 pairs strided attention sees 201 and 126, fixed 126 and 126; two layers miss no earlier place, fixed ones "
    "in the other order 450; the kernels differ from dense attention by 6e-16."
)
COST = 0.2
SEED = 1

SIDE, QUERY = 6, 27
N = SIDE * SIDE


def compute() -> Numbers:
    with seeded(SEED):
        q, k, v = (torch.randn(1, 1, N, 8, dtype=torch.float64) for _ in range(3))
    parts: dict[str, tuple[Kernel, Kernel]] = {
        "strided": (Local(SIDE), StridedColumns(SIDE)),
        "fixed": (Fixed(SIDE, 1, "near"), Fixed(SIDE, 1, "far")),
    }
    numbers: Numbers = {"full": {"near": rows(Softmax().weights(q, k, CAUSAL))}, "differs": 0.0}
    for name, (near, far) in parts.items():
        numbers[name] = {"near": rows(near.weights(q, k, CAUSAL)), "far": rows(far.weights(q, k, CAUSAL))}
        for kernel in (near, far):
            dense = Softmax()(q, k, v, Mask(pairs=kernel.weights(q, k, CAUSAL)[0, 0] > 0))
            numbers["differs"] = max(numbers["differs"], float((kernel(q, k, v, CAUSAL) - dense).abs().max()))
    return numbers


def rows(weights: Tensor) -> list[str]:
    """Each query's keys as a row of 0 and 1."""
    return ["".join("1" if seen else "0" for seen in row) for row in (weights[0, 0] > 0).tolist()]


def table(found: list[str]) -> Tensor:
    return torch.tensor([[int(seen) for seen in row] for row in found])


def draw(numbers: Numbers) -> Figure:
    note = (
        "Above, the places that one query (vermilion) sees, laid out in lines of six. Below, all queries, a row each.\n"
        "Indigo: what some heads see. Teal: what the others see. In fixed attention, a line's last place sums it up."
    )
    figure = style.page(TITLE, note, height=7.2)
    panels = figure.subplots(2, 3, height_ratios=(1, 1.75))
    for column, name in enumerate(("full", "strided", "fixed")):
        near = table(numbers[name]["near"])
        far = table(numbers[name]["far"]) if "far" in numbers[name] else torch.zeros_like(near)
        kinds = torch.where(near > 0, 1, torch.where(far > 0, 2, 0)).fill_diagonal_(1)
        seen = int(((near + far) > 0).sum())
        top, bottom = panels[0, column], panels[1, column]
        one = kinds[QUERY].clone()
        one[QUERY] = 3
        show(top, one.view(SIDE, SIDE))
        top.set_title(name, size=14)
        show(bottom, kinds)
        bottom.set_xlabel(f"{seen} of {N * N} pairs")
        bottom.axhline(QUERY + 0.5, color=style.QUERY, lw=1.0)
    return figure


def show(axes: Axes, kinds: Tensor) -> None:
    """0 not seen, 1 near, 2 far, 3 the query itself"""
    colours = ListedColormap([style.SUNK, style.WEIGHT, style.KEY, style.QUERY])
    line = 0.8 if len(kinds) == SIDE else 0
    axes.pcolormesh(kinds.numpy(), cmap=colours, vmin=-0.5, vmax=3.5, edgecolor="white", lw=line)
    axes.invert_yaxis()
    axes.set_aspect("equal")
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_visible(False)


def checks(numbers: Numbers) -> list[Check]:
    strided, fixed = numbers["strided"], numbers["fixed"]
    everything = torch.ones(N, N, dtype=torch.bool).tril()
    ways = {
        "strided, near then far": (strided["near"], strided["far"]),
        "strided, far then near": (strided["far"], strided["near"]),
        "fixed, near then far": (fixed["near"], fixed["far"]),
    }
    checks = [equal("pairs of full attention", int(table(numbers["full"]["near"]).sum()), N * (N + 1) // 2)]
    window = N * SIDE - SIDE * (SIDE - 1) // 2
    columns = SIDE * SIDE * (SIDE + 1) // 2
    summed = sum(N - j for j in range(SIDE - 1, N, SIDE)) + N - SIDE
    for name, part, count in (
        ("strided, near", strided["near"], window),
        ("strided, far", strided["far"], columns),
        ("fixed, near", fixed["near"], columns),
        ("fixed, far", fixed["far"], summed),
    ):
        checks.append(equal(f"pairs of {name}", int(table(part).sum()), count))
        checks.append(equal(f"queries that see themselves, {name}", int(table(part).diagonal().sum()), N))
    for name, (first, second) in ways.items():
        missed = everything & ~(table(second) @ table(first) > 0)
        checks.append(equal(f"earlier places that two layers do not reach: {name}", int(missed.sum()), 0))
    holes = everything & ~(table(fixed["near"]) @ table(fixed["far"]) > 0)
    checks.append(above("and in the other order, fixed, far then near", int(holes.sum()), 0))
    checks.append(below("largest difference from dense attention under the mask", numbers["differs"], 1e-12))
    return checks
