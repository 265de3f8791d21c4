"""1.11d: BLEU by the length of the source, four curves (Fig. 1 of deck 003, from Bahdanau et al., 2015), on real
sentences: captions of photographs, from German to English.

Both nets are trained on captions of up to 15 and of up to 30 words on both sides, and measured on the test and
validation captions, of which none has learned, by beams of 4. RNNencdec's curves are also those of 1.10: a GRU of 256.
"""

from matplotlib.figure import Figure

from regard import style
from regard.figures.figure import Check, Numbers, above, below
from regard.figures.recurrent.captioned import KINDS, net, translated, unseen
from regard.tasks.bleu import by_length, quality

TITLE = "One state for a whole caption, or a look at its words"
DECKS = ("003", "002", "004")
CLAIM = "On real sentences too, BLEU falls with their length if one state has to hold them, and less so with attention."
COST = 4800.0
SEED = 0

TRAINED, EDGES = (15, 30), (10, 15, 20)  # words


def compute() -> Numbers:
    pairs = unseen()
    sources, references = zip(*pairs, strict=True)
    numbers: Numbers = {"captions": len(pairs), "bleu": {}, "all": {}}
    for name in KINDS:
        for longest in TRAINED:
            said = translated(net(name, longest, SEED), pairs)
            found = by_length(sources, said, references, EDGES)
            numbers["lengths"] = {bucket: one.sentences for bucket, one in found.items()}
            numbers["bleu"][f"{name}-{longest}"] = [round(one.bleu, 2) for one in found.values()]
            numbers["all"][f"{name}-{longest}"] = round(quality(said, references).bleu, 2)
    return numbers


def draw(numbers: Numbers) -> Figure:
    note = (
        f"BLEU of {numbers['captions']:,} captions of Multi30k, German to English, by the words of the German one."
        " After a name: the longest captions\nin its training; in brackets: BLEU of all captions together."
    )
    figure = style.page(TITLE, note, height=5.4)
    axes = figure.subplots()
    places = list(range(len(numbers["lengths"])))
    for name, tint in (("RNNsearch", style.WEIGHT), ("RNNencdec", style.SECOND)):
        for longest in TRAINED:
            which = f"{name}-{longest}"
            y = numbers["bleu"][which]
            axes.plot(places, y, color=tint, ls="-" if longest == TRAINED[1] else "--", marker="o")
            style.end_label(axes, places[-1], y[-1], f"{which} ({numbers['all'][which]:.1f})", tint)
    names = [f"{bucket.replace('-', '–')}\n{count} captions" for bucket, count in numbers["lengths"].items()]
    axes.set(xlabel="words in the source", ylim=(0, None), xlim=(-0.2, places[-1] + 0.8), xticks=places)
    axes.set_xticklabels(names)
    axes.set_title("BLEU")
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    return figure


def holds(numbers: Numbers) -> list[Check]:
    bleu, whole = numbers["bleu"], numbers["all"]
    lost = {name: 1 - y[-1] / y[0] for name, y in bleu.items()}
    over = whole["RNNsearch-30"] - whole["RNNencdec-30"]
    kept = bleu["RNNsearch-15"][-1] - bleu["RNNencdec-30"][-1]
    return [
        above("RNNencdec-30: share of its BLEU that longest captions lose against shortest", lost["RNNencdec-30"], 0.3),
        below("RNNsearch-30: the same", lost["RNNsearch-30"], lost["RNNencdec-30"] - 0.1),
        above("RNNencdec-15: the same", lost["RNNencdec-15"], lost["RNNencdec-30"]),
        above("RNNsearch-30 over RNNencdec-30, all captions", over, 0),
        above("RNNsearch-15 over RNNencdec-30 beyond 20 words", kept, 0),
    ]
