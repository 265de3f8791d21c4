"""5.8c: windows of 4 x 4 become 8 x 8 after training: a table of offsets that is interpolated, and a network of them.

Swin Transformer V2 (Liu et al., 2022), section 3.3 and its table 1, in miniature: nets that have learned on images of
32 x 32 are shown the same at 64 x 64, in windows that are larger as well. Swin's numbers for offsets stand in a table,
which is stretched (bicubic); v2's small network is asked about offsets that it has not seen, by their logarithm.
Nothing is trained again. Needs cifar10_subset below REGARD_DATA.
"""

import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.figures.figure import Check, Numbers, above, seeded
from regard.figures.vision.lessons import Course, photos, share, taught
from regard.figures.vision.starts import ahead, rates
from regard.models import swin, swinv2

TITLE = "Larger windows than trained"
DECKS = ("004",)
CLAIM = "Windows twice as large, without training: the network of log-spaced offsets loses less than a stretched table."
COST = 200.0
SEED = 0

SEEDS, SMALL, LARGE = 2, 4, 8
COURSE = Course(steps=400, batch=32, rate=2e-3, moved=0)
KINDS = {"Swin, bicubic table": style.SECOND, "Swin v2, log-spaced": style.WEIGHT}


def build(name: str) -> swin.Swin | swinv2.SwinV2:
    """Two stages, windows as in training."""
    if name.startswith("Swin v2"):
        return swinv2.SwinV2(
            swinv2.Config(image=32, patch=4, classes=10, dim=48, hidden=192, window=SMALL, depth=(2, 2), heads=(2, 4))
        )
    return swin.Swin(
        swin.Config(image=32, patch=4, classes=10, dim=48, hidden=192, window=SMALL, depth=(2, 2), heads=(2, 4))
    )


def both(name: str, images: Tensor, labels: Tensor, tested: Tensor, wanted: Tensor, seed: int) -> list[float]:
    """Right answers with the windows of training, and with larger ones."""
    larger = F.interpolate(tested, scale_factor=LARGE // SMALL, mode="bicubic")
    side = larger.shape[-1]
    with seeded(seed):
        net = build(name)
    taught(net, images, labels, COURSE, seed)
    wide = widened(net, side)
    return [share(net, tested, wanted), share(wide, larger, wanted)]


def widened(net: swin.Swin | swinv2.SwinV2, side: int) -> nn.Module:
    """The same weights, for larger images and windows."""
    if isinstance(net, swinv2.SwinV2):
        return swinv2.refit(net, image=side, window=LARGE)
    return swin.refit(net, image=side, window=LARGE)


def compute() -> Numbers:
    images, labels = photos("train")
    tested, wanted = photos("test")
    numbers: Numbers = {"tested": len(wanted)}
    for name in KINDS:
        found = [both(name, images, labels, tested, wanted, seed) for seed in range(SEED, SEED + SEEDS)]
        numbers[name] = {"trained": [one for one, _ in found], "larger": [two for _, two in found]}
    return numbers


def draw(numbers: Numbers) -> Figure:
    note = (
        f"{numbers['tested']:,} photographs (CIFAR-10) labelled rightly by nets that learned on 32 x 32 pixels, in "
        f"windows of {SMALL} x {SMALL} patches;\nthen at 64 x 64, in windows of {LARGE} x {LARGE}, without any "
        f"training. A dot for each of {SEEDS} starts. Expected: v2 loses less."
    )
    figure = style.page(TITLE, note, height=4.6)
    axes = figure.subplots()
    bars, tints = {}, {}
    for name, tint in KINDS.items():
        for kind, says, part in (("trained", f"window {SMALL}", 1.0), ("larger", f"window {LARGE}", 0.55)):
            bars[f"{name}: {says}"], tints[f"{name}: {says}"] = numbers[name][kind], style.mix(tint, part)
    rates(axes, bars, tints, chance=0.1)
    for i, (name, tint) in enumerate(KINDS.items()):
        says = f"{lost(numbers, name):.1f} points lost".replace("-", "−")
        axes.text(0.98, 2 * i + 0.5, says, ha="right", va="center", color=tint, weight="bold")
    return figure


def lost(numbers: Numbers, name: str) -> float:
    return -ahead(numbers[name]["larger"], numbers[name]["trained"])


def holds(numbers: Numbers) -> list[Check]:
    table, network = KINDS
    return [
        *(
            above(f"{name}: share of right labels, the worst start", min(numbers[name]["trained"]), 0.3)
            for name in KINDS
        ),
        above("points lost, table less network", lost(numbers, table) - lost(numbers, network), 0),
    ]
