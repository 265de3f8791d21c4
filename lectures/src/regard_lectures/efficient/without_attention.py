"""10.10c: what attention is worth: BERT, FNet (Lee-Thorp et al., 2022), a random mixing matrix, and no mixing at all.

Four encoders that differ in one place. FNet has a Fourier transform where BERT has attention; the next has two random
matrices there, over positions and features, which stay as they were drawn; in the last every token stays by itself.
They guess hidden words of captions (Multi30k, the blanks of figure 4.1d), and judge reviews (SST-2) by the state of a
first token that stands before the words: where nothing is mixed it sees none of them, and only the guess of the more
frequent label is left. Counts of words alone judge 82 % of these reviews rightly (figure 1.9d).

Beside ours stands what deck 004 says of FNet, quoted: 92 to 97 % of BERT's accuracy, training 70 to 80 % faster. That
was on GPUs and TPUs, with nets of 12 and 24 layers; ours have two, and one thread. Needs multi30k and sst2 below
REGARD_DATA.
"""

from collections.abc import Callable, Sequence
from statistics import fmean

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from regard import style
from regard.comparison.measure import time_fastest
from regard.modalities.text.masking import MaskedBatch
from regard.modalities.text.processor import Text
from regard.modalities.text.tasks.masked import Masked
from regard.modalities.text.vocabulary import UNKNOWN, mask_token
from regard.models.bert import BERT, Config, Head
from regard.nn.attention import Mixer, zero_padding
from regard.nn.block import Block
from regard.nn.cache import Cache
from regard.nn.mask import ALL, Bias, Mask
from regard.nn.mixers.whole import real_positions
from regard.zoo import count_parameters
from regard_lectures.figure import Check, Numbers, above, aside, seeded, starts_above
from regard_lectures.learning.lessons import lesson
from regard_lectures.recurrent import opinion
from regard_lectures.text import blanks
from regard_lectures.toys import fit

TITLE = "Without attention"
DECKS = ("004",)
CLAIM = "FNet guesses and judges better than an encoder that mixes nothing, not better than BERT, and takes less time."
EXPECTED = (
    "FNet stands between no mixing and BERT in guessing words and judging sentences, and makes more steps a second "
    "than BERT from 256 tokens on."
)
FOUND = (
    "Of hidden words FNet guesses 36.8 %, BERT 39.8 % and no mixing 18.0 %, so in 3 of 3 starts; it judges 81.4 % of "
    "reviews rightly, BERT 81.6 % (+0.0, +1.4 and -0.7 points: ahead in 1 of 3 starts); it makes 2.0 and 3.2 times "
    "BERT's steps a second with 256 and 512 tokens."
)
COST = 1300.0
SEED = 0

SEEDS, RATE = 3, 1e-3  # the rate of the judges; that of the blanks is figure 4.1d's
SIZES, ROWS, EACH, WORDS = (256, 512), 4, 7, 1000  # timed: positions, texts, every 7th hidden, words in the vocabulary
QUOTED = {"accuracy": (0.92, 0.97), "faster": (1.7, 1.8)}  # deck 004: of BERT's, and times its steps a second


class Frozen(Mixer):
    """R x S, with random R over the positions and S over the features: about as large as a Fourier transform."""

    positions: Tensor
    features: Tensor

    def __init__(self, length: int, dim: int) -> None:
        super().__init__()
        self.register_buffer("positions", torch.randn(length, length))
        self.register_buffer("features", torch.randn(dim, dim) / 2**0.5)

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        mask: Mask = ALL,
        bias: Bias | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        real, n = real_positions("a random matrix", x, context, mask, bias, cache), x.shape[-2]
        return self.positions[:n, :n] @ (zero_padding(x, real) @ self.features)


class Alone(Mixer):
    """Every token as it is."""

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        mask: Mask = ALL,
        bias: Bias | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        real_positions("no mixing", x, context, mask, bias, cache)
        return x


NAMES = {"attention": "BERT", "fourier": "FNet", "random": "random matrix", "none": "no mixing"}
TINTS = {
    "attention": style.SECOND,
    "fourier": style.WEIGHT,
    "random": style.mix(style.WEIGHT, 0.55),
    "none": style.EDGE,
}


def build(kind: str, head: Head, *, vocab: int, length: int) -> BERT:
    """As figure 4.1d's BERT, but for how it mixes."""
    net = BERT(
        Config(
            vocab=vocab,
            length=length,
            segments=0,
            dim=blanks.DIM,
            depth=blanks.DEPTH,
            heads=blanks.HEADS,
            hidden=4 * blanks.DIM,
            dropout=0.1 if head == "label" else 0.0,
            attention_dropout=0.0,
            pooler=head == "label",
            head=head,
            attention="softmax" if kind == "attention" else "fourier",
        )
    )
    for block in net.blocks:
        assert isinstance(block, Block)
        if kind in ("random", "none"):
            block.mixer = Frozen(length, blanks.DIM) if kind == "random" else Alone()
    return net


def compute() -> Numbers:
    numbers: Numbers = {"words": {kind: [] for kind in NAMES}, "labels": {kind: [] for kind in NAMES}}
    numbers |= {"weights": {}, "seconds": {str(size): timed(size) for size in SIZES}}
    guess_words(numbers)
    judge_reviews(numbers)
    return numbers


def guess_words(numbers: Numbers) -> None:
    texts, tested = blanks.captions(blanks.TRAIN), blanks.captions(blanks.TEST)
    text = blanks.vocabulary(texts)
    rows = text.checked(tested)
    for seed in range(SEED, SEED + SEEDS):
        hidden = blanks.concealed(text, texts, blanks.orders(texts, seed), seed)
        for kind in NAMES:
            net = guesser(kind, text, hidden, seed)
            numbers["words"][kind].append(filled(net, text, rows))
            numbers["weights"][kind] = count_parameters(net)


def guesser(kind: str, text: Text, hidden: Sequence[MaskedBatch], seed: int) -> BERT:
    with seeded(seed):
        net = build(kind, "words", vocab=text.tokenizer.get_vocab_size(), length=blanks.LENGTH)
    fit(net.parameters(), lesson(Masked(net, text), hidden), steps=len(hidden), rate=blanks.RATE)
    return net.eval()


def filled(net: BERT, text: Text, rows: Sequence[list[int]]) -> float:
    """Every known word is a blank once: the share that is guessed rightly."""
    unknown = text.id_of(UNKNOWN)
    said = blanks.guesses(net, rows, mask_token(text))
    pairs = [pair for own, row in zip(said, rows, strict=True) for pair in zip(own, row[1:-1], strict=True)]
    return fmean(guess == word for guess, word in pairs if word != unknown)


def judge_reviews(numbers: Numbers) -> None:
    known, tested = opinion.texts("train"), opinion.texts("test")
    ids = opinion.vocabulary(known)
    begin = len(ids) + 2  # a token before the words, of which the label is read
    rows, test = ([([begin, *row], label) for row, label in opinion.numbered(part, ids)] for part in (known, tested))
    longest = max(len(row) for row, _ in rows + test)
    numbers["usual"] = max(fmean(row.label for row in tested), fmean(1 - row.label for row in tested))
    for seed in range(SEED, SEED + SEEDS):
        for kind in NAMES:
            with seeded(seed):
                net = build(kind, "label", vocab=begin + 1, length=longest)
                opinion.learn(net, rows, rate=RATE)
            numbers["labels"][kind].append(opinion.right(net, test))


def timed(size: int) -> dict[str, float]:
    """Seconds of a step, forward and backward, of each encoder."""
    with seeded(SEED):
        ids = torch.randint(WORDS, (ROWS, size))
        nets = {kind: build(kind, "words", vocab=WORDS, length=size) for kind in NAMES}
    return dict(zip(NAMES, time_fastest([step(net, ids) for net in nets.values()]), strict=True))


def step(net: BERT, ids: Tensor) -> Callable[[], object]:
    def work() -> None:
        net.zero_grad()
        net.score(net.read(ids)[:, ::EACH].flatten(0, 1), ids[:, ::EACH].flatten()).sum.backward()

    return work


def faster(numbers: Numbers, size: int, kind: str) -> float:
    """Steps a second, times those of attention."""
    found = numbers["seconds"][str(size)]
    return float(found["attention"] / found[kind])


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Encoders of {blanks.DEPTH} layers, {blanks.DIM} wide, that differ in how they mix positions; mean of {SEEDS} "
        "starts, each a dot. Words: blanks in\ncaptions. Labels: film reviews (SST-2), of which who always says the "
        f"same judges {style.percent(numbers['usual'], 1)} rightly. Steps: forward\nand backward, {ROWS} texts, one "
        "thread. Grey: deck 004 of FNet, quoted; other sizes and machines."
    )
    figure = style.page(TITLE, note, height=7.6)
    (words, labels), (speed, trade) = figure.subplots(2, 2, height_ratios=(1, 1.15))
    shares(words, numbers["words"], "words guessed rightly")
    shares(labels, numbers["labels"], "reviews judged rightly")
    steps(speed, numbers)
    scatter(trade, numbers)
    return figure


def shares(axes: Axes, found: dict[str, list[float]], title: str) -> None:
    style.bars(
        axes,
        [NAMES[kind] for kind in TINTS],
        [fmean(found[kind]) for kind in TINTS],
        color=list(TINTS.values()),
        form=lambda share: style.percent(share, 1),
    )
    for i, kind in enumerate(TINTS):
        axes.plot([i] * len(found[kind]), found[kind], "o", color=style.INK, ms=3.5)
    axes.set_title(title)
    for text in axes.get_xticklabels():
        text.set(size=10.5)


def steps(axes: Axes, numbers: Numbers) -> None:
    for j, size in enumerate(SIZES):
        rates = [1 / numbers["seconds"][str(size)][kind] for kind in TINTS]
        places = [i + 0.4 * (j - 0.5) for i in range(len(TINTS))]
        tints = [style.mix(tint, 0.6) if j else tint for tint in TINTS.values()]
        container = axes.bar(places, rates, 0.38, color=tints)
        axes.bar_label(container, [f"{rate:.0f}" for rate in rates], padding=2, size=10)
    axes.set_xticks(range(len(TINTS)), [NAMES[kind] for kind in TINTS])
    axes.set(yticks=[])
    axes.margins(y=0.14)
    axes.spines["left"].set_visible(False)
    axes.set_title(f"steps a second, N = {SIZES[0]} and (pale) {SIZES[1]}")
    for text in axes.get_xticklabels():
        text.set(size=10.5, color=style.INK)


def scatter(axes: Axes, numbers: Numbers) -> None:
    (low, high), (slow, fast) = QUOTED["accuracy"], QUOTED["faster"]
    axes.add_patch(Rectangle((slow, low), fast - slow, high - low, color=style.LINE, lw=0))
    axes.text(fast, low - 0.02, "quoted", color=style.SOFT, size=10, va="top", ha="center")
    for kind, tint in TINTS.items():
        x, heights = faster(numbers, SIZES[-1], kind), []
        for task, form in (("words", "o"), ("labels", "s")):
            heights.append(fmean(numbers[task][kind]) / fmean(numbers[task]["attention"]))
            axes.plot([x], heights[-1:], form, color=tint, ms=8)
        axes.text(x, max(heights) + 0.04, NAMES[kind], color=tint, size=10.5, weight="bold", ha="center")
    fastest = max(faster(numbers, SIZES[-1], kind) for kind in TINTS)
    axes.set(xlim=(0.6, 1.2 * fastest), ylim=(0.2, 1.15))
    axes.set_xlabel(f"steps a second at N = {SIZES[-1]}, times BERT’s")
    axes.set_yticks([0.25, 0.5, 0.75, 1], [style.percent(share) for share in (0.25, 0.5, 0.75, 1)])
    axes.grid(axis="y")
    axes.set_title("of BERT’s accuracy: words (discs), labels (squares)")
    axes.spines["left"].set_visible(False)


def checks(numbers: Numbers) -> list[Check]:
    words, labels = numbers["words"], numbers["labels"]
    return [
        starts_above(
            "words, FNet over no mixing at its best: points", points_over(words["fourier"], max(words["none"])), 3
        ),
        starts_above(
            "words, BERT over FNet at its best: points", points_over(words["attention"], max(words["fourier"])), 0
        ),
        aside(
            starts_above("words, BERT over the random matrix: points", points_between(words, "attention", "random"), 0)
        ),
        starts_above(
            "labels, FNet over no mixing at its best: points", points_over(labels["fourier"], max(labels["none"])), 10
        ),
        starts_above(
            "labels, BERT over FNet: points (one is 9 reviews)", points_between(labels, "attention", "fourier"), 0
        ),
        aside(starts_above("labels, BERT: share that is right", labels["attention"], 0.75)),
        *(
            above(f"seconds: steps a second at N = {size}, FNet over BERT", faster(numbers, size, "fourier"), bound)
            for size, bound in zip(SIZES, (1.1, 1.3), strict=True)
        ),
    ]


def points_over(found: list[float], bar: float) -> list[float]:
    """Points above it, of each start."""
    return [100 * (one - bar) for one in found]


def points_between(found: dict[str, list[float]], one: str, other: str) -> list[float]:
    """Points by which one is above the other, start by start."""
    return [100 * (a - b) for a, b in zip(found[one], found[other], strict=True)]
