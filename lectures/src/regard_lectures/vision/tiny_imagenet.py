"""5.7e: deck 004's table of Tiny ImageNet (Huynh, 2022, https://arxiv.org/abs/2205.10660), and ours beside it.

The left half is quoted, from the table of the author's repository: large nets that had learned from ImageNet before,
tuned on Tiny ImageNet at 384 x 384. The right half was measured by this library in figure 5.11b and is read from its
record: small nets, a few minutes of CIFAR-10 and nothing before. The same order was expected of them, and was not
found: by so short a course CaiT and DeiT learn more than Swin does.
"""

import json

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard import style
from regard_lectures.figure import Check, Numbers, above, aside, equal
from regard_lectures.records import RESULTS

TITLE = "The family on Tiny ImageNet, and here"
DECKS = ("004",)
CLAIM = (
    "Tuned on Tiny ImageNet, Swin is ahead of DeiT, CaiT and ViT (quoted); so it is here, taught briefly on CIFAR-10."
)
EXPECTED = "As in the quoted table, Swin is the best of the four, taught briefly on CIFAR-10 too."
FOUND = (
    "CaiT has 57.3 % and DeiT 55.9 %, in one start each, Swin 50.8 % and ViT 50.4 %, means of 3; also the best of "
    "Swin's starts (51.5 %) is behind CaiT and DeiT."
)
COST = 0.1
SEED = 0

QUOTED: dict[str, tuple[str, float, int]] = {  # family: net, percent of the validation set, million weights
    "ViT": ("ViT-L", 86.31, 304),
    "CaiT": ("CaiT-S36", 86.64, 68),
    "DeiT": ("DeiT-B distilled", 87.35, 87),
    "Swin": ("Swin-L", 91.35, 195),
}


def compute() -> Numbers:
    nets = json.loads((RESULTS / "5.11b.json").read_text(encoding="utf8"))["numbers"]["nets"]
    quoted = {name: share for name, (_, share, _) in QUOTED.items()}
    return {
        "quoted": quoted,
        "measured": {name: {"right": nets[name]["right"], "weights": nets[name]["weights"]} for name in QUOTED},
    }


def draw(numbers: Numbers) -> Figure:
    note = (
        "Left, quoted from Huynh (2022): tuned on Tiny ImageNet at 384 x 384, after ImageNet. Right, measured here "
        "(figure 5.11b):\nnothing before, 10,000 photographs of CIFAR-10; ViT and Swin by three starts. The two sides "
        f"cannot be compared.\nExpected: Swin ahead on both. Found here: {best(numbers)}."
    )
    figure = style.page(TITLE, note, height=4.6)
    left, right = figure.subplots(1, 2)
    bars(
        left,
        [(net, numbers["quoted"][name] / 100, f"{millions}M") for name, (net, _, millions) in QUOTED.items()],
        style.SECOND,
    )
    left.set_title("Tiny ImageNet, quoted")
    ours = [(name, own["right"], f"{own['weights'] / 1e6:.2f}M") for name, own in numbers["measured"].items()]
    bars(right, ours, style.WEIGHT)
    right.set_title("CIFAR-10, measured")
    return figure


def best(numbers: Numbers) -> str:
    """Of those that were measured."""
    return max(numbers["measured"], key=lambda name: float(numbers["measured"][name]["right"]))


def bars(axes: Axes, rows: list[tuple[str, float, str]], tint: str) -> None:
    """Shares of right labels; weights at the right."""
    for i, (_, share, weights) in enumerate(rows):
        axes.barh(i, share, 0.62, color=tint)
        axes.text(0.015, i, style.percent(share, 2), va="center", color="white", weight="bold")
        axes.text(1.03, i, weights, va="center", ha="left", size=10.5, color=style.SOFT)
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    axes.set(xlim=(0, 1.2), ylim=(len(rows) - 0.5, -0.5), xticks=[])
    axes.spines["bottom"].set_visible(False)
    for text in axes.get_yticklabels():
        text.set(size=11.5, color=style.INK)


def checks(numbers: Numbers) -> list[Check]:
    return [
        equal("best of the measured", best(numbers), "Swin"),
        *(
            aside(above(f"{name}: share of right labels", own["right"], 0.2))
            for name, own in numbers["measured"].items()
        ),
    ]
