"""2.4b: "The server is crashed." A waiter or a machine? The word alone cannot say; attention finds the one that can.

One layer of self-attention, one head, no residual: what stands at ``server`` afterwards is what its row brought there.
It is trained to tell the sense from that vector alone (or that nothing tells it), on sentences made of a few parts; the
sentences shown and tested are none of those it was trained on.
"""

from dataclasses import dataclass
from itertools import product

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

TITLE = "“The server is crashed.”"
DECKS = ("003",)
CLAIM = "Trained to tell the sense of “server”, its row puts more than half of its weight on the word that decides."
EXPECTED = "The row of “server” puts more than 0.5 of its weight on the word that tells its sense."
FOUND = (
    "At least 0.992 in the sentences shown and 0.887 on average over all test sentences, in the worst of 3 starts;"
    " all senses are told rightly."
)
COST = 2.0
SEED = 0

SEEDS = 3

MACHINE = ["crashed", "offline", "overheated", "rebooting", "patched", "encrypted"]
WAITER = ["smiling", "polite", "hungry", "chatting", "tired", "whistling"]
NEITHER = ["here", "gone", "nearby", "late", "famous", "alone"]
SENSES = ["a machine", "a waiter", "nobody knows"]
SUBJECTS = ["the server", "our server", "that server", "a new server", "the old server"]
VERBS = ["is", "was", "seems", "is still", "was never", "is today"]
SHOWN = ["the server is crashed .", "the server is smiling ."]


class Sense(nn.Module):
    """Words -> the sense of one of them, from what one head of self-attention brings to its place."""

    def __init__(self, words: list[str], dim: int = 32) -> None:
        super().__init__()
        self.index = {word: i for i, word in enumerate(words)}
        self.embedding = nn.Embedding(len(words), dim)
        self.attention = MultiHeadAttention(dim, 1)
        self.senses = nn.Linear(dim, len(SENSES))

    def forward(self, sentences: list[str]) -> Tensor:
        """Sentences of one length -> (b, 3)"""
        ids = torch.tensor([[self.index[word] for word in text.split()] for text in sentences])
        y = self.attention(self.embedding(ids))
        place = (ids == self.index["server"]).float()
        senses: Tensor = self.senses((y * place[..., None]).sum(1))
        return senses


@dataclass(frozen=True)
class Corpus:
    train: list[tuple[str, int]]
    test: list[tuple[str, int]]


def corpus() -> Corpus:
    """Every combination of the parts; each fourth one, and those that are shown, are kept for testing."""
    clues = [(word, sense) for sense, words in enumerate((MACHINE, WAITER, NEITHER)) for word in words]
    pairs = [(f"{who} {verb} {word} .", sense) for (word, sense), who, verb in product(clues, SUBJECTS, VERBS)]
    test = [pair for i, pair in enumerate(pairs) if i % 4 == 0 or pair[0] in SHOWN]
    return Corpus([pair for pair in pairs if pair not in test], test)


def train(seed: int, steps: int = 60) -> Sense:
    with seeded(seed):
        data = corpus()
        model = Sense(sorted({word for text, _ in data.train for word in text.split()}))
        lengths = sorted({len(text.split()) for text, _ in data.train})
        groups = [[pair for pair in data.train if len(pair[0].split()) == length] for length in lengths]

        def loss() -> Tensor:
            parts = [
                F.cross_entropy(
                    model([text for text, _ in group]), torch.tensor([sense for _, sense in group]), reduction="sum"
                )
                for group in groups
            ]
            return torch.stack(parts).sum() / len(data.train)

        fit(model.parameters(), loss, steps=steps, rate=0.005)
    return model


@torch.no_grad()
def look(model: Sense, text: str) -> Tensor:
    """The map of one sentence, (n, n)."""
    with capture(model, "attention.weights") as seen:
        model([text])
    return seen["attention.weights"][0][0, 0]


@torch.no_grad()
def decisive(model: Sense) -> tuple[float, float]:
    """On the test sentences: how many senses are right, and what `server` gives to a word that decides, on average."""
    right, weights, tests = 0, [], corpus().test
    for text, sense in tests:
        right += int(model([text]).argmax()) == sense
        if sense < 2:
            weights.append(float(look(model, text)[text.split().index("server"), -2]))
    return right / len(tests), sum(weights) / len(weights)


def compute() -> Numbers:
    models = [train(SEED + i) for i in range(SEEDS)]
    scores = [decisive(model) for model in models]
    return {
        "sentences": [text.split() for text in SHOWN],
        "maps": [plain(look(models[0], text)) for text in SHOWN],
        "shown": min(float(look(model, text)[1, 3]) for model in models for text in SHOWN),
        "accuracy": min(accuracy for accuracy, _ in scores),
        "weight": min(weight for _, weight in scores),
        "sense": [int(models[0]([text]).argmax()) for text in SHOWN],
    }


def draw(numbers: Numbers) -> Figure:
    note = "One head of self-attention that learned to tell a machine from a waiter by what “server” gathers."
    figure = style.page(TITLE, note, height=6.0)
    top, bottom = figure.subplots(2, 2, height_ratios=(0.55, 1))
    for i, words in enumerate(numbers["sentences"]):
        sentence(top[i], words, numbers["maps"][i][1], SENSES[numbers["sense"][i]])
        style.heatmap(bottom[i], numbers["maps"][i], words, words, numbers=True, mark=(1, 3))
    return figure


def sentence(axes: Axes, words: list[str], row: list[float], sense: str) -> None:
    """The words of a sentence, each under a bar as high as the weight that it gets."""
    colours = [style.KEY if i == 3 else style.WEIGHT for i in range(len(words))]
    style.bars(axes, words, row, color=colours, form=style.percent, top=1.1)
    axes.set_title(f"server: {sense}", color=style.QUERY)
    for i, text in enumerate(axes.get_xticklabels()):
        tint = {1: style.QUERY, 3: style.KEY}.get(i, style.INK)
        text.set(family=style.SERIF, size=16, color=tint)


def checks(numbers: Numbers) -> list[Check]:
    return [
        above("“server” in the sentences shown: smallest weight on the deciding word, 3 seeds", numbers["shown"], 0.5),
        above("the same on all test sentences: smallest mean of 3 seeds", numbers["weight"], 0.5),
        aside(above("sense told rightly on test sentences, worst of 3 seeds", numbers["accuracy"], 0.95)),
    ]
