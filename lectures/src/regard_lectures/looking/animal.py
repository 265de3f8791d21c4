"""11.2c: “The animal didn’t cross the street because it was too tired”, or too wide: what does *it* look at?

The sentence is Google's (the blog post on the Transformer, 2017), where one head of a large translator moves from the
animal to the street. Here it is asked of the small translator that ships: what *it* looks at in the encoder, and which
pronoun the German goes on with, after all words before it were given. *Tier* is neuter (es), *Straße* feminine (sie).
Six words that fit the animal are compared with six that fit the street: they do not move it. Left to itself the
translator drops the second half of three of the twelve sentences, pronoun and all; one of the three is the “too wide”
that is drawn.
"""

import math
from statistics import mean

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard import style
from regard.folders import load
from regard.look.subwords import merge_subwords
from regard.modalities.text.runners import Translation
from regard.modalities.text.translator import TranslationModel
from regard.model import Model
from regard_lectures.figure import Check, Numbers, above, aside, below, plain

TITLE = "It was too tired, it was too wide"
DECKS = ("002", "003")
CLAIM = "“It” looks at the animal when that is too tired and at the street when that is too wide, and gets its pronoun."
EXPECTED = (
    "“It” looks at the animal where it is too tired and at the street where it is too wide, and the German pronoun "
    "goes along."
)
FOUND = (
    "“It” looks more at the animal than at the street by 0.43 where the end fits the animal, and by 0.41 where it fits "
    "the street; “es” comes first in all 12 sentences, and an end that fits the street moves log(sie / es) by -0.09."
)
COST = 3.0
SEED = 0

SENTENCE = "The animal didn't cross the street because it was too {}."
GIVEN = "Das Tier überquerte die Straße nicht, weil"
NOUNS = ("animal", "street")
PRONOUNS = {"es": "animal", "sie": "street", "er": "neither"}
FITS = {
    "animal": ("tired", "hungry", "afraid", "sick", "old", "weak"),
    "street": ("wide", "long", "narrow", "dirty", "steep", "dark"),
}


def asked(model: Model, word: str) -> Numbers:
    """One sentence: its translation, the chances of the pronouns, and what *it* looked at in every layer and head."""
    text, translating = SENTENCE.format(word), TranslationModel(model.net, model.text(), model.symbols)
    said = model.translate(text)
    assert isinstance(said, Translation)
    (read,), given = translating.encode([text]), [translating.begin, *model.text().ids([GIVEN])[0]]
    with torch.inference_mode():
        looked = model(torch.tensor([read]), torch.tensor([given]), look="encoder.*.mixer")
    chances = looked.output[0, -1].double().softmax(-1)
    maps = [merge_subwords(one) for one in looked.maps.values()]
    words = list(maps[0].columns.labels or ())
    rows = torch.stack([one.weights[0, :, words.index("it")] for one in maps])  # (layers, heads, words)
    return {
        "word": word,
        "translation": said.text,
        "pronouns": {name: float(chances[model.text().ids([name])[0][0]]) for name in PRONOUNS},
        "nouns": plain(rows[..., [words.index(noun) for noun in NOUNS]], 4),  # (layers, heads, 2)
        "total": float((rows.sum(-1) - 1).abs().max()),
        "words": words,
        "rows": plain(rows, 3),
    }


def compute() -> Numbers:
    model = load("tatoeba-en-de")
    found: Numbers = {noun: [asked(model, word) for word in words] for noun, words in FITS.items()}
    for one in (*found["animal"][1:], *found["street"][1:]):  # which are not drawn
        del one["rows"], one["words"]
    return found


def head_of(numbers: Numbers) -> tuple[int, int]:
    """The layer and the head in which *it* looks hardest at the two nouns, on average over all sentences."""
    both = [torch.tensor(one["nouns"]).sum(-1) for one in (*numbers["animal"], *numbers["street"])]
    total = torch.stack(both).mean(0)
    place = int(total.argmax())
    return place // total.shape[1], place % total.shape[1]


def looks(numbers: Numbers, noun: str) -> dict[str, float]:
    """What *it* gives to each noun in that head, where the last word fits ``noun``."""
    layer, head = head_of(numbers)
    return {seen: mean(one["nouns"][layer][head][i] for one in numbers[noun]) for i, seen in enumerate(NOUNS)}


def leaning(numbers: Numbers, noun: str) -> list[float]:
    """log(sie / es) of each sentence: above 0 the street's pronoun is likelier."""
    return [math.log(one["pronouns"]["sie"] / one["pronouns"]["es"]) for one in numbers[noun]]


def draw(numbers: Numbers) -> Figure:
    layer, head = head_of(numbers)
    cut = sum("weil" not in one["translation"] for noun in NOUNS for one in numbers[noun])
    note = (
        f"The shipped translator. Left: what “it” looks at in layer {layer + 1}, head {head + 1} of the encoder, which"
        f" looks hardest at the two nouns.\nRight: how likely each pronoun is after “{GIVEN} …”; one dot a word.\n"
        f"Its own translations leave out the half with “because” in {cut} of {2 * len(FITS['street'])} sentences,"
        " as in that of “too wide” below."
    )
    figure = style.page(TITLE, note, height=4.8)
    left, right = figure.subplots(1, 2, width_ratios=(1.45, 1))
    first = [numbers[noun][0] for noun in NOUNS]
    strips = [one["rows"][layer][head] for one in first]
    words = [*first[0]["words"][:-3], " / ".join(one["word"] for one in first), *first[0]["words"][-2:]]
    style.heatmap(left, torch.tensor(strips), [f"too {one['word']}" for one in first], words, slant=50, size=11)
    for i, one in enumerate(first):
        said = f"too {one['word']}:  “{one['translation']}”"
        left.text(0, 3.1 + 0.7 * i, said, size=11, color=style.SOFT, family=style.SERIF)
    pronouns(right, numbers)
    return figure


def pronouns(axes: Axes, numbers: Numbers) -> None:
    tints = {"animal": style.WEIGHT, "street": style.SECOND}
    for i, name in enumerate(PRONOUNS):
        for noun, shift in zip(NOUNS, (-0.14, 0.14), strict=True):
            y = [one["pronouns"][name] for one in numbers[noun]]
            axes.bar(i + shift, mean(y), 0.24, color=style.mix(tints[noun], 0.55))
            axes.plot([i + shift] * len(y), y, "o", color=tints[noun], ms=4)
    axes.set_xticks(range(len(PRONOUNS)), [f"{name}\n{noun}" for name, noun in PRONOUNS.items()])
    axes.set(ylim=(0, 1), yticks=[0, 0.5, 1])
    axes.set_yticklabels(["0", "50 %", "100 %"])
    for noun, height in zip(NOUNS, (0.93, 0.84), strict=True):
        axes.text(2.4, height, f"last word fits the {noun}", color=tints[noun], ha="right", size=10)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="y")


def checks(numbers: Numbers) -> list[Check]:
    everything = [*numbers["animal"], *numbers["street"]]
    moved = mean(leaning(numbers, "street")) - mean(leaning(numbers, "animal"))
    tired, wide = (looks(numbers, noun) for noun in NOUNS)
    return [
        above("the end fits the animal: “it” on the animal less on the street", tired["animal"] - tired["street"], 0),
        above("the end fits the street: “it” on the street less on the animal", wide["street"] - wide["animal"], 0),
        above("log(sie / es): what an end that fits the street moves", moved, 0),
        aside(above("pronouns among what may come next, least share", min(shares(numbers)), 0.5)),
        aside(below("rows of the maps add up to 1 (difference)", max(one["total"] for one in everything), 1e-4)),
    ]


def shares(numbers: Numbers) -> list[float]:
    return [sum(one["pronouns"].values()) for noun in NOUNS for one in numbers[noun]]
