"""3.4c: the Transformer (Fig. 15 of deck 003) with its layer normalisations lit, as published and with norms first."""

from dataclasses import replace

from matplotlib.figure import Figure

from regard import style
from regard.models.transformer import PRESETS
from regard_lectures.figure import Check, Numbers, equal
from regard_lectures.transformer.anatomy import dissect
from regard_lectures.transformer.diagram import Look, transformer

TITLE = "Layer normalisation in the Transformer"
DECKS = ("003", "001", "002", "004")
CLAIM = "The paper has a norm after each of its 30 sums; with norms first, each stack needs one more at its end."
EXPECTED = "The published Transformer has a norm after each of its sums; with norms first each stack needs one more."
FOUND = "30 norms after 30 sums as published, 32 with norms first."
COST = 2.0
SEED = 0


def compute() -> Numbers:
    base = PRESETS["transformer-base"]
    return {"post": dissect(base), "pre": dissect(replace(base, norm="pre"))}


def draw(numbers: Numbers) -> Figure:
    note = "Left, as Vaswani et al. (2017) have it: after each sum. Right, as most models since: before each part."
    figure = style.page(TITLE, note, height=6.75)
    axes = style.stage(figure)
    for x, name, text in ((0.55, "post", "after the sum"), (5.33, "pre", "before the part, and once at the end")):
        found = numbers[name]
        transformer(axes, x, 0.1, found, Look("norm", unit=0.64), ("source", "target, shifted right", "next word"))
        style.write(axes, x - 0.2, 5.3, text, ha="left", va="baseline", size=13, weight="bold")
        style.write(axes, x - 0.2, 5.0, f"{found['norms']} norms", ha="left", va="baseline", color=style.WEIGHT)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    def places(found: Numbers) -> str:
        return " ".join(sorted({part["norm"] for name in ("encoder", "decoder") for part in found[name]["parts"]}))

    post, pre = numbers["post"], numbers["pre"]
    return [
        equal("as published: where the norms stand", places(post), "after"),
        equal("as published: norms, one for each residual", post["norms"], post["residuals"]),
        equal("norms first: where they stand", places(pre), "before"),
        equal("norms first: one more at the end of each stack", pre["norms"], pre["residuals"] + 2),
    ]
