"""1.3: two hidden states and nothing but letters: one becomes that of the vowels, the other that of the consonants.

Shakespeare's first 60,000 letters, in small, with one space for all that is no letter. Nothing says what a vowel is;
that states take turns is what makes the text likelier. It is an old experiment: the first was Markov's count (1913).
"""

from itertools import pairwise

import torch
from matplotlib.figure import Figure

from regard import style
from regard.models.hmm import HMM
from regard_lectures.figure import Check, Numbers, above, aside, below, in_starts, plain, starts_above
from regard_lectures.foundations.play import words

TITLE = "Vowels that nobody named"
DECKS = ("004",)
CLAIM = "Of two hidden states that make a text of letters likeliest, one says vowels and the space, one consonants."
EXPECTED = (
    "Two hidden states trained on letters separate vowels and the space from consonants, and no round of training"
    " lowers the likelihood."
)
FOUND = (
    "In all of 3 starts the first state says the space and a, e, i, o, u more than the second; they are 98.7 % of"
    " what it says, and 2.0 % of what the other does."
)
COST = 20.0
SEED = 0

ALPHABET = " abcdefghijklmnopqrstuvwxyz"
VOWELS = "aeiou"
ROWS, LENGTH, ROUNDS, SEEDS = 300, 200, 80, 3


def spelled(text: str) -> str:
    """Small letters, and one space between words."""
    kept = (letter if letter in ALPHABET else " " for letter in text.lower() if letter != "'")
    return " ".join("".join(kept).split())


def compute() -> Numbers:
    ids = torch.tensor([ALPHABET.index(letter) for letter in spelled(words())[: ROWS * LENGTH]]).view(ROWS, LENGTH)
    numbers: Numbers = {"bits": [], "vowels": []}
    for seed in range(SEED, SEED + SEEDS):
        model, bits = HMM.drawn(2, len(ALPHABET), seed), []
        for i in range(ROUNDS + 1):
            bits.append(-float(model.likelihood(ids).sum()) / ids.numel() / torch.tensor(2.0).log().item())
            model = model.improved(ids) if i < ROUNDS else model
        first = int(model.emit[1, ALPHABET.index("e")] > model.emit[0, ALPHABET.index("e")])  # where vowels are
        emit, move = model.emit.exp()[[first, 1 - first]], model.move.exp()[[first, 1 - first]][:, [first, 1 - first]]
        numbers["bits"].append([float(f"{value:.6g}") for value in bits])
        numbers["vowels"].append("".join(x for i, x in enumerate(ALPHABET) if emit[0, i] > emit[1, i]))
        if seed == SEED:
            numbers |= {"emit": plain(emit, 4), "move": plain(move, 4)}
    return numbers


def draw(numbers: Numbers) -> Figure:
    stay = [numbers["move"][i][i] for i in range(2)]
    note = (
        f"How often each state says each letter, after {ROUNDS} rounds of Baum and Welch from a random start. From one "
        f"state to the\nother: {style.percent(1 - stay[0])} and {style.percent(1 - stay[1])} of the steps. "
        "The left-most bar is the space."
    )
    figure = style.page(TITLE, note, height=5.4)
    panels = figure.subplots(2, 1, sharex=True, sharey=True)
    labels = ["␣", *ALPHABET[1:]]
    for axes, row, other, tint, name in zip(
        panels,
        numbers["emit"],
        numbers["emit"][::-1],
        (style.WEIGHT, style.SECOND),
        ("one state", "the other"),
        strict=True,
    ):
        tints = [tint if own > rest else style.mix(tint, 0.45) for own, rest in zip(row, other, strict=True)]
        axes.bar(range(len(row)), row, 0.72, color=tints)
        axes.set(yticks=[], xlim=(-0.6, len(row) - 0.4))
        axes.set_xticks(range(len(labels)), labels)
        axes.tick_params(labelbottom=True)
        axes.spines["left"].set_visible(False)
        axes.text(1.0, 0.86, name, transform=axes.transAxes, color=tint, weight="bold", ha="right")
        for i, text in enumerate(axes.get_xticklabels()):
            own = row[i] > other[i]
            text.set(family=style.SERIF, size=15, color=tint if own else style.EDGE, weight="bold" if own else "normal")
    return figure


def checks(numbers: Numbers) -> list[Check]:
    fall = max(after - before for bits in numbers["bits"] for before, after in pairwise(bits))
    vowel, consonant = numbers["emit"]
    mass = sum(vowel[ALPHABET.index(letter)] for letter in " " + VOWELS)
    other = sum(consonant[ALPHABET.index(letter)] for letter in " " + VOWELS)
    ends = [bits[-1] for bits in numbers["bits"]]
    return [
        in_starts(
            "letters that the first state says more than the second: the space and the vowels",
            [said == " " + VOWELS for said in numbers["vowels"]],
        ),
        above("share of vowels and spaces in what the first state says", mass, 0.9),
        below("share of vowels and spaces in what the second says", other, 0.1),
        below("bits of a letter: most that a round added", fall, 1e-5),
        aside(
            starts_above("bits of a letter: start less end", [bits[0] - bits[-1] for bits in numbers["bits"]], 0.5),
        ),
        aside(below("bits of a letter: ends of 3 seeds, farthest", max(ends) - min(ends), 0.01)),
        above(
            "from the first state to the second, and back, less often",
            min(numbers["move"][0][1], numbers["move"][1][0]),
            0.5,
        ),
    ]
