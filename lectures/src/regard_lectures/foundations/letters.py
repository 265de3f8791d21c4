"""1.3b: hidden states, of which there are a few, against counts and against states of many numbers.

Tiny Shakespeare, the last tenth held out. The hidden Markov model has 32 states and learns from 60,000 letters; its
emissions are mixed with one in a thousand of all letters alike, for some letters are not among those. The LSTM reads in
16 places at once, keeps its state from piece to piece, and sees the text about twice.
"""

import math

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.models.hmm import HMM
from regard.models.ngram import KneserNey, NGram
from regard.nn.recurrent import LSTMCell, Recurrent, detach
from regard_lectures.figure import Check, Numbers, above, aside, below, seeded
from regard_lectures.foundations.play import Play, numbered, words

TITLE = "States that remember more"
DECKS = ("004",)
CLAIM = "On text held out, 32 hidden states foretell letters better than their shares, and a recurrent net best of all."
EXPECTED = (
    "Held out, a hidden Markov model of 32 states needs fewer bits a letter than the shares of letters, and a"
    " recurrent net needs fewest of all."
)
FOUND = (
    "4.83 bits by the shares of letters, 3.54 by the hidden Markov model, 2.25 by the best n-gram and 2.18 by the"
    " LSTM, in one start."
)
COST = 230.0
SEED = 0

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


def hidden(play: Play) -> float:
    """Bits of a letter that is held out."""
    letters = len(play.letters) + 1
    ids = torch.from_numpy(play.train[: ROWS * LENGTH]).view(ROWS, LENGTH)
    with seeded(SEED):  # more unequal than ``drawn``: so many states would stay alike for long
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


def recurrent(play: Play) -> tuple[float, int]:
    """-> bits of a letter that is held out; weights"""
    model = learned(play)
    return foretold(model, play), sum(weight.numel() for weight in model.parameters())


def learned(play: Play) -> Letters:
    size = (len(play.train) - 1) // BATCH
    rows = torch.from_numpy(play.train[: BATCH * size]).view(BATCH, size)
    with seeded(SEED):
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
    play = numbered(words())
    bits, weights = recurrent(play)
    return {
        "ngram": [float(f"{counted(play, order):.4g}") for order in ORDERS],
        "hmm": float(f"{hidden(play):.4g}"),
        "rnn": float(f"{bits:.4g}"),
        "weights": weights,
    }


def draw(numbers: Numbers) -> Figure:
    best = min(range(len(ORDERS)), key=lambda i: numbers["ngram"][i])
    note = (
        "Bits to tell the next letter of Shakespeare, text held out. n-grams by Kneser and Ney, of which n = "
        f"{ORDERS[best]} is best of 1 to {ORDERS[-1]};\n"
        f"an LSTM with {numbers['weights'] / 1000:.0f}k weights that has read the text about twice."
    )
    figure = style.page(TITLE, note, height=5.0)
    axes = figure.subplots()
    found = {
        "single\nletters": (numbers["ngram"][0], style.EDGE),
        "pairs of\nletters": (numbers["ngram"][1], style.EDGE),
        f"HMM,\n{STATES} states": (numbers["hmm"], style.SECOND),
        f"{ORDERS[best]}-gram,\nthe best": (numbers["ngram"][best], style.EDGE),
        f"LSTM,\n{HIDDEN} units": (numbers["rnn"], style.WEIGHT),
    }
    heights, tints = [value for value, _ in found.values()], [tint for _, tint in found.values()]
    style.bars(axes, list(found), heights, color=tints, form="{:.2f}".format)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    return [
        above("bits: shares of letters over hidden Markov model", numbers["ngram"][0] - numbers["hmm"], 0.5),
        above("bits: the best n-gram over the LSTM", min(numbers["ngram"]) - numbers["rnn"], 0.02),
        above("bits: hidden Markov model over the LSTM", numbers["hmm"] - numbers["rnn"], 0.5),
        aside(below("bits: the LSTM", numbers["rnn"], 2.25)),
    ]
