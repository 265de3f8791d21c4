"""4.5b: loss against steps for 1, 2, 4 and 8 experts (deck 002; Fedus, Zoph and Shazeer, 2021), in letter models.

Each letter passes one expert, so all models do the same work for it, but for the router; what grows is the number of
weights. The last loss of a run is the mean of its last three measurements, over a hundred steps.

The nets are narrow, so that weights are what they lack: at four times the width, after as few rounds through this text,
experts brought nothing (the recipes shakespeare-dense and shakespeare-switch).
"""

from itertools import pairwise

from matplotlib.figure import Figure

from regard import style
from regard.comparison.measure import count_operations
from regard.zoo import count_parameters
from regard_lectures.figure import Check, Numbers, above, aside, below, in_starts
from regard_lectures.text.experts import EVERY, STEPS, Way, letters, trained
from regard_lectures.toys import means

TITLE = "More experts, the same work"
DECKS = ("002",)
CLAIM = "At equal steps and work the loss on unseen text falls with the number of experts; any beat one, in each seed."
EXPECTED = "At equal steps and equal work for a letter, the loss falls with every doubling of the experts, from 1 to 8."
FOUND = (
    "With 1, 2, 4 and 8 experts the loss is 1.827, 1.797, 1.795 and 1.770 nats; it falls with every doubling in 2 of "
    "3 starts, and is below that of one expert in all."
)
COST = 700.0
SEED = 0

EXPERTS, SEEDS = (1, 2, 4, 8), 3


def compute() -> Numbers:
    return {str(experts): measured(experts) for experts in EXPERTS}


def measured(experts: int) -> Numbers:
    runs = [trained(experts, SEED + i, Way()) for i in range(SEEDS)]
    net, row = runs[0].net, letters().rows[:1, :-1]
    return {
        "losses": [[look.loss for look in run.looks] for run in runs],
        "weights": count_parameters(net),
        "operations": count_operations(lambda: net(row)) // row.numel(),
    }


def last(losses: list[float]) -> float:
    return sum(losses[-3:]) / 3


TINTS = {"1": style.SECOND} | {str(n): style.mix(style.WEIGHT, part) for n, part in ((2, 0.45), (4, 0.7), (8, 1.0))}


def draw(numbers: Numbers) -> Figure:
    note = (
        "Letter models on tiny Shakespeare, 4 layers, every other with experts, of which each letter takes one.\n"
        f"Left, the loss on unseen text, mean of {SEEDS} seeds. Right, each seed’s, over its last hundred steps."
    )
    figure = style.page(TITLE, note, height=5.4)
    curves, ends = figure.subplots(1, 2, width_ratios=(1.7, 1))
    places = list(range(0, STEPS + 1, EVERY))
    for experts, tint in TINTS.items():
        curve = means(numbers[experts]["losses"])
        curves.plot(places[2:], curve[2:], color=tint)
    curves.set(xlabel="step", ylabel="nats a letter", xlim=(2 * EVERY, STEPS))
    curves.grid(axis="y")
    curves.spines["left"].set_visible(False)
    for i, (experts, tint) in enumerate(TINTS.items()):
        found = [last(losses) for losses in numbers[experts]["losses"]]
        ends.plot([i] * len(found), found, "o", color=tint, ms=7, alpha=0.75, mew=0)
        ends.plot([i - 0.25, i + 0.25], [sum(found) / len(found)] * 2, color=tint)
    sizes = [f"{experts}\n{numbers[experts]['weights'] / 1000:.0f}k" for experts in TINTS]
    ends.set_xticks(range(len(TINTS)), sizes)
    for text, tint in zip(ends.get_xticklabels(), TINTS.values(), strict=True):
        text.set(color=tint, weight="bold", size=12)
    ends.set(xlim=(-0.5, len(TINTS) - 0.5), xlabel="experts, and weights in all")
    ends.grid(axis="y")
    ends.spines["left"].set_visible(False)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    final = {experts: [last(losses) for losses in numbers[experts]["losses"]] for experts in TINTS}
    falls = [all(fewer > more for fewer, more in pairwise(ends)) for ends in zip(*final.values(), strict=True)]
    dense, several = final["1"], list(final.items())[1:]
    work = [numbers[experts]["operations"] for experts in TINTS]
    behind = [own - other for _, found in several for own, other in zip(found, dense, strict=True)]
    return [
        *(
            above(f"{fewer} less {more} experts at the end, mean of {SEEDS} seeds", gap(final[fewer], final[more]), 0.0)
            for fewer, more in pairwise(final)
        ),
        in_starts("the loss at the end falls with every doubling of experts", falls),
        *(
            aside(above(f"dense less {experts} experts at the end, mean of {SEEDS} seeds", gap(dense, found), 0.02))
            for experts, found in several
        ),
        aside(below("experts less the dense model of the same seed, most of all", max(behind), 0.0)),
        aside(below("work for a letter, most over least", max(work) / min(work), 1.02)),
        aside(above("weights, 8 experts over 1", numbers["8"]["weights"] / numbers["1"]["weights"], 2.0)),
    ]


def gap(one: list[float], other: list[float]) -> float:
    """Of their means."""
    return sum(one) / len(one) - sum(other) / len(other)
