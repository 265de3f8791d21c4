"""1.11d: BLEU by the length of the source, four curves (Fig. 1 of deck 003, from Bahdanau et al., 2015), on real
sentences: captions of photographs, from German to English.

RNNsearch is the recipe multi30k-de-en-rnn, Bahdanau's net; RNNencdec has Cho's decoder instead, with one state of the
same 256 for a caption, and more steps, which take about as long. Both are trained on all captions, of which next to
none has more than 30 words, and on those of up to 15 on both sides; and measured on the test and validation captions,
of which none has learned, by beams of 4. RNNencdec's curves are also those of 1.10: a GRU of 256.
"""

from dataclasses import replace

from matplotlib.figure import Figure

from regard import style
from regard.modalities.text.bleu import bleu_and_chrf, bleu_by_length
from regard.modalities.text.sources.pairs import PairFiles
from regard.model import Model
from regard.run.settings import RunSettings, read_run
from regard.run.training import find_run
from regard_lectures.figure import Check, Numbers, above, aside, below
from regard_lectures.recurrent.captioned import Pair, files, pairs_of, translated
from regard_lectures.runs import by_recipe, trained

TITLE = "One state for a whole caption, or a look at its words"
DECKS = ("003", "002", "004")
CLAIM = "On real sentences too, BLEU falls with their length if one state has to hold them, and less so with attention."
EXPECTED = (
    "On captions one state loses more than 0.3 of its BLEU from the shortest to the longest, attention at least 0.1"
    " less than that, and one state trained on short captions more."
)
FOUND = (
    "One state loses 42 % of its BLEU with length, attention 18 %, and one state trained on up to 15 words 48 %, in"
    " one start."
)
COST = 10800.0
SEED = 0  # the recipe's

RECIPE, STEPS = "multi30k-de-en-rnn", 4000  # of RNNencdec
NAMES, SHORT, LONG = ("RNNsearch", "RNNencdec"), 15, 30
EDGES = (8, 11, 15)  # words


def compute() -> Numbers:
    pairs = pairs_of("test_2016_flickr") + pairs_of("val")
    sources, references = zip(*pairs, strict=True)
    learned = pairs_of("train")
    share = len(of_up_to(LONG, learned)) / len(learned)
    numbers: Numbers = {"captions": len(pairs), "of up to 30": round(share, 4), "bleu": {}, "all": {}}
    for name in NAMES:
        for longest in (SHORT, LONG):
            said = translated(net(name, longest), pairs)
            found = bleu_by_length(sources, said, references, EDGES)
            numbers["lengths"] = {bucket: one.sentences for bucket, one in found.items()}
            numbers["bleu"][f"{name}-{longest}"] = [round(one.bleu, 2) for one in found.values()]
            numbers["all"][f"{name}-{longest}"] = round(bleu_and_chrf(said, references).bleu, 2)
    return numbers


def net(name: str, longest: int) -> Model:
    if name == "RNNsearch" and longest == LONG:
        return by_recipe(RECIPE)
    return trained(f"captions-{name.lower()}-{longest}", run_of(name, longest))


def run_of(name: str, longest: int) -> RunSettings:
    run = read_run(find_run(RECIPE))
    if name == "RNNencdec":
        fixed = {"decoder": "cho", "bidirectional": False}
        run = replace(run, model={**run.model, **fixed}, train=replace(run.train, steps=STEPS))
    if longest == SHORT:
        assert isinstance(run.data, PairFiles)
        run = replace(run, data=replace(run.data, train=files("captions-short", of_up_to(SHORT, pairs_of("train")))))
    return run


def of_up_to(longest: int, pairs: list[Pair]) -> list[Pair]:
    return [pair for pair in pairs if max(len(text.split()) for text in pair) <= longest]


def draw(numbers: Numbers) -> Figure:
    note = (
        f"BLEU of {numbers['captions']:,} captions of Multi30k, German to English, by the words of the German one."
        " -15: trained on captions of up to\n15 words; -30: on all"
        f" ({100 * numbers['of up to 30']:.1f} % of them have up to 30). In brackets: BLEU of all; one seed."
    )
    figure = style.page(TITLE, note, height=5.4)
    axes = figure.subplots()
    places = list(range(len(numbers["lengths"])))
    for name, tint in zip(NAMES, (style.WEIGHT, style.SECOND), strict=True):
        for longest in (SHORT, LONG):
            which = f"{name}-{longest}"
            y = numbers["bleu"][which]
            axes.plot(places, y, color=tint, ls="-" if longest == LONG else "--", marker="o")
            style.end_label(axes, places[-1], y[-1], f"{which} ({numbers['all'][which]:.1f})", tint)
    names = [f"{bucket.replace('-', '–')}\n{count} captions" for bucket, count in numbers["lengths"].items()]
    axes.set(xlabel="words in the source", ylim=(0, None), xlim=(-0.2, places[-1] + 0.8), xticks=places)
    axes.set_xticklabels(names)
    axes.set_title("BLEU")
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    bleu, whole = numbers["bleu"], numbers["all"]
    lost = {name: 1 - y[-1] / y[0] for name, y in bleu.items()}
    over = whole["RNNsearch-30"] - whole["RNNencdec-30"]
    kept = bleu["RNNsearch-15"][-1] - bleu["RNNencdec-30"][-1]
    return [
        above("RNNencdec-30: share of its BLEU that longest captions lose against shortest", lost["RNNencdec-30"], 0.3),
        below("RNNsearch-30: the same", lost["RNNsearch-30"], lost["RNNencdec-30"] - 0.1),
        above("RNNencdec-15: the same", lost["RNNencdec-15"], lost["RNNencdec-30"]),
        aside(above("RNNsearch-30 over RNNencdec-30, all captions", over, 0)),
        aside(above("RNNsearch-15 over RNNencdec-30 in the longest captions", kept, 0)),
    ]
