"""2.6b: deck 004's note. Without the mask a decoder looks ahead to the next symbol in training, and is useless later.

Two copies of a small decoder learn text of a little grammar, one with the look-ahead mask and one without. A grammar
tells how good a language model can be (its entropy), and which words may follow in a text that is generated.
"""

import math
from dataclasses import dataclass
from random import Random

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.nn.attention import MultiHeadAttention
from regard.nn.block import Block
from regard.nn.feedforward import FeedForward
from regard.nn.mask import ALL, CAUSAL, Mask
from regard.nn.positions import Learned
from regard.nn.residual import Branch, PreNorm
from regard_lectures.figure import Check, Numbers, above, below, close, seeded
from regard_lectures.toys import fit

TITLE = "A decoder without its mask"
DECKS = ("004",)
CLAIM = (
    "Without the mask the training loss goes to 0 and what is generated is garbage; with it both are as they should be."
)
EXPECTED = "Without the mask the training loss goes to 0 and what is generated is garbage; with it both are normal."
FOUND = (
    "Without the mask the loss is 0.006 and 1.8 % of the texts are grammatical; with it the loss is 1.407 (the"
    " entropy is 1.406) and 99 % are, in one start."
)
COST = 8.8
SEED = 0

NOUNS, ADJECTIVES = ["cat", "dog", "bird", "child", "house", "river"], ["small", "old", "red"]
GRAMMAR = {  # state -> what may follow, each with equal chances: some words, and the state they lead to
    "start": [(["a", "the", "every"], "subject")],
    "subject": [(ADJECTIVES, "subject"), (NOUNS, "verb")],
    "verb": [(["sees", "likes", "hears"], "determiner")],
    "determiner": [(["a", "the", "every"], "object")],
    "object": [(ADJECTIVES, "object"), (NOUNS, "end")],
    "end": [(["."], "start")],
}
WORDS = sorted({word for arcs in GRAMMAR.values() for words, _ in arcs for word in words})
END, START = len(WORDS), len(WORDS) + 1  # symbols after and before a text
LENGTH = 16  # symbols of a text, the end included; what is read is shifted right, with the start in front


class Decoder(nn.Module):
    def __init__(self, mask: Mask, dim: int = 48, depth: int = 2) -> None:
        super().__init__()
        self.mask = mask
        self.embed, self.positions = nn.Embedding(START + 1, dim), Learned(LENGTH, dim)
        self.blocks = nn.ModuleList(
            Block(
                MultiHeadAttention(dim, 4), FeedForward(dim, 2 * dim), lambda: PreNorm(nn.LayerNorm(dim), Branch(dim))
            )
            for _ in range(depth)
        )
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, START))

    def forward(self, ids: Tensor) -> Tensor:
        """(b, n) -> (b, n, symbols)"""
        x = self.embed(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x, mask=self.mask)
        logits: Tensor = self.head(x)
        return logits


@dataclass(frozen=True)
class Text:
    ids: Tensor  # (b, n)
    surprise: float  # -log of the chance of a word, on average: the entropy of the grammar


def texts(count: int) -> Text:
    rows, surprise = [], 0.0
    draw = Random(int(torch.randint(2**31, ())))
    for _ in range(count):
        state, row = "start", []
        for _ in range(LENGTH - 1):
            words, following = draw.choice(GRAMMAR[state])
            row.append(WORDS.index(draw.choice(words)))
            surprise += math.log(len(words) * len(GRAMMAR[state]))
            state = following
        rows.append([*row, END])
    return Text(torch.tensor(rows), surprise / (count * LENGTH))


def loss(model: Decoder, corpus: Tensor) -> Tensor:
    targets = corpus[torch.randint(len(corpus), (48,))]
    shifted = torch.cat((torch.full((len(targets), 1), START), targets[:, :-1]), 1)
    return F.cross_entropy(model(shifted).flatten(0, 1), targets.flatten())


@torch.no_grad()
def generate(model: Decoder, count: int) -> Tensor:
    """Word by word, each drawn from what the model says after the words so far."""
    ids = torch.full((count, 1), START)
    for _ in range(LENGTH - 1):
        ids = torch.cat((ids, model(ids)[:, -1].softmax(-1).multinomial(1)), 1)
    return ids[:, 1:]


def legal(row: list[int]) -> int:
    """How many words at the beginning of a text obey the grammar."""
    state = "start"
    for i, word in enumerate(row):
        following = [after for words, after in GRAMMAR[state] if word < END and WORDS[word] in words]
        if not following:
            return i
        state = following[0]
    return len(row)


def compute() -> Numbers:
    with seeded(SEED):
        corpus = texts(3000)
    numbers: Numbers = {"entropy": corpus.surprise}
    for name, mask in (("with", CAUSAL), ("without", ALL)):
        with seeded(SEED):
            model = Decoder(mask)
            history = fit(model.parameters(), lambda: loss(model, corpus.ids), steps=300, rate=0.005)  # noqa: B023
            made = generate(model, 400).tolist()
        right = [legal(row) for row in made]
        numbers[name] = {
            "loss": [float(f"{value:.4g}") for value in history[::5]],
            "final": sum(history[-10:]) / 10,
            "grammatical": sum(count == LENGTH - 1 for count in right) / len(right),
            "samples": [" ".join([*WORDS, "‹end›"][i] for i in row) for row in made[:4]],
        }
    return numbers


def draw(numbers: Numbers) -> Figure:
    note = (
        "A small decoder learns a small grammar. Without the mask it learns to copy the next word, and then has none."
    )
    figure = style.page(TITLE, note, height=5.3)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.6))
    for name, tint in (("with", style.WEIGHT), ("without", style.SECOND)):
        y = numbers[name]["loss"]
        left.plot([5 * i for i in range(len(y))], y, color=tint)
        style.end_label(left, 5 * len(y), y[-1], f"{name} mask", tint, dx=4)
    left.axhline(numbers["entropy"], color=style.EDGE, lw=1.2, ls=(0, (4, 3)))
    left.text(295, numbers["entropy"] + 0.1, "entropy of the grammar", color=style.SOFT, size=10.5, ha="right")
    left.set(title="training loss", xlabel="step", ylim=(-0.05, 3.2), xlim=(0, 330), yticks=[0, 1, 2, 3])
    left.grid(axis="y")
    left.spines["left"].set_visible(False)
    right.axis("off")
    right.set(xlim=(0, 1), ylim=(0, 1))
    for name, top, tint in (("with", 1.0, style.WEIGHT), ("without", 0.46, style.SECOND)):
        share = style.percent(numbers[name]["grammatical"])
        said = f"generated {name} the mask: {share} grammatical"
        style.write(right, 0.0, top - 0.02, said, ha="left", weight="bold", color=tint)
        for i, text in enumerate(numbers[name]["samples"][:4]):
            style.write(right, 0.0, top - 0.115 - 0.085 * i, text, ha="left", family=style.SERIF, size=12.5)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    return [
        below("without the mask: training loss", numbers["without"]["final"], 0.02),
        below(
            "without the mask: share of generated texts that are grammatical",
            numbers["without"]["grammatical"],
            0.05,
        ),
        close(
            "with the mask: training loss is the grammar's entropy", numbers["with"]["final"], numbers["entropy"], 0.05
        ),
        above("with the mask: share of generated texts that are grammatical", numbers["with"]["grammatical"], 0.95),
    ]
