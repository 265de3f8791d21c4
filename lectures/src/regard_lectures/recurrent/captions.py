"""1.9c: conditional generation. A digit is seen, and its name is spelled, letter by letter.

What a small convolutional net says of an image (ten numbers, which nobody has given a meaning) is the condition of the
library's RecurrentReader: its first state is made from it, and nothing else ever sees the image. Both learn together
from the spelled names of MNIST's 60,000 training images; a name is right if it is right to its last letter, on the
10,000 test images. Begun with a state that is made of zeros, the net can only spell one and the same word.
"""

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.models.recurrent import Config, RecurrentReader
from regard.nn.cache import Cache
from regard_lectures.figure import Check, Numbers, aside, seeded, starts_above, starts_below
from regard_lectures.foundations.pixels import convolutional, digits
from regard_lectures.toys import fit

TITLE = "An image in, a word out"
DECKS = ("004",)
CLAIM = "From a first state that a convolutional net makes of a digit, an LSTM spells its name: above 95 % exactly."
EXPECTED = "More than 95 % of the names are spelled exactly."
FOUND = "98.2 to 98.6 % of the names are exact in 3 starts, and none without the image."
COST = 140.0
SEED = 0

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
END = " "
LETTERS = END + "".join(sorted(set("".join(NAMES))))
LONGEST = max(map(len, NAMES)) + 1
HIDDEN, STEPS, BATCH, RATE, SEEDS = 48, 1200, 64, 2e-3, 3
DIGITS = (3, 7, 0, 8, 5, 2)  # shown, and as many that are spelled wrongly


class Captioner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.eye = convolutional()
        config = Config(vocab=len(LETTERS), dim=16, hidden=HIDDEN, dropout=0.0, condition=10)
        self.speller = RecurrentReader(config)

    def forward(self, images: Tensor, names: Tensor) -> Tensor:
        """(b, 1, 28, 28), (b, n) -> (b, n, v): the next letter, after END and each letter but the last"""
        logits: Tensor = self.speller(F.pad(names[:, :-1], (1, 0)), condition=self.eye(images))
        return logits

    @torch.no_grad()
    def spell(self, condition: Tensor) -> Tensor:
        """(b, k) -> (b, n): the likeliest letter, again and again"""
        cache = Cache()
        ids = [torch.zeros(len(condition), 1, dtype=torch.long)]
        for _ in range(LONGEST):
            ids.append(self.speller(ids[-1], cache=cache, condition=condition).argmax(-1))
        return torch.cat(ids[1:], 1)


def spelled(names: tuple[str, ...]) -> Tensor:
    """Each with at least one END after it.  -> (names, n)"""
    return torch.tensor([[LETTERS.index(letter) for letter in name.ljust(LONGEST, END)] for name in names])


def text(ids: Tensor) -> str:
    return "".join(LETTERS[i] for i in ids.tolist()).split(END)[0]


def learn(model: Captioner, images: Tensor, labels: Tensor) -> None:
    names = spelled(NAMES)
    counts = (names != 0).sum(1) + 1  # up to its first END; what follows does not count
    real = torch.arange(LONGEST) < counts[:, None]

    def loss() -> Tensor:
        some = torch.randint(len(images), (BATCH,))
        wanted = names[labels[some]]
        return F.cross_entropy(model(images[some], wanted)[real[labels[some]]], wanted[real[labels[some]]])

    fit(model.parameters(), loss, steps=STEPS, rate=RATE)


def compute() -> Numbers:
    images, labels = digits("train")
    tested, wanted = digits("test")
    numbers: Numbers = {"tested": len(wanted), "exact": [], "no words": [], "blind": []}
    for seed in range(SEED, SEED + SEEDS):
        with seeded(seed):
            model = Captioner()
            learn(model, images, labels)
        with torch.no_grad():
            said = [text(ids) for some in tested.split(500) for ids in model.spell(model.eye(some))]
        right = [name == NAMES[label] for name, label in zip(said, wanted.tolist(), strict=True)]
        numbers["exact"].append(sum(right))
        numbers["no words"].append(sum(name not in NAMES for name in said))
        blind = text(model.spell(torch.zeros(1, 10))[0])  # what is said of no image, for all of them
        numbers["blind"].append(sum(NAMES[label] == blind for label in wanted.tolist()))
        if seed == SEED:
            numbers |= shown(tested, wanted, said, right)
    numbers["weights"] = sum(weight.numel() for weight in model.parameters())
    return numbers


def shown(images: Tensor, labels: Tensor, said: list[str], right: list[bool]) -> Numbers:
    """The first image of some digits, and the first that are spelled wrongly, those that are no words before others."""
    digits = labels.tolist()
    good = [next(i for i, label in enumerate(digits) if label == digit and right[i]) for digit in DIGITS]
    missed = [i for i, ok in enumerate(right) if not ok]
    missed.sort(key=lambda i: (said[i] in NAMES, i))
    places = good + missed[: len(DIGITS)]
    small = F.avg_pool2d(images[places] * 0.3081 + 0.1307, 2)[:, 0]  # half as wide, so that the record stays small
    return {
        "images": [["".join(format(round(float(x) * 15), "x") for x in row) for row in image] for image in small],
        "names": [NAMES[int(labels[i])] for i in places],
        "said": [said[i] for i in places],
        "coined": sorted({name for name in said if name not in NAMES}),
    }


def draw(numbers: Numbers) -> Figure:
    rates = [exact / numbers["tested"] for exact in numbers["exact"]]
    note = (
        f"Names of MNIST’s test images, spelled exactly: {style.percent(min(rates), 1)} to "
        f"{style.percent(max(rates), 1)} in {SEEDS} starts. Above, the first of some digits;\nbelow, some that went "
        f"wrong, with what was meant: where it wavers, it may coin a word ({', '.join(numbers['coined'])})."
    )
    figure = style.page(TITLE, note, height=5.3)
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.set(hspace=0.07)  # type: ignore[call-arg]
    for i, panel in enumerate(figure.subplots(2, len(DIGITS)).flat):
        panel.axis("off")
        if i >= len(numbers["images"]):
            continue
        pixels = [[int(x, 16) for x in row] for row in numbers["images"][i]]
        panel.imshow(pixels, cmap="gray_r", vmin=0, vmax=15, interpolation="bilinear")
        name, said = numbers["names"][i], numbers["said"][i]
        wrong = name != said
        panel.set_title(said, loc="center", family=style.SERIF, size=17, color=style.SECOND if wrong else style.WEIGHT)
        if wrong:
            panel.text(0.5, -0.04, f"not {name}", transform=panel.transAxes, ha="center", va="top", color=style.SOFT)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    exact, others, blind = (
        [count / numbers["tested"] for count in numbers[name]] for name in ("exact", "no words", "blind")
    )
    return [
        starts_above("share of names spelled exactly", exact, 0.95),
        aside(starts_below("share of words that are no number's name", others, 0.01)),
        aside(starts_below("share of names spelled exactly without the image", blind, 0.15)),
    ]
