"""10.6c: deck 003's three diagrams: a residual, a reversible layer forward, and the same backward.

With one stream, x + f(x) cannot be undone. With two, each half adds to one what it reads from the other, so the other
is still there to read, and what was added can be taken away again (Gomez et al., 2017). The small matrices are what
passes the library's layer, three tokens of width four, and what its way back finds.
"""

from functools import partial

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.nn.feedforward import FeedForward
from regard.nn.mask import CAUSAL
from regard.nn.mechanisms import Choice, build_mixer
from regard.nn.residual import Branch
from regard.nn.reversible import ReversibleBlock, Streams, run_reversible
from regard.nn.site import Site
from regard_lectures.figure import Check, Numbers, above, below, plain, seeded
from regard_lectures.recurrent.drawing import LIT, sign_at

TITLE = "There and back: reversible layers"
DECKS = ("003", "002")
CLAIM = "Two streams that take turns give back what went in, so gradients need no kept activations."
EXPECTED = (
    "The inverse of reversible layers gives back what went in, to 1e-5 in float32 and 1e-12 in float64, and their "
    "gradients are those of ordinary layers."
)
FOUND = (
    "Six layers and back differ by 5e-7 in float32 and 9e-16 in float64, gradients by 7e-15 and with dropout by 1e-14."
)
COST = 0.3
SEED = 6

TOKENS, WIDTH, DEPTH = 3, 4, 6
LSH: Choice = {"kind": "lsh", "chunk": 2, "buckets": 4, "rounds": 2}


def stack(depth: int, *, dropout: float = 0.0) -> nn.ModuleList:
    """Layers whose attention is exact and by hashing, in turns."""
    site = Site(dim=WIDTH, heads=1, causal=True, length=16, dropout=dropout)
    choices: list[Choice] = ["softmax", LSH]
    return nn.ModuleList(
        ReversibleBlock(
            build_mixer(choices[i % 2], site),
            FeedForward(WIDTH, 2 * WIDTH, dropout=dropout),
            partial(nn.LayerNorm, WIDTH),
            partial(Branch, WIDTH, dropout=dropout),
            2 * WIDTH,
        )
        for i in range(depth)
    )


def compute() -> Numbers:
    with seeded(SEED):
        layer = stack(1).double()[0]
        assert isinstance(layer, ReversibleBlock)
        x = Streams(*torch.randn(2, 1, TOKENS, WIDTH, dtype=torch.float64))
        with torch.no_grad():
            y = layer(x, mask=CAUSAL)
            back = layer.inverse(y, mask=CAUSAL)
            said, fed = layer.attend(x.second, CAUSAL), layer.feed(y.first)
        parts = {"x1": x.first, "x2": x.second, "y1": y.first, "y2": y.second}
        parts |= {"back x1": back.first, "back x2": back.second}
        return {
            **{name: plain(part[0], 3) for name, part in parts.items()},
            "added": apart(y, Streams(x.first + said, x.second + fed)),
            "back": apart(back, x),
            "float32": undone(torch.float32),
            "float64": undone(torch.float64),
            "moved": float((y.second - x.second).abs().max()),
            "slopes": slopes(0.0),
            "slopes, dropout": slopes(0.3),
        }


@torch.no_grad()
def undone(dtype: torch.dtype) -> float:
    """How far from the beginning many layers, and then the same backward, end."""
    blocks = stack(DEPTH).to(dtype).eval()
    x = y = Streams(*torch.randn(2, 2, 16, WIDTH, dtype=dtype))
    for block in blocks:
        y = block(y, mask=CAUSAL)
    for block in reversed(blocks):
        assert isinstance(block, ReversibleBlock)
        y = block.inverse(y, mask=CAUSAL)
    return apart(x, y)


def apart(one: Streams, other: Streams) -> float:
    return max(float((one.first - other.first).abs().max()), float((one.second - other.second).abs().max()))


def slopes(dropout: float) -> float:
    """Gradients that find activations again against those of ordinary layers: largest difference, weights included."""
    blocks = stack(DEPTH, dropout=dropout).double().train()
    x = Streams(*(torch.randn(2, 9, WIDTH, dtype=torch.float64, requires_grad=True) for _ in range(2)))

    def found(y: Streams) -> tuple[Tensor, ...]:
        loss = (y.first.sin() + y.second.square()).sum()
        return torch.autograd.grad(loss, [x.first, x.second, *blocks.parameters()])

    torch.manual_seed(SEED)
    plainly = x
    for block in blocks:
        plainly = block(plainly, mask=CAUSAL)
    wanted = found(plainly)
    torch.manual_seed(SEED)
    again = found(run_reversible(list(blocks), x, mask=CAUSAL))
    return max(float((a - b).abs().max()) for a, b in zip(again, wanted, strict=True))


def draw(numbers: Numbers) -> Figure:
    note = (
        "From bottom to top. Left, $x$ cannot be found again in the sum. Middle, $F$ (attention) reads one stream and "
        "adds to\nthe other, then $G$ (feed-forward) the other way round. Right, the same steps are taken back, the "
        "last one first."
    )
    figure = style.page(TITLE, note, height=7.6)
    axes = style.stage(figure)
    residual(axes, 1.25)
    heading(axes, 2.8, "reversible, forward", "$y_1 = x_1 + F(x_2),\\ \\ y_2 = x_2 + G(y_1)$")
    reversible(axes, 3.55, numbers, "+", low="x", high="y", first="F")
    heading(axes, 6.5, "reversible, backward", "$x_2 = y_2 - G(y_1),\\ \\ x_1 = y_1 - F(x_2)$")
    reversible(axes, 7.25, numbers, "−", low="y", high="back x", first="G")
    for x in (2.55, 6.25):
        axes.plot([x, x], [0.35, 6.1], color=style.LINE, lw=1.2)
    return figure


LOW, TURN, HIGH, TOP = 1.05, 2.35, 3.75, 4.85  # where streams begin, F and G are added, and streams end


def heading(axes: Axes, x: float, text: str, rule: str) -> None:
    style.write(axes, x, 6.02, text, ha="left", va="baseline", size=13, weight="bold")
    style.write(axes, x, 5.65, rule, ha="left", va="baseline", size=13.5, color=style.SOFT)


def branch(axes: Axes, start: float, end: float, low: float, high: float, text: str) -> None:
    """From one stream, through a box in the middle, to the other."""
    middle = (start + end) / 2
    style.route(axes, [(start, low), (middle, low), (middle, (low + high) / 2 - 0.2)], color=style.INK)
    style.box(axes, middle - 0.25, (low + high) / 2 - 0.2, 0.5, 0.4, f"${text}$", size=15, **LIT)
    near = end + (0.11 if start > end else -0.11)
    style.route(axes, [(middle, (low + high) / 2 + 0.2), (middle, high), (near, high)], color=style.INK)


def state(axes: Axes, x: float, y: float, values: list[list[float]], name: str, *, above: bool) -> None:
    """A stream's numbers, centred at (x, y), and its name on the far side of the diagram."""
    cell = 0.15
    style.cells(axes, x - cell * WIDTH / 2, y + cell * TOKENS / 2, values, cell, limit=2.5)
    style.write(axes, x, y + (0.4 if above else -0.4), f"${name}$", size=15)


def residual(axes: Axes, x: float) -> None:
    heading(axes, 0.3, "residual", "$y = x + F(x)$")
    style.write(axes, x, 0.42, "$x$", size=15)
    style.arrow(axes, (x, 0.6), (x, 2.23))
    style.box(axes, x - 0.45, 2.25, 0.9, 0.45, "$F$", size=15, **LIT)
    style.arrow(axes, (x, 2.7), (x, HIGH - 0.11))
    style.route(axes, [(x, LOW), (x - 0.7, LOW), (x - 0.7, HIGH), (x - 0.11, HIGH)], color=style.INK)
    sign_at(axes, x, HIGH, "+")
    style.arrow(axes, (x, HIGH + 0.11), (x, TOP))
    style.write(axes, x, 5.05, "$y$", size=15)


def reversible(axes: Axes, left: float, numbers: Numbers, sign: str, *, low: str, high: str, first: str) -> None:
    """Two streams from bottom to top. F reads the second and adds to the first, G the other way round."""
    places = {"F": TURN, "G": HIGH} if first == "F" else {"G": TURN, "F": HIGH}
    sides = {"1": left, "2": left + 1.9}
    for i, part in (("1", "F"), ("2", "G")):
        x, place = sides[i], places[part]
        style.arrow(axes, (x, LOW + 0.05), (x, place - 0.11))
        style.arrow(axes, (x, place + 0.11), (x, TOP - 0.3))
        sign_at(axes, x, place, sign)
        state(axes, x, LOW - 0.2, numbers[low + i], f"{low}_{i}", above=False)
        state(axes, x, TOP - 0.03, numbers[high + i], f"{high.replace('back ', '')}_{i}", above=True)
    branch(axes, sides["2"], sides["1"], places["F"] - 1.0, places["F"], "F")
    branch(axes, sides["1"], sides["2"], places["G"] - 1.0, places["G"], "G")


def checks(numbers: Numbers) -> list[Check]:
    return [
        above("one layer moves a stream by", numbers["moved"], 0.1),
        below("six layers and back, in float32", numbers["float32"], 1e-5),
        below("six layers and back, in float64", numbers["float64"], 1e-12),
        below("gradients against those of ordinary layers", numbers["slopes"], 1e-10),
        below("the same with dropout, which must be drawn again", numbers["slopes, dropout"], 1e-10),
        below("what came back against what went in", numbers["back"], 1e-12),
        below("y1 - x1 against F(x2), and y2 - x2 against G(y1)", numbers["added"], 1e-12),
    ]
