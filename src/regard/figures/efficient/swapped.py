"""10.3c: letter models with softmax and with Performer's random features (Choromanski et al., 2021), and what becomes
of a trained softmax model when its attention is swapped for Performer's: at once, and after a short lesson.
"""

from dataclasses import replace

from matplotlib.figure import Figure

from regard import style
from regard.figures.curves import bits, named
from regard.figures.efficient.letters import CHOICES, Course, built, taught, taught_more
from regard.figures.efficient.training import marks
from regard.figures.figure import Check, Numbers, above, below

TITLE = "Features that must be learned with"
DECKS = ("004",)
CLAIM = "Performer learns letters nearly as well as softmax; swapped into a trained net it fails, and soon recovers."
COST = 400.0
SEED = 0

COURSE = Course(length=512, batch=4, steps=700)
MORE = replace(COURSE, steps=140, rate=2e-3)  # the lesson after the swap
TINTS = {"softmax": style.INK, "Performer": style.WEIGHT, "swapped": style.SECOND}


def compute() -> Numbers:
    softmax, performer = (taught(name, COURSE, SEED) for name in ("softmax", "performer"))
    net = built(CHOICES["performer"], COURSE, SEED)
    odd = net.load_state_dict(softmax.net.state_dict(), strict=False)
    assert not odd.unexpected_keys
    assert all(".directions." in key for key in odd.missing_keys)  # which are random, and not learned
    losses = {"softmax": softmax.losses, "Performer": performer.losses, "swapped": taught_more(net, MORE, SEED + 1)}
    return {"losses": losses}


def draw(numbers: Numbers) -> Figure:
    losses = {name: bits(some) for name, some in numbers["losses"].items()}
    note = (
        f"Letter models on Shakespeare, {COURSE.length} letters at a time; Performer has 128 features for heads 16"
        " wide. Left, both from the\nbeginning. Right, the trained softmax net with its attention swapped for"
        " Performer's, while it learns again."
    )
    figure = style.page(TITLE, note, height=5.2)
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
    steps = marks(COURSE.steps)[1:]
    named(left, {name: (steps, losses[name][1:]) for name in ("softmax", "Performer")}, TINTS)
    left.set_title("bits of a letter held out")
    x = marks(MORE.steps)
    right.plot(x, losses["swapped"], color=TINTS["swapped"], marker="o")
    for name in ("softmax", "Performer"):
        right.axhline(losses[name][-1], color=TINTS[name], lw=1.3, ls=(0, (4, 3)))
    style.end_label(right, 0, losses["swapped"][0], "swapped", TINTS["swapped"], dx=12)
    right.set_title("after the swap; dashed, where the others ended")
    right.grid(axis="y")
    right.spines["left"].set_visible(False)
    for axes in (left, right):
        axes.set_xlabel("steps")
    return figure


def holds(numbers: Numbers) -> list[Check]:
    losses = numbers["losses"]
    softmax, performer, swapped = losses["softmax"][-1], losses["Performer"][-1], losses["swapped"]
    early = losses["Performer"][marks(COURSE.steps).index(MORE.steps)]
    return [
        below("softmax: nats of a letter; pairs of letters alone tell 2.45", softmax, 2.3),
        below("Performer's loss over softmax's", performer / softmax, 1.05),
        above("swapped: loss at once over what it was", swapped[0] / softmax, 1.25),
        below("swapped: loss after a short lesson over what it was", swapped[-1] / softmax, 1.05),
        below("which a new net does not reach in as many steps: its loss", swapped[-1] / early, 0.95),
    ]
