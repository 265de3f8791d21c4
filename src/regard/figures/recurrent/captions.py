"""1.11d: BLEU by the length of the source, four curves (Fig. 1 of deck 003, from Bahdanau et al., 2015), on real
sentences: captions of photographs, from German to English (Multi30k).

RNNencdec is Cho's net with one state of 256 for the sentence, RNNsearch Bahdanau's with states as wide. Both are
trained on captions of up to 15 and of up to 30 words on both sides, RNNencdec for more steps, which take as long.
Measured on the test and validation captions, of which no net has learned, by the likeliest token after the other.
"""

from pathlib import Path

from matplotlib.figure import Figure

from regard import style
from regard.data.tables import open_plain
from regard.decode.settings import Decoding
from regard.figures.figure import Check, Numbers, above, below
from regard.figures.trained import RUNS, trained
from regard.model import Model
from regard.run.settings import PairFiles, Run, Translation, Vocabulary
from regard.run.sources import found
from regard.tasks.bleu import by_length, quality
from regard.train.optimizers import Adam
from regard.train.schedules import Cosine
from regard.train.settings import Train

TITLE = "One state for a whole caption, or a look at its words"
DECKS = ("003", "002", "004")
CLAIM = "On real sentences too, BLEU falls with their length if one state has to hold them, and less so with attention."
COST = 7500.0
SEED = 0

KINDS = {"RNNencdec": "rnn-cho", "RNNsearch": "rnn-bahdanau"}
STEPS = {"RNNencdec": 4000, "RNNsearch": 2400}
TRAINED, EDGES = (15, 30), (10, 15, 20)  # words
WIDTH, DIM, VOCAB = 256, 128, 4000
Pair = tuple[str, str]


def captions(split: str) -> list[Pair]:
    rows = open_plain(*(found(f"multi30k/{split}.{language}.gz", Path()) for language in ("de", "en")))
    return [(german, english) for german, english in (rows[i] for i in range(len(rows)))]


def files(longest: int) -> tuple[str, ...]:
    """The training captions of up to so many words, written beside the runs."""
    RUNS.mkdir(exist_ok=True)
    kept = [pair for pair in captions("train") if max(len(text.split()) for text in pair) <= longest]
    paths = [(RUNS / f"captions-{longest}.{language}").absolute() for language in ("de", "en")]
    for path, texts in zip(paths, zip(*kept, strict=True), strict=True):
        path.write_text("".join(f"{text}\n" for text in texts), "utf-8")
    return tuple(map(str, paths))


def run_of(name: str, longest: int) -> Run:
    return Run(
        task=Translation(smoothing=0.0),
        data=PairFiles(
            train=files(longest),
            held_out=("multi30k/val.de.gz", "multi30k/val.en.gz"),
            budget=3000,
            longest=100,
            vocabulary=Vocabulary(size=VOCAB),
        ),
        model={
            "name": KINDS[name],
            "dim": DIM,
            "hidden": WIDTH,
            "align": DIM,
            "maxout": DIM,
            "dropout": 0.2,
            "target_vocab": VOCAB,
        },
        train=Train(steps=STEPS[name], log=50, evaluate=500, save=250, average=4, keep=4, threads=1),
        optimizer=Adam(rate=2e-3),
        schedule=Cosine(warmup=200),
        seed=SEED,
    )


def translated(model: Model, pairs: list[Pair]) -> list[str]:
    found = model.translate([source for source, _ in pairs], decoding=Decoding())
    assert isinstance(found, list)
    return [one.text for one in found]


def compute() -> Numbers:
    pairs = captions("test_2016_flickr") + captions("val")
    sources, references = zip(*pairs, strict=True)
    numbers: Numbers = {"captions": len(pairs), "bleu": {}, "all": {}}
    for name in KINDS:
        for longest in TRAINED:
            said = translated(trained(f"captions-{name.lower()}-{longest}", run_of(name, longest)), pairs)
            found = by_length(sources, said, references, EDGES)
            numbers["lengths"] = {bucket: one.sentences for bucket, one in found.items()}
            numbers["bleu"][f"{name}-{longest}"] = [round(one.bleu, 2) for one in found.values()]
            numbers["all"][f"{name}-{longest}"] = round(quality(said, references).bleu, 2)
    return numbers


def draw(numbers: Numbers) -> Figure:
    note = (
        f"BLEU of {numbers['captions']:,} captions of Multi30k, German to English, by the words of the German one."
        " After a name: the longest captions in its training."
    )
    figure = style.page(TITLE, note, height=5.2)
    axes = figure.subplots()
    places = list(range(len(numbers["lengths"])))
    for name, tint in (("RNNsearch", style.WEIGHT), ("RNNencdec", style.SECOND)):
        for longest in TRAINED:
            y = numbers["bleu"][f"{name}-{longest}"]
            axes.plot(places, y, color=tint, ls="-" if longest == TRAINED[1] else "--", marker="o")
            style.end_label(axes, places[-1], y[-1], f"{name}-{longest}", tint)
    names = [f"{bucket.replace('-', '–')}\n{count} captions" for bucket, count in numbers["lengths"].items()]
    axes.set(xlabel="words in the source", ylim=(0, None), xlim=(-0.2, places[-1] + 0.6), xticks=places)
    axes.set_xticklabels(names)
    axes.set_title("BLEU")
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    return figure


def holds(numbers: Numbers) -> list[Check]:
    bleu = numbers["bleu"]
    lost = {name: 1 - y[-1] / y[0] for name, y in bleu.items()}
    return [
        above(
            "RNNencdec-30: share of its BLEU lost from the shortest captions to the longest", lost["RNNencdec-30"], 0.3
        ),
        below("RNNsearch-30: the same", lost["RNNsearch-30"], lost["RNNencdec-30"] - 0.1),
        above("RNNencdec-15: the same", lost["RNNencdec-15"], lost["RNNencdec-30"]),
        above(
            "RNNsearch-30 over RNNencdec-30, all captions",
            numbers["all"]["RNNsearch-30"],
            numbers["all"]["RNNencdec-30"],
        ),
        above("RNNsearch-15 over RNNencdec-30 beyond 20 words", bleu["RNNsearch-15"][-1], bleu["RNNencdec-30"][-1]),
    ]
