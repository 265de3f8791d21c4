"""4.2: the decoder stack of GPT-2, read off the running code (Radford et al., 2019).

Norms stand before the parts, one more at the end; the output matrix is the embedding itself. What ends a branch starts
smaller by 1 / sqrt(2 L), for 2 L branches are added on the way through L layers: so the stream is about as large after
48 layers as after 3. The paper says 1 / sqrt(N) of N residual layers, which are the two of each block.
"""

import math
from dataclasses import replace

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.models.gpt import GPT, PRESETS, Config
from regard.nn.tap import capture
from regard.zoo import count_parameters, empty_net
from regard_lectures.figure import Check, Numbers, above, below, close, equal, plain, seeded, within
from regard_lectures.transformer.anatomy import ATTENTION, FEED_FORWARD, column, watch
from regard_lectures.transformer.diagram import BREADTH, Look, box, framed, norm, plus, tower

TITLE = "GPT-2: a decoder alone"
DECKS = ("001", "003")
CLAIM = "Norms first and one at the end, the embedding as output, and branches that start smaller by 1/sqrt(2 L)."
EXPECTED = (
    "Norms stand before the parts and one more at the end, the output matrix is the embedding, and branches that "
    "start smaller by 1/sqrt(2 L) leave the stream as large after 48 layers as after 3."
)
FOUND = (
    "So the running code has it, with 124.4 million weights; after 48 layers the stream is 1.10 times as large as "
    "after 3, and 4.8 times with all weights alike."
)
COST = 5.0
SEED = 0

SMALL = PRESETS["gpt-small"]
DEPTHS, DIM, LENGTH = (3, 12, 48), 64, 32


def compute() -> Numbers:
    config = replace(SMALL, vocab=64, length=LENGTH)  # its layers are those of the real one
    model = empty_net("gpt", SMALL)
    assert isinstance(model, GPT)
    words = torch.zeros(1, 5, dtype=torch.long, device="meta")
    numbers: Numbers = {
        "anatomy": column(watch(model, lambda: model(words)), "blocks", model.norm is not None),
        "parameters": count_parameters(model),
        "tied": model.words() is model.embed.weight,
    }
    with seeded(SEED):
        real = GPT(config)
    numbers["deviations"] = deviations(real)
    numbers["streams"] = {}
    for depth in DEPTHS:
        for kind in ("scaled", "unscaled"):
            with seeded(SEED):
                net = GPT(Config(vocab=64, length=LENGTH, dim=DIM, depth=depth, heads=4)).eval()
                ids = torch.randint(64, (8, LENGTH))
            numbers["streams"][f"{kind} {depth}"] = sizes(net, ids, scaled=kind == "scaled")
    numbers["later"] = later(net, ids[:1])
    return numbers


def deviations(net: GPT) -> Numbers:
    """Of the first weights: what ends a branch, and all other matrices of the blocks."""
    ends = ("out.weight", "down.weight")
    blocks = [(name, weight) for name, weight in net.blocks.named_parameters() if weight.ndim == 2]
    last = torch.cat([weight.flatten()[:100_000] for name, weight in blocks if name.endswith(ends)])
    rest = torch.cat([weight.flatten()[:100_000] for name, weight in blocks if not name.endswith(ends)])
    return {"ends": float(last.std().detach()), "others": float(rest.std().detach()), "matrices": len(blocks)}


@torch.no_grad()
def sizes(net: GPT, ids: Tensor, *, scaled: bool) -> list[float]:
    """The root mean square of the stream after each layer, as it starts or with branches as large as all else."""
    if not scaled:
        for name, weight in net.blocks.named_parameters():
            if name.endswith(("out.weight", "down.weight")):
                weight.mul_((2 * net.config.depth) ** 0.5)
    with capture(net, "blocks.*.stream") as seen:
        net(ids)
    streams = torch.stack([calls[-1].square().mean().sqrt() for calls in seen.values()])
    return list(plain(streams, 4))


@torch.no_grad()
def later(net: GPT, ids: Tensor) -> float:
    """By how much a changed last token changes what is said before it."""
    changed = ids.clone()
    changed[:, -1] = (changed[:, -1] + 1) % net.config.vocab
    return float((net(ids) - net(changed))[:, :-1].abs().max())


def draw(numbers: Numbers) -> Figure:
    depth = numbers["anatomy"]["depth"]
    note = (
        f"Left, drawn from what ran: the smallest of four, {numbers['parameters'] / 1e6:.0f} million weights. Right, "
        "narrower ones before training:\nbranches that start smaller by $1/\\sqrt{2L}$ leave the stream as large after "
        "48 layers as after 3."
    )
    figure = style.page(TITLE, note, height=7.3)
    axes = style.stage(figure)
    stack(axes, 2.35, 0.3, numbers["anatomy"], depth)
    chart = figure.add_axes((0.56, 0.3, 0.34, 0.42))
    for one in DEPTHS:
        for kind, tint in (("scaled", style.WEIGHT), ("unscaled", style.SECOND)):
            y = numbers["streams"][f"{kind} {one}"]
            x = [(i + 1) / one for i in range(one)]
            chart.plot(x, y, "o-" if one == 3 else "-", color=tint, lw=1.8, ms=4)
            if kind == "unscaled":
                style.end_label(chart, 1.0, y[-1], f"{one} layers", tint, size=10)
    chart.set_yscale("log")
    chart.minorticks_off()
    ticks = [0.1, 0.2, 0.5, 1.0, 2.0]
    chart.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    chart.set(xlim=(0, 1.02), ylim=(0.08, None), xlabel="share of the layers passed", title="size of the stream")
    chart.set_xticks([0, 0.5, 1], ["0", "½", "all"])
    chart.grid(axis="y")
    chart.spines["left"].set_visible(False)
    chart.text(0.98, 0.105, "with $1/\\sqrt{2L}$: all three", color=style.WEIGHT, ha="right", weight="bold")
    chart.text(0.4, 3.3, "all weights alike", color=style.SECOND, weight="bold")
    found = numbers["deviations"]
    says = (
        f"deviation of its first weights: {found['others']:.4f}; where a branch\n"
        f"ends, {found['ends']:.5f}: smaller by {found['others'] / found['ends']:.2f} = $\\sqrt{{2 · {depth}}}$"
    )
    style.write(axes, 5.6, 0.95, says, ha="left", size=10.5, color=style.SOFT)
    return figure


def stack(axes: Axes, x: float, y: float, found: Numbers, depth: int) -> None:
    """From words at the bottom to the next word at the top."""
    look = Look()
    style.write(axes, x, y, "words so far", family=style.SERIF, size=15)
    style.arrow(axes, (x, y + 0.15), (x, y + 0.3))
    box(axes, x, y + 0.3, "embedding", "embedding", look, tall=0.32)
    middle = y + 0.82
    style.arrow(axes, (x, y + 0.62), (x, middle - 0.1))
    plus(axes, x, middle, look, "positions")
    style.box(axes, x - 2.0, middle - 0.15, 0.95, 0.3, "positions", size=10.5, fill=style.mix(style.SOFT, 0.12))
    style.arrow(axes, (x - 1.05, middle), (x - 0.1, middle))
    style.arrow(axes, (x, middle + 0.1), (x, middle + 0.22), head=0)
    low = middle + 0.22
    built = tower(axes, x, low, found["parts"], look, side=-1)
    framed(axes, x, low, built.top + 0.1, depth, look, side=-1)
    style.arrow(axes, (x, built.top), (x, built.top + 0.22), head=0)
    top = norm(axes, x, built.top + 0.22, look) if found["final"] else built.top + 0.22
    style.arrow(axes, (x, top), (x, top + 0.14))
    box(axes, x, top + 0.14, "the same embedding", "embedding", look, tall=0.32)
    far, upper, lower = x + BREADTH / 2 + 0.62, top + 0.3, y + 0.46
    edge = x + BREADTH / 2
    axes.plot([edge, far, far, edge], [lower, lower, upper, upper], color=style.EDGE, lw=1.2, ls=(0, (3, 2)), zorder=1)
    style.write(axes, far + 0.1, (lower + upper) / 2, "tied", ha="left", size=10.5, color=style.SOFT)
    style.arrow(axes, (x, top + 0.46), (x, top + 0.6))
    box(axes, x, top + 0.6, "softmax", "output", look, tall=0.32)
    style.arrow(axes, (x, top + 0.92), (x, top + 1.08))
    style.write(axes, x, top + 1.22, "next word", family=style.SERIF, size=15)


def checks(numbers: Numbers) -> list[Check]:
    parts, found, streams = numbers["anatomy"]["parts"], numbers["deviations"], numbers["streams"]
    deepest, flattest = DEPTHS[-1], DEPTHS[0]
    return [
        equal("parts of a layer", ", ".join(part["kind"] for part in parts), f"{ATTENTION}, {FEED_FORWARD}"),
        equal("norms stand before", all(part["norm"] == "before" for part in parts), True),
        equal("attention hides the future", parts[0]["causal"], True),
        equal("no part looks at an encoder", any(part["cross"] for part in parts), False),
        below("what a changed last token changes before it", numbers["later"], 1e-6),
        equal("a norm after the last layer", numbers["anatomy"]["final"], True),
        equal("the output matrix is the embedding", numbers["tied"], True),
        close("millions of weights", numbers["parameters"] / 1e6, 124.4, 0.05),
        close("deviation of the first weights", found["others"], 0.02, 2e-4),
        close("the same where a branch ends, times sqrt(2 L)", found["ends"] * math.sqrt(24), 0.02, 2e-4),
        within(
            "stream after 48 layers over that after 3, scaled",
            streams[f"scaled {deepest}"][-1] / streams[f"scaled {flattest}"][-1],
            0.8,
            1.25,
        ),
        above(
            "the same with all weights alike",
            streams[f"unscaled {deepest}"][-1] / streams[f"unscaled {flattest}"][-1],
            3.0,
        ),
    ]
