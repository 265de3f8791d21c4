"""Captions of photographs from German to English (Multi30k), and recurrent nets that translate them.

RNNencdec is Cho's net with one state of 256 for the sentence, RNNsearch Bahdanau's with states as wide. RNNencdec is
trained for more steps, which take about as long.
"""

from pathlib import Path

from regard.data.tables import open_plain
from regard.figures.runs import RUNS, trained
from regard.model import Model
from regard.run.goals import Translation
from regard.run.inputs import PairFiles, Vocabulary
from regard.run.settings import Run
from regard.run.sources import found
from regard.train.optimizers import Adam
from regard.train.schedules import Cosine
from regard.train.settings import Train

KINDS = {"RNNencdec": "rnn-cho", "RNNsearch": "rnn-bahdanau"}
STEPS = {"RNNencdec": 1700, "RNNsearch": 1000}
WIDTH, DIM, VOCAB = 256, 128, 4000
Pair = tuple[str, str]


def pairs_of(split: str) -> list[Pair]:
    rows = open_plain(*(found(f"multi30k/{split}.{language}.gz", Path()) for language in ("de", "en")))
    return [(german, english) for german, english in (rows[i] for i in range(len(rows)))]


def unseen() -> list[Pair]:
    """Of which no net has learned."""
    return pairs_of("test_2016_flickr") + pairs_of("val")


def net(name: str, longest: int, seed: int) -> Model:
    """Trained on captions of up to so many words on both sides."""
    return trained(f"captions-{name.lower()}-{longest}", run_of(name, longest, seed))


def run_of(name: str, longest: int, seed: int) -> Run:
    model = {"name": KINDS[name], "dim": DIM, "hidden": WIDTH, "align": DIM, "maxout": DIM, "target_vocab": VOCAB}
    return Run(
        task=Translation(smoothing=0.0),
        data=PairFiles(
            train=files(longest),
            held_out=("multi30k/val.de.gz", "multi30k/val.en.gz"),
            budget=3000,
            longest=100,
            vocabulary=Vocabulary(size=VOCAB),
        ),
        model=model | {"dropout": 0.2},
        train=Train(steps=STEPS[name], log=50, evaluate=500, save=250, average=1, keep=2, threads=1),
        optimizer=Adam(rate=2e-3),
        schedule=Cosine(warmup=200),
        seed=seed,
    )


def files(longest: int) -> tuple[str, ...]:
    """The training captions of up to so many words, written beside the runs."""
    RUNS.mkdir(exist_ok=True)
    kept = [pair for pair in pairs_of("train") if max(len(text.split()) for text in pair) <= longest]
    paths = [(RUNS / f"captions-{longest}.{language}").absolute() for language in ("de", "en")]
    for path, texts in zip(paths, zip(*kept, strict=True), strict=True):
        path.write_text("".join(f"{text}\n" for text in texts), "utf-8")
    return tuple(map(str, paths))


def translated(model: Model, pairs: list[Pair]) -> list[str]:
    found = model.translate([source for source, _ in pairs])
    assert isinstance(found, list)
    return [one.text for one in found]
