"""4.1d: the same blanks, guessed by a masked model, which sees both sides, and by one that reads from left to right.

A BERT and a GPT of the library, as wide and as deep, learn from the 29,000 English captions of Multi30k, the same
captions in the same order. The one is asked for 15 % of the words, hidden as its paper says, the other for every next
word, so that it learns from six times as many; all the same it does worse. Then every known word of the 1,000 test
captions is a blank once: BERT is given the rest of the caption, GPT what stands before the blank. The unknown are left
out: the vocabulary has the 800 most frequent words.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.data.counter_rng import COLLATE, philox
from regard.data.files import find_file as found
from regard.data.tables import open_plain
from regard.modalities.text.masking import MaskedBatch, Masking
from regard.modalities.text.processor import Text, pad_ids
from regard.modalities.text.tasks.language import Language, NextTokenBatch, next_tokens
from regard.modalities.text.tasks.masked import Masked
from regard.modalities.text.vocabulary import SPECIAL_TOKENS, UNKNOWN, Vocabulary, mask_token, with_frame, with_mask
from regard.models.bert import BERT
from regard.models.bert import Config as Both
from regard.models.gpt import GPT
from regard.models.gpt import Config as Ahead
from regard_lectures.figure import Check, Numbers, above, aside, seeded, starts_above
from regard_lectures.learning.lessons import lesson
from regard_lectures.toys import fit

TITLE = "A blank has two sides"
DECKS = ("003", "001", "004")
CLAIM = "Of equal size and on the same blanks, a masked model guesses more words than one that reads from the left."
EXPECTED = (
    "On the same blanks a masked model guesses more words than a model of equal size that reads from left to right."
)
FOUND = (
    "The masked model guesses 40.5, 40.0 and 38.9 % of the blanks, the one that reads from the left 34.3, 34.4 and "
    "34.2 %."
)
COST = 420.0
SEED = 0

TRAIN, TEST = "multi30k/train.en.gz", "multi30k/test_2016_flickr.en.gz"
WORDS, LENGTH, DIM, DEPTH, HEADS = 800, 48, 64, 2, 4
EPOCHS, BATCH, RATE, SHARE, SEEDS = 3, 32, 1.5e-3, 0.15, 3
PLACES = 14  # of a caption's words, for the curves
Row = list[int]


def captions(name: str) -> list[str]:
    """Small letters, a space between words and signs."""
    rows = open_plain(found(name, Path()))
    return [" ".join(re.findall(r"[a-z]+|[.,]", rows[i][0].lower())) for i in range(len(rows))]


def build(kind: str, vocab: int) -> BERT | GPT:
    if kind == "masked":
        return BERT(
            Both(
                vocab=vocab,
                length=LENGTH,
                segments=0,
                dim=DIM,
                depth=DEPTH,
                heads=HEADS,
                hidden=4 * DIM,
                dropout=0.0,
                attention_dropout=0.0,
                pooler=False,
                head="words",
            )
        )
    return GPT(
        Ahead(
            vocab=vocab,
            length=LENGTH,
            dim=DIM,
            depth=DEPTH,
            heads=HEADS,
            dropout=0.0,
            attention_dropout=0.0,
            embedding_dropout=0.0,
        )
    )


def orders(texts: Sequence[str], seed: int) -> list[list[int]]:
    """The captions of each step, those of one length together."""
    by_length = sorted(range(len(texts)), key=lambda i: texts[i].count(" "))
    groups = [by_length[i : i + BATCH] for i in range(0, len(by_length), BATCH)]
    with seeded(seed):
        return [groups[i] for _ in range(EPOCHS) for i in torch.randperm(len(groups)).tolist()]


def vocabulary(texts: Sequence[str]) -> Text:
    return with_mask(with_frame(Vocabulary("words", WORDS + len(SPECIAL_TOKENS)).learn(texts)))


def concealed(text: Text, texts: Sequence[str], steps: Sequence[Sequence[int]], seed: int) -> list[MaskedBatch]:
    """The captions of each step with some of their words hidden."""
    hide = Masking(text, LENGTH, SHARE)
    return [
        hide([(texts[i],) for i in some], [philox(COLLATE, seed, step, i) for i in some])
        for step, some in enumerate(steps)
    ]


def learned(kind: str, text: Text, texts: Sequence[str], seed: int) -> BERT | GPT:
    steps = orders(texts, seed)
    with seeded(seed):
        net = build(kind, text.tokenizer.get_vocab_size())
    if isinstance(net, BERT):
        loss = lesson(Masked(net, text), concealed(text, texts, steps, seed))
    else:
        rows = text.checked(texts)
        ahead: list[NextTokenBatch] = [next_tokens([rows[i] for i in some]) for some in steps]
        loss = lesson(Language(net), ahead)
    fit(net.parameters(), loss, steps=len(steps), rate=RATE)
    return net.eval()


@torch.no_grad()
def guesses(net: BERT | GPT, rows: Sequence[Row], mask: int) -> list[Row]:
    """For every token of each row but the first and the last: the likeliest, by what is given of the others."""
    if isinstance(net, GPT):
        given = pad_ids([row[:-1] for row in rows])
        said = net(given.ids, keys=given.keys).argmax(-1)
        return [own[: len(row) - 2] for own, row in zip(said.tolist(), rows, strict=True)]
    found_all = []
    for row in rows:
        copies = torch.tensor(row).repeat(len(row) - 2, 1)
        copies[:, 1:-1].fill_diagonal_(mask)
        logits = net(copies).words
        assert isinstance(logits, Tensor)
        found_all.append(logits[:, 1:-1].diagonal(dim1=0, dim2=1).argmax(0).tolist())
    return found_all


def compute() -> Numbers:
    texts, tested = captions(TRAIN), captions(TEST)
    text = vocabulary(texts)
    rows, unknown = text.checked(tested), text.id_of(UNKNOWN)
    asked = [(i, k) for i, row in enumerate(rows) for k, token in enumerate(row[1:-1]) if token != unknown]
    counts = torch.bincount(torch.tensor([token for row in text.checked(texts) for token in row[1:-1]]))
    counts[unknown] = 0
    usual = int(counts.argmax())
    numbers: Numbers = {"blanks": len(asked), "captions": len(texts)}
    numbers["usual"] = sum(rows[i][k + 1] == usual for i, k in asked) / len(asked)
    numbers["asked"] = [sum(k == place for _, k in asked) for place in range(PLACES)]
    shown: dict[str, list[Row]] = {}
    for kind in ("masked", "ahead"):
        numbers[kind] = {"right": [], "places": []}
        for seed in range(SEED, SEED + SEEDS):
            net = learned(kind, text, texts, seed)
            said = guesses(net, rows, mask_token(text))
            right = [place for i, place in asked if said[i][place] == rows[i][place + 1]]
            numbers[kind]["right"].append(len(right))
            numbers[kind]["places"].append([right.count(place) for place in range(PLACES)])
            shown.setdefault(kind, said)
        numbers[kind]["weights"] = sum(weight.numel() for weight in net.parameters())
    numbers["shown"] = examples(text, rows, shown, unknown)
    return numbers


def examples(text: Text, rows: Sequence[Row], said: dict[str, list[Row]], unknown: int) -> list[Numbers]:
    """The first short captions where only the masked model is right, at a word that has something on its right."""
    some: list[Numbers] = []
    for i, row in enumerate(rows):
        words = row[1:-1]
        for k, word in enumerate(words[:-3]):
            fits = 7 <= len(words) <= 10 and unknown not in words and len(text.labels([word])[0]) > 3
            if fits and said["masked"][i][k] == word != said["ahead"][i][k] and len(some) < 3:
                blank = [*text.labels(words[:k]), "____", *text.labels(words[k + 1 :])]
                guess = {kind: text.labels([said[kind][i][k]])[0] for kind in said}
                some.append({"caption": " ".join(blank)} | guess)
                break
    return some


def rates(numbers: Numbers, kind: str) -> list[float]:
    return [right / numbers["blanks"] for right in numbers[kind]["right"]]


KINDS = {"masked": ("sees both sides", style.WEIGHT), "ahead": ("sees the left side", style.SECOND)}


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Of {numbers['blanks']:,} blanks in captions, how many are guessed rightly, by nets of "
        f"{numbers['masked']['weights'] / 1000:.0f}k and {numbers['ahead']['weights'] / 1000:.0f}k weights;\n"
        f"left, mean and range of {SEEDS} starts (dashed, who always says “a”); right, by the blank’s place;\n"
        "below, some blanks and the word that each net puts there, in its colour."
    )
    figure = style.page(TITLE, note, height=6.0)
    grid = figure.add_gridspec(2, 2, width_ratios=(1, 1.9), height_ratios=(3.2, 1))
    left, right, below_ = (figure.add_subplot(part) for part in (grid[0, 0], grid[0, 1], grid[1, :]))
    means = [sum(rates(numbers, kind)) / SEEDS for kind in KINDS]
    container = left.bar(["masked", "left to right"], means, 0.6, color=[tint for _, tint in KINDS.values()])
    left.bar_label(
        container, [style.percent(mean, 1) for mean in means], padding=-24, color="white", size=12, weight="bold"
    )
    for i, kind in enumerate(KINDS):
        left.vlines(i, min(rates(numbers, kind)), max(rates(numbers, kind)), color=style.INK, lw=1.6)
    left.axhline(numbers["usual"], color=style.SOFT, lw=1.2, ls=(0, (4, 3)))
    left.set(yticks=[])
    left.spines["left"].set_visible(False)
    for label in left.get_xticklabels():
        label.set(size=11.5, color=style.INK)
    for kind, (says, tint) in KINDS.items():
        for run in numbers[kind]["places"]:
            y = [own / count for own, count in zip(run, numbers["asked"], strict=True)]
            right.plot(range(1, PLACES + 1), y, color=tint, lw=1.6)
        style.end_label(right, PLACES, y[-1], says, tint, dy=9 if kind == "masked" else -9, size=10.5)
    right.set(xlim=(0.7, PLACES + 5.2), ylim=(0, 0.85), xlabel="place of the blank in the caption")
    right.set_xticks([1, 4, 7, 10, 13])
    right.set_yticks([0, 0.25, 0.5, 0.75], [style.percent(share) for share in (0, 0.25, 0.5, 0.75)])
    right.grid(axis="y")
    right.spines["left"].set_visible(False)
    below_.axis("off")
    for i, one in enumerate(numbers["shown"]):
        high = 0.78 - 0.36 * i
        below_.text(0.0, high, one["caption"], family=style.SERIF, size=14, color=style.INK)
        below_.text(0.67, high, one["masked"], family=style.SERIF, size=14, color=style.WEIGHT, weight="bold")
        below_.text(0.84, high, one["ahead"], family=style.SERIF, size=14, color=style.SECOND, weight="bold")
    return figure


def checks(numbers: Numbers) -> list[Check]:
    masked, ahead = rates(numbers, "masked"), rates(numbers, "ahead")
    sizes = sorted(numbers[kind]["weights"] for kind in KINDS)
    first = [[run[0] / numbers["asked"][0] for run in numbers[kind]["places"]] for kind in KINDS]
    leads = [100 * (one - other) for one, other in zip(masked, ahead, strict=True)]
    return [
        aside(above("weights, fewer over more", sizes[0] / sizes[1], 0.95)),
        above("masked over left to right: points, worst of 3 seeds", 100 * (min(masked) - max(ahead)), 2),
        starts_above("masked over left to right: points, seed by seed", leads, 2),
        aside(above("left to right over the most frequent word: points", 100 * (min(ahead) - numbers["usual"]), 5)),
        aside(
            above(
                "at the first word, masked over left to right: points, worst", 100 * (min(first[0]) - max(first[1])), 0
            )
        ),
    ]
