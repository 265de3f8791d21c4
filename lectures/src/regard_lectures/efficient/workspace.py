"""10.8: the three steps of a shared workspace (Goyal et al., 2022): positions compete to write, gates, all read.

Nine patches, three slots, and two winners for each slot: the library's mixer with random weights, one head. All lines
and numbers are what passed it.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.nn.mixers.workspace import SharedWorkspace
from regard.nn.site import Site
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, above, below, equal, plain, seeded
from regard_lectures.products import turned as columns

TITLE = "Few may write, all may read"
DECKS = ("004",)
CLAIM = "The winners of a competition write to a few slots, and what every patch hears is made of the slots alone."
EXPECTED = (
    "Only the winners write to a slot, what all hear lies in the span of the slots' values, as many winners as patches "
    "equal a soft competition, and the order of slots does not matter."
)
FOUND = (
    "2 of 9 patches write to each of 3 slots and 4 write nowhere; what is heard lies in the span to 6e-17, and soft "
    "and hard competition differ by 1e-16 with 9 winners."
)
COST = 0.2
SEED = 11

PATCHES, SLOTS, KEEP, WIDTH = 9, 3, 2, 6
SITE = Site(dim=WIDTH, heads=1)


def compute() -> Numbers:
    with seeded(SEED):
        mixer = SharedWorkspace(SITE, SLOTS, KEEP).double().eval()
        with torch.no_grad():
            for part in (mixer.write, mixer.broadcast):
                part.q.weight.mul_(8)  # so that each has made up its mind
        x = torch.randn(1, PATCHES, WIDTH, dtype=torch.float64)
        order, turned = torch.randperm(PATCHES), torch.tensor([2, 0, 1])
    start = mixer.slots.detach()
    with torch.no_grad(), capture(mixer, "*.weights") as seen:
        told = mixer.step(x, start)
    with torch.no_grad():
        pooled, new = x.mean(1, keepdim=True), mixer.written(x, start, None)
        gates = {"input": mixer.input(pooled, start), "forget": mixer.forget(pooled, start)}
        kept = gates["input"] * new.tanh() + gates["forget"] * start
        moved, other = mixer.step(x[:, order], start), mixer.step(x, start[:, turned])
    write, read = (seen[f"{name}.weights"][0][0, 0] for name in ("write", "broadcast"))
    parts = {"old": start, "new": new.tanh(), **gates, "slots": told.slots}
    return {
        **{name: plain(part[0], 3) for name, part in parts.items()},
        "write": plain(write, 3),
        "read": plain(read, 3),
        "gated": float((kept - told.slots).abs().max()),
        "soft": everybody(mixer, x),
        "off": outside(mixer, told.heard[0], told.slots[0]),
        "patches": float((moved.heard - told.heard[:, order]).abs().max()),
        "order": float((other.heard - told.heard).abs().max()),
        "order of slots": float((other.slots - told.slots[:, turned]).abs().max()),
        "losers": losers(mixer, x, write),
    }


@torch.no_grad()
def everybody(mixer: SharedWorkspace, x: Tensor) -> float:
    """As many winners as patches, against a softmax over all: the difference of what is heard."""
    hard, soft = (SharedWorkspace(SITE, SLOTS, keep).double().eval() for keep in (PATCHES, None))
    for one in (hard, soft):
        one.load_state_dict(mixer.state_dict())
    return float((hard(x) - soft(x)).abs().max())


@torch.no_grad()
def outside(mixer: SharedWorkspace, heard: Tensor, slots: Tensor) -> float:
    """What is left of all that was heard when every mixture of the slots' values is taken from it."""
    layer = mixer.broadcast
    assert layer.v is not None
    values = layer.v(slots) @ layer.out.weight.mT
    rest = heard - layer.out.bias
    return float((rest - torch.linalg.lstsq(values.mT, rest.mT).solution.mT @ values).abs().max())


def losers(mixer: SharedWorkspace, x: Tensor, write: Tensor) -> float:
    """How much what is written moves with a patch that won no slot."""
    x = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(mixer.written(x, mixer.slots.detach(), None).square().sum(), x)
    return float(slope[0, write.sum(0) == 0].abs().max())


def draw(numbers: Numbers) -> Figure:
    note = (
        f"{PATCHES} patches, {SLOTS} slots; the {KEEP} best patches of each slot write to it, with weights that add "
        "up to 1. Lines are as thick as\nweights. A slot keeps of the old what the forget gate lets through, and adds "
        "of the new what the input gate does."
    )
    figure = style.page(TITLE, note, height=7.0)
    axes = style.stage(figure)
    for x, name in ((0.3, "1  write"), (3.55, "2  gate"), (7.25, "3  broadcast")):
        style.write(axes, x, 5.42, name, ha="left", va="baseline", size=13, weight="bold")
    winners = [any(row[i] > 0 for row in numbers["write"]) for i in range(PATCHES)]
    specialists(axes, 0.6, winners)
    specialists(axes, 9.4, [True] * PATCHES)
    for slot in range(SLOTS):
        for patch in range(PATCHES):
            link(axes, (0.83, height(patch)), (2.62, row(slot)), numbers["write"][slot][patch])
            link(axes, (7.38, row(slot)), (9.17, height(patch)), numbers["read"][patch][slot])
        gate(axes, slot, numbers)
    tables(axes, numbers)
    return figure


def height(patch: int) -> float:
    return 5.02 - 0.36 * patch


def row(slot: int) -> float:
    return 4.66 - 1.08 * slot


def specialists(axes: Axes, x: float, lit: list[bool]) -> None:
    for patch, on in enumerate(lit):
        edge, fill = (style.KEY, style.KEY_WASH) if on else (style.LINE, "white")
        ink = style.INK if on else style.EDGE
        style.box(axes, x - 0.22, height(patch) - 0.14, 0.44, 0.28, f"$h_{patch + 1}$", edge=edge, fill=fill, color=ink)


def link(axes: Axes, start: tuple[float, float], end: tuple[float, float], weight: float) -> None:
    if weight > 0:
        tint = style.mix(style.WEIGHT, 0.25 + 0.75 * weight)
        style.arrow(axes, start, end, color=tint, line=0.5 + 4.5 * weight, head=0)


def gate(axes: Axes, slot: int, numbers: Numbers) -> None:
    """i * tanh(new) + f * old = slot, features side by side."""
    y, cell = row(slot), (0.125, 0.24)
    style.box(axes, 2.64, y - 0.2, 0.62, 0.4, f"slot {slot + 1}", size=10.5, edge=style.WEIGHT, fill=style.WEIGHT_WASH)
    style.box(axes, 6.74, y - 0.2, 0.62, 0.4, f"slot {slot + 1}", size=10.5, edge=style.WEIGHT, fill=style.WEIGHT_WASH)
    lines = (("input", "new", "tanh(new)", 0.18), ("forget", "old", "old", -0.18))
    for name, what, text, up in lines:
        style.cells(axes, 3.6, y + up + 0.12, [numbers[name][slot]], cell, tint=style.INK, limit=1)
        style.cells(axes, 4.6, y + up + 0.12, [numbers[what][slot]], cell, limit=1)
        style.write(axes, 4.475, y + up, "×", size=12, color=style.SOFT)
        if slot == 0:
            over = (0.42, 0.0) if up > 0 else (-0.42, 0.0)
            style.write(axes, 3.975, y + over[0], f"{name} gate", size=9.5, color=style.SOFT)
            style.write(axes, 4.975, y + over[0], text, size=9.5, color=style.SOFT)
    style.write(axes, 5.52, y, "}", size=30, color=style.EDGE, family=style.SERIF)
    style.write(axes, 5.68, y, "+", size=14, color=style.SOFT)
    style.cells(axes, 5.83, y + 0.12, [numbers["slots"][slot]], cell, limit=1)
    style.arrow(axes, (3.3, y), (3.54, y), head=7)
    style.arrow(axes, (6.6, y), (6.72, y), head=7)


def tables(axes: Axes, numbers: Numbers) -> None:
    for x, name, table in ((0.85, "who writes", numbers["write"]), (5.85, "who reads", columns(numbers["read"]))):
        style.write(axes, x, 1.42, name, ha="left", va="baseline", size=11.5)
        style.cells(axes, x, 1.12, table, (0.41, 0.26), limit=1, digits=2, size=8.5)
        for patch in range(PATCHES):
            style.write(axes, x + 0.41 * (patch + 0.5), 1.22, f"$h_{patch + 1}$", size=10.5, color=style.KEY)
        for slot in range(SLOTS):
            style.write(axes, x - 0.08, 0.99 - 0.26 * slot, f"slot {slot + 1}", ha="right", size=9.5, color=style.SOFT)


def checks(numbers: Numbers) -> list[Check]:
    write, read = numbers["write"], numbers["read"]
    writers = sorted({sum(weight > 0 for weight in row) for row in write})
    return [
        equal("patches that write to a slot", str(writers), str([KEEP])),
        below("weights of a slot: how far from 1", max(abs(sum(row) - 1) for row in write), 0.002),
        below("weights of a reader: how far from 1", max(abs(sum(row) - 1) for row in read), 0.002),
        below("slots against i tanh(new) + f old", numbers["gated"], 1e-12),
        below("as many winners as patches against all softly", numbers["soft"], 1e-12),
        below("what is heard, outside of the slots' values", numbers["off"], 1e-10),
        below("patches in another order: what is heard moves along, to", numbers["patches"], 1e-12),
        below("slots in another order: what is heard moves by", numbers["order"], 1e-12),
        below("slots in another order: the slots move along, to", numbers["order of slots"], 1e-12),
        equal("slope of what is written by a patch that lost", numbers["losers"], 0.0),
        above("patches that lost everywhere", sum(not any(row[i] > 0 for row in write) for i in range(PATCHES)), 0),
    ]
