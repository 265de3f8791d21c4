"""1.2: how well the next letter is foretold from the n - 1 before it, in the text that was counted and in another.

Tiny Shakespeare, of which the last tenth is held out; 65 letters, one for any that was never seen, and the end.
"""

from itertools import pairwise

from matplotlib.figure import Figure

from regard import style
from regard.models.ngram import AddK, KneserNey, NGram
from regard_lectures.figure import Check, Numbers, above, below
from regard_lectures.foundations.play import numbered, words

TITLE = "What was counted, and what was not"
DECKS = ("004",)
CLAIM = "Counts alone fit their own text ever better; on another, add-k gets worse again, and Kneser and Ney do not."
EXPECTED = (
    "The training perplexity of plain counts falls with every n; held out, add-k is U-shaped and Kneser and Ney flat"
    " or falling."
)
FOUND = (
    "Plain counts fall at every n up to 8; held out, add-k ends at 3.0 times its best perplexity, and Kneser and Ney"
    " at 1.016 times theirs."
)
COST = 25.0
SEED = 0

ORDERS, K = range(1, 9), 0.1
WAYS: dict[str, AddK | KneserNey] = {"plain": AddK(0.0), "add": AddK(K), "kneser": KneserNey()}


def compute() -> Numbers:
    play = numbered(words())
    numbers: Numbers = {"plain": [], "add": [], "kneser": [], "letters": len(play.letters), "counted": len(play.train)}
    for order in ORDERS:
        for name, smoothing in WAYS.items():
            text = play.train if name == "plain" else play.held_out
            model = NGram(order, play.vocab, play.end, smoothing).learn([play.train])
            numbers[name].append(float(f"{2 ** model.bits([text]):.5g}"))
    return numbers


CURVES = {
    "plain": ("counts alone,\non their own text", style.EDGE),
    "add": (f"add-{K:g},\nheld out", style.SECOND),
    "kneser": ("Kneser and Ney,\nheld out", style.WEIGHT),
}


def draw(numbers: Numbers) -> Figure:
    note = (
        "Among how many letters one would have to guess, knowing n − 1 letters before: perplexity of n-grams,\n"
        f"{numbers['counted'] / 1e6:.1f} million letters of Shakespeare counted, the last tenth held out."
    )
    figure = style.page(TITLE, note, height=5.4)
    axes = figure.subplots()
    for name, (label, tint) in CURVES.items():
        axes.plot(ORDERS, numbers[name], "o-", color=tint)
        style.end_label(axes, ORDERS[-1], numbers[name][-1], label, tint, dx=12, dy=4 if name == "plain" else 0)
        best = min(range(len(ORDERS)), key=lambda i: numbers[name][i])
        if name != "plain":
            above_or_below = 10 if name == "add" else -16
            axes.annotate(
                f"{numbers[name][best]:.2f}",
                (ORDERS[best], numbers[name][best]),
                xytext=(0, above_or_below),
                textcoords="offset points",
                ha="center",
                color=tint,
            )
    axes.set(yscale="log", xlabel="$n$", ylim=(1.4, 34), xlim=(0.8, 9.5), xticks=list(ORDERS))
    axes.set_yticks([2, 4, 8, 16, 32], ["2", "4", "8", "16", "32"])
    axes.minorticks_off()
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    add, kneser = numbers["add"], numbers["kneser"]
    best = add.index(min(add))
    down, up = add[: best + 1], add[best:]
    return [
        below("counts alone, on their own text: largest ratio of one n to the n before", ratio(numbers["plain"]), 1.0),
        below("add-k, held out: largest ratio up to the best n", ratio(down) if best else 2.0, 1.0),
        above("add-k, held out: n = 8 over the best n", add[-1] / min(add), 1.5),
        above("add-k, held out: smallest ratio after the best n", 1 / ratio(up[::-1]) if len(up) > 1 else 0.0, 1.0),
        below("Kneser and Ney, held out: largest ratio of one n to the n before", ratio(kneser), 1.02),
        below("Kneser and Ney, held out: n = 8 over the best n", kneser[-1] / min(kneser), 1.05),
        below("Kneser and Ney over the best add-k, held out", min(kneser) / min(add), 0.9),
    ]


def ratio(values: list[float]) -> float:
    return max(after / before for before, after in pairwise(values))
