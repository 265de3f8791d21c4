"""10.3c: letter models with softmax and with Performer's random features (Choromanski et al., 2021), and what becomes
of a trained softmax model when its attention is swapped for Performer's: at once, and after a short lesson.

To look at the one letter before takes a score so far above 511 others that 128 random features cannot tell it from
their noise: a net of Performers alone learns little more than pairs of letters, with or without what the library adds
to features (at 200 steps 2.46 and 2.43 nats; softmax 2.13). So the first layer of the nets that are compared looks at
the last 32 letters, as users of Performer combine it too, and Performer or softmax stand in the two above.
"""

from dataclasses import replace

from matplotlib.figure import Figure

from regard import style
from regard_lectures.curves import bits, named
from regard_lectures.efficient.letters import CHOICES, Course, built, taught, taught_more
from regard_lectures.efficient.training import marks
from regard_lectures.figure import Check, Numbers, aside, starts_above, starts_below
from regard_lectures.toys import means

TITLE = "Features that must be learned with"
DECKS = ("004",)
CLAIM = "Performer learns letters nearly as well as softmax; swapped into a trained net it fails, and soon recovers."
EXPECTED = (
    "A letter model with Performer's 128 features comes within 3 to 5 % of softmax's loss; swapped into a trained net "
    "without training it fails, and a short lesson mends that."
)
FOUND = (
    "In 3 starts Performer in all layers is 28 to 30 % behind softmax, above a local layer 1.5 to 2.4 %; swapped in "
    "it loses 4 to 6 %, and 1.0 to 2.4 % after 100 steps, where a new net is 20 to 21 % behind that."
)
COST = 690.0
SEED = 0
SEEDS = 3

COURSE = Course(length=512, batch=4, steps=500)
MORE = replace(COURSE, steps=100, rate=2e-3)  # the lesson after the swap
TINTS = {"softmax": style.INK, "Performer": style.WEIGHT, "Performer alone": style.KEY, "swapped": style.SECOND}


def compute() -> Numbers:
    starts = [learned(seed) for seed in range(SEED, SEED + SEEDS)]
    return {"losses": {name: [start[name] for start in starts] for name in TINTS}}


def learned(seed: int) -> dict[str, list[float]]:
    """The losses of one start, for each net that learns."""
    names = ("local, softmax", "local, performer", "performer")
    softmax, performer, alone = (taught(name, COURSE, seed) for name in names)
    net = built(CHOICES["local, performer"], COURSE, seed)
    odd = net.load_state_dict(softmax.net.state_dict(), strict=False)
    assert not odd.unexpected_keys
    assert all(".directions." in key for key in odd.missing_keys)  # which are random, and not learned
    lessons = {"softmax": softmax, "Performer": performer, "Performer alone": alone}
    losses = {name: lesson.losses for name, lesson in lessons.items()}
    return losses | {"swapped": taught_more(net, MORE, seed + 1)}


def draw(numbers: Numbers) -> Figure:
    each = {name: [bits(start) for start in starts] for name, starts in numbers["losses"].items()}
    losses = {name: means(starts) for name, starts in each.items()}
    note = (
        f"Letter models on Shakespeare, {COURSE.length} letters at a time: a layer that sees 32, and two of softmax or"
        " of Performer\nwith 128 features; alone, three of Performer. Right, the trained softmax net with its two"
        f" layers swapped for\nPerformer’s, while it learns again; dashed, where the others ended. {SEEDS} starts,"
        " thin, and their mean."
    )
    figure = style.page(TITLE, note, height=5.2)
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
    steps = marks(COURSE.steps)[1:]
    for name in losses:
        axes, x, first = (right, marks(MORE.steps), 0) if name == "swapped" else (left, steps, 1)
        for start in each[name]:
            axes.plot(x, start[first:], color=TINTS[name], lw=1, alpha=0.5)
    named(left, {name: (steps, losses[name][1:]) for name in losses if name != "swapped"}, TINTS, wide=0.6)
    left.set_title("bits of a letter held out")
    x = marks(MORE.steps)
    right.plot(x, losses["swapped"], color=TINTS["swapped"], marker="o")
    for name in ("softmax", "Performer"):
        right.axhline(losses[name][-1], color=TINTS[name], lw=1.3, ls=(0, (4, 3)))
    style.end_label(right, MORE.steps, losses["swapped"][-1], "swapped", TINTS["swapped"])
    right.set_xlim(-3, 1.4 * MORE.steps)
    right.set_xticks(x[::2])
    right.set_title("after the swap")
    right.grid(axis="y")
    right.spines["left"].set_visible(False)
    for axes in (left, right):
        axes.set_xlabel("steps")
    return figure


def checks(numbers: Numbers) -> list[Check]:
    def at(name: str, look: int = -1) -> list[float]:
        return [start[look] for start in numbers["losses"][name]]

    def over(one: list[float], other: list[float]) -> list[float]:
        return [a / b for a, b in zip(one, other, strict=True)]

    softmax, swapped = at("softmax"), at("swapped")
    early = at("Performer", marks(COURSE.steps).index(MORE.steps))
    return [
        aside(starts_below("softmax: nats of a letter; pairs of letters alone tell 2.45", softmax, 2.3)),
        starts_below("Performer in all layers: loss over softmax's", over(at("Performer alone"), softmax), 1.05),
        starts_below("Performer above a local layer: loss over softmax's", over(at("Performer"), softmax), 1.05),
        starts_above("swapped: loss at once over what it was", over(at("swapped", 0), softmax), 1.25),
        starts_below("swapped: loss after a short lesson over what it was", over(swapped, softmax), 1.05),
        aside(starts_below("which a new net does not reach in as many steps: its loss", over(swapped, early), 0.95)),
    ]
