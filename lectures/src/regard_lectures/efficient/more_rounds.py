"""10.6f: letter models with full attention and with attention by hashing in 1, 2, 4 and 8 rounds (Reformer, Kitaev et
al., 2020, figure 4): the loss while they learn, step by step.

A query sees the last 32 letters of its own bucket in each round. Hashing has one projection for queries and keys; full
attention is softmax with two.
"""

from itertools import pairwise

from matplotlib.figure import Figure

from regard import style
from regard_lectures.curves import bits, named_means
from regard_lectures.efficient.letters import Course, taught
from regard_lectures.efficient.training import marks
from regard_lectures.figure import Check, Numbers, aside, starts_above, starts_below

TITLE = "Rounds of hashing while learning"
DECKS = ("002", "003")
CLAIM = "With more rounds of hashing a letter model learns more in as many steps, and comes near to full attention."
EXPECTED = (
    "The more rounds of hashing, the lower the loss in as many steps; with eight it is near that of full attention."
)
FOUND = (
    "1, 2, 4 and 8 rounds leave 2.280, 2.116, 2.032 and 1.975 nats a letter and full attention 1.982, means of 3 "
    "starts; each doubling saves at least 0.049, and 8 rounds have 0.989 to 1.004 times the loss of full attention."
)
COST = 620.0
SEED = 0
SEEDS = 3

COURSE = Course(length=512, batch=4, steps=350)
ROUNDS = [1, 2, 4, 8]
FULL = "full attention"
TINTS = {FULL: style.INK} | {
    f"{rounds} round{'s' if rounds > 1 else ''}": style.mix(style.WEIGHT, 0.3 + 0.23 * i)
    for i, rounds in enumerate(ROUNDS)
}


def compute() -> Numbers:
    words = ["softmax", *(f"lsh {rounds}" for rounds in ROUNDS)]
    return {
        "losses": {
            name: [taught(word, COURSE, seed).losses for seed in range(SEED, SEED + SEEDS)]
            for name, word in zip(TINTS, words, strict=True)
        }
    }


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Letter models on Shakespeare, {COURSE.length} letters at a time; {SEEDS} starts, thin, and their mean.\n"
        "In each round a letter sees the last 32 that fell into its bucket."
    )
    figure = style.page(TITLE, note, height=5.4)
    axes = figure.subplots()
    starts = {name: [bits(losses)[1:] for losses in runs] for name, runs in numbers["losses"].items()}
    named_means(axes, marks(COURSE.steps)[1:], starts, TINTS, wide=0.22)
    axes.set_xlabel("steps")
    axes.set_title("bits of a letter held out")
    return figure


def checks(numbers: Numbers) -> list[Check]:
    full, *hashed = ([losses[-1] for losses in numbers["losses"][name]] for name in TINTS)  # of each start
    gains = [min(fewer - more for fewer, more in pairwise(start)) for start in zip(*hashed, strict=True)]
    gaps = [ours / exact for ours, exact in zip(hashed[-1], full, strict=True)]
    return [
        aside(starts_below("full attention: nats of a letter; pairs of letters alone tell 2.45", full, 2.4)),
        starts_above("least gain from twice as many rounds, nats", gains, 0.0),
        starts_below("eight rounds: loss over that of full attention", gaps, 1.03),
    ]
