"""4.6: sentences that mean the same, found by their embeddings (Sentence-BERT; Reimers and Gurevych, 2019).

In Tatoeba, two English sentences are paraphrases if they have the same German translation. Taken are pairs of sentences
with at least five words that share at most a third of them, one pair for each translation, and no sentence twice. Each
first sentence looks for its partner among all second ones, by the cosine: of counts of words, of the mean of word
vectors (word2vec, learned from Tatoeba's English, these sentences among it), and of a published Sentence-BERT
(all-MiniLM-L6-v2), whose states are averaged over real tokens alone. With padding in the mean, an embedding depends on
what stands in the same batch: the trap. Needs tatoeba_en_de_fr and weights_minilm_l6 below REGARD_DATA.
"""

import re
from collections import Counter, defaultdict
from pathlib import Path

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.data.files import find_file as found
from regard.data.tables import open_tsv
from regard.folders import load
from regard.model import Model
from regard.models.bert import BERT
from regard.models.word2vec import Config, word_vectors
from regard_lectures.figure import Check, Numbers, above, aside, below, equal, starts_above

TITLE = "Other words, the same meaning"
DECKS = ("001",)
CLAIM = "A Sentence-BERT finds a paraphrase among hundreds far more often than the mean of word vectors does."
EXPECTED = (
    "By its embeddings a Sentence-BERT finds a paraphrase as the nearest sentence more often than the mean of word "
    "vectors does."
)
FOUND = "Of 432 partners Sentence-BERT finds 354, the mean of word vectors 185, 180 and 186 in 3 starts."
COST = 110.0
SEED = 0
SEEDS = 3  # of the word vectors; the picture and its examples are of the first

FILE, WEIGHTS = "tatoeba_en_de_fr/en-de.train.tsv.xz", "weights_minilm_l6"
LEAST, OVERLAP, OFTEN = 5, 1 / 3, 5  # words of a sentence; shared words, as a share of all of a pair; of a known word
NAMES = {"counts": "counts of\nwords", "word2vec": "mean of\nword vectors", "sentence": "Sentence-\nBERT"}


Pairs = list[tuple[str, str]]


def spelled(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


def shared(one: str, other: str) -> float:
    left, right = set(spelled(one)), set(spelled(other))
    return len(left & right) / len(left | right)


def alike(rows: Pairs) -> Pairs:
    """The first fitting pair of each translation; a sentence is taken once."""
    groups: dict[str, list[str]] = defaultdict(list)
    for english, german in rows:
        if len(english.split()) >= LEAST and english not in groups[german]:
            groups[german].append(english)
    pairs, taken = [], set[str]()
    for own in groups.values():
        options = [(one, other) for i, one in enumerate(own) for other in own[i + 1 :]]
        for one, other in options:
            if not {one, other} & taken and shared(one, other) <= OVERLAP:
                pairs.append((one, other))
                taken |= {one, other}
                break
    return pairs


def by_vectors(table: Tensor, known: dict[str, int], texts: list[str]) -> Tensor:
    """The mean of a sentence's word vectors, of length 1.  -> (texts, d)"""
    found_ = [[known[word] for word in spelled(text) if word in known] for text in texts]
    means = [table[own].mean(0) if own else torch.zeros(table.shape[1]) for own in found_]
    return F.normalize(torch.stack(means), dim=-1)


def recall(one: Tensor, other: Tensor) -> list[int]:
    """For each first sentence, how many second ones lie nearer than its partner, or as near: 0 if it is the nearest."""
    near = one @ other.T
    rivals = near >= near.diagonal()[:, None] - 1e-7
    return (rivals.sum(1) - 1).tolist()


@torch.no_grad()
def careless(model: Model, texts: list[str]) -> Tensor:
    """All states of a batch averaged, padding too."""
    assert isinstance(model.net, BERT)
    tokens = model.text().encode(texts)
    return F.normalize(model.net.read(tokens.ids, keys=tokens.keys).mean(1), dim=-1)


def compute() -> Numbers:
    table = open_tsv(found(FILE, Path()), [1, 2])
    rows = [(table[i][0], table[i][1]) for i in range(len(table))]
    pairs = alike(rows)
    first, second = [one for one, _ in pairs], [other for _, other in pairs]
    sentences = [spelled(text) for text in dict.fromkeys(english for english, _ in rows)]
    counts = Counter(word for words in sentences for word in words)
    known = {word: i for i, word in enumerate(word for word, count in counts.most_common() if count >= OFTEN)}
    ids = [[known[word] for word in words if word in known] for words in sentences]
    tables = [
        word_vectors(ids, Config(vocab=len(known), dim=100, often=1e-3, seed=seed))
        for seed in range(SEED, SEED + SEEDS)
    ]
    averaged = [[by_vectors(vectors, known, texts) for texts in (first, second)] for vectors in tables]
    model = load(found(WEIGHTS, Path()))
    embedded = {
        "counts": [by_vectors(torch.eye(len(known)), known, texts) for texts in (first, second)],
        "word2vec": averaged[0],
        "sentence": [model.embed(texts) for texts in (first, second)],
    }
    ranks = {name: recall(*both) for name, both in embedded.items()}
    numbers: Numbers = {"pairs": len(pairs), "sentences": len(sentences), "vocabulary": len(known)}
    numbers |= {"first": {name: sum(rank == 0 for rank in own) for name, own in ranks.items()}}
    numbers |= {"ten": {name: sum(rank < 10 for rank in own) for name, own in ranks.items()}}
    numbers["starts"] = [recall(*both).count(0) for both in averaged]
    numbers["overlap"] = max(shared(*pair) for pair in pairs)
    some = sorted(first, key=len)[:: len(first) // 16][:16]  # short and long ones together
    alone = torch.cat([model.embed(text) for text in some])
    numbers["alone"] = float((alone - model.embed(some)).abs().max())
    numbers["careless"] = float((alone - careless(model, some)).abs().max())
    numbers["shown"] = shown(pairs, embedded, ranks)
    return numbers


def shown(pairs: Pairs, embedded: dict[str, list[Tensor]], ranks: dict[str, list[int]]) -> list[Numbers]:
    """Where only the sentence embedding is right, the pairs with the fewest words in common."""
    good = [i for i in range(len(pairs)) if ranks["sentence"][i] == 0 and ranks["word2vec"][i] > 0]
    good.sort(key=lambda i: (shared(*pairs[i]), i))
    nearest = {name: (both[0] @ both[1].T).argmax(1).tolist() for name, both in embedded.items()}
    return [{"asked": pairs[i][0]} | {name: pairs[nearest[name][i]][1] for name in NAMES} for i in good[:4]]


TINTS = {"counts": style.EDGE, "word2vec": style.SECOND, "sentence": style.WEIGHT}


def draw(numbers: Numbers) -> Figure:
    total = numbers["pairs"]
    note = (
        f"{total} pairs of English sentences with the same German translation and few words in common. How often a "
        f"sentence’s partner\nis the nearest of {total}; pale, among the ten nearest; dots, {SEEDS} starts. Right, "
        "what is nearest to some, in their colours."
    )
    figure = style.page(TITLE, note, height=5.6)
    grid = figure.add_gridspec(1, 2, width_ratios=(1, 1.35))
    axes, right = figure.add_subplot(grid[0]), figure.add_subplot(grid[1])
    for i, (name, tint) in enumerate(TINTS.items()):
        ten, first = numbers["ten"][name] / total, numbers["first"][name] / total
        axes.bar(i, ten, 0.62, color=style.mix(tint, 0.3))
        axes.bar(i, first, 0.62, color=tint)
        axes.text(i, first - 0.045, style.percent(first, 1), ha="center", va="top", color="white", weight="bold")
        axes.text(i, ten + 0.01, style.percent(ten), ha="center", va="bottom", color=style.SOFT, size=10)
    starts = [found / total for found in numbers["starts"]]
    axes.plot([list(TINTS).index("word2vec")] * SEEDS, starts, "o", color=style.INK, ms=4)
    axes.set(yticks=[], ylim=(0, 1.05))
    axes.set_xticks(range(len(NAMES)), list(NAMES.values()))
    axes.spines["left"].set_visible(False)
    for label in axes.get_xticklabels():
        label.set(size=11, color=style.INK)
    examples(right, numbers["shown"])
    return figure


def examples(axes: Axes, some: list[Numbers]) -> None:
    axes.axis("off")
    axes.set(xlim=(0, 1), ylim=(0, 1))
    for i, one in enumerate(some):
        y = 0.97 - 0.26 * i
        axes.text(0.04, y, one["asked"], family=style.SERIF, size=14, va="top")
        for j, name in enumerate(("sentence", "word2vec")):
            axes.text(0.09, y - 0.07 - 0.06 * j, one[name], family=style.SERIF, size=13, va="top", color=TINTS[name])


def checks(numbers: Numbers) -> list[Check]:
    first, total = numbers["first"], numbers["pairs"]
    ahead = [100 * (first["sentence"] - found) / total for found in numbers["starts"]]
    return [
        aside(above("pairs", total, 300)),
        aside(below("words that the two of a pair share, largest share", numbers["overlap"], 0.34)),
        starts_above("recall@1: Sentence-BERT over mean word2vec, points", ahead, 0),
        aside(above("recall@1 of Sentence-BERT", first["sentence"] / total, 0.5)),
        aside(above("recall@1 of mean word2vec over chance", first["word2vec"], 10)),
        aside(below("an embedding alone and in a batch with longer texts, apart", numbers["alone"], 1e-5)),
        aside(above("the same with padding in the mean", numbers["careless"], 1e-2)),
        aside(equal("examples shown", len(numbers["shown"]), 4)),
    ]
