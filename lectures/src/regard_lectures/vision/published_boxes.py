"""5.12g: what DETR reached on COCO, as its paper says (quoted, not computed), beside the weights that ours count.

Carion et al. (2020), table 1: average precision on COCO's validation images, 500 epochs; a Faster R-CNN with feature
pyramids, trained as long ("+"), beside it. The weights are counted in the library's own presets, with 91 classes.
"""

from matplotlib.figure import Figure

from regard import style
from regard.models.detr import PRESETS
from regard.zoo import count_parameters, empty_net
from regard_lectures.figure import Check, Numbers, equal

TITLE = "What was published of DETR"
DECKS = ("003",)
CLAIM = "DETR's published precision on COCO (quoted), and its published sizes, which the library's presets count."
EXPECTED = "The library's presets have the 41 and 60 million weights that were published."
FOUND = "41.5 and 60.5 million weights are counted; the precisions are quoted."
COST = 2.0
SEED = 0

QUOTED = {  # millions of weights, or none told here; AP on COCO val
    "Faster R-CNN-FPN+": (None, 42.0),
    "DETR, ResNet-50": (41, 42.0),
    "DETR-DC5, ResNet-50": (None, 43.3),
    "DETR, ResNet-101": (60, 43.5),
    "DETR-DC5, ResNet-101": (None, 44.9),
}
OURS = {"DETR, ResNet-50": "detr-resnet-50", "DETR, ResNet-101": "detr-resnet-101"}


def compute() -> Numbers:
    return {
        "quoted": {name: {"weights": weights, "AP": ap} for name, (weights, ap) in QUOTED.items()},
        "counted": {name: count_parameters(empty_net("detr", PRESETS[preset])) for name, preset in OURS.items()},
    }


def draw(numbers: Numbers) -> Figure:
    note = (
        "Average precision on COCO’s validation images, quoted from Carion et al. (2020), table 1; 500 epochs."
        "\nWeights as the library’s presets count them, where it has one; DC5 is a map twice as fine."
    )
    figure = style.page(TITLE, note, height=4.4)
    axes = figure.subplots()
    names = list(numbers["quoted"])
    values = [numbers["quoted"][name]["AP"] for name in names]
    tints = [style.SECOND if name.startswith("Faster") else style.WEIGHT for name in names]
    axes.barh(range(len(names)), values, 0.62, color=tints)
    for i, (name, value) in enumerate(zip(names, values, strict=True)):
        axes.text(value - 0.6, i, f"{value:.1f} (quoted)", ha="right", va="center", color="white", weight="bold")
        if name in numbers["counted"]:
            axes.text(value + 0.5, i, f"{numbers['counted'][name] / 1e6:.1f} M weights", va="center", size=11)
    axes.set_yticks(range(len(names)), names)
    axes.set(ylim=(len(names) - 0.5, -0.5), xlim=(0, 54), xticks=[])
    axes.spines["bottom"].set_visible(False)
    for text in axes.get_yticklabels():
        text.set(size=11.5, color=style.INK)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    quoted = numbers["quoted"]
    return [
        equal(f"{name}: weights, whole millions", count // 10**6, quoted[name]["weights"])
        for name, count in numbers["counted"].items()
    ]
