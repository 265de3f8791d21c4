"""10.6d: the memory of one training step against the number of layers: ordinary, computed again, and reversible.

Everything that a step makes is counted at its peak: activations, what the kernels need for themselves, and the
gradients of the weights, which grow with depth in all three. Same sizes, as many weights, one text. What a reversible
layer adds are these gradients and two random states for dropout, 10 kB; no activation is among it.
"""

from collections.abc import Callable
from functools import partial

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.comparison.measure import peak_bytes
from regard.nn.attention import MultiHeadAttention
from regard.nn.block import Block, replay_blocks
from regard.nn.feedforward import FeedForward
from regard.nn.mask import CAUSAL
from regard.nn.residual import Branch, PreNorm
from regard.nn.reversible import ReversibleBlock, Streams, run_reversible
from regard_lectures.figure import Check, Numbers, above, below, equal, seeded, within

TITLE = "Memory that does not grow with depth"
DECKS = ("003", "002")
CLAIM = "To train 24 reversible layers takes little more memory than to train 2; of ordinary ones, ten times as much."
EXPECTED = "The memory of a training step is flat in depth with reversible layers and linear with ordinary ones."
FOUND = (
    "From 2 to 24 layers reversible ones take 1.21 times the memory, most of what is added are gradients, ordinary "
    "ones 10.8 times, in equal steps; at 24 layers 13 times as much as reversible ones."
)
COST = 6.0
SEED = 0

DEPTHS = [2, 4, 8, 12, 16, 24]
TOKENS, WIDTH, HEADS = 2048, 32, 2
TINTS = {"ordinary": style.SECOND, "computed again": style.EDGE, "reversible": style.WEIGHT}


def compute() -> Numbers:
    with seeded(SEED):
        found = {name: [cost(name, depth) for depth in DEPTHS] for name in TINTS}
    counts = {name: [count(name, depth) for depth in DEPTHS] for name in TINTS}
    return {"depths": DEPTHS, "bytes": found, "weights": counts}


def blocks(name: str, depth: int) -> nn.ModuleList:
    def attention() -> MultiHeadAttention:
        return MultiHeadAttention(WIDTH, HEADS)

    norm, branch = partial(nn.LayerNorm, WIDTH), partial(Branch, WIDTH)
    if name == "reversible":
        return nn.ModuleList(
            ReversibleBlock(attention(), FeedForward(WIDTH, 4 * WIDTH), norm, branch, 4 * WIDTH) for _ in range(depth)
        )
    made = nn.ModuleList(
        Block(attention(), FeedForward(WIDTH, 4 * WIDTH), lambda: PreNorm(norm(), branch())) for _ in range(depth)
    )
    if name == "computed again":
        replay_blocks(made)
    return made


def count(name: str, depth: int) -> int:
    return sum(weight.numel() for weight in blocks(name, depth).parameters())


def cost(name: str, depth: int) -> int:
    """Bytes at the peak of a step, forward and backward."""
    layers, x = blocks(name, depth).train(), torch.randn(1, TOKENS, WIDTH)
    run = twice if name == "reversible" else once
    return peak_bytes(lambda: step(run, layers, x))


def step(run: Callable[[nn.ModuleList, Tensor], Tensor], layers: nn.ModuleList, x: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(run(layers, x).square().mean(), list(layers.parameters()))


def once(layers: nn.ModuleList, x: Tensor) -> Tensor:
    for layer in layers:
        x = layer(x, mask=CAUSAL)
    return x


def twice(layers: nn.ModuleList, x: Tensor) -> Tensor:
    y = run_reversible(list(layers), Streams(x, x), mask=CAUSAL)
    return torch.cat((y.first, y.second), -1)


def draw(numbers: Numbers) -> Figure:
    note = (
        "The peak of all that one training step makes, gradients of the weights included: "
        f"{TOKENS:,} tokens, width {WIDTH}, {HEADS} heads.\n"
        "Computed again: an ordinary stack that keeps the input of each layer alone. ×: 24 layers over 2."
    )
    figure = style.page(TITLE, note, height=5.2)
    axes = figure.subplots()
    for name, tint in TINTS.items():
        values = [size / 1e6 for size in numbers["bytes"][name]]
        axes.plot(numbers["depths"], values, color=tint, marker="o")
        said = f"{name}: {values[-1] / values[0]:.1f} ×"
        style.end_label(
            axes, numbers["depths"][-1], values[-1], said, tint, dx=12, dy=-4 if name == "reversible" else 4
        )
    axes.set(xticks=numbers["depths"], xlim=(1, 31), ylim=(0, None))
    axes.set_xlabel("layers", loc="center")
    axes.set_ylabel("MB")
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    depths, found, weights = numbers["depths"], numbers["bytes"], numbers["weights"]
    plain, kept = found["ordinary"], found["reversible"]
    steps = [(b - a) / (n - m) for a, b, m, n in zip(plain, plain[1:], depths, depths[1:], strict=False)]
    own = (kept[-1] - kept[0] - 4 * (weights["reversible"][-1] - weights["reversible"][0])) / (depths[-1] - depths[0])
    return [
        below("reversible: bytes that a layer adds beside gradients; an activation has 262,144", own, 15_000),
        below("reversible: 24 layers over 2", kept[-1] / kept[0], 1.3),
        within("ordinary: bytes per layer, largest over smallest", max(steps) / min(steps), 1.0, 1.1),
        above("ordinary: 24 layers over 2", plain[-1] / plain[0], 9.0),
        above("24 layers: ordinary over reversible", plain[-1] / kept[-1], 4.0),
        equal("the three have as many weights", str(weights["reversible"]), str(weights["ordinary"])),
    ]
