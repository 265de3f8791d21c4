"""4.4d: copying rows longer than any in training, with positions as distances (T5) and as sinusoids (the Transformer).

Two nets of equal depth and width, as many weights to within a few percent, learn to copy rows of 3 to 8 different
letters. Then they copy longer ones. A letter counts as right if it is the likeliest after the right beginning, a row if
all its letters are. T5 has 32 buckets up to a distance of 128 for texts of 512 tokens; here it has 8 up to a distance
of 8, so that the last one, to which all farther distances belong, is known from training too.

The spec sheet expects distances to lose less. So it is for whole rows, and for letters up to about one and a half times
the length of training. From twice that length on neither copies a row, and sinusoids have more letters right: about
nine, however long the row is.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.models import t5, transformer
from regard.nn.encdec import EncoderDecoder
from regard.zoo import count_parameters
from regard_lectures.figure import Check, Numbers, above, aside, seeded, starts_above, within
from regard_lectures.toys import fit, means

TITLE = "Longer than ever seen"
DECKS = ("001", "004")
CLAIM = "On rows longer than any in training, positions as distances lose less than sinusoids do."
EXPECTED = (
    "On rows longer than in training, positions as distances lose less than sinusoids, of whole rows and of letters, "
    "at every length."
)
FOUND = (
    "Distances copy more whole rows, 75 and 22 points ahead at 10 and 12 letters; from 14 on neither copies any, and "
    "from 16 on sinusoids have more letters right, 56.3 against 44.5 % at 16: of letters, distances lead at every "
    "length in 0 of 3 starts."
)
COST = 180.0
SEED = 0

LETTERS, DIM, DEPTH, HEADS, HIDDEN = 26, 64, 2, 4, 128
SHORTEST, LONGEST = 3, 8
BUCKETS, FARTHEST = 8, 8
TESTED = (4, 6, 8, 10, 12, 14, 16, 20, 24)
STEPS, BATCH, RATE, SEEDS, ROWS = 1500, 64, 2e-3, 3, 200
START, END, COPY = range(3)  # a row begins with a word that says what to do, and ends with an end
FIRST = 3  # letter


def relative() -> EncoderDecoder:
    sizes = t5.Config(
        vocab=LETTERS + FIRST,
        dim=DIM,
        depth=DEPTH,
        heads=HEADS,
        head_dim=DIM // HEADS,
        hidden=HIDDEN,
        dropout=0.0,
        buckets=BUCKETS,
        farthest=FARTHEST,
    )
    return t5.T5(sizes)


def waves() -> EncoderDecoder:
    sizes = transformer.Config(
        vocab=LETTERS + FIRST, dim=DIM, depth=DEPTH, heads=HEADS, hidden=HIDDEN, dropout=0.0, norm="pre"
    )
    return transformer.Transformer(sizes)


NETS: dict[str, Callable[[], EncoderDecoder]] = {"distances": relative, "sinusoids": waves}


def rows(count: int, length: int) -> Tensor:
    """Different letters, so that each has one place."""
    return torch.rand(count, LETTERS).argsort(1)[:, :length] + FIRST


def said(net: EncoderDecoder, letters: Tensor) -> Tensor:
    """(b, n) -> (b, n + 1, v): at each place, what comes after the right beginning"""
    source = F.pad(F.pad(letters, (1, 0), value=COPY), (0, 1), value=END)
    logits: Tensor = net(source, F.pad(letters, (1, 0), value=START))
    return logits


def taught(name: str, seed: int) -> EncoderDecoder:
    with seeded(seed):
        net = NETS[name]()

        def loss() -> Tensor:
            letters = rows(BATCH, int(torch.randint(SHORTEST, LONGEST + 1, ())))
            wanted = F.pad(letters, (0, 1), value=END)
            return F.cross_entropy(said(net, letters).flatten(0, 1), wanted.flatten())

        fit(net.parameters(), loss, steps=STEPS, rate=RATE)
    return net.eval()


@dataclass(frozen=True)
class Copied:
    """What share of letters, and of whole rows."""

    letters: float
    rows: float


@torch.no_grad()
def right(net: EncoderDecoder, length: int) -> Copied:
    with seeded(SEED + length):
        letters = rows(ROWS, length)
    hits = (said(net, letters)[:, :-1].argmax(-1) == letters).double()
    return Copied(round(float(hits.mean()), 4), round(float(hits.amin(1).mean()), 4))


def compute() -> Numbers:
    numbers: Numbers = {}
    for name in NETS:
        nets = [taught(name, SEED + i) for i in range(SEEDS)]
        found = [[right(net, length) for length in TESTED] for net in nets]
        numbers[name] = {
            "weights": count_parameters(nets[0]),
            "letters": [[one.letters for one in run] for run in found],
            "rows": [[one.rows for one in run] for run in found],
        }
    return numbers


TINTS = {"distances": style.WEIGHT, "sinusoids": style.SECOND}


def draw(numbers: Numbers) -> Figure:
    weights = {name: f"{numbers[name]['weights']:,}" for name in NETS}
    note = (
        f"Copying rows of letters, {SHORTEST} to {LONGEST} in training; {SEEDS} seeds, lines through their means.\n"
        f"T5 has {weights['distances']} weights, the Transformer with sinusoids {weights['sinusoids']}. Expected was"
        " that distances lose less; of letters\nthat is so up to about one and a half times the length of training."
    )
    figure = style.page(TITLE, note, height=5.3)
    panels = figure.subplots(1, 2)
    for axes, measure in zip(panels, ("rows", "letters"), strict=True):
        axes.axvspan(SHORTEST, LONGEST, color=style.SUNK, lw=0, zorder=0)
        for name, tint in TINTS.items():
            runs = numbers[name][measure]
            axes.plot(TESTED, means(runs), color=tint)
            for run in runs:
                axes.plot(TESTED, run, "o", color=tint, ms=4.5, alpha=0.6, mew=0)
        axes.set_title("whole rows" if measure == "rows" else "letters, each after the right beginning")
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])
        axes.set(xlabel="letters in the row", xlim=(2.5, TESTED[-1] + 0.5), ylim=(-0.02, 1.04))
        axes.set_xticks([4, 8, 12, 16, 20, 24])
        axes.grid(axis="y")
        axes.spines["left"].set_visible(False)
    panels[0].text((SHORTEST + LONGEST) / 2, 0.03, "training", ha="center", color=style.SOFT, size=10.5)
    panels[0].text(13.5, 0.62, "distances (T5)", color=style.WEIGHT, weight="bold")
    panels[0].text(13.5, 0.54, "sinusoids", color=style.SECOND, weight="bold")
    return figure


def checks(numbers: Numbers) -> list[Check]:
    near, waving = numbers["distances"], numbers["sinusoids"]
    seen = [i for i, length in enumerate(TESTED) if length <= LONGEST]
    beyond = [i for i, length in enumerate(TESTED) if length > LONGEST]
    some = [i for i in beyond if TESTED[i] <= 1.5 * LONGEST]
    ratio = near["weights"] / waving["weights"]
    return [
        *(
            aside(above(f"{name}: letters right within training, worst", least(numbers[name]["letters"], seen), 0.95))
            for name in NETS
        ),
        starts_above("whole rows, distances over sinusoids up to 12, least", leads(numbers, "rows", some), 0.1),
        starts_above("whole rows, the same at every length beyond training", leads(numbers, "rows", beyond), 0),
        starts_above("letters, the same at every length beyond training", leads(numbers, "letters", beyond), 0),
        aside(within("weights, one over the other", ratio, 0.95, 1.05)),
    ]


def leads(numbers: Numbers, part: str, places: list[int]) -> list[float]:
    """By how much distances are ahead at these lengths, where it is least, in each start."""
    both = zip(numbers["distances"][part], numbers["sinusoids"][part], strict=True)
    return [min(one[i] - other[i] for i in places) for one, other in both]


def least(runs: list[list[float]], places: list[int]) -> float:
    return min(run[i] for run in runs for i in places)
