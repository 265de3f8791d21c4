"""10.6f: letter models with full attention and with attention by hashing in 1, 2, 4 and 8 rounds (Reformer, Kitaev et
al., 2020, figure 4): the loss while they learn, step by step.

A query sees the last 32 letters of its own bucket in each round. Hashing has one projection for queries and keys; full
attention is softmax with two.
"""

from itertools import pairwise

from matplotlib.figure import Figure

from regard import style
from regard_lectures.curves import bits, named
from regard_lectures.efficient.letters import Course, taught
from regard_lectures.efficient.training import marks
from regard_lectures.figure import Check, Numbers, above, aside, below

TITLE = "Rounds of hashing while learning"
DECKS = ("002", "003")
CLAIM = "With more rounds of hashing a letter model learns more in as many steps, and comes near to full attention."
EXPECTED = (
    "The more rounds of hashing, the lower the loss in as many steps; with eight it is near that of full attention."
)
FOUND = "In one start 1, 2, 4 and 8 rounds leave 2.278, 2.113, 2.039 and 1.982 nats a letter, full attention 1.982."
COST = 600.0
SEED = 0

COURSE = Course(length=512, batch=4, steps=350)
ROUNDS = [1, 2, 4, 8]
FULL = "full attention"
TINTS = {FULL: style.INK} | {
    f"{rounds} round{'s' if rounds > 1 else ''}": style.mix(style.WEIGHT, 0.3 + 0.23 * i)
    for i, rounds in enumerate(ROUNDS)
}


def compute() -> Numbers:
    words = ["softmax", *(f"lsh {rounds}" for rounds in ROUNDS)]
    return {"losses": {name: taught(word, COURSE, SEED).losses for name, word in zip(TINTS, words, strict=True)}}


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Letter models on Shakespeare, {COURSE.length} letters at a time, one seed. In each round a letter sees the"
        " last 32 that fell into its bucket."
    )
    figure = style.page(TITLE, note, height=5.4)
    axes = figure.subplots()
    steps = marks(COURSE.steps)[1:]
    named(axes, {name: (steps, bits(losses)[1:]) for name, losses in numbers["losses"].items()}, TINTS, wide=0.22)
    axes.set_xlabel("steps")
    axes.set_title("bits of a letter held out")
    return figure


def checks(numbers: Numbers) -> list[Check]:
    losses = numbers["losses"]
    last = [losses[name][-1] for name in TINTS]
    full, one, *_, eight = last
    steps = [fewer - more for fewer, more in pairwise(last[1:])]
    return [
        aside(below("full attention: nats of a letter; pairs of letters alone tell 2.45", full, 2.4)),
        above("one round over eight, nats", one - eight, 0.0),
        above("least gain from twice as many rounds, nats", min(steps), -0.01),
        below("eight rounds: loss over that of full attention", eight / full, 1.03),
    ]
