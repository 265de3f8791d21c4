"""5.8: a block of Swin and one of Swin v2 (Liu et al., 2022, figure 1), and the axis on which v2 measures offsets.

The order of a block's parts was read off the library's blocks as they ran. From windows of 8 x 8 to 16 x 16, offsets
reach 1.14 times as far again as they are, and 0.33 times by the logarithm of 1 + offset (section 3.3, quoted). The
authors' code, and so the library, first scales offsets to 8 at the edge of the window of training: then it is 0.32.
"""

import math

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import nn

from regard import style
from regard.models import swin, swinv2
from regard.nn.attention import MultiHeadAttention
from regard.nn.block import Block
from regard.nn.feedforward import FeedForward
from regard.nn.mixers.windows import WindowAttention
from regard.nn.positions import log_spaced
from regard_lectures.figure import Check, Numbers, close, equal, plain, seeded
from regard_lectures.recurrent.drawing import sign_at

TITLE = "Normed before it is added"
DECKS = ("004",)
CLAIM = "Swin v2 norms what a branch says, compares by cosines, and measures offsets by their logarithm."
EXPECTED = (
    "Swin v2 norms what a branch says, compares by cosines, and by log(1 + offset) reaches 0.33 times beyond what was"
    " learned where offsets reach 1.14 times."
)
FOUND = (
    "Norms stand behind attention and MLP, the kernel is the cosine, and windows of 16 reach 0.333 times beyond those"
    " of 8 by the logarithm, 1.143 times as they are."
)
COST = 0.5
SEED = 0

SMALL, LARGE = 8, 16


def nets() -> dict[str, nn.Module]:
    """One block of each, of the same small size."""
    one = swin.Config(image=8, patch=1, classes=0, dim=8, hidden=16, window=4, depth=(1,), heads=(2,))
    two = swinv2.Config(image=8, patch=1, classes=0, dim=8, hidden=16, window=4, depth=(1,), heads=(2,))
    return {"Swin": swin.Swin(one), "Swin v2": swinv2.SwinV2(two)}


def order(net: nn.Module) -> list[str]:
    """The parts of its first block, as they are called."""
    found: list[str] = []
    block = next(part for part in net.modules() if isinstance(part, Block))
    names = {nn.LayerNorm: "norm", WindowAttention: "attention", FeedForward: "MLP"}
    hooks = [
        part.register_forward_pre_hook(lambda *_, kind=kind: found.append(names[kind]))
        for part in block.modules()
        for kind in names
        if isinstance(part, kind)
    ]
    with torch.no_grad():
        net(torch.zeros(1, 3, 8, 8))
    for hook in hooks:
        hook.remove()
    return found


def kernel(net: nn.Module) -> str:
    windows = next(part for part in net.modules() if isinstance(part, WindowAttention))
    assert isinstance(windows.attention, MultiHeadAttention)
    return type(windows.attention.kernel).__name__


def compute() -> Numbers:
    with seeded(SEED):
        found = nets()
    axes = {str(window): plain(log_spaced(window, window, SMALL)[0, :, 1]) for window in (SMALL, LARGE)}
    return {
        "order": {name: order(net) for name, net in found.items()},
        "kernel": {name: kernel(net) for name, net in found.items()},
        "logarithms": axes,
        "unscaled": math.log(LARGE) / math.log(SMALL) - 1,
        "linear": (LARGE - 1) / (SMALL - 1) - 1,
    }


def draw(numbers: Numbers) -> Figure:
    note = (
        "Left, the parts of a block in the order in which they are called. Right, offsets of windows of 8 x 8 "
        "(teal) and 16 x 16 (ochre),\nas they are and as v2’s network is given them: by their logarithm most of "
        "what is new lies near what was learned."
    )
    figure = style.page(TITLE, note, height=6.1)
    axes = style.stage(figure)
    for x, name in ((0.95, "Swin"), (3.3, "Swin v2")):
        column(axes, x, name, numbers["order"][name], numbers["kernel"][name])
    offsets(axes, numbers)
    return figure


def column(axes: Axes, x: float, name: str, parts: list[str], kernel: str) -> None:
    """From below; two branches of two parts each."""
    wide, tall, y = 1.45, 0.36, 0.95
    style.write(axes, x + wide / 2, 0.3, name, size=13, weight="bold")
    middle = x + wide / 2
    for branch in (parts[:2], parts[2:]):
        start = y - 0.32
        style.arrow(axes, (middle, start), (middle, y - 0.02), head=7)
        for i, part in enumerate(branch):
            tint = style.SECOND if part == "norm" else style.WEIGHT if part == "attention" else style.KEY
            says = ("cosine attention" if "osine" in kernel else "attention") if part == "attention" else part
            style.box(axes, x, y, wide, tall, says, edge=tint, fill=style.mix(tint, 0.12), size=10.5)
            if i == 0:
                style.arrow(axes, (middle, y + tall), (middle, y + tall + 0.2), head=7)
            y += tall + 0.22
        sign_at(axes, middle, y + 0.11, "+")
        style.arrow(axes, (middle, y - 0.22), (middle, y - 0.01), head=7)
        style.route(
            axes,
            [(middle, start + 0.1), (x - 0.25, start + 0.1), (x - 0.25, y + 0.11), (middle - 0.12, y + 0.11)],
            color=style.INK,
        )
        y += 0.54
    style.arrow(axes, (middle, y - 0.32), (middle, y - 0.1), head=7)


def offsets(axes: Axes, numbers: Numbers) -> None:
    left, right, middle = 5.75, 9.65, 7.7
    lines = (
        (3.75, "offsets as they are", {str(w): [float(i) for i in range(1 - w, w)] for w in (SMALL, LARGE)}),
        (1.75, "by their logarithm", numbers["logarithms"]),
    )
    for y, title, found in lines:
        most = max(found[str(LARGE)])
        factor = (right - left) / 2 / most
        style.write(axes, left, y + 0.62, title, ha="left", size=12)
        style.arrow(axes, (left - 0.1, y), (right + 0.1, y), color=style.EDGE, line=1, head=0)
        for window, tint, size in ((str(LARGE), style.SECOND, 4.5), (str(SMALL), style.KEY, 6.5)):
            axes.plot(
                [middle + factor * value for value in found[window]],
                [y] * len(found[window]),
                "o",
                color=tint,
                ms=size,
                zorder=4,
            )
        edge = factor * max(found[str(SMALL)])
        style.frame(axes, middle - edge, y - 0.17, 2 * edge, 0.34, style.KEY, 1.2)
        says = f"beyond what was learned: {beyond(found):.2f} times as far again"
        style.write(axes, left, y - 0.42, says, ha="left", size=10.5, color=style.SECOND)


def beyond(found: dict[str, list[float]]) -> float:
    """How far larger windows reach beyond smaller ones, over these."""
    return max(found[str(LARGE)]) / max(found[str(SMALL)]) - 1


def checks(numbers: Numbers) -> list[Check]:
    logarithms = numbers["logarithms"]
    return [
        equal("Swin: parts in order", str(numbers["order"]["Swin"]), str(["norm", "attention", "norm", "MLP"])),
        equal("Swin v2: parts in order", str(numbers["order"]["Swin v2"]), str(["attention", "norm", "MLP", "norm"])),
        equal("how they compare", str(list(numbers["kernel"].values())), str(["Softmax", "Cosine"])),
        close("log(1 + offset): beyond what was learned, section 3.3", numbers["unscaled"], 0.33, 0.005),
        close("scaled first, as the code does: the same", beyond(logarithms), 0.32, 0.005),
        close("offsets as they are: the same", numbers["linear"], 1.14, 0.005),
        close("the farthest offset of training, log-spaced", max(logarithms[str(SMALL)]), 1.0567, 1e-3),
        equal("nothing between 0 and itself", logarithms[str(SMALL)][SMALL - 1], 0.0),
    ]
