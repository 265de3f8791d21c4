"""3.7e: the Transformer against a recurrent net with attention, for as many minutes on the same captions (Multi30k).

Both are recipes that ship, German to English: multi30k-de-en and multi30k-de-en-rnn, Bahdanau's net, with more weights.
They read the same vocabulary, and were trained side by side, one thread each. The table of 3.7b takes its rows from
here. Of captions above 15 words, of which there are 108, the RNN translates better; of all others the Transformer does.
"""

from matplotlib.figure import Figure

from regard import style
from regard.modalities.text.bleu import bleu_and_chrf, bleu_by_length
from regard_lectures.figure import Check, Numbers, above, aside, within
from regard_lectures.recurrent.captioned import pairs_of, translated
from regard_lectures.runs import by_recipe, curve, operations

TITLE = "As many minutes, better captions"
DECKS = ("002", "004")
CLAIM = (
    "Trained for as many minutes on the same captions, the Transformer translates better than an RNN with attention."
)
EXPECTED = (
    "Trained for as many minutes, the Transformer translates better than an RNN with attention that is at least as"
    " large."
)
FOUND = (
    "39.8 against 38.3 BLEU, in one start; the RNN has 1.59 times the weights, and is better beyond 15 words (34.1"
    " against 32.2)."
)
COST = 10000.0
SEED = 0

RIVALS = {"Transformer": "multi30k-de-en", "RNN with attention": "multi30k-de-en-rnn"}
EDGES = (10, 15)  # words of a source
TINTS = {"Transformer": style.WEIGHT, "RNN with attention": style.SECOND}


def compute() -> Numbers:
    return {"rivals": {name: measured(recipe) for name, recipe in RIVALS.items()}}


def measured(recipe: str) -> Numbers:
    model, pairs = by_recipe(recipe), pairs_of("test_2016_flickr")
    said, (sources, references) = translated(model, pairs), zip(*pairs, strict=True)
    scored = bleu_and_chrf(said, references)
    points = curve(recipe)
    return {
        "recipe": recipe,
        "weights": sum(x.numel() for x in model.parameters()),
        "minutes": round(points[-1][0], 1),
        "curve": [[round(minutes, 2), round(loss, 4)] for minutes, loss in points],
        "bleu": round(scored.bleu, 2),
        "lengths": {
            words: round(one.bleu, 2) for words, one in bleu_by_length(sources, said, references, EDGES).items()
        },
        "chrf": round(scored.chrf, 2),
        "operations": float(f"{operations(recipe):.3g}"),
        "signature": scored.signatures["bleu"],
    }


def draw(numbers: Numbers) -> Figure:
    rivals = numbers["rivals"]
    long = {name: one["lengths"]["16-"] for name, one in rivals.items()}
    note = (
        "Captions of photographs, German to English; one thread each, side by side, one seed. BLEU of the 1,000"
        " captions of\ntest_2016_flickr (sacreBLEU, 13a, cased), beams of 4. Above 15 words:"
        f" RNN {long['RNN with attention']:.1f}, Transformer {long['Transformer']:.1f}."
    )
    figure = style.page(TITLE, note, height=4.9)
    left, right = figure.subplots(1, 2, width_ratios=(1.7, 1))
    for name, one in rivals.items():
        minutes, losses = zip(*one["curve"], strict=True)
        left.plot(minutes, losses, color=TINTS[name], marker="o", ms=3.5)
        up = 24 if losses[-1] == max(other["curve"][-1][1] for other in rivals.values()) else -16
        left.annotate(
            f"{name}, {one['weights'] / 1e6:.1f} M weights",
            (minutes[-1], losses[-1]),
            xytext=(0, up),
            textcoords="offset points",
            ha="right",
            va="center",
            color=TINTS[name],
            weight="bold",
            size=11,
        )
    left.set(xlabel="minutes of training", xlim=(0, None), ylim=(1.2, None))
    left.set_title("loss on held-out captions")
    left.grid(axis="y")
    left.spines["left"].set_visible(False)
    tints = [TINTS[name] for name in rivals]
    names = [name.replace(" with", "\nwith") for name in rivals]
    style.bars(right, names, [one["bleu"] for one in rivals.values()], color=tints, form="{:.1f}".format)
    right.set_title("BLEU")
    return figure


def checks(numbers: Numbers) -> list[Check]:
    ours, theirs = (numbers["rivals"][name] for name in RIVALS)
    minutes, weights = (theirs[name] / ours[name] for name in ("minutes", "weights"))
    return [
        aside(within("minutes of the RNN over those of the Transformer", minutes, 0.95, 1.3)),
        aside(above("weights of the RNN over those of the Transformer", weights, 1)),
        above("BLEU of the Transformer over that of the RNN", ours["bleu"] - theirs["bleu"], 0),
        aside(above("BLEU of the RNN: it has learned", theirs["bleu"], 25)),
    ]
