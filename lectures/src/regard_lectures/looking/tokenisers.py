"""11.8c: "transform data into a sequence" (deck 003's conclusions): one encoder, and a tokeniser for each kind of data.

The encoder is one and the same net for all of them: three layers of self-attention that see vectors in a row and never
hear where they are from. A kind of data has its own way to become such a row, and a layer of its own that says a label.
They are learned together, a batch of one kind after a batch of the next; beside that, each is learned with an encoder
of its own that is as large. Needs sst2 and fashion_mnist_30k below REGARD_DATA.

A further kind of data is a row of KINDS.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor, nn

from regard import style
from regard.modalities.text.processor import pad_ids
from regard.models.vit import Config
from regard.nn.embed import Patches
from regard.nn.mask import ALL, Mask
from regard.nn.positions import sinusoid
from regard.nn.vision_blocks import patch_blocks
from regard.zoo import count_parameters
from regard_lectures.figure import Check, Numbers, above, aside, equal, seeded
from regard_lectures.labelled_images import garments, pixels_of, shades
from regard_lectures.recurrent.opinion import numbered, texts, vocabulary
from regard_lectures.toys import fit

TITLE = "One encoder, whatever becomes a sequence"
DECKS = ("003",)
CLAIM = "One encoder with a tokeniser for each reads words and sees patches, each far better than by chance."
EXPECTED = (
    "One encoder serves all kinds of data, with a tokeniser for each: text, patches, spectrograms, trajectories and "
    "alignments."
)
FOUND = (
    "In one start and for 2 of the 5 kinds, one encoder labels 72 % of phrases and 83 % of images rightly, 21 and 73 "
    "points above chance, each 0.6 points more than an encoder of its own."
)
COST = 260.0
SEED = 0

SIZE = Config(dim=64, depth=3, heads=4, hidden=128)
STEPS, BATCH, RATE = 1500, 32, 1e-3
LONGEST = 32  # words of a phrase
FIVE = 5  # kinds of data that the deck names
SHOWN = "a warm , funny , engaging film that you will like"


@dataclass(frozen=True, eq=False)
class Data:
    """Inputs of a tokeniser, (n, ...), what of them is real, (n, tokens), and labels, (n,)."""

    inputs: Tensor
    real: Tensor | None
    labels: Tensor

    def some(self, rows: Tensor) -> "Data":
        return Data(self.inputs[rows], None if self.real is None else self.real[rows], self.labels[rows])


@dataclass(frozen=True)
class Kind:
    token: str  # what one is
    task: str
    classes: int
    tokeniser: Callable[[], nn.Module]  # (b, ...) -> (b, n, d)
    data: Callable[[str], Data]  # of train and test


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(len(known_words()) + 2, SIZE.dim)

    def forward(self, ids: Tensor) -> Tensor:
        """(b, n) -> (b, n, d)"""
        found: Tensor = self.table(ids)
        return found


class Squares(Patches):
    def __init__(self) -> None:
        super().__init__(4, 1, SIZE.dim)

    def forward(self, images: Tensor) -> Tensor:
        """(b, 1, 28, 28) -> (b, 49, d)"""
        return super().forward(images).flatten(1, 2)


@cache
def known_words() -> dict[str, int]:
    return vocabulary(texts("train"))


@cache
def reviews(split: str) -> Data:
    rows = numbered(texts(split), known_words())
    tokens = pad_ids([ids[:LONGEST] for ids, _ in rows])
    return Data(tokens.ids, tokens.keys, torch.tensor([label for _, label in rows]))


@cache
def clothes(split: str) -> Data:
    images, labels = garments(split)
    return Data(images, None, labels)


KINDS = {
    "text": Kind("a word", "liked or not? (SST-2)", 2, Words, reviews),
    "image": Kind("a patch of 4 x 4 pixels", "which? (Fashion-MNIST)", 10, Squares, clothes),
}


class Encoder(nn.Module):
    """Vectors in a row, wherever they are from, to one vector."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = patch_blocks(SIZE, LONGEST, [0.0] * SIZE.depth)
        self.norm = nn.LayerNorm(SIZE.dim)

    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        """(b, n, d), (b, n) -> (b, d)"""
        x = x + sinusoid(torch.arange(x.shape[1]), SIZE.dim)
        for block in self.blocks:
            x = block(x, mask=ALL if real is None else Mask(keys=real))
        part = torch.ones(x.shape[:2]) if real is None else real.float()
        return torch.einsum("bn,bnd->bd", part / part.sum(1, keepdim=True), self.norm(x))


class Net(nn.Module):
    """An encoder, and for each kind of data a tokeniser and a head."""

    def __init__(self, kinds: list[str]) -> None:
        super().__init__()
        self.encoder = Encoder()
        self.tokenisers = nn.ModuleDict({name: KINDS[name].tokeniser() for name in kinds})
        self.heads = nn.ModuleDict({name: nn.Linear(SIZE.dim, KINDS[name].classes) for name in kinds})

    def forward(self, name: str, data: Data) -> Tensor:
        """-> (b, classes)"""
        logits: Tensor = self.heads[name](self.encoder(self.tokenisers[name](data.inputs), data.real))
        return logits


def taught(kinds: list[str]) -> Net:
    """As many steps of each kind, one after the other."""
    with seeded(SEED):
        net = Net(kinds)
        turn = iter(kinds * STEPS)

        def loss() -> Tensor:
            name = next(turn)
            data = KINDS[name].data("train")
            batch = data.some(torch.randint(len(data.labels), (BATCH,)))
            return F.cross_entropy(net(name, batch), batch.labels)

        fit(net.parameters(), loss, steps=STEPS * len(kinds), rate=RATE)
    return net.eval()


@torch.no_grad()
def right(net: Net, name: str) -> float:
    data = KINDS[name].data("test")
    parts = torch.arange(len(data.labels)).split(250)
    said = torch.cat([net(name, data.some(rows)).argmax(-1) for rows in parts])
    return float((said == data.labels).double().mean())


def usual(name: str) -> float:
    """The share of the most frequent label."""
    labels = KINDS[name].data("test").labels
    return float(labels.bincount().max() / len(labels))


def compute() -> Numbers:
    together, alone = taught(list(KINDS)), {name: taught([name]) for name in KINDS}
    rows = {}
    for name in KINDS:
        data = KINDS[name].data("train")
        with torch.no_grad():
            shape = tuple(together.tokenisers[name](data.inputs[:1]).shape[1:])
        rows[name] = {
            "shape": list(shape),
            "weights": count_parameters(together.tokenisers[name]),
            "together": right(together, name),
            "alone": right(alone[name], name),
            "chance": usual(name),
        }
    image = clothes("test").inputs[0, 0] * 0.353 + 0.286
    encoders = {count_parameters(net.encoder) for net in (together, *alone.values())}
    return {"rows": rows, "encoders": sorted(encoders), "image": shades(image.clamp(0, 1))}


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Each kind of data becomes a row of vectors of {SIZE.dim} numbers; then one and the same encoder reads it:"
        f" {SIZE.depth} layers, {numbers['encoders'][0] / 1000:.0f}k weights.\nRight: test examples labelled rightly,"
        " by the one encoder, in brackets by one of its own, and by the most frequent label."
    )
    figure = style.page(TITLE, note, height=1.75 + 1.6 * len(KINDS))
    axes = style.stage(figure)
    top = figure.get_size_inches()[1] - style.head(note)
    for x, text in (
        (0.3, "data"),
        (3.55, "a token is"),
        (5.75, "tokens x width"),
        (7.35, "own weights"),
        (8.75, "right"),
    ):
        style.write(axes, x, top - 0.16, text, ha="left", va="baseline", color=style.SOFT, size=10.5)
    for i, (name, row) in enumerate(numbers["rows"].items()):
        y = top - 1.05 - 1.6 * i
        axes.plot([0.3, 9.7], [y + 0.8, y + 0.8], color=style.LINE, lw=1)
        if name == "text":
            phrase(axes, y)
        else:
            cut_up(axes, y, numbers["image"])
        style.write(axes, 3.55, y + 0.14, KINDS[name].token, ha="left")
        style.write(axes, 3.55, y - 0.16, KINDS[name].task, ha="left", size=9.5, color=style.SOFT)
        style.write(axes, 5.75, y, f"{row['shape'][0]} x {row['shape'][1]}", ha="left")
        style.write(axes, 7.35, y, f"{row['weights'] / 1000:.0f}k", ha="left")
        share = style.percent(row["together"], 1)
        style.write(axes, 8.75, y + 0.14, share, ha="left", weight="bold", color=style.WEIGHT, size=13)
        beside = f"({style.percent(row['alone'], 1)}; {style.percent(row['chance'])})"
        style.write(axes, 8.75, y - 0.16, beside, ha="left", size=9.5, color=style.SOFT)
    return figure


def phrase(axes: Axes, y: float) -> None:
    """Words, each in a box of its own."""
    x, line = 0.3, 0.2
    for word in SHOWN.split():
        wide = style.breadth(word, 10.5) + 0.16
        if x + wide > 3.3:
            x, line = 0.3, line - 0.36
        axes.add_patch(Rectangle((x, y + line - 0.13), wide, 0.27, facecolor=style.mix(style.KEY, 0.15), lw=0))
        style.write(axes, x + wide / 2, y + line - 0.045, word, size=10.5, va="baseline")
        x += wide + 0.07


def cut_up(axes: Axes, y: float, rows: list[str]) -> None:
    """An image, its patches a little apart."""
    pixels, side, apart = pixels_of(rows), 1.3, 0.03
    step = (side + apart) / 7
    for i in range(7):
        for j in range(7):
            part = [[1 - x / 15 for x in row[4 * j : 4 * j + 4]] for row in pixels[4 * i : 4 * i + 4]]
            left, upper = 0.3 + j * step, y + side / 2 - i * step
            place = (left, left + step - apart, upper - step + apart, upper)
            axes.imshow(part, cmap="gray", vmin=0, vmax=1, extent=place, aspect="auto", zorder=3)


def checks(numbers: Numbers) -> list[Check]:
    checks = [
        aside(equal("encoders: different numbers of weights", len(numbers["encoders"]), 1)),
        equal("kinds of data that it serves, of the five", len(numbers["rows"]), FIVE),
    ]
    for name, row in numbers["rows"].items():
        checks += [
            above(f"{name}: points right above the most frequent label", 100 * (row["together"] - row["chance"]), 15),
            above(f"{name}: points right, one for all over one of its own", 100 * (row["together"] - row["alone"]), 0),
        ]
    return checks
