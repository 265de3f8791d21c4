"""4.4b: the buckets of T5's relative positions (Raffel et al., 2020, section 2.1).

The library's own table of biases was filled with the numbers of its buckets, so that the bias of a query and a key
tells in which bucket their distance is. They are compared with the formula: half of the buckets of a side are for one
distance each, the others are as wide as a logarithm makes them, up to 128; beyond, all is one bucket.
"""

from itertools import groupby, pairwise

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.nn.mask import ALL, CAUSAL, Mask
from regard.nn.positions import Buckets
from regard_lectures.figure import Check, Numbers, equal

TITLE = "Near distances exactly, far ones roughly"
DECKS = ("001", "004")
CLAIM = "T5 counts near distances one by one and far ones by ever wider buckets; from 128 on all are one."
EXPECTED = (
    "Half of the buckets of a side are for one distance each, the others ever wider; from a distance of 128 on all "
    "are one."
)
FOUND = (
    "Of distances up to 300 the formula puts 0 elsewhere; 7 distances of a side have a bucket of their own in the "
    "encoder, 15 in the decoder; in whole numbers 1 of the encoder's other buckets and 5 of the decoder's are not "
    "wider than the one before."
)
COST = 0.1
SEED = 0

REACH, COUNT, LONGEST = 300, 32, 128
MODES = {"encoder": True, "decoder": False}  # whether keys may stand on both sides


def compute() -> Numbers:
    numbers: Numbers = {}
    for name, both in MODES.items():
        found = stairs(Buckets(1, COUNT, LONGEST, both=both), ALL if both else CAUSAL)
        places = list(range(-REACH, REACH + 1))
        numbers[name] = {
            "buckets": found,
            "differ": sum(a != formula(offset, both=both) for a, offset in zip(found, places, strict=True)),
        }
    return numbers


@torch.no_grad()
def stairs(table: Buckets, mask: Mask) -> list[int]:
    """The bucket of each distance from -REACH to REACH: what the query in the middle has for each key."""
    table.weight.copy_(torch.arange(table.count)[:, None])
    keys = 2 * REACH + 1
    bias: Tensor = table(mask).dense(keys, keys, torch.device("cpu"))
    return [int(x) for x in bias[0, REACH].tolist()]


def formula(offset: int, *, both: bool) -> int:
    """Key minus query, in whole numbers: a distance n has left bucket b behind if n^8 >= 8^8 16^(b - 8), and so on."""
    side, steps = (COUNT // 2, abs(offset)) if both else (COUNT, max(-offset, 0))
    exact = side // 2
    bucket = steps
    if steps >= exact:
        wider = side - exact
        bucket = exact + sum(
            steps**wider * exact**i >= exact**wider * LONGEST**i for i in range(1, wider)
        )  # log(n / exact) / log(longest / exact) * wider >= i
    return bucket + (side if both and offset > 0 else 0)


def draw(numbers: Numbers) -> Figure:
    note = (
        "The bucket of each distance. Each bucket has one learned number for every head, added to the scores.\n"
        "An encoder looks both ways and has 16 buckets for either side; a decoder looks back and has all 32 for that."
    )
    figure = style.page(TITLE, note, height=5.7)
    panels = figure.subplots(1, 2)
    for axes, (name, both) in zip(panels, MODES.items(), strict=True):
        stair(axes, numbers[name]["buckets"], both=both)
        axes.set_title(name, pad=12)
        axes.set_xlabel("key minus query")
    panels[0].set_ylabel("bucket")
    return figure


def stair(axes: Axes, buckets: list[int], *, both: bool) -> None:
    shown, ahead = 150, 150 if both else 0
    places = range(-shown, ahead + 1)
    last = buckets[0]
    exact = last // 2 + 1
    axes.step(places, [buckets[REACH + offset] for offset in places], where="mid", color=style.WEIGHT, lw=1.8)
    axes.plot([0], [0], "o", color=style.QUERY)
    beside(axes, (0, 0), (-9, 0), "itself", style.QUERY)
    beside(axes, (-exact, exact - 1), (-14, -10), f"up to {exact - 1}: one each", style.SOFT)
    edge = -nearest(buckets, last)
    axes.annotate(
        f"{edge} and more:\none bucket",
        (-shown, last),
        (0, -24),
        textcoords="offset points",
        color=style.SOFT,
        size=10.5,
        va="center",
    )
    axes.set(xlim=(-shown - 4, ahead + 4), ylim=(-1.5, COUNT), yticks=[0, 8, 16, 24, 31])
    axes.set_xticks(range(-150, ahead + 1, 50), [str(x).replace("-", "−") for x in range(-150, ahead + 1, 50)])
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)


def beside(axes: Axes, point: tuple[float, float], shift: tuple[float, float], text: str, tint: str) -> None:
    """Text that ends so many points from a point."""
    axes.annotate(text, point, shift, textcoords="offset points", ha="right", va="center", color=tint, size=10.5)


def nearest(buckets: list[int], bucket: int) -> int:
    """Looking back, the nearest distance that is in this bucket, as key minus query."""
    return max(offset for offset in range(-REACH, 1) if buckets[REACH + offset] == bucket)


def checks(numbers: Numbers) -> list[Check]:
    encoder, decoder = (numbers[name]["buckets"] for name in MODES)
    back, ahead = encoder[:REACH][::-1], encoder[REACH + 1 :]
    return [
        *(equal(f"{name}: distances that the formula puts elsewhere", numbers[name]["differ"], 0) for name in MODES),
        equal("encoder: distances with a bucket of their own, back", alone(back), COUNT // 4 - 1),
        equal("decoder: distances with a bucket of their own", alone(decoder[:REACH][::-1]), COUNT // 2 - 1),
        equal("encoder: ahead is as back, 16 buckets on", ahead == [bucket + COUNT // 2 for bucket in back], True),
        equal("decoder: all that lies ahead is in bucket", max(decoder[REACH:]), 0),
        equal("buckets from 128 on, both ways", len({*encoder[: REACH - LONGEST + 1], *encoder[REACH + LONGEST :]}), 2),
        equal("buckets from 128 on, back", len(set(decoder[: REACH - LONGEST + 1])), 1),
        equal("encoder: buckets of several distances that are not wider than the one before", level(back), 0),
        equal("decoder: the same", level(decoder[:REACH][::-1]), 0),
    ]


def widths(buckets: list[int]) -> list[int]:
    """How many distances each bucket has, from the nearest on."""
    return [len(list(run)) for _, run in groupby(buckets)]


def alone(buckets: list[int]) -> int:
    """How many buckets come before the first that has several distances; the query's own is not among them."""
    found = widths(buckets)
    return next(i for i, width in enumerate(found) if width > 1)


def level(buckets: list[int]) -> int:
    """How many buckets are not wider than the one before, though that has several distances."""
    return sum(before > 1 and after <= before for before, after in pairwise(widths(buckets)))
