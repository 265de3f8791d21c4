"""10.1c: letter models that look at everything, only near, or near and at every so many (Child et al., 2019), and a
task that needs what is far: `0 w 0 w`, to say a row of random symbols again.

Two layers that see 16 symbols each cannot know what stood 128 before, so local attention can but guess. With a stride
of 16 it is among those that the far half of the heads see. Of letters, which hang on those just before them, local
attention knows most after so short a lesson: it has fewer to choose from.
"""

from matplotlib.figure import Figure

from regard import style
from regard.nn.mechanisms import Choice
from regard_lectures.curves import bits, named
from regard_lectures.efficient import doubled
from regard_lectures.efficient.letters import Course, taught
from regard_lectures.efficient.training import marks
from regard_lectures.figure import Check, Numbers, above, aside, below
from regard_lectures.toys import means

TITLE = "Near, and every so many"
DECKS = ("001",)
CLAIM = (
    "Strided attention foretells letters nearly as well as full, and copies from afar, which local attention cannot."
)
EXPECTED = (
    "Of 512 letters, strided attention comes within 0.05 bits a letter of full attention; local attention alone is "
    "worse where a row must be copied from afar."
)
FOUND = (
    "In the mean of 3 starts strided attention needs 0.01 bits a letter fewer than full, 2.607 against 2.617, and "
    "local fewest, 2.508; full and strided copy all symbols rightly, local 3.1 %, which is chance."
)
COST = 850.0
SEED = 0

SEEDS = 3
COURSE = Course(length=512, batch=4, steps=600)
TASK = doubled.Task(word=128, symbols=32, depth=2, batch=8, steps=400, rate=3e-3, rotary=10000.0)
COPIERS: dict[str, Choice] = {
    "full": "softmax",
    "strided": {"kind": "strided", "stride": 16},
    "local": {"kind": "local", "window": 16},
}
LETTERS = {"full": "softmax", "strided": "strided", "local": "local"}
TINTS = {"full": style.INK, "strided": style.WEIGHT, "local": style.SECOND}


def compute() -> Numbers:
    runs = {
        name: [taught(word, COURSE, seed).losses for seed in range(SEED, SEED + SEEDS)]
        for name, word in LETTERS.items()
    }
    return {
        "losses": {name: [round(loss, 5) for loss in means(some)] for name, some in runs.items()},
        "right": {name: doubled.taught(choice, TASK, SEED).right for name, choice in COPIERS.items()},
    }


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Left, letters of Shakespeare, {COURSE.length} at a time, {SEEDS} seeds: local attention sees 32 of them, "
        f"strided 22 and every 22nd.\nRight, {TASK.word} symbols said again, of {TASK.symbols} kinds: local attention "
        "sees 16, strided 16 and every 16th."
    )
    figure = style.page(TITLE, note, height=5.2)
    left, right = figure.subplots(1, 2)
    steps = marks(COURSE.steps)[1:]
    named(left, {name: (steps, bits(numbers["losses"][name])[1:]) for name in TINTS}, TINTS)
    left.set_title("bits of a letter held out")
    right.set_ylim(-0.07, 1.05)
    right.axhline(1 / TASK.symbols, color=style.EDGE, lw=1, ls=":")
    named(right, {name: (marks(TASK.steps), numbers["right"][name]) for name in TINTS}, TINTS)
    right.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])
    right.set_title("symbols copied rightly")
    for axes in (left, right):
        axes.set_xlabel("steps")
    return figure


def checks(numbers: Numbers) -> list[Check]:
    last = {name: bits(losses)[-1] for name, losses in numbers["losses"].items()}
    right = {name: shares[-1] for name, shares in numbers["right"].items()}
    return [
        below("strided over full, bits of a letter", last["strided"] - last["full"], 0.05),
        aside(below("full: bits of a letter; pairs of letters alone tell 3.5", last["full"], 3.3)),
        aside(above("full: copied rightly", right["full"], 0.95)),
        above("strided: copied rightly", right["strided"], 0.95),
        below("local: copied rightly, which is by chance", right["local"], 2 / TASK.symbols),
    ]
