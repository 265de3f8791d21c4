"""5.7d: Swin, Swin whose windows never shift, and a ViT of as many weights, on photographs.

Swin Transformer (Liu et al., 2021), table 4, in miniature: 32 wide at first, two layers in each of three stages,
windows of 4 x 4. Without shifts, windows stay for themselves until their patches are merged. The paper's claims are
for a million images; here are 10,000 of CIFAR-10. Needs cifar10_subset below REGARD_DATA.
"""

from matplotlib.figure import Figure

from regard import style
from regard_lectures.figure import Check, Numbers, above, aside, starts_above
from regard_lectures.vision.lessons import class_of, photos
from regard_lectures.vision.small import COURSE, NETS, SEEDS
from regard_lectures.vision.starts import ahead, leads, learned

TITLE = "Windows that shift"
DECKS = ("004",)
CLAIM = "Of as many weights, Swin learns photographs better than a ViT, and better than itself without shifts."
EXPECTED = "Of as many weights Swin labels more photographs rightly than a ViT, and more than itself without shifts."
FOUND = (
    "Swin has 50.8 %, the ViT 50.4 %, Swin without shifts 47.9 %; Swin is ahead of the ViT in 2 of 3 starts, by less "
    "than starts differ (1.25 points), and of itself without shifts in 3 of 3."
)
COST = 6000.0
SEED = 0

TINTS = {"Swin": style.WEIGHT, "Swin without shifts": style.mix(style.WEIGHT, 0.5), "ViT": style.SECOND}


def compute() -> Numbers:
    found = class_of({name: NETS[name] for name in TINTS}, COURSE, SEEDS)
    return {"tested": len(photos("test")[1]), "learned": len(photos("train")[1]), **found}


def draw(numbers: Numbers) -> Figure:
    right = {name: numbers[name]["right"] for name in TINTS}
    over = [ahead(right["Swin"], right[name]) for name in ("ViT", "Swin without shifts")]
    wide = 100 * max(max(some) - min(some) for some in right.values())
    note = (
        f"CIFAR-10, {numbers['learned']:,} photographs of 32 x 32 to learn from, {COURSE.steps:,} steps of "
        f"{COURSE.batch}. Left, {numbers['tested']:,} others labelled rightly,\na dot for each of {len(SEEDS)} starts; "
        "right, the loss while learning. Expected: Swin ahead of ViT, and of itself without shifts.\n"
        f"Found: by {over[0]:.1f} and {over[1]:.1f} points, where starts of one net differ by up to {wide:.1f}."
    )
    figure = style.page(TITLE, note, height=5.0)
    bars = learned(figure, numbers, TINTS, COURSE, (1.0, 2.4), wide=0.62)
    bars.set_yticks(range(len(TINTS)), [f"{name}\n{numbers[name]['weights'] / 1000:.0f}k weights" for name in TINTS])
    return figure


def checks(numbers: Numbers) -> list[Check]:
    right = {name: numbers[name]["right"] for name in TINTS}
    sizes = sorted(numbers[name]["weights"] for name in TINTS)
    return [
        aside(above("weights, fewest over most", sizes[0] / sizes[-1], 0.97)),
        *(aside(above(f"{name}: share of right labels, the worst start", min(right[name]), 0.3)) for name in TINTS),
        starts_above("Swin over ViT: points", leads(right["Swin"], right["ViT"]), 0),
        starts_above("Swin over itself without shifts: points", leads(right["Swin"], right["Swin without shifts"]), 0),
    ]
