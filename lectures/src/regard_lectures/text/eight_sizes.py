"""4.3c: the eight sizes of GPT-3 (Brown et al., 2020, table 2.1), counted.

Each net is built by the library without memory, and its parameters are counted; the printed names are quoted. The row
of 1.3B prints 24 heads of width 128, which would make 3,072 of a width of 2,048: with them there are 1.5B parameters,
with 16 heads there are 1.3B. The library has 16.
"""

from dataclasses import replace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard import style
from regard.models.gpt import PRESETS, Config
from regard.zoo import count_parameters, empty_net
from regard_lectures.figure import Check, Numbers, above, below, equal

TITLE = "The eight sizes of GPT-3, counted"
DECKS = ("001", "003")
CLAIM = "Built without memory and counted, all eight have the printed number of parameters to within 2 %."
EXPECTED = "Counted, each of the eight sizes has the printed number of parameters to within 2 %."
FOUND = (
    "Counts and printed numbers differ by 1.8 % at most; XL with the printed 24 heads would have 1.17 times its "
    "parameters."
)
COST = 2.0
SEED = 0

QUOTED = {  # millions of parameters as printed
    "gpt3-small": ("Small", 125),
    "gpt3-medium": ("Medium", 350),
    "gpt3-large": ("Large", 760),
    "gpt3-xl": ("XL", 1300),
    "gpt3-2.7b": ("2.7B", 2700),
    "gpt3-6.7b": ("6.7B", 6700),
    "gpt3-13b": ("13B", 13000),
    "gpt3": ("175B", 175000),
}


def compute() -> Numbers:
    xl = PRESETS["gpt3-xl"]
    return {
        "rows": [sizes(PRESETS[name]) for name in QUOTED],
        "xl as printed": sizes(replace(xl, heads=24, head_dim=128)),
    }


def sizes(config: Config) -> dict[str, int]:
    width = config.head_dim or config.dim // config.heads
    found = {"layers": config.depth, "width": config.dim, "heads": config.heads, "head width": width}
    return found | {"parameters": count_parameters(empty_net("gpt", config))}


def off(name: str, row: Numbers) -> float:
    """Counted over printed, less 1."""
    return float(row["parameters"] / (QUOTED[name][1] * 1e6) - 1)


COLUMNS = {"layers": 1.9, "width": 2.75, "heads": 3.45, "head width": 4.6}


def draw(numbers: Numbers) -> Figure:
    note = (
        "Parameters of nets built by the library without memory, beside the printed number.\n"
        "Sizes and printed numbers are quoted: Brown et al. (2020), table 2.1."
    )
    figure = style.page(TITLE, note, height=5.7)
    axes = style.stage(figure)
    heads = COLUMNS | {"printed": 5.5, "counted": 7.45, "difference": 9.65}
    for name, x in heads.items():
        style.write(axes, x, 4.3, name, ha="right", va="baseline", size=10.5, color=style.SOFT)
    for i, (name, row) in enumerate(zip(QUOTED, numbers["rows"], strict=True)):
        line(axes, 3.88 - 0.41 * i, name, row)
    star = numbers["xl as printed"]
    wide, count = star["heads"] * star["head width"], star["parameters"] / 1e9
    said = f"* Printed are {star['heads']} heads of width {star['head width']}, {wide:,} together, which would make"
    said += f" {count:.2f} billion parameters; 16 heads make 1.3."
    style.write(axes, 0.3, 0.45, said, ha="left", size=10, color=style.SOFT)
    return figure


def line(axes: Axes, y: float, name: str, row: Numbers) -> None:
    label, printed = QUOTED[name]
    axes.plot([0.3, 9.7], [y + 0.27] * 2, color=style.LINE, lw=1)
    here: dict[str, Any] = {"ha": "right", "va": "baseline"}
    style.write(axes, 0.3, y, label, ha="left", va="baseline", size=12, weight="bold")
    for column, x in COLUMNS.items():
        star = "*" if name == "gpt3-xl" and column == "heads" else ""
        style.write(axes, x, y, f"{row[column]:,}", size=11.5, **here)
        style.write(axes, x, y, star, ha="left", va="baseline", size=11.5, color=style.SOFT)
    style.write(axes, 5.5, y, f"{printed / 1000:g} B" if printed >= 1000 else f"{printed} M", size=11.5, **here)
    style.write(axes, 7.45, y, f"{row['parameters']:,}", size=11.5, family=style.MONO, **here)
    part, middle = off(name, row), 8.4
    axes.plot([middle] * 2, [y - 0.1, y + 0.22], color=style.EDGE, lw=1)
    style.block(axes, min(middle, middle + 30 * part), y - 0.02, abs(30 * part), 0.16, style.WEIGHT)
    style.write(axes, 9.65, y, f"{100 * part:+.1f} %".replace("-", "−"), size=11.5, **here)


def checks(numbers: Numbers) -> list[Check]:
    rows = dict(zip(QUOTED, numbers["rows"], strict=True))
    printed = numbers["xl as printed"]["parameters"] / (QUOTED["gpt3-xl"][1] * 1e6)
    same = all(row["heads"] * row["head width"] == row["width"] for name, row in rows.items() if name != "gpt3-13b")
    return [
        *(
            below(f"{QUOTED[name][0]}: counted against printed, share", abs(off(name, row)), 0.02)
            for name, row in rows.items()
        ),
        equal("heads times head width is the width, but for 13B", same, True),
        above("XL with the printed heads: counted over printed", printed, 1.1),
    ]
