"""5.12b: which answer stands for which object: the matching that DETR's loss begins with.

A scene of generated shapes, what the ten queries of the recipe's model say of it after the decoder's first layer, and
the price of each pair: 5 |b - b'| - p(class) - 2 GIoU. The Hungarian algorithm picks one query for each object so that
the sum is least; here the sum is compared with that of every other assignment. All other queries shall learn to say
"nothing": after the first layer some do not yet.
"""

from itertools import permutations

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard import style
from regard.modalities.boxes.detection import PAPER_WEIGHTS, match_queries, matching_costs
from regard.modalities.boxes.drawing import class_colour
from regard.modalities.boxes.shapes import SHAPE_NAMES
from regard_lectures.figure import Check, Numbers, aside, below, close, equal, plain
from regard_lectures.vision.scenes import finder, frame, prepared, said, scene, show, unseen

TITLE = "One query for each object"
DECKS = ("003",)
CLAIM = "Of all ways to give each object a query of its own, the matching is the cheapest; the rest say “nothing”."
EXPECTED = (
    "The matching gives each object a query of its own, and is the cheapest of all ways, as trying them all finds; "
    "the queries that are left are to say “nothing”."
)
FOUND = (
    "The matching costs -10.56, the least of 5,040 ways; after the first layer 4 of the 6 queries that are left say "
    "“nothing”."
)
COST = 330.0
SEED = 0

LOOKED = 60  # scenes among which one with most objects is shown


def compute() -> Numbers:
    rows, model = unseen(LOOKED), finder()
    number = max(range(LOOKED), key=lambda i: len(rows[i].classes))
    one = rows[number]
    batch = prepared(model, [one])
    told = said(model, batch).earlier[0]
    table = matching_costs(told, batch, PAPER_WEIGHTS)[0]
    chosen = match_queries(told, batch, PAPER_WEIGHTS)[0].tolist()
    ways = torch.tensor(list(permutations(range(len(table)), len(chosen))))  # queries of the objects, in order
    sums = table[ways, torch.arange(len(chosen))].sum(1)
    chances, kinds = told.logits[0].softmax(-1).max(-1)
    return {
        "scene": number,
        "objects": {"boxes": plain(one.boxes, 4), "kinds": one.classes.tolist()},
        "queries": {
            "boxes": plain(told.boxes[0], 4),
            "kinds": kinds.tolist(),  # the last is "nothing"
            "chances": plain(chances, 3),
        },
        "costs": plain(table, 4),
        "chosen": chosen,
        "ways": len(ways),
        "least": float(sums.min()),
        "greedy": greedy(table),
    }


def greedy(table: torch.Tensor) -> float:
    """The sum where each object in turn takes the query that is the cheapest of those left."""
    free, total = set(range(len(table))), 0.0
    for column in table.T:
        best = min(free, key=lambda i: float(column[i]))
        free.remove(best)
        total += float(column[best])
    return total


def price(numbers: Numbers) -> float:
    return sum(numbers["costs"][query][i] for i, query in enumerate(numbers["chosen"]))


def draw(numbers: Numbers) -> Figure:
    cheapest = f"{price(numbers):.2f}".replace("-", "−")
    note = (
        f"Ten queries after the decoder’s first layer, and {len(numbers['chosen'])} objects: what each pair would cost."
        f" The framed pairs are the cheapest\nof {numbers['ways']:,} ways, {cheapest} in all. Left: objects"
        " as full lines, the boxes of the chosen queries dashed."
    )
    figure = style.page(TITLE, note, height=5.6)
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.15, 1.25, 1))
    show(left, scene(numbers["scene"]))
    objects, queries = numbers["objects"], numbers["queries"]
    for i, (box, kind) in enumerate(zip(objects["boxes"], objects["kinds"], strict=True)):
        frame(left, box, kind)
        frame(left, queries["boxes"][numbers["chosen"][i]], kind, line=1.4, dashed=True)
        left.text(box[0], box[1], "ABCDEFGH"[i], color="white", weight="bold", size=12, ha="center", va="center")
    pairs(middle, numbers)
    prices(right, numbers)
    return figure


def pairs(axes: Axes, numbers: Numbers) -> None:
    """Queries on the left, objects on the right, and a line for each pair."""
    queries, objects = numbers["queries"], numbers["objects"]
    many, few = len(queries["kinds"]), len(objects["kinds"])
    axes.set(xlim=(0, 10), ylim=(many - 0.4, -1.1))
    axes.axis("off")
    axes.text(0, -0.75, "queries say", color=style.SOFT, size=10.5)
    axes.text(10, -0.75, "objects", color=style.SOFT, size=10.5, ha="right")
    places = [(i + 0.5) * many / few - 0.5 for i in range(few)]
    for i, (kind, chance) in enumerate(zip(queries["kinds"], queries["chances"], strict=True)):
        nothing = kind == len(SHAPE_NAMES)
        words = f"{i + 1}  {'nothing' if nothing else SHAPE_NAMES[kind]} {style.percent(chance)}"
        taken = i in numbers["chosen"]
        shade = style.SOFT if nothing else class_colour(kind)
        axes.text(0, i, words, size=10.5, va="center", color=shade, weight="bold" if taken else "normal")
    for i, (kind, place) in enumerate(zip(objects["kinds"], places, strict=True)):
        words = f"{SHAPE_NAMES[kind]}  {'ABCDEFGH'[i]}"
        axes.text(10, place, words, size=11, va="center", ha="right", color=class_colour(kind), weight="bold")
        axes.plot([4.3, 6.9], [numbers["chosen"][i], place], color=class_colour(kind), lw=2, solid_capstyle="round")


def prices(axes: Axes, numbers: Numbers) -> None:
    table = numbers["costs"]
    low, high = min(map(min, table)), max(map(max, table))
    axes.imshow([[-x for x in row] for row in table], cmap=style.WEIGHTS, aspect="auto", vmin=-high, vmax=-low)
    for i, row in enumerate(table):
        for j, x in enumerate(row):
            dark = (high - x) / (high - low) > 0.45
            style.write(axes, j, i, f"{x:.1f}".replace("-", "−"), size=9, color="white" if dark else style.INK)
    for j, i in enumerate(numbers["chosen"]):
        style.frame(axes, j - 0.5, i - 0.5, 1, 1, style.QUERY, 2.2)
    axes.set_xticks(range(len(table[0])), list("ABCDEFGH"[: len(table[0])]))
    axes.set_yticks(range(len(table)), [str(i + 1) for i in range(len(table))])
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.set_title("price of each pair", pad=20)
    axes.spines[:].set_visible(False)


def silent(numbers: Numbers) -> tuple[int, int]:
    """Of the queries that no object was given: how many say “nothing”, and how many there are."""
    left = [kind for i, kind in enumerate(numbers["queries"]["kinds"]) if i not in numbers["chosen"]]
    return sum(kind == len(SHAPE_NAMES) for kind in left), len(left)


def checks(numbers: Numbers) -> list[Check]:
    chosen = numbers["chosen"]
    return [
        equal("queries that were chosen, each once", len(set(chosen)), len(numbers["objects"]["kinds"])),
        close("price of the matching; least of all ways", price(numbers), numbers["least"], 1e-2),
        equal("queries that are left and say “nothing”", *silent(numbers)),
        aside(below("the same over that of taking turns", price(numbers) - numbers["greedy"], 1e-2)),
    ]
