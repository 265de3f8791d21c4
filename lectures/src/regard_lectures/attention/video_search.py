"""2.1b: the YouTube metaphor of deck 003. A query is compared with titles and descriptions, the keys; what comes back
is videos, the values. Attention returns a mixture of them.

The comparison here is the plainest there is: the words that query and key share, as the cosine of their word counts.
"""

from collections import Counter

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.nn.attention import Softmax
from regard_lectures.figure import Check, Numbers, above, below, equal, plain

TITLE = "A search: query, keys and values"
DECKS = ("003",)
CLAIM = (
    "The video whose title and description are nearest to the query gets most of the weight, and dominates the answer."
)
EXPECTED = "The video nearest to the query gets more than half of the weight."
FOUND = "The nearest video gets 0.58 of the weight."
COST = 0.1
SEED = 0

QUERY = "how does attention work"
VIDEOS = [
    ("Cats against cucumbers", "the best of last summer", "disc"),
    ("Attention explained", "how query, key and value work", "rings"),
    ("Bread without kneading", "how yeast does the work for you", "stripes"),
    ("Sort a list in Python", "three ways that work, timed", "bars"),
    ("A walk by the river", "two hours of rain and no talk", "hill"),
]
SCALE = 8.0  # the inverse temperature: one shared word more must matter
HEIGHT, BREADTH = 18, 32  # pixels of a video


def compute() -> Numbers:
    texts = [QUERY, *(f"{title} {description}" for title, description, _ in VIDEOS)]
    vectors = counted(texts)
    query, keys = vectors[None, :1], vectors[None, 1:]
    values = torch.stack([picture(kind).flatten() for _, _, kind in VIDEOS])[None]
    kernel = Softmax(scale=SCALE)
    weights, answer = kernel.weights(query, keys)[0, 0], kernel(query, keys, values)[0, 0]
    wanted = set(words(QUERY))
    shared = [len(wanted & set(words(text))) for text in texts[1:]]
    return {
        "shared": shared,
        "scores": plain((query @ keys.mT)[0, 0]),
        "weights": plain(weights),
        "answer": plain(answer.unflatten(0, (HEIGHT, BREADTH)), 3),
        "best": max(range(len(shared)), key=shared.__getitem__),
        "chosen": int(weights.argmax()),
        "top": float(weights.max()),
        "law": float((weights @ values[0] - answer).abs().max()),
    }


def words(text: str) -> list[str]:
    return text.lower().replace(",", "").split()


def counted(texts: list[str]) -> Tensor:
    """Word counts of each text, as vectors of length one."""
    vocabulary = sorted({word for text in texts for word in words(text)})
    counts = [Counter(words(text)) for text in texts]
    table = torch.tensor([[count[word] for word in vocabulary] for count in counts], dtype=torch.float64)
    return table / table.norm(dim=-1, keepdim=True)


def picture(kind: str) -> Tensor:
    """A video, one grey frame of it: 0 black, 1 white."""
    y, x = torch.meshgrid(torch.linspace(-1, 1, HEIGHT), torch.linspace(-1.78, 1.78, BREADTH), indexing="ij")
    radius = (x**2 + y**2).sqrt()
    frames = {
        "disc": (radius > 0.6).double(),
        "rings": 0.5 + 0.5 * (9 * radius).cos(),
        "stripes": 0.5 + 0.5 * (6 * (x + y)).sin(),
        "bars": (y < 0.8 - (1.6 * (x + 1.78) / 3.56)).double(),
        "hill": 0.25 + 0.7 * (y < 0.3 - 0.5 * (1.7 * x).cos()).double(),
    }
    return frames[kind].double()


def draw(numbers: Numbers) -> Figure:
    note = "Titles and descriptions are the keys, the videos are the values; the answer is their weighted mixture."
    figure = style.page(TITLE, note, height=6.6)
    axes = style.stage(figure)
    style.box(axes, 0.3, 4.9, 4.9, 0.5, edge=style.QUERY, fill=style.QUERY_WASH, corner=0.25)
    style.write(axes, 0.55, 5.14, QUERY, ha="left", family=style.SERIF, size=17)
    style.write(axes, 5.35, 5.14, "query", ha="left", color=style.QUERY, weight="bold")
    columns = {"title": 0.3, "description": 2.6, "video": 5.45, "score": 6.85, "weight": 7.55}
    for name, x in columns.items():
        style.write(axes, x, 4.5, name, ha="left", color=style.SOFT, size=10.5)
    for role, x, tint in (("key", 0.72, style.KEY), ("key", 3.53, style.KEY), ("value", 5.97, style.VALUE)):
        style.write(axes, x, 4.5, role, ha="left", color=tint, weight="bold", size=10.5)
    for i, (title, description, kind) in enumerate(VIDEOS):
        y = 3.93 - 0.62 * i
        axes.plot([0.3, 9.7], [y + 0.31] * 2, color=style.LINE, lw=1)
        style.write(axes, 0.3, y, title, ha="left", family=style.SERIF, size=14)
        style.write(axes, 2.6, y, description, ha="left", family=style.SERIF, size=14, color=style.SOFT)
        show(axes, 5.45, y, picture(kind).tolist(), 0.5)
        style.write(axes, 6.85, y, f"{numbers['scores'][i]:.2f}", ha="left", family=style.MONO, size=11)
        weight = numbers["weights"][i]
        style.block(axes, 7.55, y - 0.14, 1.5 * weight, 0.28, style.WEIGHT)
        style.write(axes, 7.62 + 1.5 * weight, y, style.percent(weight), ha="left", size=11)
    axes.plot([0.3, 9.7], [1.14] * 2, color=style.LINE, lw=1)
    style.write(axes, 5.2, 0.62, "answer = Σ weight × video", ha="right", family=style.SERIF, size=15)
    show(axes, 5.45, 0.62, numbers["answer"], 0.82)
    return figure


def show(axes: Axes, x: float, y: float, frame: list[list[float]], height: float) -> None:
    """A video whose left edge is at x, centred at y."""
    place = (x, x + height * BREADTH / HEIGHT, y - height / 2, y + height / 2)
    axes.imshow(
        frame, cmap="gray", vmin=-0.1, vmax=1.15, extent=place, interpolation="bilinear", aspect="auto", zorder=2
    )
    axes.set(xlim=(0, style.WIDTH), ylim=(0, 6.6))  # imshow moves them


def checks(numbers: Numbers) -> list[Check]:
    return [
        equal("the video that shares most words with the query is chosen", numbers["chosen"], numbers["best"]),
        above("its weight", numbers["top"], 0.5),
        below("the answer is the weighted mixture of the videos (largest difference)", numbers["law"], 1e-10),
    ]
