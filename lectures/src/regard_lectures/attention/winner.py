"""2.1c: deck 000's three tokens. The first asks; the network learns to make a_3 dominate, for there the answer stands.

The toy: token 1 names a letter, tokens 2 and 3 each hold a letter and a digit; the digit beside the asked letter is
wanted. Values and output are fixed to the identity, so W_q and W_k alone are trained, as the slide has it. The slide's
a_i = <q_1, k_1> is read as <q_1, k_i>.
"""

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.nn.attention import MultiHeadAttention
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, above, aside, plain, seeded
from regard_lectures.toys import fit

TITLE = "Three tokens: training makes a₃ dominate"
DECKS = ("000",)
CLAIM = "Before training the three weights are alike; after training W_q and W_k on a look-up, a_3 dominates."
EXPECTED = "After training W_q and W_k on a look-up, a_3 dominates."
FOUND = "a_3 is 0.33 before training and 0.99995 after it, in one start."
COST = 1.3
SEED = 0

SYMBOLS = 8  # letters, and digits
WIDTH = 3 * SYMBOLS  # which letter is asked for, which letter is held, which digit is held


def compute() -> Numbers:
    with seeded(SEED):
        attention = MultiHeadAttention(WIDTH, 1, biases="")
        assert attention.k is not None
        assert attention.v is not None
        for fixed in (attention.v, attention.out):
            nn.init.eye_(fixed.weight).requires_grad_(False)
        example = tokens(torch.tensor([1]), torch.tensor([[5, 1]]), torch.tensor([[4, 2]]))  # asks B; holds F4, B2
        before = look(attention, example)
        trained = [attention.q.weight, attention.k.weight]
        history = fit(trained, lambda: loss(attention, 256), steps=150, rate=0.05)
        after = look(attention, example)
    return {"before": before, "after": after, "loss": [float(f"{x:.4g}") for x in history[::5]]}


def tokens(asked: Tensor, letters: Tensor, digits: Tensor) -> Tensor:
    """(b,), (b, 2), (b, 2) -> (b, 3, d)"""
    x = torch.zeros(len(asked), 3, WIDTH)
    x[:, 0, :SYMBOLS] = F.one_hot(asked, SYMBOLS).float()
    x[:, 1:, SYMBOLS : 2 * SYMBOLS] = F.one_hot(letters, SYMBOLS).float()
    x[:, 1:, 2 * SYMBOLS :] = F.one_hot(digits, SYMBOLS).float()
    return x


def loss(attention: MultiHeadAttention, batch: int) -> Tensor:
    letters = torch.rand(batch, SYMBOLS).argsort(-1)[:, :2]  # two different ones
    digits = torch.randint(SYMBOLS, (batch, 2))
    place = torch.randint(2, (batch, 1))
    y = attention(tokens(letters.gather(1, place)[:, 0], letters, digits))
    said = y[:, 0, 2 * SYMBOLS :].gather(1, digits.gather(1, place))  # how much of the right digit came through
    return -(said + 1e-9).log().mean()


def look(attention: MultiHeadAttention, x: Tensor) -> dict[str, list[float]]:
    with torch.no_grad(), capture(attention, "*") as seen:
        attention(x)
    scores = seen["queries"][0][0, 0, 0] @ seen["keys"][0][0, 0].mT / WIDTH**0.5
    return {"scores": plain(scores), "weights": plain(seen["weights"][0][0, 0, 0])}


def draw(numbers: Numbers) -> Figure:
    note = (
        "Token 1 asks for the digit beside B. Only $W_q$ and $W_k$ are trained; a line is as thick as its weight $a_i$."
    )
    figure = style.page(TITLE.replace("a₃", "$a_3$"), note, height=5.75)
    axes = style.stage(figure)
    for name, x, heading in (("before", 0.35, "before training"), ("after", 5.2, "after training")):
        diagram(axes, x, numbers[name], heading)
    return figure


def diagram(axes: Axes, left: float, found: dict[str, list[float]], heading: str) -> None:
    style.write(axes, left, 4.45, heading, ha="left", size=13, weight="bold")
    second, third = (style.percent(weight) for weight in found["weights"][1:])
    said = f"$\\Sigma\\, a_i v_i$ brings {second} of the digit 4 and {third} of the digit 2"
    style.write(axes, left, 4.15, said, ha="left", color=style.SOFT)
    names = ["B ?", "F 4", "B 2"]
    for i, name in enumerate(names):
        x = left + 0.6 + 1.5 * i
        style.box(axes, x - 0.45, 0.25, 0.9, 0.5, name, family=style.SERIF, size=16, fill=style.SUNK)
        style.write(axes, x - 0.62, 0.5, f"$x_{i + 1}$", size=14, color=style.SOFT, ha="center")
        style.arrow(axes, (x, 0.78), (x, 1.02))
        if i == 0:
            part(axes, x - 0.42, "$q_1$", style.QUERY, style.QUERY_WASH)
        part(axes, x, f"$k_{i + 1}$", style.KEY, style.KEY_WASH)
        part(axes, x + 0.42, f"$v_{i + 1}$", style.VALUE, style.VALUE_WASH)
        weight = found["weights"][i]
        start, end = (left + 0.18, 1.5), (x, 2.3)
        style.arrow(axes, start, end, color=style.WEIGHT, line=0.8 + 7 * weight, head=0, zorder=1)
        axes.plot([x, x], [1.46, 2.3], color=style.KEY, lw=1.0, ls=(0, (3, 2)), zorder=1)
        style.block(axes, x - 0.3, 2.42, 0.6, 1.3 * weight, style.WEIGHT)
        axes.plot([x - 0.42, x + 0.42], [2.42] * 2, color=style.EDGE, lw=1)
        text = f"$a_{i + 1}$ = {weight:.2f}"
        style.write(axes, x, 2.56 + 1.3 * weight, text, size=12, weight="bold" if weight > 0.5 else "normal")


def part(axes: Axes, x: float, text: str, edge: str, fill: str) -> None:
    style.box(axes, x - 0.19, 1.06, 0.38, 0.38, text, edge=edge, fill=fill, size=14, color=edge)


def checks(numbers: Numbers) -> list[Check]:
    before, after = numbers["before"]["weights"], numbers["after"]["weights"]
    return [
        above("before training no weight dominates: smallest of the three", min(before), 0.2),
        above("after training a_3 dominates", after[2], 0.9),
        aside(above("the look-up is learned: first loss divided by last", numbers["loss"][0] / numbers["loss"][-1], 5)),
    ]
