"""10.9: the seven sizes of MLP-Mixer (Tolstikhin et al., 2021, table 1), counted, and where their weights are.

Each net is built by the library without memory. The printed numbers, in millions, are quoted; they are those without
the classifier of 1,000 classes, to the last digit.
"""

from matplotlib.figure import Figure

from regard import style
from regard.models.mixer import PRESETS
from regard.zoo import count_parameters, empty_net
from regard_lectures.figure import Check, Numbers, above, below, equal

TITLE = "MLP-Mixer: where the weights are"
DECKS = ("004",)
CLAIM = "Without their classifier all seven sizes have the printed number of parameters, and few of them mix patches."
EXPECTED = (
    "The seven sizes have 19, 18, 60, 59, 206, 207 and 431 million parameters, as printed, and most of them mix "
    "features."
)
FOUND = (
    "Without the classifier all 7 counts are as printed; at most 4.5 % of the weights mix patches, 4.1 times the share "
    "with patches of 16 as with patches of 32."
)
COST = 2.0
SEED = 0

QUOTED = {  # millions as printed
    "mixer-s32": 19,
    "mixer-s16": 18,
    "mixer-b32": 60,
    "mixer-b16": 59,
    "mixer-l32": 206,
    "mixer-l16": 207,
    "mixer-h14": 431,
}


def compute() -> Numbers:
    rows = {}
    for name in QUOTED:
        net = empty_net("mixer", PRESETS[name])
        parts = {"patches": 0, "features": 0, "classifier": 0, "rest": 0}
        for place, x in net.named_parameters():
            kind = "patches" if ".mixer.mlp." in place else "features" if ".ffn." in place else "rest"
            kind = "classifier" if place.startswith("head.") else kind
            parts[kind] += x.numel()
        rows[name] = parts | {"all": count_parameters(net)}
    return {"rows": rows}


def shown(row: Numbers) -> int:
    """Without the classifier."""
    return int(row["all"] - row["classifier"])


def draw(numbers: Numbers) -> Figure:
    note = (
        "Parameters of nets built by the library without memory: dark, those of the MLPs over patches; light, of the\n"
        "MLPs over features; grey, embedding and norms. Printed numbers are quoted; the classifier is left out."
    )
    figure = style.page(TITLE, note, height=5.3)
    axes = style.stage(figure)
    largest = max(shown(row) for row in numbers["rows"].values())
    for i, (name, row) in enumerate(numbers["rows"].items()):
        y, x = 3.3 - 0.47 * i, 1.5
        letter, patch = name.removeprefix("mixer-")[0].upper(), name.removeprefix("mixer-")[1:]
        style.write(axes, 0.3, y, f"{letter}/{patch}", ha="left", va="baseline", size=12, weight="bold")
        for kind, tint in (
            ("patches", style.WEIGHT),
            ("features", style.mix(style.WEIGHT, 0.35)),
            ("rest", style.LINE),
        ):
            wide = 5.4 * row[kind] / largest
            style.block(axes, x, y - 0.06, wide, 0.28, tint)
            x += wide
        said = f"{shown(row) / 1e6:.1f} M, printed {QUOTED[name]} M"
        style.write(axes, x + 0.12, y, said, ha="left", va="baseline", size=11)
        style.write(
            axes, 1.4, y, style.percent(row["patches"] / shown(row), 0), ha="right", va="baseline", size=10.5,
            color=style.SOFT,
        )  # fmt: skip
    style.write(axes, 1.4, 3.72, "over patches", ha="right", va="baseline", size=10, color=style.SOFT)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    rows = numbers["rows"]
    shares = [row["patches"] / shown(row) for row in rows.values()]
    whole = all(sum(row.values()) == 2 * row["all"] for row in rows.values())
    return [
        *(
            equal(f"{name}: millions without the classifier", round(shown(row) / 1e6), QUOTED[name])
            for name, row in rows.items()
        ),
        equal("parts add up", whole, True),
        below("largest share of weights over patches", max(shares), 0.15),
        above("patches of 16 need more of them than patches of 32", shares[1] / shares[0], 1.5),
    ]
