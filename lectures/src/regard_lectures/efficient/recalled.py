"""10.4c: look-up by content, on which synthesizers (Tay et al., 2021) are tested: keys and what belongs to each, then
the keys alone in another order, each asking for what belongs to it.

Where an answer stands hangs on what is asked, so no score that is the same for all rows can point to it, and none that
is guessed from the query alone: it knows the key, not its place. Two layers, learned positions.
"""

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.models.gpt import GPT, Config
from regard_lectures.curves import named
from regard_lectures.efficient.letters import CHOICES
from regard_lectures.efficient.training import learn, marks
from regard_lectures.figure import Check, Numbers, seeded, starts_above, starts_below
from regard_lectures.toys import means

TITLE = "What only comparing finds"
DECKS = ("003",)
CLAIM = "Asked for what belongs to a key, compared scores find it; scores guessed, learned or drawn find it seldom."
EXPECTED = (
    "Where what is asked for must be found by its content, compared scores solve the task, scores guessed from the "
    "query do poorly and learned or drawn ones fail."
)
FOUND = (
    "Compared scores, alone or mixed, answer 100 % rightly in 3 of 3 starts, guessed, learned and drawn ones 25 to 27 "
    "%."
)
COST = 220.0
SEED = 0

KEYS, VALUES, PAIRS = 16, 16, 8  # kinds of each, and how many pairs a row shows and asks for
SEEDS, STEPS, BATCH, RATE, TESTS = 3, 800, 64, 1e-3, 1024
NAMES = {
    "softmax": "compared",
    "random + vanilla": "learned and compared",
    "dense": "guessed from the query",
    "random": "learned",
    "fixed random": "drawn and left",
}
TINTS = dict(zip(NAMES.values(), (style.INK, style.WEIGHT, style.KEY, style.SECOND, style.EDGE), strict=True))


def rows(count: int) -> Tensor:
    """k v k v ... of different keys, then the keys in another order, then what they ask for.  -> (count, 4 PAIRS)"""
    keys = torch.rand(count, KEYS).argsort(1)[:, :PAIRS]
    pairs = torch.stack((keys, KEYS + torch.randint(VALUES, (count, PAIRS))), -1)
    order = torch.rand(count, PAIRS).argsort(1)[..., None].expand(-1, -1, 2)
    asked, answers = pairs.gather(1, order).unbind(-1)
    return torch.cat((pairs.flatten(1), asked, answers), 1)


def answered(net: GPT, given: Tensor) -> Tensor:
    """(b, 4 PAIRS) -> (b, PAIRS, v): what is said to each key that is asked; no answer is told"""
    logits: Tensor = net(given[:, : 3 * PAIRS])[:, 2 * PAIRS :]
    return logits


def wanted(given: Tensor) -> Tensor:
    return given[:, 3 * PAIRS :]


def accuracy(net: GPT) -> float:
    with seeded(1000):
        tests = rows(TESTS)
    hits = [(answered(net, some).argmax(-1) == wanted(some)).float().mean() for some in tests.split(BATCH)]
    return float(torch.stack(hits).mean())


def taught(name: str, seed: int) -> list[float]:
    """The share of answers that are right, at the marks of a course."""
    with seeded(seed):
        config = Config(
            vocab=KEYS + VALUES,
            length=3 * PAIRS,
            dim=64,
            depth=2,
            heads=4,
            dropout=0.0,
            attention_dropout=0.0,
            embedding_dropout=0.0,
            attention=CHOICES[name],
        )
        net = GPT(config)

        def loss() -> Tensor:
            given = rows(BATCH)
            return F.cross_entropy(answered(net, given).flatten(0, 1), wanted(given).flatten())

        return learn(net, loss, lambda: accuracy(net), steps=STEPS, rate=RATE)


def compute() -> Numbers:
    runs = {name: [taught(name, seed) for seed in range(SEED, SEED + SEEDS)] for name in NAMES}
    return {
        "right": {name: [round(share, 5) for share in means(some)] for name, some in runs.items()},
        "last": {name: [shares[-1] for shares in some] for name, some in runs.items()},
    }


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Rows of {PAIRS} keys, each followed by what belongs to it, then the keys in another order: answers that are"
        f" right, mean of {SEEDS} seeds.\nDotted: any of the {PAIRS} that were shown, by chance."
    )
    figure = style.page(TITLE, note, height=5.2)
    axes = figure.subplots()
    axes.set_ylim(0, 1.03)
    axes.axhline(1 / PAIRS, color=style.EDGE, lw=1, ls=":")
    named(axes, {NAMES[name]: (marks(STEPS), right) for name, right in numbers["right"].items()}, TINTS, wide=0.32)
    axes.set_xlabel("steps")
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])
    return figure


def checks(numbers: Numbers) -> list[Check]:
    last = numbers["last"]
    return [
        starts_above("compared: right answers", last["softmax"], 0.95),
        starts_above("learned and compared: right answers", last["random + vanilla"], 0.95),
        starts_below("guessed from the query: right answers", last["dense"], 0.6),
        starts_below("learned: right answers", last["random"], 0.35),
        starts_below("drawn and left: right answers", last["fixed random"], 0.35),
    ]
