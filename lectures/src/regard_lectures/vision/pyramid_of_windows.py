"""5.7: Swin's pyramid (Liu et al., 2021, figures 1 and 3): patches are merged, windows stay as large, and so see more.

The grids, widths and windows of Swin-T were read off the net, as it ran on the meta device, where it costs nothing.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard import style
from regard.models import swin, vit
from regard.nn.mixers.windows import WindowAttention
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, equal
from regard_lectures.labelled_images import pixels_of, shades
from regard_lectures.vision.photo import portrait

TITLE = "A pyramid of windows"
DECKS = ("004",)
CLAIM = "From stage to stage Swin has a quarter of the patches, twice as wide; its last windows see the whole image."
EXPECTED = (
    "Swin-T has grids of 56, 28, 14 and 7 patches, widths of 96 to 768 and windows of 7 x 7, the last of which see "
    "the whole image."
)
FOUND = "Grids of 56, 28, 14 and 7, widths of 96, 192, 384 and 768, and 64, 16, 4 and 1 windows, 28 to 224 pixels wide."
COST = 1.0
SEED = 0

IMAGE = 224


def compute() -> Numbers:
    with torch.device("meta"):
        net = swin.Swin(swin.PRESETS["swin-tiny"]).eval()
        images = torch.zeros(1, 3, IMAGE, IMAGE)
        with capture(net, "stages.*.blocks.*.stream") as seen:
            net(images)
        plain = vit.ViT(vit.PRESETS["vit-small"])
        tokens = plain.tokens(images).shape[1] - 1
    stages = []
    for i, stage in enumerate(net.stages):
        rows, columns, width = seen[f"stages.{i}.blocks.0.stream"][0].shape[1:]
        mixers = [part for part in stage.modules() if isinstance(part, WindowAttention)]
        cut = mixers[0].cut(rows, columns)
        stages.append(
            {
                "grid": [rows, columns],
                "width": width,
                "blocks": len(mixers),
                "window": cut.window[0],
                "windows": cut.count,
                "pixels": cut.window[0] * IMAGE // rows,
            }
        )
    return {"stages": stages, "vit": [tokens, plain.config.depth], "image": shades(portrait(112))}


def draw(numbers: Numbers) -> Figure:
    note = (
        "Swin-T on an image of 224 x 224. Thin lines part patches, thick ones windows of 7 x 7 of them, within "
        "which patches look at\neach other. Right, a ViT: patches of 16 x 16 pixels in all layers, and each looks "
        "at all."
    )
    figure = style.page(TITLE, note, height=5.2)
    axes = style.stage(figure)
    sizes, x = (2.35, 1.95, 1.6, 1.35), 0.35
    for i, (stage, size) in enumerate(zip(numbers["stages"], sizes, strict=True)):
        level(axes, x, 1.35, size, numbers["image"], stage["grid"][0], stage["window"])
        rows, width = stage["grid"][0], stage["width"]
        lines = (
            f"{rows} × {rows} × {width}",
            f"{stage['windows']} window{'s' if stage['windows'] > 1 else ''}",
            f"{stage['pixels']} pixels wide",
        )
        for k, line in enumerate(lines):
            place = (x + size / 2, 1.1 - 0.27 * k)
            style.write(axes, *place, line, size=11 if k == 0 else 10, color=style.INK if k == 0 else style.SOFT)
        says = f"stage {i + 1}: {stage['blocks']} blocks"
        style.write(axes, x + size / 2, 1.35 + size + 0.2, says, size=11)
        x += size + 0.17
    level(axes, 8.25, 1.35, 1.4, numbers["image"], 14, 14, tint=style.SECOND)
    style.write(axes, 8.95, 2.95, f"ViT: {numbers['vit'][1]} blocks", size=11, color=style.SECOND)
    for k, line in enumerate(("14 × 14 × 384", "no windows", "224 pixels wide")):
        style.write(
            axes, 8.95, 1.1 - 0.27 * k, line, size=11 if k == 0 else 10, color=style.INK if k == 0 else style.SOFT
        )
    return figure


def level(
    axes: Axes, x: float, y: float, size: float, image: list[str], grid: int, window: int, tint: str = style.WEIGHT
) -> None:
    """The image as patches see it, with its windows; its lower left corner at (x, y)."""
    pixels = torch.tensor(pixels_of(image), dtype=torch.float32)
    seen = torch.nn.functional.interpolate(pixels[None, None], (grid, grid), mode="area")[0, 0]
    extent = (x, x + size, y, y + size)
    axes.imshow(seen, cmap="gray", vmin=-4, vmax=17, extent=extent, interpolation="nearest", zorder=2, aspect="auto")
    for i in range(grid + 1):
        thick = i % window == 0
        line, colour = (2.0, tint) if thick else (0.35, "white")
        place = i * size / grid
        order = 4 if thick else 3
        axes.plot([x + place, x + place], [y, y + size], color=colour, lw=line, zorder=order)
        axes.plot([x, x + size], [y + place, y + place], color=colour, lw=line, zorder=order)
    width, height = axes.figure.get_size_inches()  # type: ignore[union-attr]
    axes.set(xlim=(0, width), ylim=(0, height))


def checks(numbers: Numbers) -> list[Check]:
    stages = numbers["stages"]
    return [
        equal("grids", str([stage["grid"] for stage in stages]), str([[56, 56], [28, 28], [14, 14], [7, 7]])),
        equal("widths", str([stage["width"] for stage in stages]), str([96, 192, 384, 768])),
        equal("blocks", str([stage["blocks"] for stage in stages]), str([2, 2, 6, 2])),
        equal("windows", str([stage["windows"] for stage in stages]), str([64, 16, 4, 1])),
        equal("pixels that a window is wide", str([stage["pixels"] for stage in stages]), str([28, 56, 112, 224])),
        equal("ViT: patches, blocks", str(numbers["vit"]), str([196, 12])),
    ]
