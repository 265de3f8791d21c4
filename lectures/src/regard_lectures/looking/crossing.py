"""11.8b: "RNN better?" (deck 003's conclusions): an LSTM and a Transformer with as many weights foretell letters, after
they have learned from little text and from more.

Left, stories in which somebody does something, and all come again in another order: whoever finds the name again knows
the rest of the sentence. Right, tiny Shakespeare. A net is looked at ten times while it learns; it counts as it was
when it foretold the first half of what is held out best, and what is told is the second half. The Transformer reads
by looking back at all of 128 letters, the LSTM carries what it has read in 156 numbers.

Differs from the deck, which shows an icon: what is found here is a crossing where text says again what it has said,
and none in a megabyte of Shakespeare, on which the LSTM is ahead wherever we stop (as it is in figure 4.2c, by less,
with six times the weights and for much longer). Needs tiny_shakespeare below REGARD_DATA.
"""

import random
from collections.abc import Callable
from functools import cache
from itertools import takewhile
from statistics import fmean

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.models.gpt import GPT, Config
from regard.nn.recurrent import LSTMCell, Recurrent
from regard.zoo import count_parameters
from regard_lectures.efficient.training import learn
from regard_lectures.figure import Check, Numbers, above, aside, below, seeded, starts_above, starts_below
from regard_lectures.foundations.play import words

TITLE = "Which is better depends on how much there is to read"
DECKS = ("003",)
CLAIM = "From little text an LSTM learns more than a Transformer; more text turns that round."
EXPECTED = (
    "On letters an LSTM beats a Transformer with as many weights below some size of the text and loses above it: there "
    "is a crossing."
)
FOUND = (
    "On stories that say again what they said the LSTM is ahead by 0.107 nats at 3,000 letters and behind by 0.030 at "
    "300,000, in 2 of 2 starts, crossing near 22,000; on Shakespeare, in one start, it is ahead at all 5 sizes, by "
    "0.119 nats at 3,000 and 0.055 at 1,000,000."
)
COST = 2500.0
SEED = 0

NAMES = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
VERBS = [
    "sings",
    "paints",
    "dances",
    "runs",
    "reads",
    "cooks",
    "sleeps",
    "plays",
    "laughs",
    "writes",
    "swims",
    "climbs",
    "knits",
    "digs",
    "drives",
    "fishes",
    "gardens",
    "hums",
    "jokes",
    "kneels",
    "listens",
    "marches",
    "naps",
    "orders",
    "prays",
    "quarrels",
    "rows",
    "sews",
    "talks",
    "urges",
]
PEOPLE = 6  # of a story
LENGTH, BATCH = 128, 16
HELD = 1 << 14  # letters to stop by, and as many to tell
DIM, DEPTH, HEADS, STATE = 64, 3, 4, 156
RATES = {"LSTM": 4e-3, "Transformer": 2e-3}
STEPS = {
    "stories": {3_000: 200, 10_000: 400, 30_000: 800, 100_000: 1500, 300_000: 1500},
    "Shakespeare": {3_000: 150, 10_000: 300, 30_000: 600, 100_000: 800, 1_000_000: 1500},
}
STARTS = {"stories": 2, "Shakespeare": 1}
TINTS = {"LSTM": style.SECOND, "Transformer": style.WEIGHT}


def story(chance: random.Random) -> str:
    """Each of some does something; then all again, in another order."""
    told = [(name, chance.choice(VERBS)) for name in chance.sample(NAMES, PEOPLE)]
    again = chance.sample(told, PEOPLE)
    return "".join(f"{name} {verb}. " for name, verb in told + again) + "\n"


@cache
def text_of(kind: str) -> tuple[str, str]:
    """To learn from, and held out."""
    if kind == "Shakespeare":
        whole = words()
        return whole[: -2 * HELD - 2], whole[-2 * HELD - 2 :]
    parts = []
    for seed, size in ((0, max(STEPS[kind])), (1, 2 * HELD + 2)):
        chance, text = random.Random(seed), ""
        while len(text) < size:
            text += story(chance)
        parts.append(text[:size])
    return parts[0], parts[1]


@cache
def letters_of(kind: str) -> tuple[Tensor, Tensor, Tensor, int]:
    """Numbers of letters: (n,) to learn from, (rows, LENGTH + 1) to stop by and to tell, and how many kinds."""
    known, held = text_of(kind)
    numbers = {letter: i for i, letter in enumerate(sorted({*known, *held}))}
    ids = [torch.tensor([numbers[letter] for letter in text]) for text in (known, held)]
    rows = ids[1].unfold(0, LENGTH + 1, LENGTH)
    half = len(rows) // 2
    return ids[0], rows[:half], rows[half:], len(numbers)


class Reader(nn.Module):
    """An LSTM that foretells."""

    def __init__(self, vocab: int) -> None:
        super().__init__()
        self.embed, self.rnn = nn.Embedding(vocab, DIM), Recurrent(LSTMCell, DIM, STATE)
        self.head = nn.Linear(STATE, vocab)

    def forward(self, ids: Tensor) -> Tensor:
        """(b, n) -> (b, n, v)"""
        logits: Tensor = self.head(self.rnn(self.embed(ids)).outputs)
        return logits


def transformer(vocab: int) -> nn.Module:
    return GPT(
        Config(
            vocab=vocab, length=LENGTH, dim=DIM, depth=DEPTH, heads=HEADS, rotary=10000.0,
            dropout=0.0, attention_dropout=0.0, embedding_dropout=0.0,
        )
    )  # fmt: skip


NETS: dict[str, Callable[[int], nn.Module]] = {"LSTM": Reader, "Transformer": transformer}


def surprise(net: nn.Module, rows: Tensor) -> Tensor:
    """(b, n + 1) -> nats of a letter, given those before it"""
    return F.cross_entropy(net(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


def taught(kind: str, name: str, size: int, seed: int) -> float:
    """Nats of a letter that is held out."""
    known, stop_by, told, vocab = letters_of(kind)
    start = (seed * size) % max(len(known) - size, 1)  # other starts read other letters, where there are
    known = known[start : start + size]
    seen: list[float] = []

    def drawn() -> Tensor:
        return known[torch.randint(len(known) - LENGTH, (BATCH, 1)) + torch.arange(LENGTH + 1)]

    def look() -> float:
        seen.append(float(surprise(net, told)))
        return float(surprise(net, stop_by))

    with seeded(seed):
        net = NETS[name](vocab)
        losses = learn(net, lambda: surprise(net, drawn()), look, steps=STEPS[kind][size], rate=RATES[name])
    return seen[min(range(len(losses)), key=losses.__getitem__)]


def compute() -> Numbers:
    return {
        "weights": {name: count_parameters(make(letters_of("stories")[3])) for name, make in NETS.items()},
        "nats": {
            kind: {
                name: [[round(taught(kind, name, size, i), 4) for i in range(STARTS[kind])] for size in sizes]
                for name in NETS
            }
            for kind, sizes in STEPS.items()
        },
    }


def ahead(numbers: Numbers, kind: str) -> list[float]:
    """Nats by which the LSTM is ahead, for each size."""
    lstm, other = ([fmean(starts) for starts in numbers["nats"][kind][name]] for name in NETS)
    return [y - x for x, y in zip(lstm, other, strict=True)]


def meeting(numbers: Numbers, kind: str) -> float | None:
    """The letters from which on the Transformer is ahead, between two sizes along a line, their logarithms taken."""
    sizes, lead = list(STEPS[kind]), ahead(numbers, kind)
    for i in range(1, len(sizes)):
        if lead[i - 1] > 0 >= lead[i]:
            part = lead[i - 1] / (lead[i - 1] - lead[i])
            return float(sizes[i - 1] * (sizes[i] / sizes[i - 1]) ** part)
    return None


def agreed(numbers: Numbers, kind: str) -> tuple[int, int]:
    """The most letters up to which the LSTM is ahead whatever the start, and the fewest from which the other is; 0: at
    no number."""
    lstm, other = (numbers["nats"][kind][name] for name in NETS)
    rows = list(zip(STEPS[kind], lstm, other, strict=True))
    few = takewhile(lambda row: max(row[1]) < min(row[2]), rows)
    many = takewhile(lambda row: max(row[2]) < min(row[1]), reversed(rows))
    return max((size for size, _, _ in few), default=0), min((size for size, _, _ in many), default=0)


def draw(numbers: Numbers) -> Figure:
    weights = " and ".join(f"{count / 1000:.0f}k" for count in numbers["weights"].values())
    few, many = agreed(numbers, "stories")
    note = (
        f"Nats to foretell a letter that is held out, by how many were read; {weights} weights. Left, stories whose\n"
        f"sentences come again, {STARTS['stories']} starts, dots: in each the LSTM is ahead at {few:,} letters, the "
        f"Transformer from {many:,} on.\nRight, Shakespeare, one start. Each net as it was when it was best on another "
        "part of what is held out."
    )
    figure = style.page(TITLE, note, height=5.2)
    for axes, kind in zip(figure.subplots(1, 2), STEPS, strict=True):
        curves(axes, numbers, kind)
    return figure


def curves(axes: Axes, numbers: Numbers, kind: str) -> None:
    sizes = list(STEPS[kind])
    for name, tint in TINTS.items():
        every = numbers["nats"][kind][name]
        middle = [fmean(starts) for starts in every]
        axes.plot(sizes, middle, "-", color=tint)
        for size, starts in zip(sizes, every, strict=True):
            axes.plot([size] * len(starts), starts, "o", color=tint, ms=4.5, alpha=0.8, mew=0)
        first = "LSTM" if ahead(numbers, kind)[-1] > 0 else "Transformer"
        style.end_label(axes, sizes[-1], middle[-1], name, tint, dy=-7 if name == first else 7)
    if where := meeting(numbers, kind):
        axes.axvline(where, color=style.EDGE, lw=1.2, ls=(0, (4, 3)))
        axes.annotate(
            f"means cross at\n{round(where, -3):,.0f} letters", (where, 1), (6, -4), xycoords=("data", "axes fraction"),
            textcoords="offset points", va="top", color=style.SOFT, size=10.5,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xticks(sizes, [f"{size // 1000}k" if size < 1e6 else "1M" for size in sizes])
    axes.minorticks_off()
    axes.set_xlim(sizes[0] * 0.8, sizes[-1] * 6)
    axes.set_xlabel("letters to learn from")
    axes.set_title(kind)
    axes.margins(y=0.1)
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)


def checks(numbers: Numbers) -> list[Check]:
    counts = numbers["weights"]
    checks = []
    for kind, sizes in STEPS.items():
        lead = leads(numbers, kind)
        few, most = min(sizes), max(sizes)
        checks += [
            starts_above(f"{kind}, {few:,} letters: nats by which the LSTM is ahead", lead[0], 0),
            starts_below(f"{kind}, {most:,} letters: the same", lead[-1], 0),
        ]
    where = meeting(numbers, "stories") or 0.0
    return [
        *checks,
        aside(above("stories: letters at which the means cross", where, min(STEPS["stories"]))),
        aside(below("weights of the two: difference, share", abs(counts["LSTM"] / counts["Transformer"] - 1), 0.05)),
    ]


def leads(numbers: Numbers, kind: str) -> list[list[float]]:
    """Nats by which the LSTM is ahead, for each size and start."""
    lstm, other = (numbers["nats"][kind][name] for name in NETS)
    return [[b - a for a, b in zip(*starts, strict=True)] for starts in zip(lstm, other, strict=True)]
