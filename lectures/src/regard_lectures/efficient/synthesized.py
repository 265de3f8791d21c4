"""10.4b: letter models whose scores are compared, guessed from the query, learned once for all texts, drawn and left,
or learned and compared at once (Tay et al., 2021, whose BLEU is quoted).

Texts are short, 64 letters: a score that is learned for a pair of places moves by no more than the rate at each step,
and among a few hundred others it would need thousands of steps to stand out.
"""

from matplotlib.figure import Figure

from regard import style
from regard_lectures.curves import bits
from regard_lectures.efficient.letters import Course, taught
from regard_lectures.efficient.training import marks
from regard_lectures.figure import Check, Numbers, starts_above, starts_at_most, starts_below
from regard_lectures.toys import means

TITLE = "How much is in comparing at all"
DECKS = ("003",)
CLAIM = "Scores that are learned and never look at the text come near to compared ones; drawn and left, they are worst."
EXPECTED = (
    "Scores that are drawn and left are worst, scores learned once for all texts come surprisingly near to compared "
    "ones, and a mixture of both is at least as good as comparing."
)
FOUND = (
    "Compared scores leave 1.764 nats a letter, learned ones 1.862, drawn and left 2.329, which is worst in 3 of 3 "
    "starts; the mixture has 1.765, within 0.01 of comparing in 3 of 3 starts, but at least as good in 1."
)
COST = 1050.0
SEED = 0

SEEDS = 3
COURSE = Course(length=64, batch=32, steps=800, rate=6e-3, rotary=None)
NAMES = {
    "softmax": "compared",
    "random + vanilla": "learned and\ncompared",
    "dense": "guessed from\nthe query",
    "random": "learned",
    "fixed random": "drawn\nand left",
}
TINTS = dict(zip(NAMES, (style.INK, style.WEIGHT, style.KEY, style.SECOND, style.EDGE), strict=True))
QUOTED = {"softmax": 27.67, "dense": 27.43, "random": 27.27, "fixed random": 23.89}  # BLEU, WMT14 en-de


def compute() -> Numbers:
    runs = {name: [taught(name, COURSE, seed).losses for seed in range(SEED, SEED + SEEDS)] for name in NAMES}
    return {
        "losses": {name: [round(loss, 5) for loss in means(some)] for name, some in runs.items()},
        "last": {name: [losses[-1] for losses in some] for name, some in runs.items()},
    }


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Letter models on Shakespeare, {COURSE.length} letters at a time, {SEEDS} seeds: bits of a letter that was"
        " held out, while they learn and\nat the end. Below a name, quoted: BLEU of the paper, English to German; the"
        " mixture's number could not be confirmed."
    )
    figure = style.page(TITLE, note, height=5.2)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.9))
    for name, losses in numbers["losses"].items():
        left.plot(marks(COURSE.steps)[1:], bits(losses)[1:], color=TINTS[name])
    left.set(xlabel="steps")
    left.set_title("bits of a letter")
    left.grid(axis="y")
    left.spines["left"].set_visible(False)
    labels = [f"{text}\n({QUOTED[name]:g})" if name in QUOTED else text for name, text in NAMES.items()]
    heights = [bits(numbers["losses"][name])[-1] for name in NAMES]
    style.bars(right, labels, heights, color=list(TINTS.values()), form="{:.2f}".format)
    right.set_title("at the end")
    return figure


def checks(numbers: Numbers) -> list[Check]:
    last = numbers["last"]
    others = max(max(last[name]) for name in NAMES if name != "fixed random")
    over = {
        name: [one - exact for one, exact in zip(last[name], last["softmax"], strict=True)]
        for name in ("random", "random + vanilla")
    }
    return [
        starts_above(
            "drawn and left over the worst of all others, nats", [x - others for x in last["fixed random"]], 0
        ),
        starts_below("learned over compared, nats", over["random"], 0.15),
        starts_at_most("learned and compared over compared, nats", over["random + vanilla"], 0),
    ]
