"""1.7b: tags of words (noun, verb ...) by a net that reads ahead, and by one that reads from both ends.

Both have an LSTM with as many weights, over vectors of words, of their last three letters and of how they are written.
UD English-EWT, 12,544 sentences to learn from; errors are counted on its test part. The spec sheet expects "several
points" between the two; 2.4 were found, on average.

A word is said to depend on its right if, in the training part, the tag of the next word tells at least 0.2 bits of its
own tag to someone who knows the word and the tag before it, and the word occurs at least a hundred times.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.data.files import find_file as found
from regard.modalities.text.conllu import TaggedSentence, open_conllu
from regard.nn.recurrent import LSTMCell, Recurrent
from regard_lectures.figure import Check, Numbers, above, aside, seeded, starts_above
from regard_lectures.toys import means

TITLE = "What stands to the right"
DECKS = ("004",)
CLAIM = "Tagging words, a net that reads from both ends beats one that reads ahead, on words whose tag the right tells."
EXPECTED = (
    "Tagging words, reading from both ends beats reading ahead by several points, mostly on words whose tag depends"
    " on their right."
)
FOUND = (
    "Reading from both ends is 2.4 points ahead on average (2.2 to 2.6 in 3 starts); the gap is 10.6 times as large"
    " on words that depend on their right."
)
COST = 110.0
SEED = 0

FILES = "ud_english_ewt/en_ewt-ud-{}.conllu.xz"
WIDTHS = {"ahead": 100, "both": 64}  # of the states in a direction, so that both have as many weights
EPOCHS, BATCH, RATE, SEEDS = 2, 32, 5e-3, 3
BITS, OFTEN = 0.2, 100


def read(part: str) -> list[TaggedSentence]:
    rows = open_conllu(found(FILES.format(part), Path()))
    return [rows[i] for i in range(len(rows))]


class Index:
    """Numbers for what was seen often enough; 0 is padding, 1 all the rest."""

    def __init__(self, seen: Iterator[str], least: int) -> None:
        counts = Counter(seen)
        self.ids = {name: i + 2 for i, name in enumerate(name for name, count in counts.items() if count >= least)}
        self.size = len(self.ids) + 2

    def __call__(self, names: Sequence[str]) -> Tensor:
        return torch.tensor([self.ids.get(name, 1) for name in names])


def written(word: str) -> str:
    return "lower" if word.islower() else "Title" if word.istitle() else "UPPER" if word.isupper() else "else"


class Features:
    """Sentences as numbers: words, endings, how they are written, tags."""

    def __init__(self, sentences: Sequence[TaggedSentence]) -> None:
        words = [word for sentence in sentences for word in sentence.words]
        self.words, self.ends = Index((word.lower() for word in words), 2), Index((end(word) for word in words), 3)
        self.shapes = Index(map(written, words), 1)
        self.tags = sorted({tag for sentence in sentences for tag in sentence.tags})

    def __call__(self, sentence: TaggedSentence) -> tuple[Tensor, Tensor]:
        """-> (3, n), (n,)"""
        words = sentence.words
        rows = self.words([word.lower() for word in words]), self.ends(list(map(end, words)))
        tags = torch.tensor([self.tags.index(tag) if tag in self.tags else -1 for tag in sentence.tags])
        return torch.stack((*rows, self.shapes(list(map(written, words))))), tags


def end(word: str) -> str:
    return word.lower()[-3:]


class Tagger(nn.Module):
    def __init__(self, features: Features, hidden: int, *, bidirectional: bool) -> None:
        super().__init__()
        sizes = ((features.words.size, 48), (features.ends.size, 24), (features.shapes.size, 4))
        self.tables = nn.ModuleList(nn.Embedding(*size) for size in sizes)
        self.rnn = Recurrent(LSTMCell, sum(dim for _, dim in sizes), hidden, bidirectional=bidirectional)
        self.dropout, self.head = nn.Dropout(0.3), nn.Linear(self.rnn.width, len(features.tags))

    def forward(self, ids: Tensor, keys: Tensor) -> Tensor:
        """(b, 3, n), (b, n) -> (b, n, tags)"""
        x = torch.cat([table(row) for table, row in zip(self.tables, ids.unbind(1), strict=True)], -1)
        tags: Tensor = self.head(self.dropout(self.rnn(self.dropout(x), keys=keys).outputs))
        return tags


Rows = list[tuple[Tensor, Tensor]]


def batches(rows: Rows, order: Sequence[int], size: int) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """Neighbours in the order together, padded.  -> which, (b, 3, n), (b, n) with -1 at padding"""
    for i in range(0, len(order), size):
        some = list(order[i : i + size])
        ids = nn.utils.rnn.pad_sequence([rows[j][0].T for j in some], batch_first=True).transpose(1, 2)
        yield some, ids, nn.utils.rnn.pad_sequence([rows[j][1] for j in some], batch_first=True, padding_value=-1)


def train(model: Tagger, rows: Rows) -> None:
    by_length = sorted(range(len(rows)), key=lambda i: len(rows[i][1]))
    total = EPOCHS * math.ceil(len(rows) / BATCH)
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total)
    for _ in range(EPOCHS):
        together = list(batches(rows, by_length, BATCH))
        for i in torch.randperm(len(together)).tolist():
            _, ids, tags = together[i]
            loss = F.cross_entropy(model(ids, tags >= 0).flatten(0, 1), tags.flatten(), ignore_index=-1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()


@torch.no_grad()
def wrong(model: Tagger, rows: Rows) -> list[list[bool]]:
    """For each word of each sentence."""
    model.eval()
    found_wrong: list[list[bool]] = [[] for _ in rows]
    for some, ids, tags in batches(rows, range(len(rows)), 64):
        for i, said, wanted in zip(some, model(ids, tags >= 0).argmax(-1), tags, strict=True):
            size = len(rows[i][1])
            found_wrong[i] = (said[:size] != wanted[:size]).tolist()
    return found_wrong


def depends(sentences: Sequence[TaggedSentence]) -> dict[str, float]:
    """Of frequent words: how many bits the tag of the next word tells of their own, the tag before being known."""
    before: dict[str, dict[Hashable, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    around: dict[str, dict[Hashable, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for sentence in sentences:
        tags = ["", *sentence.tags, ""]
        for i, word in enumerate(sentence.words):
            before[word.lower()][tags[i]][tags[i + 1]] += 1
            around[word.lower()][tags[i], tags[i + 2]][tags[i + 1]] += 1
    often = [word for word, counts in before.items() if sum(map(Counter.total, counts.values())) >= OFTEN]
    return {word: entropy(before[word]) - entropy(around[word]) for word in often}


def entropy(counts: dict[Hashable, Counter[str]]) -> float:
    """Of the tag when the key is known, in bits."""
    total = sum(map(Counter.total, counts.values()))
    return sum(-n * math.log2(n / own.total()) for own in counts.values() for n in own.values()) / total


def usual(sentences: Sequence[TaggedSentence], tested: Sequence[TaggedSentence]) -> float:
    """The share of right tags of who says each word's most frequent one."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for sentence in sentences:
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            counts[word.lower()][tag] += 1
    rest = sum(counts.values(), Counter[str]()).most_common(1)[0][0]
    said = {word: own.most_common(1)[0][0] for word, own in counts.items()}
    right = [
        said.get(word.lower(), rest) == tag
        for sentence in tested
        for word, tag in zip(sentence.words, sentence.tags, strict=True)
    ]
    return sum(right) / len(right)


def compute() -> Numbers:
    sentences, tested = read("train"), read("test")
    features = Features(sentences)
    rows, test = [features(one) for one in sentences], [features(one) for one in tested]
    gains = depends(sentences)
    right = {word for word, bits in gains.items() if bits >= BITS}
    marks = [[word.lower() in right for word in one.words] for one in tested]
    flat = torch.tensor([mark for row in marks for mark in row])
    numbers: Numbers = {"words": len(flat), "right": int(flat.sum()), "usual": usual(sentences, tested)}
    numbers["told"] = {word: round(gains[word], 3) for word in sorted(right, key=lambda word: -gains[word])[:12]}
    numbers["kinds"] = len(right)
    for name, hidden in WIDTHS.items():
        errors = []
        for seed in range(SEED, SEED + SEEDS):
            with seeded(seed):
                model = Tagger(features, hidden, bidirectional=name == "both")
                train(model, rows)
            missed = torch.tensor([mark for row in wrong(model, test) for mark in row])
            errors.append([int(missed.sum()), int(missed[flat].sum())])
        numbers[name] = {"errors": errors, "weights": sum(weight.numel() for weight in model.rnn.parameters())}
    return numbers


def rates(numbers: Numbers, name: str) -> list[list[float]]:
    """For each seed the share of errors among all words, those that depend on their right, and the others."""
    total, right = numbers["words"], numbers["right"]
    return [[all_ / total, own / right, (all_ - own) / (total - right)] for all_, own in numbers[name]["errors"]]


def gap_share(numbers: Numbers) -> list[float]:
    """For each seed: of the errors that reading from both ends saves, the share on words that depend on their right."""
    pairs = zip(numbers["ahead"]["errors"], numbers["both"]["errors"], strict=True)
    return [(one[1] - two[1]) / (one[0] - two[0]) for one, two in pairs]


def draw(numbers: Numbers) -> Figure:
    share = style.percent(numbers["right"] / numbers["words"])
    note = (
        f"Wrong tags on UD English-EWT, mean and range of {SEEDS} seeds. {share} of its words depend on their right:\n"
        f"{', '.join(numbers['told'])} …"
    )
    figure = style.page(TITLE, note, height=5.2)
    axes = figure.subplots()
    groups = ("all words", "words that depend\non their right", "all others")
    for shift, name, tint in ((-0.2, "ahead", style.SECOND), (0.2, "both", style.WEIGHT)):
        heights = means(rates(numbers, name))
        places = [i + shift for i in range(3)]
        bars = axes.bar(places, heights, 0.36, color=tint)
        shares = [style.percent(height, 1) for height in heights]
        axes.bar_label(bars, shares, padding=-20, size=12, color="white", weight="bold")
        seeds = list(zip(*rates(numbers, name), strict=True))
        axes.vlines(places, list(map(min, seeds)), list(map(max, seeds)), color=style.INK, lw=1.6)
    usual_wrong = 1 - numbers["usual"]
    axes.hlines(usual_wrong, -0.4, 0.4, color=style.EDGE, lw=1.4, ls=(0, (4, 3)))
    said = f"a word’s most frequent tag: {style.percent(usual_wrong, 1)}"
    axes.text(-0.4, usual_wrong + 0.004, said, color=style.SOFT, size=10.5, va="bottom")
    weights = {name: f"{numbers[name]['weights'] / 1000:.0f}k weights" for name in WIDTHS}
    axes.text(1.7, 0.2, f"reads ahead, {weights['ahead']}", color=style.SECOND, weight="bold", ha="left")
    axes.text(1.7, 0.18, f"from both ends, {weights['both']}", color=style.WEIGHT, weight="bold", ha="left")
    axes.set_xticks(range(3), groups)
    for text in axes.get_xticklabels():
        text.set(size=12, color=style.INK)
    axes.set(yticks=[], xlim=(-0.6, 2.75))
    axes.margins(y=0.12)
    axes.spines["left"].set_visible(False)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    ahead, both = rates(numbers, "ahead"), rates(numbers, "both")
    gaps = [[one - two for one, two in zip(a, b, strict=True)] for a, b in zip(ahead, both, strict=True)]
    right = [1 - row[0] for row in both]
    return [
        aside(starts_above("both ends: share of right tags", right, 0.85)),
        aside(starts_above("both ends over the most frequent tag", [one - numbers["usual"] for one in right], 0.0)),
        above("both ends over ahead: points, mean of 3 seeds", 100 * means(gaps)[0], 2.0),
        starts_above("both ends over ahead: points", [100 * gap[0] for gap in gaps], 1.0),
        above("the gap on words that depend on their right over that on others", means(gaps)[1] / means(gaps)[2], 3.0),
        starts_above("share of the saved errors that are on such words", gap_share(numbers), 0.5),
    ]
