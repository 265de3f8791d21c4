"""1.11b: one step of Bahdanau's decoder over a bidirectional RNN (rnnAttention of deck 002, bahdanau1 to 2c of deck
004), with the scores and weights of a trained net.

The net is small and was trained on other sentences (flight.py). It is about to write "das": which article it must be is
told by the last word of the source alone, and there it looks.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.nn.kernels.additive import Additive
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, aside, below, in_starts, plain, starts_above
from regard_lectures.recurrent.drawing import GREY, LIT, signed, state, word
from regard_lectures.recurrent.flight import SHOWN, START, Flight, right, train

TITLE = "To write a word, look at all words"
DECKS = ("002", "004", "003")
CLAIM = "Writing “das”, the decoder gives its weight to “the” and “window”; without scores it would see the mean."
EXPECTED = (
    "Writing “das”, the decoder gives more than half of its weight to “the” and “window” together; without scores it"
    " sees the mean, with one score far above the others that word."
)
FOUND = (
    "“the” and “window” get 0.97 to 0.99 together in 3 starts, of which “window” has 0.89 to 0.97 and “the” 0.00 to"
    " 0.09; both extremes are exact to 1e-7."
)
COST = 14.0
SEED = 0

ENGLISH, GERMAN = (text.split() for text in SHOWN)
STEP = GERMAN.index("das")
SEEDS = 3


def compute() -> Numbers:
    flights = [train(seed, "bahdanau", steps=150) for seed in range(SEED, SEED + SEEDS)]
    found = [looked(flight) for flight in flights]
    return {
        "scores": plain(found[0][0], 3),
        "weights": plain(found[0][1], 3),
        "loop": max(float((scores.softmax(0) - weights).abs().max()) for scores, weights in found),
        "article": [float(weights[-2]) for _, weights in found],
        "noun": [float(weights[-1]) for _, weights in found],
        "said": [" ".join(flight.translate([ENGLISH])[0]) for flight in flights],
        "right": [right(flight) for flight in flights],
        "extremes": extremes(flights[0]),
    }


@torch.no_grad()
def looked(flight: Flight) -> tuple[Tensor, Tensor]:
    """The scores and the weights of the words of the source before the article is written.  -> (m,), (m,)"""
    source, target = flight.source([ENGLISH]), flight.target([[START, *GERMAN[:STEP]]])
    with capture(flight.net, "decoder.cross.*") as seen:
        flight.net(source, target)
    kernel = cross_kernel(flight)
    q, k = (seen[f"decoder.cross.{name}"][STEP][0, 0] for name in ("queries", "keys"))
    scores = torch.stack([torch.tanh(q[0] + key) @ kernel.score[0, :, 0] for key in k])  # word by word
    return scores, seen["decoder.cross.weights"][STEP][0, 0, 0]


def cross_kernel(flight: Flight) -> Additive:
    kernel = getattr(flight.net.decoder.cross, "kernel", None)
    assert isinstance(kernel, Additive)
    return kernel


@torch.no_grad()
def extremes(flight: Flight) -> Numbers:
    """What a look brings if all scores are equal, and if one word's is far above the others': deck 004's two cases."""
    source, target = flight.source([ENGLISH]), flight.target([[START]])
    states = flight.net.encode(source).states[0]
    kernel = cross_kernel(flight)
    kept = kernel.score.clone()
    with capture(flight.net, "decoder.cross.queries") as asked, capture(flight.net, "decoder.cross.keys") as keys:
        flight.net(source, target)
    q, k = asked["decoder.cross.queries"][0][0, 0], keys["decoder.cross.keys"][0][0, 0]
    kernel.score.zero_()
    mean = brought(flight, source, target) - states.mean(0)
    pairs = torch.tanh(q + k)
    towards = torch.linalg.lstsq(pairs.double(), torch.eye(len(k), dtype=torch.float64)[STEP]).solution
    kernel.score.copy_(200 * towards[None, :, None])  # a score of 200 for one word, and 0 for all others
    one = brought(flight, source, target) - states[STEP]
    kernel.score.copy_(kept)
    return {"mean": float(mean.abs().max()), "one": float(one.abs().max())}


def brought(flight: Flight, source: Tensor, target: Tensor) -> Tensor:
    with capture(flight.net, "decoder.cross.mixed") as seen:
        flight.net(source, target)
    return seen["decoder.cross.mixed"][0][0, 0, 0]


WORDS, AHEAD, BACK, STATES, SCORES, WEIGHTS, CONTEXT, WROTE, OUT = 0.42, 1.02, 1.62, 2.3, 2.98, 3.36, 4.55, 5.2, 6.05
PLACES = [0.75 + 1.24 * i for i in range(len(ENGLISH))]
MIDDLE = (PLACES[2] + PLACES[3]) / 2


def draw(numbers: Numbers) -> Figure:
    note = (
        "About to write “das”. The state before asks, all words answer; a line is as thick as its weight. Live numbers."
    )
    figure = style.page(TITLE, note, height=7.6)
    axes = style.stage(figure)
    reading(axes)
    looking(axes, numbers)
    writing(axes)
    rows = ((STATES, "both directions"), (SCORES, "score $e_{5j}$"), (WEIGHTS, "weight $\\alpha_{5j}$"))
    for y, text in (*rows, (CONTEXT, "weighted sum"), (BACK, "read back"), (AHEAD, "read ahead")):
        style.write(axes, 7.75, y, text, ha="left", size=11.5, color=style.SOFT)
    return figure


def reading(axes: Axes) -> None:
    for i, x in enumerate(PLACES):
        word(axes, x, WORDS, ENGLISH[i], size=17)
        for y, sign, off in ((AHEAD, "→", -0.17), (BACK, "←", 0.17)):
            style.arrow(axes, (x + off, WORDS + 0.26), (x + off, y - 0.21), zorder=1, head=7)
            style.arrow(axes, (x + off, y + 0.2), (x + off, STATES - 0.21), zorder=1, head=7)
            state(axes, x + off, y, sign, GREY, wide=0.44)
            if i:
                ends = PLACES[i - 1] + off + 0.23, x + off - 0.23
                start, end = ends if sign == "→" else ends[::-1]
                style.arrow(axes, (start, y), (end, y), head=7, color=style.INK)
        state(axes, x, STATES, f"$h_{i + 1}$", {"edge": style.KEY, "fill": style.KEY_WASH}, wide=0.72)


def looking(axes: Axes, numbers: Numbers) -> None:
    for x, score, weight in zip(PLACES, numbers["scores"], numbers["weights"], strict=True):
        style.arrow(axes, (x, STATES + 0.21), (x, SCORES - 0.15), color=style.KEY, head=7, line=1.2)
        style.write(axes, x, SCORES, signed(score), size=11, family=style.MONO)
        style.write(axes, x, WEIGHTS, style.percent(weight), size=12, color=style.WEIGHT, weight="bold")
        style.arrow(
            axes,
            (x, WEIGHTS + 0.16),
            (MIDDLE, CONTEXT - 0.24),
            color=style.WEIGHT,
            line=0.6 + 9 * weight,
            head=0,
            zorder=1,
        )
    style.box(axes, MIDDLE - 0.95, CONTEXT - 0.24, 1.9, 0.48, "$c_5 = \\Sigma_j\\, \\alpha_{5j} h_j$", size=15, **LIT)
    far = PLACES[0] - 0.45
    points = [(PLACES[0] - 0.04, WROTE - 0.22), (PLACES[0] - 0.04, CONTEXT + 0.1), (far, CONTEXT + 0.1), (far, SCORES)]
    style.route(axes, [*points, (PLACES[0] - 0.3, SCORES)], color=style.QUERY, line=1.9, corner=0.1)
    style.write(axes, far + 0.1, 3.85, "asks", ha="left", size=11, color=style.QUERY)


def writing(axes: Axes) -> None:
    first, last = PLACES[0], PLACES[-1]
    state(axes, first, WROTE, "$s_4$", {"edge": style.QUERY, "fill": style.QUERY_WASH}, wide=0.7)
    state(axes, last, WROTE, "$s_5$", GREY, wide=0.7)
    style.arrow(axes, (first + 0.37, WROTE), (last - 0.37, WROTE), color=style.INK)
    style.box(axes, MIDDLE - 0.55, OUT - 0.35, 1.1, 0.36, "maxout", edge=style.SOFT)
    style.arrow(axes, (MIDDLE, CONTEXT + 0.24), (MIDDLE, OUT - 0.36), color=style.WEIGHT, line=1.9)
    style.route(axes, [(MIDDLE + 0.95, CONTEXT), (last, CONTEXT), (last, WROTE - 0.21)], color=style.WEIGHT, line=1.9)
    style.route(
        axes, [(first, WROTE + 0.21), (first, OUT - 0.17), (MIDDLE - 0.56, OUT - 0.17)], color=style.QUERY, line=1.5
    )
    style.arrow(axes, (MIDDLE, OUT + 0.02), (MIDDLE, OUT + 0.2), color=style.INK)
    word(axes, MIDDLE, OUT + 0.27, GERMAN[STEP], size=18)
    word(axes, last, OUT - 0.25, GERMAN[STEP - 1], size=15, color=style.EDGE)
    style.arrow(axes, (last, OUT - 0.32), (last, WROTE + 0.21), color=style.EDGE)
    style.arrow(axes, (last - 0.42, OUT - 0.17), (MIDDLE + 0.56, OUT - 0.17), color=style.EDGE)


def checks(numbers: Numbers) -> list[Check]:
    both = [article + noun for article, noun in zip(numbers["article"], numbers["noun"], strict=True)]
    return [
        aside(below("weights against the softmax of scores made word by word", numbers["loop"], 1e-5)),
        starts_above("weight on “the” and “window”", both, 0.5),
        aside(
            in_starts("a sentence that it was not trained on", [said == SHOWN[1] for said in numbers["said"]], "right")
        ),
        aside(starts_above("share of 84 new sentences without a fault", numbers["right"], 0.95)),
        below("no scores: what is brought against the mean of all words", numbers["extremes"]["mean"], 1e-5),
        below("one score far above: what is brought against that word", numbers["extremes"]["one"], 1e-5),
    ]
