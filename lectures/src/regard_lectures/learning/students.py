"""3.11b: small students of three teachings at equal size: on the data as they are, on what a teacher finds likely, on
what it writes.

The data are the little French of 11.1, of which one word in five was replaced by another: a large model learns what
most sentences agree on, a small one has trouble to. All models see the same 3,200 sentences; a translation counts if
it is right in every word, as it was before words were replaced. Logits at temperature 1, nothing but them (a = 1).
"""

from collections.abc import Sequence
from random import Random
from typing import Literal

from matplotlib.figure import Figure

from regard import style
from regard.decode.beam import Beam
from regard.decode.settings import Decoding
from regard.modalities.text.runners import Translation
from regard.modalities.text.tasks.distillation import Distil
from regard.modalities.text.tasks.translation import Translate
from regard.model import Model
from regard_lectures.figure import Check, Numbers, above, aside, seeded, starts_above
from regard_lectures.learning.lessons import batched, lesson
from regard_lectures.looking.french import FRENCH, sentences, untaught
from regard_lectures.toys import fit, means

TITLE = "Small students learn more from a teacher than from the data"
DECKS = ("001", "004")
CLAIM = "At equal size a student of the teacher's outputs, or of its logits, translates better than one of the data."
EXPECTED = "At equal size a student of the teacher’s outputs, or of its logits, translates better than one of the data."
FOUND = (
    "Students of the outputs are ahead in 12 of 12 pairs of size and start, those of the logits by 0.16 on average,"
    " and in 9 of 12."
)
COST = 140.0
SEED = 0

SENTENCES, WRONG, BATCH, UNSEEN = 3200, 0.2, 32, 200
TEACHER: dict[str, object] = {"dim": 64, "depth": 2, "heads": 8, "hidden": 128, "dropout": 0.1, "norm": "pre"}
WIDTHS, SEEDS = (16, 20, 24, 32), 3
Teaching = Literal["data", "logits", "outputs"]
TINTS: dict[Teaching, str] = {"outputs": style.WEIGHT, "logits": style.INK, "data": style.SECOND}
NAMES: dict[Teaching, str] = {"outputs": "teacher’s outputs", "logits": "teacher’s logits", "data": "data"}
Pair = tuple[str, str]


def noisy(seed: int) -> list[Pair]:
    chance, words = Random(seed), list(FRENCH.values())
    return [
        (
            one.english,
            " ".join(chance.choice(words) if chance.random() < WRONG else word for word in one.french.split()),
        )
        for one in sentences(SENTENCES, seed)
    ]


def compute() -> Numbers:
    pairs = noisy(SEED)
    teacher = untaught("transformer-small", SEED, TEACHER)
    with seeded(SEED):
        task = Translate(teacher.net, teacher.text(), 0.0)
        fit(teacher.parameters(), lesson(task, batched(teacher.text(), pairs, BATCH)), steps=500, rate=3e-3)
    teacher.eval()
    written = [(one.source, one.text) for one in wrote(teacher, [english for english, _ in pairs])]
    numbers: Numbers = {
        "teacher": {"weights": amount(teacher), "right": right(teacher)},
        "weights": [amount(student(width, SEED)) for width in WIDTHS],
        "right": {
            teaching: [
                [
                    taught(teaching, width, seed, teacher, written if teaching == "outputs" else pairs)
                    for width in WIDTHS
                ]
                for seed in range(SEED, SEED + SEEDS)
            ]
            for teaching in TINTS
        },
    }
    return numbers


def student(width: int, seed: int) -> Model:
    sizes: dict[str, object] = {"dim": width, "depth": 1, "heads": 2, "hidden": 2 * width}
    return untaught("transformer-small", seed, sizes | {"dropout": 0.0, "norm": "pre"})


def taught(teaching: Teaching, width: int, seed: int, teacher: Model, pairs: Sequence[Pair]) -> float:
    """How many unseen sentences such a student translates rightly."""
    model = student(width, seed)
    if teaching == "logits":
        task: Translate = Distil(model.net, model.text(), 0.0, teacher.net, share=1.0)
    else:
        task = Translate(model.net, model.text(), 0.0)
    with seeded(seed):
        fit(model.parameters(), lesson(task, batched(model.text(), pairs, BATCH)), steps=300, rate=1e-2)
    return right(model.eval())


def right(model: Model) -> float:
    unseen = sentences(UNSEEN, 10**6)
    found = wrote(model, [one.english for one in unseen])
    return sum(x.text == one.french for x, one in zip(found, unseen, strict=True)) / UNSEEN


def wrote(model: Model, texts: list[str]) -> list[Translation]:
    found = model.translate(texts, decoding=Decoding(beam=Beam(beams=1)))
    assert isinstance(found, list)
    return found


def amount(model: Model) -> int:
    return sum(x.numel() for x in model.parameters())


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Sentences translated without a fault, by students of one layer; {SEEDS} seeds, lines through their means.\n"
        "Of the data’s words one in five is wrong; the teacher learned from the same."
    )
    figure = style.page(TITLE, note, height=5.3)
    axes = figure.subplots()
    sizes = numbers["weights"]
    for teaching, tint in TINTS.items():
        runs = numbers["right"][teaching]
        axes.plot(sizes, means(runs), color=tint)
        for run in runs:
            axes.plot(sizes, run, "o", color=tint, ms=4.5, alpha=0.6, mew=0)
        shift = {"logits": 13, "data": -1}.get(teaching, 0)
        style.end_label(axes, sizes[-1], means(runs)[-1], NAMES[teaching], tint, dy=shift)
    teacher = numbers["teacher"]
    axes.plot([sizes[0], sizes[-1]], [teacher["right"]] * 2, color=style.EDGE, lw=1.2, ls=(0, (4, 3)))
    said = f"the teacher, of {teacher['weights']:,} weights"
    axes.text(sizes[0], teacher["right"] - 0.02, said, color=style.SOFT, size=10.5, va="top")
    axes.set_xscale("log")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])
    axes.set(xlabel="weights", xlim=(sizes[0] * 0.97, sizes[-1] * 1.38), ylim=(0, 1.06))
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    taught = numbers["right"]
    data, logits, outputs = (means(taught[teaching]) for teaching in ("data", "logits", "outputs"))
    wins = [
        [a > b for a, b in zip(mine, theirs, strict=True)]
        for mine, theirs in zip(taught["outputs"], taught["data"], strict=True)
    ]
    ahead = [sum(mine) - sum(theirs) for mine, theirs in zip(taught["logits"], taught["data"], strict=True)]
    return [
        aside(above("the teacher's own share of right translations", numbers["teacher"]["right"], 0.85)),
        above(
            "outputs ahead of the data, mean of 3 seeds, worst of 4 sizes",
            min(a - b for a, b in zip(outputs, data, strict=True)),
            0.0,
        ),
        starts_above("outputs ahead of the data: share of sizes", [sum(one) / len(one) for one in wins], 0.75),
        starts_above("logits ahead of the data, mean of 4 sizes", [lead / len(data) for lead in ahead], 0.0),
        above("logits ahead of the data, mean of all", sum(logits) / len(logits) - sum(data) / len(data), 0.05),
    ]
