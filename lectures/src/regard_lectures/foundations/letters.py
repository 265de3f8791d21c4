"""1.3b: hidden states, of which there are a few, against counts and against states of many numbers.

Tiny Shakespeare, the last tenth held out. The hidden Markov model has 32 states and learns from 60,000 letters; its
emissions are mixed with one in a thousand of all letters alike, for some letters are not among those. The LSTM reads in
16 places at once, keeps its state from piece to piece, and sees the text about twice.
"""

import math
from statistics import fmean

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.models.hmm import HMM
from regard.models.ngram import KneserNey, NGram
from regard.nn.recurrent import LSTMCell, Recurrent, detach
from regard_lectures.figure import Check, Numbers, aside, seeded, starts_above, starts_below
from regard_lectures.foundations.play import Play, numbered, words

TITLE = "States that remember more"
DECKS = ("004",)
CLAIM = "On text held out, 32 hidden states foretell letters better than their shares, and a recurrent net best of all."
EXPECTED = (
    "Held out, a hidden Markov model of 32 states needs fewer bits a letter than the shares of letters, and a"
    " recurrent net needs fewest of all."
)
FOUND = (
    "4.83 bits by the shares of letters, 3.54, 3.62 and 3.71 by the hidden Markov model, 2.25 by the best n-gram and "
    "2.18, 2.21 and 2.21 by the LSTM."
)
COST = 200.0
SEED = 0
SEEDS = 3

STATES, ROWS, LENGTH, ROUNDS, MIXED = 32, 500, 120, 50, 1e-3
ORDERS = (1, 2, 3, 4, 5, 6, 7)
DIM, HIDDEN, STEPS, BATCH, PIECE, RATE = 64, 320, 2200, 16, 64, 4e-3
STRETCH = 1000  # letters held out are foretold in stretches of so many, the first of each only read


class Letters(nn.Module):
    def __init__(self, letters: int) -> None:
        super().__init__()
        self.embed, self.rnn = nn.Embedding(letters, DIM), Recurrent(LSTMCell, DIM, HIDDEN)
        self.head = nn.Linear(HIDDEN, letters)


def stretches(play: Play) -> Tensor:
    """What is held out, in rows.  -> (b, STRETCH + 1)"""
    rows = len(play.held_out) // (STRETCH + 1)
    return torch.from_numpy(play.held_out[: rows * (STRETCH + 1)]).view(rows, STRETCH + 1)


def hidden(play: Play, seed: int) -> float:
    """Bits of a letter that is held out."""
    letters = len(play.letters) + 1
    ids = torch.from_numpy(play.train[: ROWS * LENGTH]).view(ROWS, LENGTH)
    with seeded(seed):  # more unequal than ``drawn``: so many states would stay alike for long
        shapes = ((STATES,), (STATES, STATES), (STATES, letters))
        model = HMM(*(torch.randn(shape, dtype=torch.float64).log_softmax(-1) for shape in shapes))
    for _ in range(ROUNDS):
        model = model.improved(ids)
    mixed = HMM(model.start, model.move, ((1 - MIXED) * model.emit.exp() + MIXED / letters).log())
    rows = stretches(play)
    bits = mixed.likelihood(rows[:, :1]) - mixed.likelihood(rows)
    return float(bits.mean()) / STRETCH / math.log(2)


def counted(play: Play, order: int) -> float:
    model = NGram(order, play.vocab, play.end, KneserNey()).learn([play.train])
    rows = stretches(play)
    surprises = torch.from_numpy(model.surprises([play.held_out])[: rows.numel()]).view_as(rows)
    return float(surprises[:, 1:].mean())


def recurrent(play: Play, seed: int) -> tuple[float, int]:
    """-> bits of a letter that is held out; weights"""
    model = learned(play, seed)
    return foretold(model, play), sum(weight.numel() for weight in model.parameters())


def learned(play: Play, seed: int) -> Letters:
    size = (len(play.train) - 1) // BATCH
    rows = torch.from_numpy(play.train[: BATCH * size]).view(BATCH, size)
    with seeded(seed):
        model = Letters(len(play.letters) + 1)
        optimizer = torch.optim.Adam(model.parameters(), RATE, betas=(0.9, 0.99))
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
        state, place = None, 0
        for _ in range(STEPS):
            if place + PIECE >= size:
                state, place = None, int(torch.randint(PIECE, ()))
            piece = rows[:, place : place + PIECE + 1]
            read = model.rnn(model.embed(piece[:, :-1]), state=state)
            loss = F.cross_entropy(model.head(read.outputs).flatten(0, 1), piece[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            state, place = detach(read.state), place + PIECE
    return model


@torch.no_grad()
def foretold(model: Letters, play: Play) -> float:
    """Bits of a letter that is held out."""
    held_out = stretches(play)
    logits = model.head(model.rnn(model.embed(held_out[:, :-1])).outputs)
    return float(F.cross_entropy(logits.flatten(0, 1), held_out[:, 1:].flatten())) / math.log(2)


def compute() -> Numbers:
    play, seeds = numbered(words()), range(SEED, SEED + SEEDS)
    nets = [recurrent(play, seed) for seed in seeds]
    return {
        "ngram": [float(f"{counted(play, order):.4g}") for order in ORDERS],
        "hmm": [float(f"{hidden(play, seed):.4g}") for seed in seeds],
        "rnn": [float(f"{bits:.4g}") for bits, _ in nets],
        "weights": nets[0][1],
    }


def draw(numbers: Numbers) -> Figure:
    best = min(range(len(ORDERS)), key=lambda i: numbers["ngram"][i])
    note = (
        "Bits to tell the next letter of Shakespeare, text held out. n-grams by Kneser and Ney, of which n = "
        f"{ORDERS[best]} is best of 1 to {ORDERS[-1]};\n"
        f"an LSTM with {numbers['weights'] / 1000:.0f}k weights that has read the text about twice. Both HMM and LSTM:"
        f" mean of {SEEDS} starts, which are in the bars."
    )
    figure = style.page(TITLE, note, height=5.0)
    axes = figure.subplots()
    found = {
        "single\nletters": (numbers["ngram"][0], style.EDGE),
        "pairs of\nletters": (numbers["ngram"][1], style.EDGE),
        f"HMM,\n{STATES} states": (fmean(numbers["hmm"]), style.SECOND),
        f"{ORDERS[best]}-gram,\nthe best": (numbers["ngram"][best], style.EDGE),
        f"LSTM,\n{HIDDEN} units": (fmean(numbers["rnn"]), style.WEIGHT),
    }
    heights, tints = [value for value, _ in found.values()], [tint for _, tint in found.values()]
    style.bars(axes, list(found), heights, color=tints, form="{:.2f}".format)
    for place, starts in ((2, numbers["hmm"]), (4, numbers["rnn"])):
        each = "\n".join(f"{bits:.2f}" for bits in starts)
        axes.text(place, heights[place] - 0.1, each, color="white", size=10.5, ha="center", va="top")
    return figure


def checks(numbers: Numbers) -> list[Check]:
    ngram, hmm, rnn = numbers["ngram"], numbers["hmm"], numbers["rnn"]
    less = [one - other for one, other in zip(hmm, rnn, strict=True)]
    return [
        starts_above("bits: shares of letters over hidden Markov model", [ngram[0] - bits for bits in hmm], 0.5),
        starts_above("bits: the best n-gram over the LSTM", [min(ngram) - bits for bits in rnn], 0.02),
        starts_above("bits: hidden Markov model over the LSTM", less, 0.5),
        aside(starts_below("bits: the LSTM", rnn, 2.25)),
    ]
