"""10.6: Reformer's attention (Kitaev et al., 2020, figure 2): hash, sort, cut into chunks, look within and one back.

Sixteen vectors in four bundles, which are queries and keys at once, through the library's kernel: an angular hash, one
round. Chunks are all the same size, so a large bucket may be cut and a chunk may hold parts of two.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.nn.kernels.lsh import LSH, unit_keys
from regard.nn.mask import ALL, CAUSAL, Mask
from regard_lectures.figure import Check, Numbers, below, equal, plain, seeded

TITLE = "Hash, sort, cut, look"
DECKS = ("002", "003", "004")
CLAIM = "Sorted by bucket and cut into chunks, each vector looks at two chunks, and finds those that point its way."
EXPECTED = (
    "Sorted by bucket and cut into chunks, each vector looks at its own chunk and the one before; one bucket, or a "
    "chunk that holds all, equals softmax attention, and causal looks keep the original order."
)
FOUND = (
    "Each of 16 vectors looks at 7 others in its two chunks, which hold 77 % of the full weights; one bucket and one "
    "chunk equal softmax to 6e-16, and nothing later in the text has any influence."
)
COST = 0.2
SEED = 13

TOKENS, WIDTH, CHUNK, BUCKETS, LENGTH = 16, 8, 4, 4, 5.0


def compute() -> Numbers:
    with seeded(SEED), torch.no_grad():
        bundles = torch.randn(BUCKETS, WIDTH, dtype=torch.float64)
        q = unit_keys(bundles[torch.randint(BUCKETS, (TOKENS,))] + 0.35 * torch.randn(TOKENS, WIDTH).double())[
            None, None
        ]
        q, v = LENGTH * q, torch.randn(1, 1, TOKENS, WIDTH, dtype=torch.float64)
    kernel = LSH(CHUNK, 1, (BUCKETS,), form="chunks")
    codes = kernel.codes(q)
    plan = kernel.plan(codes, ALL)
    weights, full = kernel.weights(q, q)[0, 0], shared(q, ALL)[0, 0]
    order = plan.order[0, 0].long()
    one, long = LSH(TOKENS, 1, (1,), form="chunks"), LSH(4 * TOKENS, 1, (BUCKETS,), form="chunks")
    strict = LSH(CHUNK, 1, (BUCKETS,), form="chunks", alike=True).weights(q, q)[0, 0]
    same = codes[0, 0, 0][:, None] == codes[0, 0, 0]
    return {
        "codes": codes[0, 0, 0].tolist(),
        "order": order.tolist(),
        "weights": plain(weights, 3),
        "full": plain(full, 3),
        "kept": float((weights > 0).mul(full).sum() / TOKENS),
        "seen": (weights > 0).sum(-1).tolist(),
        "definition": float((kernel(q, q, v) - kernel.weights(q, q) @ v).abs().max()),
        "one bucket": float((one(q, q, v) - shared(q, ALL) @ v).abs().max()),
        "one bucket, causal": float((one(q, q, v, CAUSAL) - shared(q, CAUSAL) @ v).abs().max()),
        "one chunk": float((long(q, q, v) - shared(q, ALL) @ v).abs().max()),
        "other buckets": float(strict[~same].max()),
        "later": later(kernel, q, v),
        "first": float(kernel.weights(q, q, CAUSAL)[0, 0, 0, 0]),
    }


def shared(q: Tensor, mask: Mask) -> Tensor:
    """Weights of all keys, which are the queries at length 1: its own gets -1e5, later ones -1e9."""
    scores = (q @ unit_keys(q).mT).masked_fill(torch.eye(TOKENS, dtype=torch.bool), -1e5)
    allowed = mask.dense(TOKENS, TOKENS, q.device)
    return (scores if allowed is None else scores.masked_fill(~allowed, -1e9)).softmax(-1)


def later(kernel: LSH, q: Tensor, v: Tensor) -> float:
    """The largest slope of an output by a later vector or value, by their places in the text."""

    def run(q: Tensor, v: Tensor) -> Tensor:
        return kernel(q, q, v, CAUSAL)[0, 0]

    slopes = torch.autograd.functional.jacobian(run, (q, v))
    future = torch.ones(TOKENS, TOKENS).triu(1).bool()
    return max(float(part[:, :, 0, 0].abs().amax((1, 3))[future].max()) for part in slopes)


CELL, LEFT, WIDE = 0.36, 1.5, 0.475


def draw(numbers: Numbers) -> Figure:
    note = (
        "The colour of a vector is its bucket. Each chunk looks at itself and at the one before it, the first at the "
        "last.\nBelow, who looks at whom: all pairs, those that are left, and these in the order of the chunks."
    )
    figure = style.page(TITLE, note, height=7.9)
    axes = style.stage(figure)
    codes, order = numbers["codes"], numbers["order"]
    text, rows = list(range(TOKENS)), (6.15, 5.52, 4.7, 4.06)
    strip(axes, rows[0], "sequence", text, None)
    strip(axes, rows[1], "hashed", text, codes)
    strip(axes, rows[2], "sorted", order, codes)
    strip(axes, rows[3], "cut", order, codes, cut=True)
    for place, item in enumerate(order):
        style.arrow(axes, (middle(item), rows[1]), (middle(place), rows[2] + CELL), head=0, line=1.0, color=style.EDGE)
    for chunk in range(1, TOKENS // CHUNK):
        left = middle(chunk * CHUNK) + 0.17 * chunk
        style.arrow(axes, (left + 0.4, 4.02), (left - 0.65, 4.02), color=style.QUERY, curve=-0.35)
    maps(axes, numbers)
    return figure


def middle(place: int) -> float:
    return LEFT + (place + 0.5) * WIDE


def strip(axes: Axes, y: float, name: str, items: list[int], codes: list[int] | None, *, cut: bool = False) -> None:
    style.write(axes, 0.3, y + CELL / 2, name, ha="left", size=12, weight="bold")
    for place, item in enumerate(items):
        x = middle(place) - WIDE / 2 + (0.17 * (place // CHUNK) if cut else 0)
        fill = style.SUNK if codes is None else style.GROUPS[codes[item]]
        style.box(axes, x + 0.01, y, WIDE - 0.02, CELL, str(item + 1), fill=fill, edge="white", corner=0.04, size=10)


def maps(axes: Axes, numbers: Numbers) -> None:
    order, codes, tall = numbers["order"], numbers["codes"], 0.142
    weights, text = numbers["weights"], list(range(TOKENS))
    turned = [[weights[i][j] for j in order] for i in order]
    shown = (
        ("all pairs", numbers["full"], text, f"{TOKENS * (TOKENS - 1)} scores"),
        (
            "those in reach",
            weights,
            text,
            f"{sum(numbers['seen'])} scores, {style.percent(numbers['kept'])} of all weight",
        ),
        ("the same, sorted", turned, order, f"blocks of {CHUNK} × {2 * CHUNK}"),
    )
    for i, (name, table, items, says) in enumerate(shown):
        x, y = 0.62 + 3.2 * i, 2.85
        style.write(axes, x, y + 0.25, name, ha="left", va="baseline", size=12)
        style.cells(axes, x, y, table, tall, limit=1)
        for place, item in enumerate(items):
            tint = style.GROUPS[codes[item]]
            style.block(axes, x - 0.13, y - (place + 1) * tall + 0.008, 0.09, tall - 0.016, tint)
            style.block(axes, x + place * tall + 0.008, y + 0.04, tall - 0.016, 0.09, tint)
        style.write(axes, x + TOKENS * tall / 2, y - TOKENS * tall - 0.2, says, size=10, color=style.SOFT)
        for chunk in range(TOKENS // CHUNK) if i == 2 else ():
            side = CHUNK * tall
            style.frame(axes, x + chunk * side, y - (chunk + 1) * side, side, side, style.QUERY, 1.4)


def checks(numbers: Numbers) -> list[Check]:
    codes, order = numbers["codes"], numbers["order"]
    wanted = sorted(range(TOKENS), key=lambda item: (codes[item], item))
    chunk = {item: place // CHUNK for place, item in enumerate(order)}
    count = TOKENS // CHUNK
    reach = all(
        (weight > 0) <= (chunk[j] in (chunk[i], (chunk[i] - 1) % count) and i != j)
        for i, row in enumerate(numbers["weights"])
        for j, weight in enumerate(row)
    )
    return [
        equal("sorted by bucket, then by place in the text", str(order), str(wanted)),
        equal("nobody looks beyond its chunk and the one before, nor at itself", reach, True),
        equal("keys that each looks at", str(sorted(set(numbers["seen"]))), str([2 * CHUNK - 1])),
        below("the fast form against its weights times values", numbers["definition"], 1e-12),
        below("one bucket against softmax of all but itself", numbers["one bucket"], 1e-12),
        below("one bucket, causal, against the same", numbers["one bucket, causal"], 1e-12),
        below("a chunk longer than the text against the same", numbers["one chunk"], 1e-12),
        equal("buckets kept apart: largest weight between two of them", numbers["other buckets"], 0.0),
        equal("causal: largest slope by something later in the text", numbers["later"], 0.0),
        equal("causal: the first looks at itself, having nobody else", numbers["first"], 1.0),
    ]
