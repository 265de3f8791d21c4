"""2.6c: deck 004's head in which "river bank" forms a combined representation, in "walking along the river bank".

The slide's head is an example drawn by hand. This one is trained, and small: one layer of self-attention with one head,
no residual. Sentences name one of sixteen things in two words (river bank, river bed, savings bank ...); from what
arrives at the second word the model must tell which thing is meant. Neither word alone decides, so they must merge.
"""

from itertools import product

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.nn.attention import MultiHeadAttention
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, above, aside, in_starts, plain, seeded
from regard_lectures.toys import fit

TITLE = "“Walking along the river bank”"
DECKS = ("004",)
CLAIM = "In a head trained to tell what two words mean together, “bank” gathers “river” and “bank” and little else."
EXPECTED = "In a trained head “river” and “bank” merge: “bank” gathers the two and little else."
FOUND = "0.967 of the weight in the worst of 3 starts, of which “river” has at least 0.23 and “bank” 0.37."
COST = 1.2
SEED = 0

FIRST, SECOND = ["river", "savings", "garden", "sea"], ["bank", "bed", "wall", "path"]
OPENINGS = ["walking along the", "sitting by the", "looking at the", "running past the", "talking about the"]
SENTENCE = "walking along the river bank"
THINGS = list(product(FIRST, SECOND))


class Compound(nn.Module):
    """Five words -> which thing their last two name, from what one head brings to the last place."""

    def __init__(self, words: list[str], dim: int = 32) -> None:
        super().__init__()
        self.index = {word: i for i, word in enumerate(words)}
        self.embedding = nn.Embedding(len(words), dim)
        self.attention = MultiHeadAttention(dim, 1)
        nn.init.normal_(self.embedding.weight, std=0.1)  # it starts by looking at all words alike
        self.things = nn.Linear(dim, len(THINGS))

    def forward(self, sentences: list[str]) -> Tensor:
        """-> (b, things)"""
        ids = torch.tensor([[self.index[word] for word in text.split()] for text in sentences])
        things: Tensor = self.things(self.attention(self.embedding(ids))[:, -1])
        return things


def train(seed: int) -> Compound:
    pairs = [(f"{opening} {' '.join(thing)}", i) for opening in OPENINGS for i, thing in enumerate(THINGS)]
    kept = [pair for pair in pairs if pair[0] != SENTENCE]  # the sentence shown is new to the model
    with seeded(seed):
        model = Compound(sorted({word for text, _ in pairs for word in text.split()}))
        texts, targets = [text for text, _ in kept], torch.tensor([thing for _, thing in kept])
        fit(model.parameters(), lambda: F.cross_entropy(model(texts), targets), steps=150, rate=0.005)
    return model


def compute() -> Numbers:
    found = []
    for seed in range(SEED, SEED + 3):
        model = train(seed)
        with torch.no_grad(), capture(model, "attention.weights") as seen:
            said = int(model([SENTENCE]).argmax())
        found.append((seen["attention.weights"][0][0, 0], said))
    rows = [weights[-1] for weights, _ in found]
    return {
        "words": SENTENCE.split(),
        "map": plain(found[0][0]),
        "merged": min(float(row[3] + row[4]) for row in rows),
        "river": min(float(row[3]) for row in rows),
        "bank": min(float(row[4]) for row in rows),
        "said": [" ".join(THINGS[said]) for _, said in found],
    }


def draw(numbers: Numbers) -> Figure:
    note = "Below, the words; above, what the head makes of them. A line is as thick as its weight; “bank” in colour."
    figure = style.page(TITLE, note, height=4.9)
    axes = style.stage(figure)
    words, weights = numbers["words"], numbers["map"]
    places = [1.2 + 1.88 * i for i in range(len(words))]
    low, high, last = 0.75, 3.1, len(words) - 1
    for i, row in enumerate(weights):
        for j, weight in enumerate(row):
            tint = style.WEIGHT if i == last else style.LINE
            line = 0.6 + 9 * weight
            style.arrow(
                axes,
                (places[j], low + 0.3),
                (places[i], high - 0.32),
                color=tint,
                line=line,
                head=0,
                zorder=2 if i == last else 1,
            )
    for i, (x, word) in enumerate(zip(places, words, strict=True)):
        key = i >= last - 1
        style.write(axes, x, low, word, family=style.SERIF, size=20, color=style.KEY if key else style.INK)
        style.write(axes, x, high, word, family=style.SERIF, size=20, color=style.QUERY if i == last else style.EDGE)
        style.write(axes, x, low - 0.36, style.percent(weights[last][i]), size=12, color=style.WEIGHT)
    style.box(
        axes,
        places[last] - 0.75,
        high + 0.3,
        1.5,
        0.4,
        "river bank",
        family=style.SERIF,
        size=16,
        edge=style.WEIGHT,
        fill=style.WEIGHT_WASH,
    )
    return figure


def checks(numbers: Numbers) -> list[Check]:
    return [
        above("weight of “bank” on “river” and “bank” together, worst of 3 seeds", numbers["merged"], 0.8),
        above("on “river”, worst of 3 seeds", numbers["river"], 0.1),
        above("on “bank” itself, worst of 3 seeds", numbers["bank"], 0.1),
        aside(in_starts("the thing is told rightly", [said == "river bank" for said in numbers["said"]])),
    ]
