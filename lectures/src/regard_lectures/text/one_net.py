"""4.4c: one small T5 (Raffel et al., 2020) that learns three tasks at once, told apart by the first word of the text.

Texts of 3 to 7 random letters or digits, drawn afresh for every batch. An answer counts only if it is right from its
first piece to its end; the tested texts are others.
"""

from matplotlib.figure import Figure

from regard import style
from regard.zoo import count_parameters
from regard_lectures.figure import Check, Numbers, above, aside, below
from regard_lectures.text.prefixes import EVERY, STEPS, TASKS, TESTS, taught

TITLE = "Three tasks, one net"
DECKS = ("001",)
CLAIM = "One small T5 learns to reverse, to write in capitals and to translate digits: each is right above 95 %."
EXPECTED = "One net learns all three tasks, each right above 95 %."
FOUND = "99.3 % of the texts are reversed, 99.3 % written in capitals and 100 % translated without a fault."
COST = 40.0
SEED = 0


def compute() -> Numbers:
    found = taught(SEED)
    return {"curves": found.curves, "weights": count_parameters(found.net)}


TINTS = {"reverse:": style.WEIGHT, "upper:": style.SECOND, "translate-digits:": style.INK}


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Answers without a fault to {TESTS} unseen texts of each task, while one net learns all three.\n"
        f"It has {numbers['weights']:,} weights; every batch has as many texts of each task."
    )
    figure = style.page(TITLE, note, height=5.3)
    axes = figure.subplots()
    places = list(range(0, STEPS + 1, EVERY))
    order = sorted(TASKS, key=lambda task: -numbers["curves"][task][-1])
    for i, task in enumerate(order):
        curve = numbers["curves"][task]
        axes.plot(places, curve, color=TINTS[task])
        said = f"{task} {style.percent(curve[-1], 1)}"
        style.end_label(axes, STEPS, 0.89 - 0.055 * i, said, TINTS[task])
    axes.axhline(0.95, color=style.EDGE, lw=1, ls=":")
    axes.set_yticks([0, 0.25, 0.5, 0.75, 0.95], ["0", "25", "50", "75", "95 %"])
    axes.set(xlabel="step", xlim=(0, STEPS * 1.27), ylim=(-0.02, 1.03), xticks=range(0, STEPS + 1, 200))
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    curves = numbers["curves"]
    return [
        *(above(f"{task} right to the last letter, at the end", curves[task][-1], 0.95) for task in TASKS),
        *(aside(below(f"{task} right before the first step", curves[task][0], 0.05)) for task in TASKS),
    ]
