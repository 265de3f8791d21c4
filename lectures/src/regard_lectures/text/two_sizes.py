"""4.2b: GPT-2 against GPT-3, deck 001's two columns, and what GPT-2's four sizes really are.

Weights are counted in nets that are built without memory; the data is quoted (deck 001; Radford et al., 2019; Brown et
al., 2020). The deck's 176 billion are 175 in the paper and 174.6 by count. GPT-2's paper prints 117, 345, 762 and 1542
million for its four sizes: all four counts are higher.
"""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard import style
from regard.models.gpt import PRESETS
from regard.zoo import count_parameters, empty_net
from regard_lectures.figure import Check, Numbers, close, equal, within

TITLE = "A hundred times as large"
DECKS = ("001",)
CLAIM = "GPT-3 has 112 times the weights of GPT-2 and 14 times its data; GPT-2's printed sizes are all too small."
EXPECTED = (
    "GPT-2's four sizes count 124.4, 354.8, 774.0 and 1,557.6 million weights, more than is printed, and GPT-3 "
    "174,604.3 million, 112 times the largest."
)
FOUND = (
    "All five counts are as expected, all four printed sizes are too small, and GPT-3 has 112.1 times the weights; "
    "its 14 times the data are quoted."
)
COST = 0.9
SEED = 0

PRINTED = {"gpt-small": 117, "gpt-medium": 345, "gpt-large": 762, "gpt-xl": 1542}  # millions, quoted
DATA = {"GPT-2": 40, "GPT-3": 570}  # gigabytes of text, quoted
PAPER, DECK = 175, 176  # billions of weights of GPT-3, quoted
MODELS = {"GPT-2": "gpt-xl", "GPT-3": "gpt3"}


def compute() -> Numbers:
    names = [*PRINTED, MODELS["GPT-3"]]
    keys = ("depth", "dim", "heads", "length", "vocab")
    return {
        "counted": {name: count_parameters(empty_net("gpt", PRESETS[name])) for name in names},
        "sizes": {name: {key: getattr(PRESETS[name], key) for key in keys} for name in names},
        "printed": PRINTED,
        "data": DATA,
        "quoted": {"paper": PAPER, "deck": DECK},
    }


def draw(numbers: Numbers) -> Figure:
    note = (
        "Areas are to scale. Weights are counted by the library in nets without memory; gigabytes of text are quoted."
    )
    figure = style.page(TITLE, note, height=6.6)
    axes = style.stage(figure)
    big = numbers["counted"][MODELS["GPT-3"]]
    for x, (name, preset) in zip((0.35, 2.95), MODELS.items(), strict=True):
        column(axes, x, name, numbers, preset, big)
    style.write(axes, 6.05, 5.15, "GPT-2’s four sizes, millions of weights", ha="left", size=11.5, weight="bold")
    for x, text in ((6.9, "printed"), (7.9, "counted")):
        style.write(axes, x, 4.8, text, ha="right", va="baseline", size=10.5, color=style.SOFT)
    for i, (name, printed) in enumerate(numbers["printed"].items()):
        line(axes, 4.42 - 0.42 * i, printed, numbers["counted"][name] / 1e6, numbers["sizes"][name])
    says = [
        "GPT-3 in the deck, billions",
        "in its paper",
        "counted",
    ]
    values = [f"{numbers['quoted']['deck']}", f"{numbers['quoted']['paper']}", f"{big / 1e9:.1f}"]
    for i, (text, value) in enumerate(zip(says, values, strict=True)):
        y = 2.25 - 0.36 * i
        tint = style.WEIGHT if i == 2 else style.SOFT
        style.write(axes, 6.05, y, text, ha="left", va="baseline", size=11, color=tint)
        style.write(axes, 9.65, y, value, ha="right", va="baseline", size=12, color=tint, weight="bold")
    style.write(axes, 6.05, 0.6, "Printed, deck and gigabytes: quoted.", ha="left", size=10, color=style.EDGE)
    return figure


def column(axes: Axes, x: float, name: str, numbers: Numbers, preset: str, big: int) -> None:
    """A square of its weights, one of its data, and its sizes."""
    style.write(axes, x, 5.15, name, ha="left", size=15, family=style.SERIF)
    count, data = numbers["counted"][preset], numbers["data"][name]
    side, other = 1.75 * (count / big) ** 0.5, 1.1 * (data / 570) ** 0.5
    style.block(axes, x, 3.0, side, side, style.WEIGHT)
    style.write(axes, x, 2.78, f"{count / 1e9:.4g} billion weights", ha="left", size=11, weight="bold")
    style.block(axes, x, 1.45, other, other, style.SECOND)
    style.write(axes, x, 1.23, f"{data} GB of text", ha="left", size=11, weight="bold")
    sizes = numbers["sizes"][preset]
    says = f"{sizes['depth']} layers of width {sizes['dim']:,},\n{sizes['heads']} heads, {sizes['length']:,} tokens"
    style.write(axes, x, 0.7, says, ha="left", size=10.5, color=style.SOFT)


def line(axes: Axes, y: float, printed: float, counted: float, sizes: Numbers) -> None:
    axes.plot([6.05, 9.65], [y + 0.28] * 2, color=style.LINE, lw=1)
    style.write(axes, 6.9, y, f"{printed:,}", ha="right", va="baseline", size=12, color=style.SECOND)
    style.write(axes, 7.9, y, f"{counted:,.1f}", ha="right", va="baseline", size=12, color=style.WEIGHT, weight="bold")
    text = f"{sizes['depth']} × {sizes['dim']:,}, {sizes['heads']} heads"
    style.write(axes, 9.65, y, text, ha="right", va="baseline", size=10.5, color=style.SOFT)


def checks(numbers: Numbers) -> list[Check]:
    counted = {name: count / 1e6 for name, count in numbers["counted"].items()}
    wanted = {"gpt-small": 124.4, "gpt-medium": 354.8, "gpt-large": 774.0, "gpt-xl": 1557.6, "gpt3": 174604.3}
    low = [name for name, printed in numbers["printed"].items() if printed < counted[name]]
    return [
        *(close(f"{name}: millions of weights", counted[name], millions, 0.06) for name, millions in wanted.items()),
        equal("sizes that are printed too small", len(low), len(numbers["printed"])),
        within("GPT-3 over GPT-2, weights", counted["gpt3"] / counted["gpt-xl"], 112, 112.2),
        equal("GPT-3 as its paper rounds it", round(counted["gpt3"] / 1e3), numbers["quoted"]["paper"]),
    ]
