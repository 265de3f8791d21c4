"""5.3c: Table 2 of deck 003, ViT-H/14 against a ResNet of 152 layers, four times as wide, with its slip corrected.

The deck gives the ResNet 14 million weights; that is the number of ImageNet-21k's images. Both nets are counted anew,
built without memory. Accuracies and days are quoted from the paper, whose ViT was pre-trained on JFT, as was the ResNet
(BiT-L). Below stand two small nets of ours, those of 5.3b, without any pre-training. Needs fashion_mnist_30k and
cifar10_subset below REGARD_DATA.
"""

from dataclasses import replace
from statistics import fmean

from matplotlib.figure import Figure

from regard import style
from regard.models import resnet, vit
from regard.zoo import count_parameters, empty_net
from regard_lectures.figure import Check, Numbers, above, close, within
from regard_lectures.vision.hungry import COURSES, NETS, SEEDS, shares_of

TITLE = "A ViT and a ResNet, side by side"
DECKS = ("003",)
CLAIM = (
    "The ResNet's 14M weights of the deck are 937M; pre-trained on enough, a ViT beats it at a quarter of the cost "
    "(quoted)."
)
EXPECTED = (
    "Counted, the ResNet has 930 to 940 million weights, not the deck's 14, and ViT-H/14 632.0 million; of two small "
    "nets without pre-training the convolutional one is ahead."
)
FOUND = (
    "The ResNet has 936.6 million weights, 67 times the deck's, and ViT-H/14 632.0 million; without pre-training the "
    "convolutional net is 6.0 points ahead on garments, 9.6 on photographs, means of 2 starts."
)
COST = 6500.0
SEED = 0

HUGE = vit.PRESETS["vit-huge"]
WIDE = replace(resnet.PRESETS["resnet-152"], width=256, dims=(1024, 2048, 4096, 8192))
QUOTED = {
    "ImageNet": (88.55, 87.54),
    "ImageNet ReaL": (90.72, 90.54),
    "CIFAR-10": (99.50, 99.37),
    "CIFAR-100": (94.55, 93.51),
    "Oxford-IIIT Pets": (97.56, 96.62),
    "Oxford Flowers-102": (99.68, 99.63),
    "VTAB (19 tasks)": (77.63, 76.29),
}  # percent
DAYS = (2500, 9900)  # of a TPUv3 core, quoted
DECK = 14e6  # what the slide says of the ResNet


def compute() -> Numbers:
    return {
        "weights": [count_parameters(empty_net("vit", HUGE)), count_parameters(empty_net("resnet", WIDE))],
        "ours": {
            data: {
                name: {
                    "weights": count_parameters(make()),
                    "right": fmean(shares_of(data, name, COURSES[data][max(COURSES[data])])),
                }
                for name, make in nets.items()
            }
            for data, nets in NETS.items()
        },
    }


def rows(numbers: Numbers) -> list[tuple[str, str, str]]:
    one, other = numbers["weights"]
    less, more = (f"{count / 1000:.1f}k" for count in DAYS)
    return [
        *((name, f"{left:.2f}", f"{right:.2f}") for name, (left, right) in QUOTED.items()),
        ("core-days of TPUv3", less, more),
        ("weights, counted", f"{one / 1e6:.0f}M", f"{other / 1e6:.0f}M"),
    ]


def draw(numbers: Numbers) -> Figure:
    note = (
        "Deck 003’s Table 2: accuracies in percent and cost, quoted from the paper, after pre-training on JFT.\n"
        "Weights are counted in nets built without memory. Ochre, what the deck had. Below, two small nets of ours."
    )
    figure = style.page(TITLE, note, height=7.0)
    axes = style.stage(figure)
    columns = (4.3, 6.6)
    for x, text in zip(columns, ("ViT-H/14", "ResNet-152, 4 × as wide"), strict=True):
        style.write(axes, x, 5.15, text, ha="left", va="baseline", size=14, family=style.SERIF)
    for i, (name, *values) in enumerate(rows(numbers)):
        y = 4.75 - 0.37 * i
        axes.plot([0.3, 9.7], [y + 0.25] * 2, color=style.LINE, lw=1)
        style.write(axes, 0.3, y, name, ha="left", va="baseline", color=style.SOFT)
        for j, (x, value) in enumerate(zip(columns, values, strict=True)):
            better = name in QUOTED and j == 0
            style.write(axes, x, y, value, ha="left", va="baseline", size=12, weight="bold" if better else "normal")
    style.write(axes, columns[1] + 0.75, y, "the deck: 14M", ha="left", va="baseline", size=10, color=style.SECOND)
    y -= 0.55
    style.write(
        axes, 0.3, y, f"ours, measured, {len(SEEDS)} starts", ha="left", va="baseline", size=12, family=style.SERIF
    )
    for x, text in zip(columns, ("small ViT", "small CNN"), strict=True):
        style.write(axes, x, y, text, ha="left", va="baseline", size=12, family=style.SERIF)
    for data, title in (("garments", "Fashion-MNIST, 25,000 images"), ("photos", "CIFAR-10, 10,000 images")):
        axes.plot([0.3, 9.7], [y - 0.12] * 2, color=style.LINE, lw=1)
        y -= 0.37
        style.write(axes, 0.3, y, title, ha="left", va="baseline", color=style.SOFT)
        for x, name in zip(columns, ("ViT", "CNN"), strict=True):
            found = numbers["ours"][data][name]
            style.write(axes, x, y, f"{100 * found['right']:.2f}", ha="left", va="baseline", size=12)
            weights = f"{found['weights'] / 1000:.0f}k weights"
            style.write(axes, x + 0.75, y, weights, ha="left", va="baseline", size=10, color=style.SOFT)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    one, other = numbers["weights"]
    return [
        close("ViT-H/14, millions of weights", one / 1e6, 632.0, 0.05),
        above("the ResNet's weights over the deck's 14 million", other / DECK, 60),
        within("the ResNet, millions of weights", other / 1e6, 930, 940),
        *(
            above(
                f"{data}, ours, without pre-training: the CNN ahead by, points",
                100 * (own["CNN"]["right"] - own["ViT"]["right"]),
                0,
            )
            for data, own in numbers["ours"].items()
        ),
    ]
