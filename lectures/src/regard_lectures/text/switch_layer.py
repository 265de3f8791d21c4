"""4.5: the switch layer of deck 002 (Fedus, Zoph and Shazeer, 2021): y = p_i E_i(x) with i the likeliest expert.

All numbers are those of the library's layer on six random vectors. An expert takes as many tokens as its share of them,
times a factor; who comes later finds no place and gets nothing from the layer, so that the residual carries it on.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.nn.switch import Experts, Switch
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, below, close, equal, plain, seeded
from regard_lectures.recurrent.drawing import sign_at

TITLE = "One feed-forward out of several"
DECKS = ("002",)
CLAIM = "Each token goes to its likeliest expert and is weighted by that likelihood; one without a place passes by."
EXPECTED = "The layer is y = p_i E_i(x) with i the likeliest expert; a token that finds no place gets nothing from it."
FOUND = "The layer and a loop over tokens differ by 1e-16; 1 of 6 tokens is without a place and gets 0."
COST = 0.1
SEED = 10

WORDS = ["each", "word", "goes", "to", "one", "expert"]
EXPERTS, DIM, FACTOR = 3, 8, 1.0


def compute() -> Numbers:
    with seeded(SEED):
        layer = Switch(DIM, Experts(EXPERTS, DIM, 2 * DIM, F.relu), capacity_eval=FACTOR).double().eval()
        with torch.no_grad():
            layer.router.weight.mul_(3)  # so that some choices are clear
        x = torch.randn(1, len(WORDS), DIM, dtype=torch.float64)
    with torch.no_grad(), capture(layer, "routes") as seen:
        routed = layer(x)
    likely = seen["routes"][0]
    wanted, kept = by_hand(layer, x[0], likely)
    load = EXPERTS * sum(float((likely.argmax(-1) == i).double().mean() * likely[:, i].mean()) for i in range(EXPERTS))
    return {
        "likely": plain(likely, 3),
        "kept": kept,
        "places": math.ceil(FACTOR * len(WORDS) / EXPERTS),
        "dropped": int(routed.dropped),
        "load": float(routed.load),
        "load by hand": load,
        "differs": float((routed.x[0] - wanted).abs().max()),
        "output of dropped": max(float(routed.x[0, i].abs().max()) for i, place in enumerate(kept) if not place),
        "least of kept": min(float(routed.x[0, i].abs().max()) for i, place in enumerate(kept) if place),
    }


@torch.no_grad()
def by_hand(layer: Switch, x: Tensor, likely: Tensor) -> tuple[Tensor, list[int]]:
    """(t, d), (t, e) -> (t, d), and each token's place in the line of its expert, or 0: a loop over tokens"""
    places, lines, y = math.ceil(FACTOR * len(x) / EXPERTS), [0] * EXPERTS, torch.zeros_like(x)
    kept = []
    for i, token in enumerate(x):
        expert = int(likely[i].argmax())
        lines[expert] += 1
        kept.append(lines[expert] if lines[expert] <= places else 0)
        if kept[-1]:
            hidden = F.relu(layer.experts.up.weight[expert] @ token)
            y[i] = likely[i, expert] * (layer.experts.down.weight[expert] @ hidden)
    return y, kept


def draw(numbers: Numbers) -> Figure:
    note = "Left, the way of one token; the dashed line carries the likelihood. Right, all six: columns are experts."
    figure = style.page(TITLE, note, height=6.3)
    axes = style.stage(figure)
    one_token(axes, numbers)
    all_tokens(axes, numbers)
    return figure


PLACES = (1.5, 2.5, 3.5)  # of the experts


def one_token(axes: Axes, numbers: Numbers) -> None:
    likely = numbers["likely"][0]
    chosen = likely.index(max(likely))
    middle, x, gate, past = PLACES[1], PLACES[chosen], 0.72, 4.3
    style.write(axes, middle, 0.42, WORDS[0], family=style.SERIF, size=17)
    style.arrow(axes, (middle, 0.6), (middle, 1.1))
    style.box(axes, 1.0, 1.12, 3.0, 1.22, edge=style.WEIGHT, fill=style.WEIGHT_WASH)
    style.write(axes, 3.88, 2.16, "router", ha="right", size=11.5)
    for i, (place, share) in enumerate(zip(PLACES, likely, strict=True)):
        on = i == chosen
        style.block(axes, place - 0.2, 1.42, 0.4, share, style.WEIGHT if on else style.mix(style.WEIGHT, 0.4))
        style.write(axes, place, 1.28, f"{share:.2f}", size=10.5, weight="bold" if on else "normal")
        look: dict[str, Any] = {"edge": style.INK, "fill": style.SUNK, "line": 2.0}
        style.box(axes, place - 0.42, 2.85, 0.84, 0.46, f"expert {i + 1}", **(look if on else {"color": style.EDGE}))
    style.arrow(axes, (x, 2.36), (x, 2.83), color=style.INK, line=1.8)
    style.route(axes, [(x, 3.31), (x, 3.7), (middle - 0.12, 3.7)], color=style.INK, line=1.8)
    dashes = [(0.98, 1.7), (gate, 1.7), (gate, 4.05), (middle, 4.05), (middle, 3.82)]
    axes.plot(*zip(*dashes, strict=True), color=style.WEIGHT, lw=1.6, ls=(0, (3, 2)), zorder=3)
    style.write(axes, gate, 4.2, f"$p = {likely[chosen]:.2f}$", ha="left", size=13, color=style.WEIGHT)
    sign_at(axes, middle, 3.7, "×")
    style.route(axes, [(middle + 0.12, 3.7), (PLACES[2], 3.7), (PLACES[2], 4.43)], color=style.INK, line=1.8)
    style.route(axes, [(middle, 0.82), (past, 0.82), (past, 4.55), (PLACES[2] + 0.13, 4.55)])
    sign_at(axes, PLACES[2], 4.55, "+")
    style.arrow(axes, (PLACES[2], 4.67), (PLACES[2], 4.98), color=style.INK, line=1.8)
    style.write(axes, PLACES[2], 5.12, "$x + p_i E_i(x)$", size=14)


def all_tokens(axes: Axes, numbers: Numbers) -> None:
    left, top, wide, tall = 6.25, 4.55, 0.62, 0.44
    for i in range(EXPERTS):
        style.write(axes, left + (i + 0.5) * wide, top + 0.2, str(i + 1), size=12, color=style.SOFT)
    style.cells(axes, left, top, numbers["likely"], (wide, tall), tint=style.WEIGHT, limit=1, digits=2, size=10)
    for row, (word, likely, place) in enumerate(zip(WORDS, numbers["likely"], numbers["kept"], strict=True)):
        y = top - (row + 0.5) * tall
        chosen = likely.index(max(likely))
        style.write(axes, left - 0.15, y, word, ha="right", family=style.SERIF, size=15)
        style.frame(axes, left + chosen * wide, y - tall / 2, wide, tall, style.INK if place else style.EDGE)
        told = f"expert {chosen + 1}, place {place}" if place else f"expert {chosen + 1} is full"
        ink = style.INK if place else style.EDGE
        style.write(axes, left + EXPERTS * wide + 0.15, y, told, ha="left", size=11, color=ink)
    y = top - len(WORDS) * tall - 0.4
    factor = f"places of an expert: ⌈{FACTOR:g} × {len(WORDS)} / {EXPERTS}⌉ = {numbers['places']}"
    style.write(axes, 5.35, y, factor, ha="left", size=11, color=style.SOFT)
    late = numbers["kept"].index(0)
    style.write(
        axes,
        5.35,
        y - 0.3,
        f"“{WORDS[late]}” came too late: the residual alone carries it.",
        ha="left",
        size=11,
        color=style.SOFT,
    )
    said = f"load: {EXPERTS} Σ f P = {numbers['load']:.3f} (1 is even, {EXPERTS} is all to one)"
    style.write(axes, 5.35, y - 0.6, said, ha="left", size=11, color=style.SOFT)


def checks(numbers: Numbers) -> list[Check]:
    chosen = [row.index(max(row)) for row in numbers["likely"]]
    counts = [
        sum(place > 0 for one, place in zip(chosen, numbers["kept"], strict=True) if one == i) for i in range(EXPERTS)
    ]
    return [
        below("the layer against a loop over tokens, largest difference", numbers["differs"], 1e-12),
        equal("tokens without a place", numbers["dropped"], numbers["kept"].count(0)),
        equal("at least one is without", numbers["dropped"] >= 1, True),
        equal("what the layer gives to them", numbers["output of dropped"], 0.0),
        equal("what it gives to the others is not zero", numbers["least of kept"] > 0, True),
        equal("no expert has more tokens than places", max(counts) <= numbers["places"], True),
        close("load against its formula", numbers["load"], numbers["load by hand"], 1e-12),
        below("rows of likelihoods: how far from 1", max(abs(sum(row) - 1) for row in numbers["likely"]), 0.002),
    ]
