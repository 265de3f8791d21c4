"""A drawing as a film: in each row a word and where it was looked at, in each column a step, below them the image as
it was estimated to become.

A word is shown on a scale of its own, from its least to its largest share of attention, which stand beside it: words
differ in how much they are looked at far more than places do.

Shapes: w words, s steps, H, W rows and columns of a map or of an image, c channels.
"""

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .word_maps import maps_of_words, word_pieces

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from regard.look.trace import Trace

    from .prompt_drawer import Canvas, PromptDrawer

SIDE, GAP, EDGE = 1.05, 0.08, 0.3  # inches of an image, between two, and at the border
MOST_STEPS, MOST_WORDS = 8, 24
WORD, SMALL = 14.0, 8.5  # points
PALE = 0.45  # how much of the image is left below a map
NOTE = (
    "Where the image attended to each word: the mean over all heads and layers of cross-attention. Each word has a\n"
    "scale of its own, from its smallest share (light) to its largest (dark); behind it, the estimate of the image."
)


def film_of(drawer: "PromptDrawer", prompt: str, found: "Trace[Any]", canvas: "Canvas | None" = None) -> "Figure":
    """Of a look: its output is the estimate after each step, and then the last state."""
    from regard import style

    steps = shown_steps(len(found.output) - 1)
    estimates = [drawer.image(found.output[step : step + 1], canvas) for step in steps]
    words, left_out = words_of(drawer, prompt)
    note = NOTE + (f"\nThe first {MOST_WORDS} of {MOST_WORDS + left_out} words." if left_out else "")
    beside = max((style.breadth(word, WORD, style.SERIF) for word in words.values()), default=0.0)
    beside = min(EDGE + max(beside, 1.0) + 0.25, 3.0)
    wide = SIDE * estimates[0].shape[2] / max(estimates[0].shape[1:])
    high = SIDE * estimates[0].shape[1] / max(estimates[0].shape[1:])
    width = max(beside + len(steps) * (wide + GAP) + EDGE, 8.6)
    top = style.head(note) + 0.3
    height = top + (len(words) + 1) * (high + GAP) + GAP + EDGE
    title = style.literal(style.cut(prompt.strip() or "(no words)", width - 0.6, 20, style.SERIF))
    figure = style.page(title, note, height=height, width=width)
    axes = style.stage(figure)
    for column, step in enumerate(steps):
        x = beside + column * (wide + GAP) + wide / 2
        style.write(axes, x, height - top + 0.13, f"step {step}", size=9.5, color=style.SOFT)
    maps = maps_of_words(found, list(words), steps)
    y = height - top
    for shares, word in zip(maps, words.values(), strict=True):
        y -= high + GAP
        told = style.literal(style.cut(word, beside - EDGE - 0.2, WORD, style.SERIF))
        low, most = float(shares.min()), float(shares.max())
        style.write(axes, EDGE, y + high / 2 + 0.1, told, size=WORD, ha="left", family=style.SERIF)
        scale = f"{100 * low:.1f} to {100 * most:.1f} %"
        style.write(axes, EDGE, y + high / 2 - 0.15, scale, size=SMALL, color=style.SOFT, ha="left")
        for column, (share, estimate) in enumerate(zip(shares, estimates, strict=True)):
            cell(
                axes,
                covered(estimate, (share - low) / max(most - low, 1e-12)),
                beside + column * (wide + GAP),
                y,
                wide,
                high,
            )
    y -= high + 2 * GAP
    style.write(axes, EDGE, y + high / 2, "estimate", size=11, color=style.SOFT, ha="left")
    for column, estimate in enumerate(estimates):
        cell(axes, coloured(estimate), beside + column * (wide + GAP), y, wide, high)
    axes.set(xlim=(0, width), ylim=(0, height))
    return figure


def shown_steps(count: int) -> list[int]:
    """The first, the last, and some between, evenly."""
    shown = min(count, MOST_STEPS)
    return [round(i * (count - 1) / max(shown - 1, 1)) for i in range(shown)]


def words_of(drawer: "PromptDrawer", prompt: str) -> tuple[dict[tuple[int, ...], str], int]:
    """The words between begin and end, each with its places among the tokens; and how many are left out."""
    told = drawer.tokens(prompt)
    labels = drawer.prompted.text.labels(told.ids)[1 : told.read - 1]
    found = {tuple(i + 1 for i in places): word for places, word in word_pieces(labels).items()}
    return dict(list(found.items())[:MOST_WORDS]), max(len(found) - MOST_WORDS, 0)


def coloured(pixels: Tensor) -> Tensor:
    """(c, H, W), uint8 -> (3, H, W), 0 to 1"""
    return pixels.float().expand(3, -1, -1) / 255


def covered(pixels: Tensor, share: Tensor) -> Tensor:
    """A map over a pale grey image, so that no colour of the image is taken for one of the map.  -> (3, H, W)"""
    from regard import style

    grey = 1 - PALE * (1 - coloured(pixels).mean(0, keepdim=True))
    smooth = F.interpolate(share[None, None], pixels.shape[1:], mode="bilinear", align_corners=False)[0, 0].clamp(0, 1)
    colours = torch.from_numpy(style.WEIGHTS(smooth.numpy())[..., :3]).float().permute(2, 0, 1)
    return grey * (1 - 0.9 * smooth) + colours * 0.9 * smooth


def cell(axes: "Axes", picture: Tensor, x: float, y: float, wide: float, high: float) -> None:
    from matplotlib.patches import Rectangle

    from regard import style

    box = (x, x + wide, y, y + high)
    axes.imshow(picture.permute(1, 2, 0).numpy(), extent=box, interpolation="nearest", aspect="auto", zorder=1)
    axes.add_patch(Rectangle((x, y), wide, high, fill=False, ec=style.LINE, lw=0.8, zorder=2))
