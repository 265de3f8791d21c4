"""3.6: the left picture of deck 002's "Training Transformers", unbalanced gradients: Liu et al. (2020), section 3.

An 18-layer Transformer before training. For each part (attention, cross-attention, feed-forward) the norm of the loss's
gradient by what its branch says, relative to the largest in the same network. In the post-norm decoder it vanishes; in
the encoder, and with norms first, it does not. The paper's point is that this is not why post-norm is hard to train.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.models.transformer import Config, Transformer
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, above, below, plain, seeded

TITLE = "Unbalanced gradients"
DECKS = ("002",)
CLAIM = "Before training, gradients vanish towards the input of the post-norm decoder, and hardly anywhere else."
EXPECTED = "Before training, gradients vanish towards the input mainly in the post-norm decoder."
FOUND = "The smallest relative gradient is 0.0019 in the post-norm decoder and 0.18 with pre-norm (means of 4 starts)."
COST = 2.5
SEED = 0

DEPTH, SEEDS = 18, 4
KINDS: tuple[Literal["post", "pre"], ...] = ("post", "pre")
STACKS = {"encoder": 2, "decoder": 3}  # parts of a layer


def compute() -> Numbers:
    numbers: Numbers = {"depth": DEPTH}
    for kind in KINDS:
        squares = sum(slopes(kind, seed).square() for seed in range(SEED, SEED + SEEDS))
        assert isinstance(squares, Tensor)
        whole = (squares / squares.max()).sqrt()
        parts = dict(zip(STACKS, whole.split([DEPTH * parts for parts in STACKS.values()]), strict=True))
        numbers[kind] = {name: plain(part, 3) for name, part in parts.items()}
    return numbers


def slopes(placement: Literal["post", "pre"], seed: int) -> Tensor:
    """The norm of the gradient by each branch, first to last: those of the encoder, then those of the decoder."""
    with seeded(seed):
        model = Transformer(
            Config(vocab=64, dim=64, depth=DEPTH, heads=4, hidden=128, dropout=0.0, norm=placement),
        )
        source, target, wanted = torch.randint(64, (3, 16, 12))
        with capture(model, "*.branch.said", grad=True) as said:
            loss = F.cross_entropy(model(source, target).flatten(0, 1), wanted.flatten())
    branches = [calls[0] for calls in said.values()]  # in the order of their calls
    return torch.stack([slope.norm() for slope in torch.autograd.grad(loss, branches)])


def draw(numbers: Numbers) -> Figure:
    note = f"{DEPTH} + {DEPTH} layers before training: gradient by what each branch says, relative to the largest."
    figure = style.page(TITLE, note, height=4.9)
    panels = figure.subplots(1, 2, sharey=True, width_ratios=(2, 3))
    for axes, (stack, parts) in zip(panels, STACKS.items(), strict=True):
        for kind, tint in zip(KINDS, (style.SECOND, style.WEIGHT), strict=True):
            y = numbers[kind][stack]
            axes.plot(range(1, len(y) + 1), y, color=tint, lw=1.2, alpha=0.5)
            axes.scatter(range(1, len(y) + 1), y, color=tint, s=17, zorder=3)
            if stack == "decoder":
                style.end_label(axes, len(y), y[-1], f"{kind}-norm", tint)
        axes.set_yscale("log")
        axes.set(title=stack, xlabel=f"part: {parts} a layer", xticks=[1, *range(parts * 6, parts * 18 + 1, parts * 6)])
        axes.grid(axis="y")
        axes.minorticks_off()
        axes.spines["left"].set_visible(False)
    panels[1].set_xlim(-1.5, 66)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    lowest = {(kind, stack): min(numbers[kind][stack]) for kind in KINDS for stack in STACKS}
    vanished = lowest["post", "decoder"]
    fall = {key: lowest[key] / max(numbers[key[0]][key[1]]) for key in lowest}  # within its own stack
    return [
        below("post-norm decoder: smallest relative gradient", vanished, 0.01),
        above("pre-norm encoder and decoder: smallest relative gradient", min(lowest["pre", s] for s in STACKS), 0.03),
        below(
            "smallest over largest in a stack: post-norm decoder over encoder",
            fall["post", "decoder"] / fall["post", "encoder"],
            0.1,
        ),
        below(
            "smallest over largest in a stack: post-norm decoder over pre-norm decoder",
            fall["post", "decoder"] / fall["pre", "decoder"],
            0.1,
        ),
    ]
