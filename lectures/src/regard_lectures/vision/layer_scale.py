"""5.6b: 24 layers that are 64 wide, on garments: with LayerScale and without, the class token at first or at last.

Going deeper with Image Transformers (Touvron et al., 2021), sections 2.2 and 2.3, in miniature. All four nets have 24
layers and start with the same weights but for what is compared: LayerScale's factors start at 1e-5, and a class token
goes through all layers among the patches, or comes for the last two alone, in which only it changes. Heads do not talk.
The paper's late token is ahead; here, after so short a course, it is behind in every start.
Needs fashion_mnist_30k below REGARD_DATA.
"""

from functools import partial

from matplotlib.figure import Figure
from torch import nn

from regard import style
from regard.models.cait import CaiT, Config
from regard_lectures.figure import Check, Numbers, above, aside, starts_above, starts_at_least
from regard_lectures.vision.late_token import Inserted
from regard_lectures.vision.lessons import SETS, Course, class_of
from regard_lectures.vision.starts import leads, learned

TITLE = "Twenty-four layers"
DECKS = ("004",)
CLAIM = (
    "At depth 24 a net with LayerScale is ahead of one without, and a late class token is no worse than an early one."
)
EXPECTED = (
    "With 24 layers a net learns better with LayerScale, wherever its class token enters, and a late class token is "
    "no worse than one that is there first."
)
FOUND = (
    "LayerScale wins 3.0 to 3.6 points with the token first and 1.0 to 1.4 with a late one, in 3 of 3 starts; a late "
    "token loses 2.1 to 2.4 points, in 3 of 3."
)
COST = 1300.0
SEED = 0
SEEDS = range(3)

DEPTH, LOOKS = 24, 2
COURSE = Course("garments", steps=1200)
WAYS = {
    "late token, LayerScale": (True, True),
    "late token, none": (True, False),
    "first token, LayerScale": (False, True),
    "first token, none": (False, False),
}
TINTS = {
    "late token, LayerScale": style.WEIGHT,
    "late token, none": style.mix(style.WEIGHT, 0.5),
    "first token, LayerScale": style.SECOND,
    "first token, none": style.mix(style.SECOND, 0.5),
}


def build(late: bool, scaled: bool) -> nn.Module:
    depth = DEPTH - LOOKS if late else DEPTH
    config = Config(
        image=28, patch=7, channels=1, classes=10, dim=64, depth=depth, looks=LOOKS, heads=4, hidden=128,
        attention="softmax", scaled=scaled,
    )  # fmt: skip
    return CaiT(config) if late else Inserted(CaiT(config))


def compute() -> Numbers:
    nets = {name: partial(build, *way) for name, way in WAYS.items()}
    return {"tested": len(SETS[COURSE.data]("test")[1]), **class_of(nets, COURSE, SEEDS)}


def draw(numbers: Numbers) -> Figure:
    note = (
        f"{DEPTH} layers, 64 wide, on Fashion-MNIST in patches of 7 x 7, {COURSE.steps} steps of {COURSE.batch} "
        f"images. Left, {numbers['tested']:,} test images\nlabelled rightly, a dot for each of {len(SEEDS)} starts; "
        "right, the loss while learning.\nExpected: LayerScale helps, as it does; and a late token is no worse than "
        "one that was there first: it is worse."
    )
    figure = style.page(TITLE, note, height=5.2)
    learned(figure, numbers, TINTS, COURSE, (0, 2.4), wide=0.75)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    right = {name: numbers[name]["right"] for name in WAYS}
    sizes = sorted(numbers[name]["weights"] for name in WAYS)
    late, late_none, first, first_none = right.values()
    return [
        aside(above("weights, fewest over most", sizes[0] / sizes[-1], 0.97)),
        *(aside(above(f"{name}: share of right labels, the worst start", min(right[name]), 0.3)) for name in WAYS),
        starts_above("LayerScale over none, token first: points", leads(first, first_none), 0),
        starts_above("LayerScale over none, token late: points", leads(late, late_none), 0),
        starts_at_least("late over first, LayerScale: points", leads(late, first), 0),
    ]
