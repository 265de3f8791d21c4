"""10.6b: how vectors get a bucket: by the sides of random planes (deck 003), or by the nearest of random directions.

The planes, the pies and all collisions are those of the library's hash. In the angular one (Andoni et al., 2015; figure
1 of Reformer) directions are Gaussian, not a rotation, so that in two dimensions pies differ in size.
"""

import math
from itertools import pairwise

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Wedge
from torch import Tensor

from regard import style
from regard.nn.kernels.lsh import LSH, random_rotations
from regard_lectures.figure import Check, Numbers, above, below, close, equal, plain, seeded

TITLE = "Near vectors share a bucket"
DECKS = ("003", "002")
CLAIM = (
    "A random plane leaves two vectors on one side with probability 1 - angle / pi; "
    "of as many pies, near ones share more."
)
EXPECTED = (
    "Two vectors fall on one side of a random plane with probability 1 - angle / pi; of as many buckets, an angular "
    "hash puts near vectors together more often."
)
FOUND = (
    "In 4,000 draws one plane keeps 91, 75, 57 and 32 % together at 15, 45, 75 and 120 degrees, all within 4 standard "
    "errors of the law; from 15 to 60 degrees sixteen pies keep 3.8 to 5.8 points more together than four planes."
)
COST = 2.0
SEED = 3

POINTS, PLANES, PLANE_SEED = 60, 3, 4
ROUNDS, WIDTH, PIES = 4000, 16, 16
DEGREES = [0, 15, 30, 45, 60, 75, 90, 120, 150, 180]
NEAR = DEGREES.index(60)
TURNS = (1, 5, 6)  # seeds of the three hashes that are drawn
PAIRS = {"near": (60.0, 78.0), "far": (60.0, 170.0)}  # angles of two vectors, in degrees


def compute() -> Numbers:
    with seeded(SEED):
        points = torch.randn(POINTS, 2)
        basis = torch.linalg.qr(torch.randn(WIDTH, 2)).Q
    planes = LSH(1, 1, (1 << PLANES,), hashed="planes", seed=PLANE_SEED)
    normals = random_rotations(PLANE_SEED, 1, 2, 1, PLANES)[0, :, 0].mT
    found: Numbers = {
        "points": plain(points, 3),
        "codes": codes(planes, points)[0],
        "normals": plain(normals, 4),
        "pies": {},
    }
    found["sides"] = [sum(1 << i for i, n in enumerate(normals) if float(n @ point) > 0) for point in points]
    circle = around(torch.arange(360) + 0.5)
    for turn in TURNS:
        kernel = LSH(1, 1, (4,), seed=turn)
        pairs = {name: codes(kernel, around(torch.tensor(angles)))[0] for name, angles in PAIRS.items()}
        found["pies"][str(turn)] = {"circle": codes(kernel, circle)[0], **pairs}
        beside = circle @ random_rotations(turn, 1, 2, 1, 2)[0, :, 0]
        found["pies"][str(turn)]["by hand"] = torch.cat((beside, -beside), -1).argmax(-1).tolist()
    many = LSH(1, ROUNDS, (4,), seed=SEED)
    found["together"] = {name: collisions(many, around(torch.tensor(pair)))[1] for name, pair in PAIRS.items()}
    kernels = {
        "one plane": LSH(1, ROUNDS, (2,), hashed="planes", seed=SEED),
        "four planes": LSH(1, ROUNDS, (16,), hashed="planes", seed=SEED),
        "sixteen pies": LSH(1, ROUNDS, (PIES,), seed=SEED),
    }
    vectors = around(torch.tensor(DEGREES).float()) @ basis.mT
    found["collisions"] = {name: collisions(kernel, vectors) for name, kernel in kernels.items()}
    return found


def around(degrees: Tensor) -> Tensor:
    """(n,) -> (n, 2): points of the circle"""
    angles = torch.deg2rad(degrees.float())
    return torch.stack((angles.cos(), angles.sin()), -1)


def codes(kernel: LSH, x: Tensor) -> list[list[int]]:
    """(n, e) -> the bucket of each, round by round"""
    rounds: list[list[int]] = kernel.hash(x[None, None])[0, 0].tolist()
    return rounds


def collisions(kernel: LSH, vectors: Tensor) -> list[float]:
    """The share of rounds in which each falls into the bucket of the first."""
    found = kernel.hash(vectors[None, None])[0, 0]
    shares: list[float] = plain((found == found[:, :1]).double().mean(0), 6)
    return shares


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Left, {PLANES} random planes and the bits of their sides. Middle, pies of three random draws: are two "
        "vectors in the same?\n"
        f"Right, how often they are, in {WIDTH} dimensions and {ROUNDS:,} draws; lines are 1 − angle / π and its "
        "4th power."
    )
    figure = style.page(TITLE, note, height=5.3)
    axes = style.stage(figure)
    cloud(axes, 1.92, 2.02, numbers)
    for row, name in enumerate(PAIRS):
        y = 2.95 - 1.75 * row
        style.write(axes, 3.75, y + 0.02, name, ha="left", va="bottom", size=12.5, weight="bold")
        share = f"together in\n{style.percent(numbers['together'][name])} of draws"
        style.write(axes, 3.75, y - 0.06, share, ha="left", va="top", size=9.5, color=style.SOFT)
        for column, turn in enumerate(TURNS):
            pie(axes, 5.22 + 0.92 * column, y, numbers["pies"][str(turn)], name)
    curve(figure, numbers)
    return figure


def cloud(axes: Axes, x: float, y: float, numbers: Numbers) -> None:
    """The points, the planes, and in each sector its code."""
    size, scale = 1.5, 0.58
    for a, b in numbers["normals"]:
        long = math.hypot(a, b)
        dx, dy = -size * b / long, size * a / long
        axes.plot([x - dx, x + dx], [y - dy, y + dy], color=style.EDGE, lw=1.4, zorder=2)
    sectors = list(dict.fromkeys(sorted(numbers["codes"])))
    for (a, b), code in zip(numbers["points"], numbers["codes"], strict=True):
        far = max(math.hypot(a, b) * scale / 1.42, 1.0)  # a few points lie outside of the picture: on its edge
        tint = SECTORS[sectors.index(code)]
        axes.plot(x + a * scale / far, y + b * scale / far, "o", color=tint, ms=6, mec="white", mew=0.6, zorder=3)
    edges = sorted((math.atan2(b, a) + math.pi / 2) % math.pi for a, b in numbers["normals"])
    edges += [edge + math.pi for edge in edges]
    for one, two in zip(edges, [*edges[1:], edges[0] + 2 * math.pi], strict=True):
        angle = (one + two) / 2
        inside = [math.cos(angle), math.sin(angle)]
        bits = "".join("1" if a * inside[0] + b * inside[1] > 0 else "0" for a, b in numbers["normals"])
        style.write(axes, x + 1.62 * inside[0], y + 1.62 * inside[1], bits, family=style.MONO, size=11.5)


SECTORS = (*style.GROUPS, style.EDGE, style.mix(style.INK, 0.85))


def pie(axes: Axes, x: float, y: float, found: Numbers, name: str) -> None:
    """The circle in the colours of its buckets, and two vectors."""
    buckets, radius = found["circle"], 0.39
    changes = [i for i in range(360) if buckets[i] != buckets[i - 1]]
    for start, end in zip(changes, [*changes[1:], changes[0] + 360], strict=True):
        axes.add_patch(Wedge((x, y), radius, start, end, fc=style.GROUPS[buckets[start]], ec="white", lw=1.2, zorder=2))
    for degrees in PAIRS[name]:
        dx, dy = (radius * part for part in (math.cos(math.radians(degrees)), math.sin(math.radians(degrees))))
        style.arrow(axes, (x, y), (x + 0.96 * dx, y + 0.96 * dy), color=style.INK, line=1.4, head=7)
    one, two = found[name]
    style.write(axes, x, y - radius - 0.2, "same" if one == two else "apart", size=10.5, color=style.SOFT)


TINTS = {"one plane": style.INK, "four planes": style.WEIGHT, "sixteen pies": style.SECOND}


def curve(figure: Figure, numbers: Numbers) -> None:
    axes = figure.add_axes((0.79, 0.13, 0.185, 0.57))
    for power, name in ((1, "one plane"), (4, "four planes")):
        law = [(1 - d / 180) ** power for d in range(181)]
        axes.plot(range(181), law, color=style.mix(TINTS[name], 0.45), lw=1.2)
    for name, shares in numbers["collisions"].items():
        look = {"ls": "-", "lw": 1.2} if name == "sixteen pies" else {"ls": ""}
        axes.plot(DEGREES, shares, marker="o", ms=5, color=TINTS[name], label=name, **look)
    axes.set_xticks([0, 90, 180], ["0°", "90°", "180°"])
    axes.set_yticks([0, 0.5, 1], ["0", "½", "1"])
    axes.set_title("in one bucket", size=11.5)
    axes.legend(loc="upper right", fontsize=9.5, handletextpad=0.1, bbox_to_anchor=(1.08, 1.0))


def checks(numbers: Numbers) -> list[Check]:
    found = numbers["collisions"]
    checks = [equal("codes by the sides of planes, by hand", str(numbers["codes"]), str(numbers["sides"]))]
    for name, power in (("one plane", 1), ("four planes", 4)):
        for degrees, share in zip(DEGREES[1:-1:2], found[name][1:-1:2], strict=True):
            law = (1 - degrees / 180) ** power
            error = 4 * math.sqrt(law * (1 - law) / ROUNDS)
            checks.append(close(f"{name}: collisions at {degrees}°, to 4 standard errors", share, law, error))
        checks.append(equal(f"{name}: at 0° and 180°", f"{found[name][0]:g}, {found[name][-1]:g}", "1, 0"))
    pies = found["sixteen pies"]
    rise = max(b - a for a, b in pairwise(pies))
    wrong = [a != b for pie in numbers["pies"].values() for a, b in zip(pie["circle"], pie["by hand"], strict=True)]
    return [
        *checks,
        equal("pies: points of three circles with another bucket than argmax [xR; -xR]", sum(wrong), 0),
        below("pies: largest rise of collisions from one angle to the next", rise, 0.005),
        above("pies over planes, 15° to 60°: least lead, in standard errors", min(leads(found)[1 : NEAR + 1]), 4),
        above("four pies of a circle: share of draws with near ones together", numbers["together"]["near"], 0.6),
        below("and with far ones together", numbers["together"]["far"], 0.2),
    ]


def leads(found: dict[str, list[float]]) -> list[float]:
    """By how many standard errors sixteen pies are together more often than four planes, at each angle."""
    return [
        (pies - planes) / math.sqrt(max(pies * (1 - pies) + planes * (1 - planes), 1e-9) / ROUNDS)
        for pies, planes in zip(found["sixteen pies"], found["four planes"], strict=True)
    ]
