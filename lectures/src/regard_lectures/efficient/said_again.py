"""10.6e: the duplication task of the Reformer paper (Kitaev et al., 2020, section 5): `0 w 0 w`. A net of one layer
learns it with attention by hashing in four rounds, and is asked with more and with fewer.

Hashes are drawn anew at every step, as in the paper, and those of a test were never learned with. Without hashing the
same net looks at all keys; a net with softmax, whose queries and keys are two projections, is the last bar.
"""

from itertools import pairwise
from statistics import fmean

import torch
from matplotlib.figure import Figure

from regard import style
from regard.models.gpt import GPT
from regard.nn.mechanisms import Choice
from regard_lectures.curves import named
from regard_lectures.efficient.doubled import Task, accuracy, built, rehash, taught
from regard_lectures.efficient.training import marks
from regard_lectures.figure import Check, Numbers, aside, starts_above
from regard_lectures.toys import means

TITLE = "More rounds find more"
DECKS = ("002", "003")
CLAIM = (
    "A net that learned to repeat a row with four rounds of hashing does it the better, the more rounds it is given."
)
EXPECTED = (
    "A net that learned to say a row again with four rounds of hashing is right more often, the more rounds it is "
    "given; full attention reaches 100 %."
)
FOUND = (
    "With 1, 2, 4 and 8 rounds 79.9, 97.9, 99.97 and 100 % are right, more with each doubling in 3 of 3 starts; full "
    "attention 100 %."
)
COST = 160.0
SEED = 0

TASK = Task(word=31, symbols=127, depth=1, batch=32, steps=300, rate=4e-3)
SEEDS = 3
CHUNK, LEARNED, ROUNDS, DRAWS = 4, 4, [1, 2, 4, 8], 4  # keys of a bucket; rounds; tests with other hashes
TINTS = {"full attention": style.INK, "four rounds": style.WEIGHT}


def hashed(rounds: int) -> Choice:
    return {"kind": "lsh", "chunk": CHUNK, "rounds": rounds}


def compute() -> Numbers:
    everyone: Choice = {"kind": "lsh", "chunk": TASK.length, "rounds": 1, "buckets": 1}
    seeds = range(SEED, SEED + SEEDS)
    full = [taught("softmax", TASK, seed) for seed in seeds]
    ours = [taught(hashed(LEARNED), TASK, seed) for seed in seeds]
    return {
        "learning": {
            "full attention": rounded(means([one.right for one in full])),
            "four rounds": rounded(means([one.right for one in ours])),
        },
        "runs": [[tested(one.net, hashed(rounds)) for rounds in ROUNDS] for one in ours],
        "everyone": [tested(one.net, everyone) for one in ours],
        "full": [one.right[-1] for one in full],
    }


def rounded(shares: list[float]) -> list[float]:
    return [round(share, 5) for share in shares]


def tested(net: GPT, choice: Choice) -> float:
    """How much is right with another number of rounds, the mean of several draws of hashes."""
    other = built(choice, TASK, SEED).eval()
    other.load_state_dict(net.state_dict())
    found = []
    for seed in range(DRAWS):
        rehash(other, (1 << 40) + seed)
        found.append(accuracy(other, TASK))
    return round(float(torch.tensor(found).mean()), 5)


def draw(numbers: Numbers) -> Figure:
    note = (
        f"After a row of {TASK.word} symbols, of {TASK.symbols} kinds, say it again; mean of {SEEDS} seeds. Left,"
        " learning with four rounds of hashing and\nwith full attention. Right, the former asked with so many rounds;"
        " with no hashing, so that all keys are seen; and the latter."
    )
    figure = style.page(TITLE, note, height=5.2)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    steps = marks(TASK.steps)
    left.set_ylim(0, 1.05)
    named(left, {name: (steps, shares) for name, shares in numbers["learning"].items()}, TINTS, wide=0.55)
    left.set_xlabel("steps")
    left.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])
    left.set_title("symbols said rightly")
    labels = [f"{rounds} round{'s' if rounds > 1 else ''}" for rounds in ROUNDS] + ["all keys", "full\nattention"]
    tints = [style.mix(style.WEIGHT, 0.35 + 0.16 * i) for i in range(len(ROUNDS))] + [style.WEIGHT, style.INK]
    heights = [*means(numbers["runs"]), fmean(numbers["everyone"]), fmean(numbers["full"])]
    style.bars(right, labels, heights, color=tints, form=lambda share: style.percent(share, 1), top=1.12)
    right.set_title("when asked")
    return figure


def checks(numbers: Numbers) -> list[Check]:
    runs = numbers["runs"]
    gains = [min(after - before for before, after in pairwise(rounds)) for rounds in runs]
    return [
        starts_above("least gain from twice as many rounds", gains, 0.0),
        starts_above("eight rounds less one", [rounds[-1] - rounds[0] for rounds in runs], 0.1),
        aside(starts_above("eight rounds: right", [rounds[-1] for rounds in runs], 0.9)),
        starts_above("full attention: right", numbers["full"], 0.9995),
    ]
