"""1.6: the LSTM cell beside the encoder-decoder (the two pictures of deck 002), with the values of a real cell.

Below right, the constant error carousel of Hochreiter and Schmidhuber (1997): with the forget gate held at 1 and the
input gate at 0, what the cell keeps has the slope 1 by what it kept a hundred steps before, exactly.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.models.rnn import Config, RNNTranslator
from regard.nn.recurrent import LSTMCell, Recurrent
from regard.nn.tap import capture, listen
from regard_lectures.figure import Check, Numbers, below, close, equal, plain, seeded
from regard_lectures.recurrent.drawing import GREY, NUMBERED, column, sign_at, word

TITLE = "The LSTM cell, in an encoder-decoder"
DECKS = ("002", "004")
CLAIM = "What an LSTM keeps passes through sums and gates alone: with f = 1 and i = 0 its gradient is exactly 1."
EXPECTED = (
    "With the forget gate at 1 and the input gate at 0 an LSTM keeps its content for ever, with a gradient of exactly"
    " 1."
)
FOUND = "The gradient is 1.0 at each of 100 steps; with a forget gate of 0.8 it is 0.8^100 to 1e-9."
COST = 0.2
SEED = 4

SIZE, STEPS = 4, 100
HELD = [1.0, 0.95, 0.8]  # forget gates
PAIRS = [("A", "Ein"), ("bird", "Vogel"), ("flies", "fliegt")]


def compute() -> Numbers:
    with seeded(SEED):
        cell = LSTMCell(SIZE, SIZE).double()
        for weight in cell.parameters():
            nn.init.normal_(weight)
        x, h, c = torch.randn(3, 1, SIZE, dtype=torch.float64)
        state = {"h": h.tanh(), "c": c}
        with capture(cell, "*") as seen, torch.no_grad():
            cell(x, state)
        return {
            "x": plain(x[0], 3),
            "h": plain(state["h"][0], 3),
            "c": plain(c[0], 3),
            "seen": {name: plain(calls[0][0], 3) for name, calls in seen.items()},
            "torch": theirs(cell, x, state),
            "carousel": [carousel(f) for f in HELD],
            "handed": handed(),
        }


@torch.no_grad()
def theirs(cell: LSTMCell, x: Tensor, state: dict[str, Tensor]) -> float:
    other = nn.LSTMCell(SIZE, SIZE).double()
    for ours, name in ((cell.input, "ih"), (cell.recurrent, "hh")):
        getattr(other, f"weight_{name}").copy_(ours.weight)
        getattr(other, f"bias_{name}").copy_(ours.bias)
    return max(
        float((one - two).abs().max())
        for one, two in zip(other(x, (state["h"], state["c"])), cell(x, state).values(), strict=True)
    )


def carousel(f: float) -> list[float]:
    """With the forget gate held at f and the input gate at 0: the slope of c after all steps by c so many before."""
    net, x = Recurrent(LSTMCell, SIZE, SIZE).double(), torch.randn(1, STEPS + 1, SIZE, dtype=torch.float64)
    with (
        listen(net, "*.f", lambda _, gate: torch.full_like(gate, f)),
        listen(net, "*.i", lambda _, gate: torch.zeros_like(gate)),
        capture(net, "*.c", grad=True) as seen,
    ):
        net(x, state={name: torch.randn(1, 1, SIZE, dtype=torch.float64) for name in ("h", "c")})
    (kept,) = seen.values()
    slopes = torch.autograd.grad(kept[-1][0, 0], kept)
    return [float(slope[0, 0]) for slope in reversed(slopes)]


@torch.no_grad()
def handed() -> float:
    """How far the state that the decoder starts from is from the encoder's last one: h and c, of both layers."""
    config = Config(vocab=9, dim=4, hidden=5, depth=2, cell="lstm", bidirectional=False, decoder="sutskever")
    net = RNNTranslator(config).double()
    memory = net.encode(torch.randint(9, (2, 6)))
    start = net.decoder.begin(memory)
    assert set(start) == {"h", "c"}
    return max(float((start[name] - memory.last[name]).abs().max()) for name in start)


MAIN, GATES, BUS = 3.75, 1.62, 1.17  # the heights of what is kept, of the gates, and of what they are made of
NAMES = {"f": 1.5, "i": 2.35, "g": 3.25, "o": 4.15}  # of the gates, and where they stand


def draw(numbers: Numbers) -> Figure:
    note = (
        "Above, one LSTM reads and another writes; below left, one of these boxes. Cells: live numbers, grey below 0."
    )
    figure = style.page(TITLE, note, height=7.9)
    axes = style.stage(figure)
    translation(axes)
    cell_diagram(axes, numbers)
    style.write(axes, 6.75, 4.55, "slope of what is kept, $k$ steps later", ha="left", va="baseline", size=12)
    style.write(axes, 6.75, 4.27, "$\\partial c_k / \\partial c_0$ with $i = 0$", ha="left", va="baseline", size=12)
    chart = figure.add_axes((0.725, 0.105, 0.18, 0.41))
    tints = style.WEIGHT, style.SECOND, style.SOFT
    for f, slopes, tint in zip(HELD, numbers["carousel"], tints, strict=True):
        chart.plot(range(len(slopes)), slopes, color=tint)
        style.end_label(chart, STEPS, slopes[-1], f"$f$ = {f:g}", tint, dx=5)
    chart.set_yscale("log")
    chart.set(xlabel="$k$", xlim=(0, STEPS), ylim=(1e-10, 10), xticks=[0, 50, 100], yticks=[1e-10, 1e-5, 1])
    chart.minorticks_off()
    chart.grid(axis="y")
    chart.spines["left"].set_visible(False)
    return figure


def translation(axes: Axes) -> None:
    places = [0.95 + 1.55 * i for i in range(2 * len(PAIRS))]
    for i, x in enumerate(places):
        style.box(axes, x - 0.42, 5.75, 0.84, 0.5, "LSTM", size=11, **GREY)
        style.arrow(axes, (x, 5.47), (x, 5.73))
        reading = i < len(PAIRS)
        given = PAIRS[i][0] if reading else "‹start›" if i == len(PAIRS) else PAIRS[i - len(PAIRS) - 1][1]
        word(axes, x, 5.23, given, color=style.INK if reading else style.EDGE)
        if not reading:
            style.arrow(axes, (x, 6.27), (x, 6.51))
            word(axes, x, 6.6, PAIRS[i - len(PAIRS)][1])
        if i + 1 < len(places):
            hands = i == len(PAIRS) - 1
            for y in (6.1, 5.9):
                tint = style.WEIGHT if hands else style.SOFT
                style.arrow(
                    axes, (x + 0.44, y), (places[i + 1] - 0.44, y), color=tint, line=2 if hands else 1.4, head=8
                )
            if hands:
                style.write(axes, x + 0.775, 6.29, "$c$ and $h$", size=13, color=style.WEIGHT)
    axes.plot([0.3, 9.7], [4.95] * 2, color=style.LINE, lw=1.2)


def cell_diagram(axes: Axes, numbers: Numbers) -> None:
    values = numbers["seen"]
    style.box(axes, 0.85, 0.98, 4.65, 3.3, fill=style.SUNK, edge=style.LINE, corner=0.12)
    before, after = (0.45, numbers, ""), (5.9, values, "\\prime")
    for x, vectors, mark in (before, after):
        for name, y in (("c", MAIN), ("h", GATES + 0.42)):
            column(axes, x, y, vectors[name], limit=1.5, **NUMBERED)
            style.write(axes, x, y + 0.53, f"${name}{mark}$", size=15)
    column(axes, 2.8, 0.47, numbers["x"], tint=style.KEY, limit=2.0, **NUMBERED)
    style.write(axes, 2.45, 0.47, "$x$", size=15)
    style.arrow(axes, (2.8, 0.87), (2.8, BUS), head=0)
    style.route(axes, [(0.67, GATES + 0.42), (1.05, GATES + 0.42), (1.05, BUS), (NAMES["o"], BUS)], head=0)
    for name, x in NAMES.items():
        style.arrow(axes, (x, BUS), (x, GATES - 0.18))
        text = f"${name} = $" + ("tanh" if name == "g" else "$\\sigma$")
        style.box(axes, x - 0.37, GATES - 0.17, 0.74, 0.34, text, size=11.5, edge=style.SOFT)
        column(axes, x, GATES + 0.58, values[name], **NUMBERED)
    top, inner = GATES + 0.98, 2.95
    style.arrow(axes, (0.68, MAIN), (NAMES["f"] - 0.11, MAIN), color=style.WEIGHT, line=2)
    style.arrow(axes, (NAMES["f"] + 0.11, MAIN), (2.8 - 0.11, MAIN), color=style.WEIGHT, line=2)
    style.arrow(axes, (2.8 + 0.11, MAIN), (5.67, MAIN), color=style.WEIGHT, line=2)
    style.arrow(axes, (NAMES["f"], top), (NAMES["f"], MAIN - 0.11))
    style.route(axes, [(NAMES["i"], top), (NAMES["i"], inner), (2.8 - 0.11, inner)], corner=0.1)
    style.route(axes, [(NAMES["g"], top), (NAMES["g"], inner), (2.8 + 0.11, inner)], corner=0.1)
    style.arrow(axes, (2.8, inner + 0.11), (2.8, MAIN - 0.11))
    style.arrow(axes, (4.85, MAIN), (4.85, 3.4))
    style.box(axes, 4.6, 3.08, 0.5, 0.3, "tanh", size=10.5, edge=style.SOFT)
    style.arrow(axes, (4.85, 3.08), (4.85, 2.86))
    style.route(axes, [(NAMES["o"], top), (NAMES["o"], 2.75), (4.85 - 0.11, 2.75)], corner=0.1)
    style.route(axes, [(4.96, 2.75), (5.25, 2.75), (5.25, GATES + 0.42), (5.67, GATES + 0.42)], corner=0.1)
    for x, y, sign in ((NAMES["f"], MAIN, "×"), (2.8, MAIN, "+"), (2.8, inner, "×"), (4.85, 2.75, "×")):
        sign_at(axes, x, y, sign)


def checks(numbers: Numbers) -> list[Check]:
    kept, _, lost = numbers["carousel"]
    return [
        equal("f = 1, i = 0: smallest gradient over 100 steps", min(kept), 1.0),
        equal("f = 1, i = 0: largest gradient over 100 steps", max(kept), 1.0),
        close("f = 0.8: the gradient after 100 steps over 0.8^100", lost[-1] / 0.8**STEPS, 1.0, 1e-9),
        below("PyTorch's cell with these weights, largest difference", numbers["torch"], 1e-12),
        equal("the decoder starts from the encoder's last h and c: difference", numbers["handed"], 0.0),
    ]
