"""1.11c: the table of BLEU scores of Bahdanau et al. (2015), https://arxiv.org/abs/1409.0473, table 1.

All scores are quoted: English to French, newstest2014, for all sentences and for those without an unknown word. The
number in a name is the longest sentence in training; RNNsearch-50* was trained for longer, and Moses is the
phrase-based system of its time. Only the differences between the rows are computed here.
"""

from dataclasses import asdict, dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard import style
from regard_lectures.figure import Check, Numbers

TITLE = "The first translator with attention, in its paper"
DECKS = ("003", "002")
CLAIM = "Attention brings 7.6 to 8.9 BLEU; trained on 30 words it beats the plain net trained on 50."
EXPECTED = "Nothing is measured: the numbers are those of the paper, in which attention brings 7.6 and 8.9 BLEU."
FOUND = (
    "Quoted: RNNsearch is 7.57 BLEU above RNNencdec with training sentences of up to 30 words, and 8.93 with up to 50."
)
COST = 0.1
SEED = 0

PAIRS = (30, 50)  # the longest sentences in training


@dataclass(frozen=True)
class Row:
    name: str
    everything: float  # BLEU of all sentences
    known: float  # of sentences without an unknown word


QUOTED = [
    Row("RNNencdec-30", 13.93, 24.19),
    Row("RNNsearch-30", 21.50, 31.44),
    Row("RNNencdec-50", 17.82, 26.71),
    Row("RNNsearch-50", 26.75, 34.16),
    Row("RNNsearch-50*", 28.45, 36.15),
    Row("Moses", 33.30, 35.63),
]


def compute() -> Numbers:
    rows = {row.name: row for row in QUOTED}
    gains = {
        str(longest): round(rows[f"RNNsearch-{longest}"].everything - rows[f"RNNencdec-{longest}"].everything, 2)
        for longest in PAIRS
    }
    return {"quoted": [asdict(row) for row in QUOTED], "gains": gains}


COLUMNS = {"everything": (4.15, "all sentences"), "known": (7.25, "no unknown word")}


def draw(numbers: Numbers) -> Figure:
    note = "BLEU, English to French, newstest2014. All numbers quoted: Bahdanau, Cho and Bengio (2015), table 1."
    figure = style.page(TITLE, note, height=4.75)
    axes = style.stage(figure)
    for x, text in COLUMNS.values():
        style.write(axes, x - 0.62, 3.35, text, ha="left", va="baseline", size=11, color=style.SOFT)
    for i, row in enumerate(numbers["quoted"]):
        line(axes, 2.95 - 0.42 * i, row)
    gains = " and ".join(f"+{numbers['gains'][str(longest)]:.1f}" for longest in PAIRS)
    says = f"Attention brings {gains} BLEU. * trained for longer. Moses: phrase-based, with more French text besides."
    style.write(axes, 0.3, 0.28, says, ha="left", va="baseline", size=11, color=style.SOFT)
    return figure


def line(axes: Axes, y: float, row: Numbers) -> None:
    search = "search" in row["name"]
    tint = style.WEIGHT if search else style.SECOND if "encdec" in row["name"] else style.EDGE
    axes.plot([0.3, 9.7], [y + 0.28] * 2, color=style.LINE, lw=1)
    weight = "bold" if search else "normal"
    style.write(axes, 0.3, y, row["name"], ha="left", va="baseline", size=12, weight=weight)
    style.write(axes, 2.2, y, "quoted", ha="left", va="baseline", size=9.5, color=style.EDGE)
    for name, (x, _) in COLUMNS.items():
        style.write(axes, x, y, f"{row[name]:.2f}", ha="right", va="baseline", size=12, weight=weight)
        style.block(axes, x + 0.15, y - 0.02, 0.06 * row[name], 0.16, tint)


def checks(numbers: Numbers) -> list[Check]:
    """Numbers of others."""
    return []
