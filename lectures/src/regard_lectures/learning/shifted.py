"""3.9: deck 004's picture of training a decoder: it is given the sentence shifted by one, and a mask hides what comes.

The small translator of 3.8 reads "walking along the river bank" and, in one pass, foretells every word of the German
phrase from the right words before it. The weights are those of a head of its last layer.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from regard import style
from regard.modalities.text.pairs import Pairs
from regard.modalities.text.tasks.translation import Translate
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, above, aside, below, equal, plain
from regard_lectures.transformer.river import END, SHOWN, START, Translator, train

TITLE = "Teacher forcing: all words at once"
DECKS = ("004", "003")
CLAIM = "Given the shifted target and a mask, one pass foretells all words: exactly what as many passes would say."
EXPECTED = "One pass with the shifted target and a mask says what as many passes as there are words would say."
FOUND = "The logits differ by 4e-15, and weights on later words are 0 exactly."
COST = 5.0
SEED = 0

LAYER = "decoder.1.mixer"


@torch.no_grad()
def compute() -> Numbers:
    with torch.enable_grad():
        translator = train(SEED, 120)
    net = translator.model.double()
    source, given = translator.ids([SHOWN[0]]), translator.ids([f"{START} {SHOWN[1]}"])
    wanted = translator.ids([f"{SHOWN[1]} {END}"])
    memory = net.encode(source)
    with capture(net, f"{LAYER}.weights") as seen:
        logits = net.decode(given, memory)
    weights = seen[f"{LAYER}.weights"][0][0]  # (h, n, n)
    later = torch.cat([net.decode(given[:, : i + 1], memory)[:, -1:] for i in range(given.shape[1])], 1)
    head = int((weights.diagonal(dim1=1, dim2=2).sum(-1)).argmin())  # the one that looks back most
    chances = logits[0].softmax(-1).gather(-1, wanted[0, :, None])[:, 0]
    return {
        "given": [translator.words[i] for i in given[0].tolist()],
        "wanted": [translator.words[i] for i in wanted[0].tolist()],
        "said": [translator.words[i] for i in logits[0].argmax(-1).tolist()],
        "chances": plain(chances, 3),
        "map": plain(weights[head], 3),
        "future": float(weights.triu(1).max()),
        "rows": float((weights.sum(-1) - 1).abs().max()),
        "one by one": float((logits - later).abs().max()),
        "mixed": mixed(translator, Pairs(source, None, given, wanted, torch.ones_like(given, dtype=torch.bool))),
        "changed": changed(translator, given, memory, logits),
    }


def mixed(translator: Translator, batch: Pairs) -> float:
    """How far the loop of scheduled sampling is from one pass, if it is always given the right word."""
    task = Translate(translator.model, None, 0.0)
    return float((task.states(batch, 1 - 1e-12) - task.states(batch)).abs().max())


def changed(translator: Translator, given: Tensor, memory: Tensor, logits: Tensor) -> float:
    """What another last word changes in what is said before it."""
    other = given.clone()
    other[:, -1] = translator.words.index("warten")
    return float((translator.model.decode(other, memory) - logits)[:, :-1].abs().max())


def draw(numbers: Numbers) -> Figure:
    note = "One row of the triangle for each word to foretell: from what was given up to there. Hatched: masked."
    figure = style.page(TITLE, note, height=6.2)
    axes = style.stage(figure)
    given, wanted = numbers["given"], numbers["wanted"]
    left, top, wide, tall = 2.15, 3.85, 1.02, 0.58
    for j, word in enumerate(given):
        x = left + (j + 0.5) * wide
        style.write(axes, x, top + 0.16, word, va="baseline", family=style.SERIF, size=15, color=style.KEY)
        if j:
            before = x - wide
            style.write(axes, before, top + 0.98, word, va="baseline", family=style.SERIF, size=15, color=style.EDGE)
            style.arrow(axes, (before + 0.1, top + 0.88), (x - 0.12, top + 0.47), color=style.EDGE, line=1.2, head=7)
    style.write(axes, left - 0.2, top + 0.98, "the sentence", ha="right", va="baseline", color=style.SOFT)
    style.write(axes, left - 0.2, top + 0.16, "given, one late", ha="right", va="baseline", color=style.KEY)
    for i, word in enumerate(wanted):
        row(axes, numbers, i, (left, top - (i + 1) * tall), (wide, tall))
        y, end = top - (i + 0.5) * tall, left + len(given) * wide
        chance = numbers["chances"][i]
        style.arrow(axes, (end + 0.08, y), (end + 0.5, y), line=1.6)
        style.write(axes, end + 0.6, y - 0.06, word, ha="left", va="baseline", family=style.SERIF, size=15)
        sure = style.percent(chance)
        style.write(axes, end + 1.6, y - 0.06, sure, ha="left", va="baseline", size=10, color=style.SOFT)
        style.write(
            axes,
            left - 0.2,
            y - 0.06,
            given[i],
            ha="right",
            va="baseline",
            family=style.SERIF,
            size=15,
            color=style.QUERY,
        )
    style.write(axes, left + len(given) * wide + 0.6, top + 0.16, "foretold", ha="left", va="baseline")
    bottom = top - len(wanted) * tall
    said = "all rows are computed at once: nothing waits for the word before"
    style.write(axes, left + len(given) * wide / 2, bottom - 0.32, said, size=11, color=style.WEIGHT, weight="bold")
    return figure


def row(axes: Axes, numbers: Numbers, i: int, corner: tuple[float, float], size: tuple[float, float]) -> None:
    """The weights of one place, and what it may not see."""
    (x, y), (wide, tall) = corner, size
    seen = numbers["map"][i][: i + 1]
    style.cells(axes, x, y + tall, [seen], (wide, tall), limit=1, digits=2, size=10.5)
    hidden = len(numbers["given"]) - i - 1
    if hidden:
        axes.add_patch(
            Rectangle(
                (x + (i + 1) * wide, y), hidden * wide, tall, fc=style.SUNK, ec=style.LINE, hatch="////", lw=0, zorder=2
            )
        )


def checks(numbers: Numbers) -> list[Check]:
    return [
        equal(
            "what is given is what is wanted, one place late", str(numbers["given"][1:]), str(numbers["wanted"][:-1])
        ),
        equal("largest weight on what comes later", numbers["future"], 0.0),
        below("rows add up to 1 (difference)", numbers["rows"], 1e-10),
        below("one pass and as many as there are words: logits, largest difference", numbers["one by one"], 1e-10),
        below("the mixed loop, always given the right word: largest difference", numbers["mixed"], 1e-10),
        below("what another last word changes before it", numbers["changed"], 1e-10),
        aside(equal("foretold", " ".join(numbers["said"]), " ".join(numbers["wanted"]))),
        aside(above("least chance of a wanted word", min(numbers["chances"]), 0.5)),
    ]
