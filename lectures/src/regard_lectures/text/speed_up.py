"""4.5c: deck 002's speed-up: in how many steps a model with experts is as good as the dense one at its end.

The runs are those of 4.5b, read where the mean of the seeds passes the dense model's last loss; between two
measurements along a line. Quoted beside them: Switch-Base with 64 experts against T5-Base, 7.5 times fewer steps.
"""

from itertools import pairwise

from matplotlib.figure import Figure

from regard import style
from regard_lectures.figure import Check, Numbers, above, aside, below, equal
from regard_lectures.text.experts import EVERY, STEPS, Way, trained
from regard_lectures.text.more_experts import EXPERTS, SEEDS, last
from regard_lectures.toys import means

TITLE = "As good, in fewer steps"
DECKS = ("002",)
CLAIM = (
    "With experts a small model is as good as the dense one at its end in fewer steps, the fewer the more experts it "
    "has."
)
EXPECTED = (
    "With 2, 4 or 8 experts a model reaches the dense one's last loss in fewer steps, and the gain grows with the "
    "experts."
)
FOUND = (
    "The dense model takes 1,424 steps, those with 2, 4 and 8 experts 1,189, 1,045 and 1,026: 1.20, 1.36 and 1.39 "
    "times fewer."
)
COST = 700.0
SEED = 0

QUOTED = {"experts": 64, "times": 7.5}  # Switch-Base against T5-Base


def compute() -> Numbers:
    curves = {
        str(experts): means([[look.loss for look in trained(experts, SEED + i, Way()).looks] for i in range(SEEDS)])
        for experts in EXPERTS
    }
    goal = last(curves["1"])
    return {
        "goal": round(goal, 5),
        "steps": {experts: round(reached(curve, goal), 1) for experts, curve in curves.items()},
    }


def reached(curve: list[float], goal: float) -> float:
    """The step at which a curve first is at the goal; the last one if it never is."""
    for i, (before, after) in enumerate(pairwise(curve)):
        if after <= goal:
            return EVERY * (i + (before - goal) / (before - after))
    return float(STEPS)


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Steps to {numbers['goal']:.3f} nats a letter, the dense model’s mean over its last hundred; runs of 4.5b.\n"
        f"Quoted: Switch-Base with {QUOTED['experts']} experts against T5-Base (Fedus, Zoph and Shazeer, 2021)."
    )
    figure = style.page(TITLE, note, height=4.9)
    steps, times = figure.subplots(1, 2, width_ratios=(1, 1.2))
    tints = [style.SECOND, *[style.WEIGHT] * 3]
    style.bars(steps, list(numbers["steps"]), list(numbers["steps"].values()), color=tints, form="{:.0f}".format)
    steps.set_title("steps")
    steps.set_xlabel("experts")
    gains = {experts: numbers["steps"]["1"] / found for experts, found in numbers["steps"].items()}
    names = [*gains, f"{QUOTED['experts']}\nquoted"]
    style.bars(times, names, [*gains.values(), QUOTED["times"]], color=[*tints, style.LINE], form="{:.3g}×".format)
    times.set_title("times fewer than the dense model")
    times.set_xlabel("experts")
    return figure


def checks(numbers: Numbers) -> list[Check]:
    dense, *several = numbers["steps"].items()
    fewer = [steps for _, steps in several]
    return [
        *(above(f"steps, dense over {experts} experts", dense[1] / steps, 1.1) for experts, steps in several),
        equal("more experts take fewer steps", fewer == sorted(set(fewer), reverse=True), True),
        aside(below("steps of the dense model to its own last loss", dense[1], STEPS)),
    ]
