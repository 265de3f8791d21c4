"""11.2: deck 003's figure 9 on translation: the cross-attention of the last decoder layer, one panel for each head.

A small Transformer learns the little French of 11.1. Sentences are read in batches, padded to the longest, and what is
padding or future must get no weight at all. Heads differ by the Jensen-Shannon divergence of their rows, in nats: those
of an untrained net differ too (by 0.09), so they are held against it.
"""

from itertools import combinations

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.model import Model
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, aside, below, equal, plain, starts_above
from regard_lectures.learning.lessons import batched
from regard_lectures.looking.french import SWAPPED, looked, sentences, taught, translated, untaught

TITLE = "Eight heads read one sentence"
DECKS = ("003", "004", "000")
CLAIM = "The heads of one layer look in different ways; their rows add up to 1, and nothing falls on what is masked."
EXPECTED = (
    "Rows of a map sum to 1, masked cells are exactly 0, and heads differ: the mean Jensen-Shannon divergence of two "
    "heads is above 0.05."
)
FOUND = (
    "Rows sum to 1 within 2e-7 and masked cells are 0; the mean divergence of two heads is 0.158, 0.131 and 0.149 in 3 "
    "starts, 1.5 to 2 times that before training."
)
COST = 24.0
SEED = 0

SIZES: dict[str, object] = {"dim": 64, "depth": 2, "heads": 8, "hidden": 128, "dropout": 0.0, "norm": "pre"}
SEEDS, UNSEEN, LAYER = 3, 200, "decoder.1.cross"


def learned(seed: int) -> Model:
    return taught(untaught("transformer-small", seed, SIZES), seed=seed, steps=200, rate=5e-3)


def compute() -> Numbers:
    numbers: Numbers = {"right": [], "rows": [], "padding": [], "future": [], "apart": [], "untaught": []}
    for seed in range(SEED, SEED + SEEDS):
        model = learned(seed)
        found = measured(model, seed)
        for name, value in found.items():
            numbers[name].append(value)
        numbers["untaught"].append(measured(untaught("transformer-small", seed, SIZES), seed)["apart"])
        if seed == SEED:
            (one,) = looked(model, [SWAPPED], LAYER)
            seen = one.maps[LAYER]
            assert seen.rows.labels is not None
            assert seen.columns.labels is not None
            numbers |= {"words": list(seen.rows.labels), "source": list(seen.columns.labels)}
            numbers["maps"] = plain(seen.weights[0], 3)
    return numbers


@torch.no_grad()
def measured(model: Model, seed: int) -> Numbers:
    """On unseen sentences, in one padded batch."""
    pairs = [(one.english, one.french) for one in sentences(UNSEEN, 1000 + seed)]
    (batch,) = batched(model.text(), pairs, UNSEEN)
    assert batch.source_keys is not None
    with capture(model.net, "decoder.*.weights") as seen:
        said = model.net(batch.source, batch.given, source_keys=batch.source_keys, keys=batch.keys).argmax(-1)
    cross, own = seen[f"{LAYER}.weights"][0], seen["decoder.1.mixer.weights"][0]  # (b, h, n, m), (b, h, n, n)
    rows = cross.transpose(1, 2)[batch.keys]  # of the real words, (r, h, m)
    return {
        "right": float((said == batch.wanted)[batch.keys].double().mean()),
        "rows": float((rows.sum(-1) - 1).abs().max()),
        "padding": float(cross.masked_fill(batch.source_keys[:, None, None], 0.0).max()),
        "future": float(own.triu(1).max()),
        "apart": float(torch.stack([shannon(rows[:, a], rows[:, b]) for a, b in combinations(range(8), 2)]).mean()),
    }


def shannon(p: Tensor, q: Tensor) -> Tensor:
    """The Jensen-Shannon divergence of rows, each (r, m), on average: between 0 and log 2."""
    return (entropy((p + q) / 2) - (entropy(p) + entropy(q)) / 2).mean()


def entropy(p: Tensor) -> Tensor:
    return -torch.xlogy(p, p).sum(-1)


def draw(numbers: Numbers) -> Figure:
    apart = numbers["apart"][0]
    note = (
        f"Cross-attention of the last decoder layer. Rows: what it wrote; columns: “{SWAPPED}”.\n"
        f"Two heads differ by {apart:.2f} nats on average (Jensen-Shannon; at most 0.69)."
    )
    figure = style.page(TITLE, note, height=7.1)
    panels = figure.subplots(2, 4)
    for head, (axes, table) in enumerate(zip(panels.flat, numbers["maps"], strict=True)):
        words = numbers["words"] if head % 4 == 0 else None
        source = numbers["source"] if head < 4 else None
        style.heatmap(axes, table, words, source, slant=50, size=9)
        axes.set_xlabel(f"head {head + 1}", color=style.SOFT, size=10.5)
    style.scale(figure, list(panels.flat), shrink=0.4)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    grown = [a / b for a, b in zip(numbers["apart"], numbers["untaught"], strict=True)]
    written = " ".join(numbers["words"])
    return [
        aside(starts_above("words foretold rightly in unseen sentences", numbers["right"], 0.95)),
        below("rows add up to 1 (difference), worst of all starts", max(numbers["rows"]), 1e-5),
        equal("largest weight on padding, in all starts", max(numbers["padding"]), 0.0),
        equal(
            "largest weight on the future, in the layer's self-attention, in all starts", max(numbers["future"]), 0.0
        ),
        starts_above("mean Jensen-Shannon divergence of two heads", numbers["apart"], 0.05),
        aside(starts_above("heads differ more than before training: ratio", grown, 1.0)),
        aside(equal("the rows are what was written", written, f"{translated(SWAPPED).french} <end>")),
    ]
