"""4.5d: how evenly experts are used, with and without the load loss (Fedus, Zoph and Shazeer, 2021, section 2.2).

The letter model of 4.5b with 8 experts, each of which has a place for every token, so that nothing but the loss keeps
it from being crowded; learned positions; and the full rate within ten steps. Evenness is the entropy of the experts'
shares of unseen text, over that of equal shares.

The spec sheet expects a collapse without the loss. Less than that was found: evenness falls to between 45 and 80 %
within fifty steps and comes back in part, to between 62 and 88 % after two hundred; a bound of 80 % for all of them,
set before the run, was missed. And it takes this hasty start: with a quarter of the rate, which comes up over a hundred
steps, the two layers had 88 and 93 % after 300 steps without the loss, and 99 % with it.
"""

from matplotlib.figure import Figure

from regard import style
from regard_lectures.figure import Check, Numbers, above, aside, below, starts_above, starts_below
from regard_lectures.text.experts import EVERY, Way, trained

TITLE = "Experts without work"
DECKS = ("002",)
CLAIM = "With the load loss experts are used to more than 90 % of even use; without it their use collapses."
EXPECTED = (
    "With the load loss experts are used to more than 90 % of even use; without it the use collapses, to below 80 % "
    "at the end in every layer and start."
)
FOUND = (
    "With the loss the use is 92 to 99 % of even use at the end; without it 62 to 78 % in one of three starts, and in "
    "the others 82 to 85 % and 67 to 88 %."
)
COST = 22.0
SEED = 0

EXPERTS, SEEDS = 8, 3
WAYS = {
    "with": Way(load=0.01, rate=2e-2, warm=10, capacity=float(EXPERTS), steps=200, rotary=None),
    "without": Way(load=0.0, rate=2e-2, warm=10, capacity=float(EXPERTS), steps=200, rotary=None),
}
TINTS = {"with": style.WEIGHT, "without": style.SECOND}


def compute() -> Numbers:
    numbers: Numbers = {}
    for name, way in WAYS.items():
        runs = [trained(EXPERTS, SEED + i, way) for i in range(SEEDS)]
        numbers[name] = {
            "evenness": [[look.evenness for look in run.looks] for run in runs],  # for each seed, look and layer
            "shares": [run.looks[-1].shares for run in runs],
            "loss": [run.looks[-1].loss for run in runs],
        }
    return numbers


def draw(numbers: Numbers) -> Figure:
    note = (
        f"{EXPERTS} experts in two layers of a letter model, {SEEDS} seeds. Left, the entropy of their shares over\n"
        "that of equal ones, a line for each layer. Right, the shares at the end, the busiest expert first."
    )
    figure = style.page(TITLE, note, height=5.4)
    axes, shares = figure.subplots(1, 2, width_ratios=(1.5, 1))
    places = list(range(0, WAYS["with"].steps + 1, EVERY))
    for name, tint in TINTS.items():
        for run in numbers[name]["evenness"]:
            for layer in zip(*run, strict=True):
                axes.plot(places, layer, color=tint, alpha=0.8, lw=1.8)
        ends = [layer for run in numbers[name]["evenness"] for layer in run[-1]]
        label = f"{name} the\nload loss"
        style.end_label(axes, places[-1], sum(ends) / len(ends), label, tint)
    axes.axhline(0.9, color=style.EDGE, lw=1, ls=":")
    axes.set(xlabel="step", ylim=(0, 1.03), xlim=(0, places[-1] * 1.3), xticks=places[::2])
    axes.set_yticks([0, 0.25, 0.5, 0.75, 0.9, 1], ["0", "25", "50", "75", "90", "100 %"])
    for shift, (name, tint) in zip((-0.2, 0.2), TINTS.items(), strict=True):
        busiest = sorted_shares(numbers[name]["shares"])
        shares.bar([i + shift for i in range(EXPERTS)], busiest, 0.38, color=tint)
    shares.axhline(1 / EXPERTS, color=style.EDGE, lw=1, ls=":")
    shares.set_title("share of the letters")
    shares.set_xticks(range(EXPERTS), [str(i + 1) for i in range(EXPERTS)])
    top = max(sorted_shares(numbers["without"]["shares"]))
    shares.set_yticks([0, 1 / EXPERTS, round(top, 3)], ["0", style.percent(1 / EXPERTS, 1), style.percent(top)])
    for panel in (axes, shares):
        panel.grid(axis="y")
        panel.spines["left"].set_visible(False)
    return figure


def sorted_shares(runs: list[list[list[float]]]) -> list[float]:
    """(seeds, layers, experts) -> the mean share of the busiest expert, of the second, and so on"""
    rows = [sorted(layer, reverse=True) for run in runs for layer in run]
    return [sum(values) / len(values) for values in zip(*rows, strict=True)]


def checks(numbers: Numbers) -> list[Check]:
    ends = {name: [run[-1] for run in numbers[name]["evenness"]] for name in WAYS}
    worst, best = [min(layers) for layers in ends["with"]], [max(layers) for layers in ends["without"]]
    early = [layer for run in numbers["without"]["evenness"] for layer in run[1]]
    mean = sorted_shares(numbers["without"]["shares"])
    return [
        starts_above("with: evenness at the end, worst layer", worst, 0.9),
        starts_below("without: evenness at the end, best layer", best, 0.8),
        below("without: the same, best of all starts", max(best), 0.8),
        aside(below(f"without: evenness after {EVERY} steps, best of layers and seeds", max(early), 0.75)),
        aside(
            above("with less without at the end, worst of one against best of the other", min(worst) - max(best), 0.1)
        ),
        aside(above("without: the busiest expert’s share, mean of layers and seeds", mean[0], 2 / EXPERTS)),
        aside(below("without: the idlest expert’s share, mean of layers and seeds", mean[-1], 0.1 / EXPERTS)),
    ]
