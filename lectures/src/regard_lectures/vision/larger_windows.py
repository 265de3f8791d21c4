"""5.8c: windows of 4 x 4 become 8 x 8 after training: a table of offsets that is interpolated, and a network of them.

Swin Transformer V2 (Liu et al., 2022), section 3.3 and its table 1, in miniature: nets that have learned on images of
32 x 32 are shown the same at 64 x 64, in windows that are larger as well. Swin's numbers for offsets stand in a table,
which is stretched (bicubic); v2's small network is asked about offsets that it has not seen, by their logarithm.
Nothing is trained again. Needs cifar10_subset below REGARD_DATA.
"""

import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import nn

from regard import style
from regard.models import swin, swinv2
from regard_lectures.figure import Check, Numbers, above, aside, starts_above
from regard_lectures.vision.lessons import photos, pupil, share
from regard_lectures.vision.small import COURSE, NETS, SEEDS
from regard_lectures.vision.starts import ahead, leads, rates

TITLE = "Larger windows than trained"
DECKS = ("004",)
CLAIM = "Windows twice as large, without training: the network of log-spaced offsets loses less than a stretched table."
EXPECTED = (
    "In windows twice as large and without training, a network of log-spaced offsets loses less than a stretched table."
)
FOUND = "The stretched table loses 21.1 points, the network of log-spaced offsets 11.5; it loses less in 3 of 3 starts."
COST = 5500.0
SEED = 0

SMALL, LARGE = 4, 8
KINDS = {"Swin, bicubic table": "Swin", "Swin v2, log-spaced": "Swin v2"}
TINTS = dict(zip(KINDS, (style.SECOND, style.WEIGHT), strict=True))


def widened(net: nn.Module, side: int) -> nn.Module:
    """The same weights, for larger images and windows."""
    if isinstance(net, swinv2.SwinV2):
        return swinv2.refit(net, image=side, window=LARGE)
    assert isinstance(net, swin.Swin)
    return swin.refit(net, image=side, window=LARGE)


def compute() -> Numbers:
    tested, wanted = photos("test")
    larger = F.interpolate(tested, scale_factor=LARGE // SMALL, mode="bicubic")
    numbers: Numbers = {"tested": len(wanted)}
    for name, kind in KINDS.items():
        nets = [pupil(kind, NETS[kind], COURSE, seed).net for seed in SEEDS]
        numbers[name] = {
            "trained": [share(net, tested, wanted) for net in nets],
            "larger": [share(widened(net, larger.shape[-1]), larger, wanted) for net in nets],
        }
    return numbers


def draw(numbers: Numbers) -> Figure:
    note = (
        f"{numbers['tested']:,} photographs (CIFAR-10) labelled rightly by nets that learned on 32 x 32 pixels, in "
        f"windows of {SMALL} x {SMALL} patches;\nthen at 64 x 64, in windows of {LARGE} x {LARGE}, without any "
        f"training. A dot for each of {len(SEEDS)} starts. Expected: v2 loses less."
    )
    figure = style.page(TITLE, note, height=4.6)
    axes = figure.subplots()
    bars, tints = {}, {}
    for name, tint in TINTS.items():
        for kind, says, part in (("trained", f"window {SMALL}", 1.0), ("larger", f"window {LARGE}", 0.55)):
            bars[f"{name}: {says}"], tints[f"{name}: {says}"] = numbers[name][kind], style.mix(tint, part)
    rates(axes, bars, tints, chance=0.1)
    for i, (name, tint) in enumerate(TINTS.items()):
        says = f"{lost(numbers, name):.1f} points lost".replace("-", "−")
        axes.text(0.98, 2 * i + 0.5, says, ha="right", va="center", color=tint, weight="bold")
    return figure


def lost(numbers: Numbers, name: str) -> float:
    return -ahead(numbers[name]["larger"], numbers[name]["trained"])


def checks(numbers: Numbers) -> list[Check]:
    losses = [leads(numbers[name]["trained"], numbers[name]["larger"]) for name in KINDS]
    less = [table - network for table, network in zip(*losses, strict=True)]
    return [
        *(
            aside(above(f"{name}: share of right labels, the worst start", min(numbers[name]["trained"]), 0.3))
            for name in KINDS
        ),
        starts_above("points lost, table less network", less, 0),
    ]
