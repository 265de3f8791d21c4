"""11.1b: where the shipped translator looks, held against which word is made of which by IBM's first model.

The lexicon is learned from 60,000 pairs of sentences and knows nothing of neural nets. The translator writes German for
sentences that neither has seen; of each content word that it writes (all but the 100 most frequent) and that the
lexicon explains by a word of the source, it is asked whether the translator looked hardest at this word. Words cut into
pieces are joined. Which layer, and which head, is chosen on half of the sentences and measured on the others.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.data.files import find_file as found
from regard.data.tables import open_tsv
from regard.folders import load
from regard.look.subwords import merge_subwords
from regard.modalities.text.runners import Translation
from regard.model import Model
from regard_lectures.figure import Check, Numbers, above, aside, plain
from regard_lectures.looking.lexicon import NOTHING, Lexicon, words_of

TITLE = "A translator’s attention and a dictionary"
DECKS = ("002", "003", "004")
CLAIM = "The word that a translator looks at hardest is the one that a statistical dictionary gives, for most words."
EXPECTED = (
    "The word that a translator looks at hardest agrees with the alignment of IBM's first model for more than 60 % of "
    "content words."
)
FOUND = (
    "Of 479 content words the chosen layer agrees for 87 % and the chosen head for 79 %; the word at the same place "
    "would for 39 %, chance for 12 %."
)
COST = 60.0
SEED = 0

FILES, PAIRS, ASKED, SHORTEST, COMMON = "tatoeba_en_de_fr/en-de.{}.tsv.xz", 60_000, 400, 6, 100
SHOWN = "She has never seen such a big dog in her life."


@dataclass(frozen=True)
class Aligned:
    """One content word that was written: how much each word of the source was looked at, and the right one."""

    weights: Tensor  # (layers, heads, words)
    right: int
    place: float  # in its sentence, from 0 to 1


def read(part: str, most: int) -> list[tuple[str, str]]:
    rows = open_tsv(found(FILES.format(part), Path()), (1, 2))
    return [(source, target) for source, target in (rows[i] for i in range(min(most, len(rows))))]


def aligned(one: Translation, lexicon: Lexicon, common: set[str]) -> list[Aligned]:
    maps = [merge_subwords(x) for x in one.maps.values()]
    rows, columns = ([word.lower() for word in axis.labels or ()] for axis in (maps[0].rows, maps[0].columns))
    weights = torch.stack([x.weights[0] for x in maps])
    asked = [(i, lexicon.align(columns, word)) for i, word in enumerate(rows) if word.isalpha() and word not in common]
    last = max(len(rows) - 1, 1)
    return [Aligned(weights[:, :, i], right, i / last) for i, right in asked if right is not None]


def agreement(words: list[Aligned]) -> Numbers:
    """Shares of words that look hardest at the right one: in every head, in each layer's mean, in the mean of all."""
    views = {
        "heads": [x.weights for x in words],
        "layers": [x.weights.mean(1) for x in words],
        "mean": [x.weights.mean((0, 1)) for x in words],
    }
    rights = [x.right for x in words]
    return {
        name: plain(torch.stack([x.argmax(-1) == i for x, i in zip(view, rights, strict=True)]).double().mean(0), 4)
        for name, view in views.items()
    }


def looked(model: Model, texts: list[str]) -> list[Translation]:
    said = model.translate(texts, look="decoder.*.cross")
    assert isinstance(said, list)
    return said


def compute() -> Numbers:
    pairs = [(words_of(source), words_of(target)) for source, target in read("train", PAIRS)]
    lexicon = Lexicon([([NOTHING, *source], target) for source, target in pairs])
    counted = Counter(word for _, target in pairs for word in target)
    common = {word for word, _ in counted.most_common(COMMON)}
    texts = [source for source, _ in read("val", 10 * ASKED) if len(source.split()) >= SHORTEST][:ASKED]
    model = load("tatoeba-en-de")
    words = [aligned(one, lexicon, common) for one in looked(model, texts)]
    half = len(words) // 2
    chosen, measured = ([x for some in part for x in some] for part in (words[:half], words[half:]))
    (shown,) = looked(model, [SHOWN])
    maps = [merge_subwords(x) for x in shown.maps.values()]
    return {
        "sentences": len(texts),
        "words": len(measured),
        "chosen": agreement(chosen),
        "measured": agreement(measured),
        "place": sum(round(x.place * (x.weights.shape[-1] - 1)) == x.right for x in measured) / len(measured),
        "chance": sum(1 / x.weights.shape[-1] for x in measured) / len(measured),
        "shown": {
            "rows": list(maps[0].rows.labels or ()),
            "columns": list(maps[0].columns.labels or ()),
            "maps": [plain(x.weights[0], 3) for x in maps],
            "right": [
                lexicon.align([x.lower() for x in maps[0].columns.labels or ()], word.lower())
                for word in maps[0].rows.labels or ()
            ],
        },
    }


def best(numbers: Numbers) -> tuple[int, tuple[int, int]]:
    """The layer, and the (layer, head), that agree most on the half that is not measured."""
    layers, heads = numbers["chosen"]["layers"], torch.tensor(numbers["chosen"]["heads"])
    place = int(heads.argmax())
    return layers.index(max(layers)), (place // heads.shape[1], place % heads.shape[1])


def draw(numbers: Numbers) -> Figure:
    layer, (at, head) = best(numbers)
    note = (
        f"Left: layer {layer + 1} of the decoder, the mean of its heads; framed, what the dictionary says. Right:"
        f" content words that look\nhardest at the dictionary’s word, of {numbers['words']:,} in"
        f" {numbers['sentences'] // 2} unseen sentences; layer and head were chosen on others."
    )
    figure = style.page(TITLE, note, height=6.6)
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    shown = numbers["shown"]
    mean = torch.tensor(shown["maps"][layer]).mean(0)
    style.heatmap(left, mean, shown["rows"], shown["columns"], slant=50, size=10)
    for i, j in enumerate(shown["right"]):
        if j is not None:
            style.frame(left, j, i, 1, 1, style.SECOND, line=1.4)
    found = numbers["measured"]
    bars = {
        "best head": found["heads"][at][head],
        "best layer": found["layers"][layer],
        "mean of all": found["mean"],
        "same place": numbers["place"],
        "chance": numbers["chance"],
    }
    names, values = list(bars)[::-1], list(bars.values())[::-1]
    tints = [style.EDGE, style.EDGE, *[style.WEIGHT] * 3]
    right.barh(names, values, color=tints, height=0.6)
    for i, value in enumerate(values):
        right.text(value + 0.015, i, style.percent(value), va="center", color=style.INK, size=11)
    right.set(xlim=(0, 1.12), xticks=[])
    right.set_title("agreement with the dictionary")
    for side in ("bottom", "left"):
        right.spines[side].set_visible(False)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    layer, (at, head) = best(numbers)
    found = numbers["measured"]
    return [
        aside(above("content words asked", numbers["words"], 300)),
        above("agreement of the layer that was chosen on other sentences", found["layers"][layer], 0.6),
        above("agreement of the head that was chosen on other sentences", found["heads"][at][head], 0.6),
        aside(above("the layer, over the word at the same place", found["layers"][layer], numbers["place"] + 0.2)),
        aside(above("the layer, over chance", found["layers"][layer], numbers["chance"] + 0.3)),
    ]
