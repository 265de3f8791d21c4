"""10.6g: deck 002's chart of Reformer, "perplexity expressed in bits per dimension": a model that draws images pixel by
pixel, with full attention and with attention by hashing.

Fashion-MNIST, each image made half as wide and half as high, 196 pixels in 8 shades. A pixel is foretold from those
before it, row by row from the top; the first from nothing.
"""

import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.models.gpt import GPT, Config
from regard.nn.mechanisms import Choice
from regard_lectures.curves import bits, named_means
from regard_lectures.efficient.clothes import SHADES, alone, drawn, held_out
from regard_lectures.efficient.training import learn, marks
from regard_lectures.figure import Check, Numbers, aside, seeded, starts_below

TITLE = "Pixel by pixel"
DECKS = ("002",)
CLAIM = "Hashed attention foretells pixels with few more bits than full attention, the fewer the more rounds it has."
EXPECTED = (
    "Attention by hashing foretells pixels in few more bits per dimension than full attention, and in fewer the more "
    "rounds it has."
)
FOUND = (
    "Full attention needs 0.915 to 0.929 bits per dimension, four rounds 0.937 to 0.939, which is 1.1, 2.6 and 2.3 % "
    "more in the 3 starts, and one round 1.050 to 1.065."
)
COST = 425.0
SEED = 0
SEEDS = 3

SIDE = 14
STEPS, BATCH, RATE, TESTS = 600, 12, 4e-3, 120
FULL = "full attention"
CHOICES: dict[str, Choice] = {
    FULL: "softmax",
    "4 rounds": {"kind": "lsh", "chunk": 16, "rounds": 4},
    "1 round": {"kind": "lsh", "chunk": 16, "rounds": 1},
}
TINTS = {FULL: style.INK, "4 rounds": style.WEIGHT, "1 round": style.SECOND}
START = SHADES  # what stands before the first pixel


def surprise(net: GPT, rows: Tensor) -> Tensor:
    """(b, n) -> nats of a pixel"""
    return F.cross_entropy(net(F.pad(rows[:, :-1], (1, 0), value=START)).flatten(0, 1), rows.flatten())


def taught(choice: Choice, seed: int) -> list[float]:
    """The losses of images that no net has learned from, at the marks of a course."""
    tested = held_out(SIDE, TESTS).split(BATCH)
    with seeded(seed):
        config = Config(
            vocab=SHADES + 1,
            length=SIDE * SIDE,
            dim=64,
            depth=3,
            heads=4,
            dropout=0.0,
            attention_dropout=0.0,
            embedding_dropout=0.0,
            attention=choice,
        )
        net = GPT(config)
        return learn(
            net,
            lambda: surprise(net, drawn(SIDE, BATCH)),
            lambda: sum(float(surprise(net, some)) for some in tested) / len(tested),
            steps=STEPS,
            rate=RATE,
        )


def compute() -> Numbers:
    seeds = range(SEED, SEED + SEEDS)
    return {
        "alone": alone(SIDE, held_out(SIDE, TESTS)),
        "losses": {name: [taught(one, seed) for seed in seeds] for name, one in CHOICES.items()},
    }


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Images of clothes, {SIDE} × {SIDE} pixels in {SHADES} shades, foretold pixel by pixel; test images; {SEEDS}"
        " starts, thin, and their mean.\nIn each round of hashing a pixel sees the last 16 of its bucket. Dotted: how"
        " often each place has each shade,\nand no look at other pixels."
    )
    figure = style.page(TITLE, note, height=5.4)
    axes = figure.subplots()
    axes.axhline(bits([numbers["alone"]])[0], color=style.EDGE, lw=1.2, ls=":")
    starts = {name: [bits(losses)[1:] for losses in runs] for name, runs in numbers["losses"].items()}
    named_means(axes, marks(STEPS)[1:], starts, TINTS, wide=0.22)
    axes.set_xlabel("steps")
    axes.set_title("bits per dimension")
    return figure


def checks(numbers: Numbers) -> list[Check]:
    alone = numbers["alone"]
    full, four, one = ([losses[-1] for losses in numbers["losses"][name]] for name in CHOICES)
    gaps = [ours / exact for ours, exact in zip(four, full, strict=True)]
    fewer = bits([more - less for more, less in zip(four, one, strict=True)])
    blind = "bits over those without a look"
    return [
        aside(starts_below(f"full attention: {blind} at other pixels", [loss / alone for loss in full], 0.8)),
        starts_below("4 rounds: bits over those of full attention", gaps, 1.05),
        starts_below("4 rounds less 1 round, bits per dimension", fewer, 0.0),
        aside(starts_below(f"1 round: {blind}", [loss / alone for loss in one], 0.9)),
    ]
