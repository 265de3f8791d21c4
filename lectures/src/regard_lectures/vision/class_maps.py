"""5.6c: where CaiT's class token looks: its four heads on four garments (Touvron et al., 2021, figure 6).

A small CaiT that has learned to label Fashion-MNIST, patches of 2 x 2 pixels; the weights of its last class attention.
Needs fashion_mnist_30k below REGARD_DATA.
"""

from statistics import fmean

import torch
from matplotlib.figure import Figure

from regard import style
from regard.models.cait import CaiT, Config
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, above, aside, plain
from regard_lectures.labelled_images import garments, pixels_of, shades
from regard_lectures.vision.lessons import Course, pupil, share

TITLE = "Where the class token looks"
DECKS = ("004",)
CLAIM = "CaiT’s class token looks at the garment, each head in its own way."
EXPECTED = (
    "The class token's heads together look at the garment more than its share of the image, each head in its own way."
)
FOUND = (
    "Heads differ, from 0.17 to 1.40 times the garment's share, but together they look at it 0.89 times its share, "
    "less than evenly."
)
COST = 300.0
SEED = 0

COURSE = Course("garments", steps=1000)
CONFIG = Config(image=28, patch=2, channels=1, classes=10, dim=32, depth=3, looks=2, heads=4, hidden=64)
KINDS, LOOKED = {1: "trousers", 7: "sneaker", 8: "bag", 0: "shirt"}, 500


def compute() -> Numbers:
    tested, wanted = garments("test")
    net = pupil("CaiT, small patches", lambda: CaiT(CONFIG), COURSE, SEED).net
    with torch.no_grad(), capture(net, "looks.*.weights") as seen:
        said = net(tested[:LOOKED]).argmax(-1)
    last = list(seen.values())[-1][0][:, :, 0, 1:]  # (n, heads, patches), without the class token itself
    maps = last / last.sum(-1, keepdim=True)
    pixels = tested[:LOOKED, 0] * 0.353 + 0.286
    bright = torch.nn.functional.avg_pool2d(pixels[:, None], CONFIG.patch).flatten(1) > 0.1
    chosen = [int(((wanted[:LOOKED] == kind) & (said == kind)).int().argmax()) for kind in KINDS]
    side = CONFIG.grid[0]
    even = (maps.mean(1) - 1 / side**2).abs().sum(-1) / 2
    between = (maps[:, :, None] - maps[:, None]).abs().sum(-1).mean(0) / 2  # (heads, heads)
    return {
        "right": share(net, tested, wanted),
        "images": [shades(pixels[i].clamp(0, 1)) for i in chosen],
        "maps": [[shades((own / own.max()).unflatten(0, (side, side))) for own in maps[i]] for i in chosen],
        "on garment": plain((maps * bright[:, None]).sum(-1).mean(0), 4),
        "garment": float(bright.float().mean()),
        "from even": float(even.mean()),
        "heads apart": float(between[~torch.eye(CONFIG.heads, dtype=torch.bool)].mean()),
    }


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Weights of the last class attention, each map over its largest; {style.percent(numbers['right'])} of "
        f"test images are labelled rightly.\nThe garment fills {style.percent(numbers['garment'])} of an image; of the "
        f"heads’ weights it has {', '.join(style.percent(x) for x in numbers['on garment'])}."
    )
    figure = style.page(TITLE, note, height=7.6)
    panels = figure.subplots(len(KINDS), 1 + CONFIG.heads)
    for row, image, maps, kind in zip(panels, numbers["images"], numbers["maps"], KINDS.values(), strict=True):
        row[0].imshow(pixels_of(image), cmap="gray_r", vmin=0, vmax=15)
        row[0].set_ylabel(kind, size=11.5, color=style.INK)
        for axes, own in zip(row[1:], maps, strict=True):
            axes.imshow(pixels_of(own), cmap=style.WEIGHTS, vmin=0, vmax=15)
        for axes in row:
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set(visible=True, color=style.LINE)
    for i, axes in enumerate(panels[0]):
        axes.set_title("image" if i == 0 else f"head {i}", loc="center", size=11)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    on = fmean(numbers["on garment"]) / numbers["garment"]
    return [
        aside(above("share of right labels", numbers["right"], 0.6)),
        above("weight on the garment, mean of heads, over its share of the image", on, 1.0),
        aside(above("how far the heads' mean is from looking evenly", numbers["from even"], 0.05)),
        above("how far two heads are apart, mean", numbers["heads apart"], 0.05),
    ]
