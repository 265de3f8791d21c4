"""3.7b: the table of decks 002 and 004: BLEU on newstest2014 against what training cost.

All rows are quoted from Vaswani et al. (2017), table 2, which gathers them from the papers named there; 41.8 is the
final version's number where the first printing had 41.0. The paper's cost is time x cards x what a card can sustain
(9.5 TFLOPS for a P100); below it stands what our own transformer-base and -big would
compute in as many steps, counted. Rows of models that were trained here, on captions and from German to English, are
those that figure 3.7e measured and recorded.
"""

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch.utils.flop_counter import FlopCounterMode

from regard import style
from regard.models.transformer import PRESETS, Transformer
from regard_lectures.figure import Check, Numbers
from regard_lectures.records import RESULTS

TITLE = "Better translations at a fraction of the cost"
DECKS = ("002", "004")
CLAIM = "The Transformer beats all earlier single models and ensembles on English-German at less than their cost."
EXPECTED = (
    "Nothing of ours is judged here: the rows are those of the paper, in which the Transformer beats all earlier"
    " models on English-German at less than their cost."
)
FOUND = (
    "Quoted: base has 27.3 BLEU, big 28.4, the best ensemble before 26.36 on English-German; our models’ counted"
    " operations are 29 and 42 % of the quoted costs; the rows trained here are judged by 3.7e."
)
COST = 3.5
SEED = 0


@dataclass(frozen=True)
class Row:
    name: str
    bleu: tuple[float | None, float | None]  # English-German, English-French
    cost: tuple[float | None, float | None]  # floating-point operations of training
    group: str


SINGLE, ENSEMBLE, OURS = "single models", "ensembles", "the Transformer"
QUOTED = [
    Row("ByteNet", (23.75, None), (None, None), SINGLE),
    Row("Deep-Att + PosUnk", (None, 39.2), (None, 1.0e20), SINGLE),
    Row("GNMT + RL", (24.6, 39.92), (2.3e19, 1.4e20), SINGLE),
    Row("ConvS2S", (25.16, 40.46), (9.6e18, 1.5e20), SINGLE),
    Row("MoE", (26.03, 40.56), (2.0e19, 1.2e20), SINGLE),
    Row("Deep-Att + PosUnk", (None, 40.4), (None, 8.0e20), ENSEMBLE),
    Row("GNMT + RL", (26.30, 41.16), (1.8e20, 1.1e21), ENSEMBLE),
    Row("ConvS2S", (26.36, 41.29), (7.7e19, 1.2e21), ENSEMBLE),
    Row("base", (27.3, 38.1), (3.3e18, 3.3e18), OURS),
    Row("big", (28.4, 41.8), (2.3e19, 2.3e19), OURS),
]
HUMAN = 30  # deck 004's number for human translators, English-German

DAYS = {"base": 0.5, "big": 3.5}  # on eight P100
STEPS = {"base": 100_000, "big": 300_000}
TOKENS, SENTENCE = 25_000, 25  # of a batch, on either side; of a sentence, for the share of attention


def compute() -> Numbers:
    return {
        "quoted": [asdict(row) | {"bleu": list(row.bleu), "cost": list(row.cost)} for row in QUOTED],
        "measured": measured(),
        "capacity": {name: days * 86400 * 8 * 9.5e12 for name, days in DAYS.items()},
        "counted": {name: counted(name) for name in DAYS},
    }


def measured() -> list[Numbers]:
    """What was trained here: BLEU and operations, German to English."""
    found = json.loads((RESULTS / "3.7e.json").read_text(encoding="utf8"))["numbers"]["rivals"]
    return [
        {"name": name.replace("with", "+"), "bleu": [round(one["bleu"], 1), None], "cost": [one["operations"], None]}
        for name, one in found.items()
    ]


def counted(name: str) -> float:
    """The operations of all matrix products in training: our model, the paper's steps; nothing is really computed."""
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        model = Transformer(PRESETS[f"transformer-{name}"])
        words = torch.zeros(1, SENTENCE, dtype=torch.long)
        F.cross_entropy(model(words, words)[0], words[0]).backward()
    return float(f"{counter.get_total_flops() * TOKENS / SENTENCE * STEPS[name]:.4g}")


def draw(numbers: Numbers) -> Figure:
    note = "BLEU on newstest2014; operations (FLOPs) of training, bars by powers of ten. Quoted: Vaswani et al. (2017)."
    figure = style.page(TITLE, note, height=7.3)
    axes = style.stage(figure)
    columns = (4.0, 5.0, 7.3, 9.6)
    for x, text in zip(columns, ("en-de", "en-fr", "en-de", "en-fr"), strict=True):
        style.write(axes, x, 5.65, text, ha="right", va="baseline", size=10.5, color=style.SOFT)
    style.write(axes, 4.5, 5.95, "BLEU", va="baseline", weight="bold")
    style.write(axes, 7.5, 5.95, "operations of training", va="baseline", weight="bold")
    y, group = 5.31, ""
    for row in numbers["quoted"]:
        if row["group"] != group:
            axes.plot([0.3, 9.7], [y + 0.25] * 2, color=style.LINE, lw=1.2)
            style.write(axes, 0.3, y, row["group"], ha="left", va="baseline", size=10.5, color=style.SOFT)
            style.write(axes, 0.3, y - 0.22, "quoted", ha="left", va="baseline", size=9.5, color=style.EDGE)
        group = row["group"]
        line(axes, y, row, columns)
        y -= 0.33
    axes.plot([0.3, 9.7], [y + 0.25] * 2, color=style.LINE, lw=1.2)
    style.write(axes, 0.3, y, "trained here", ha="left", va="baseline", size=10.5, color=style.SOFT)
    style.write(axes, 1.75, y, "BLEU on captions", ha="left", va="baseline", size=10.5, color=style.SOFT)
    for x in (columns[0], columns[2]):
        style.write(axes, x, y, "de-en", ha="right", va="baseline", size=10.5, color=style.SOFT)
    y -= 0.33
    for row in numbers["measured"]:
        line(axes, y, row, columns)
        y -= 0.33
    axes.plot([0.3, 9.7], [y + 0.25] * 2, color=style.LINE, lw=1.2)
    shares = [numbers["counted"][name] / numbers["capacity"][name] for name in DAYS]
    says = [
        f"Human translators reach about {HUMAN} BLEU, English-German (deck 004). 41.8 was 41.0 in the first printing.",
        "The paper’s cost is time × 8 cards × 9.5 TFLOPS. Counted in our base and big models, its steps take",
        f"{scientific(numbers['counted']['base'])} and {scientific(numbers['counted']['big'])} operations: "
        f"{style.percent(shares[0])} and {style.percent(shares[1])} of that.",
    ]
    for i, text in enumerate(says):
        style.write(axes, 0.3, y - 0.05 - 0.25 * i, text, ha="left", va="baseline", size=10, color=style.SOFT)
    return figure


def line(axes: Axes, y: float, row: Numbers, columns: tuple[float, ...]) -> None:
    """A row that was measured here is in no group."""
    ours = row.get("group", OURS) == OURS and row["name"] != "RNN + attention"
    ink = style.INK if ours else style.SOFT
    bold: dict[str, Any] = {"weight": "bold" if ours else "normal", "va": "baseline"}
    style.write(axes, 1.75, y, row["name"], ha="left", color=ink, size=11.5, **bold)
    for x, value in zip(columns[:2], row["bleu"], strict=True):
        if value is not None:
            style.write(axes, x, y, f"{value:g}", ha="right", color=ink, size=11.5, **bold)
    for x, value in zip(columns[2:], row["cost"], strict=True):
        if value is not None:
            style.write(axes, x, y, scientific(value), ha="right", color=ink, size=11.5, va="baseline")
            length = 0.42 * math.log10(value) - 0.42 * 18
            style.block(axes, x - 2.05, y - 0.02, max(length, 0.02), 0.14, style.WEIGHT if ours else style.EDGE)


def scientific(value: float) -> str:
    """3.3e18 as people write it."""
    digits, power = f"{value:.1e}".split("e")
    return f"${digits}·10^{{{int(power)}}}$"


def checks(numbers: Numbers) -> list[Check]:
    """Numbers of others; the rows that were trained here are judged by 3.7e."""
    return []
