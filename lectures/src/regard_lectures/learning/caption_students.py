"""3.11d: students of one size, of captions as people wrote them, as their teacher writes them, and of both
(Kim and Rush, 2016), on Multi30k, German to English.

The teacher is the recipe multi30k-de-en; what it writes are its beams of 4 over the sources that it was trained on. A
student has one layer on either side and reads with its teacher's vocabulary. Each sees as many tokens.
"""

from pathlib import Path
from typing import Literal

from matplotlib.figure import Figure

from regard import style
from regard.modalities.text.bleu import bleu_and_chrf
from regard.modalities.text.goals.translate import TranslationSettings
from regard.modalities.text.preparation import VocabularySettings as Vocabulary
from regard.modalities.text.sources.pairs import PairFiles
from regard.model import Model
from regard.run.settings import RunSettings
from regard.storage.atomic import write_file
from regard.train.optimizers import Adam
from regard.train.schedules import CosineSchedule
from regard.train.settings import Train
from regard_lectures.figure import Check, Numbers, above, aside
from regard_lectures.recurrent.captioned import Pair, files, pairs_of, translated
from regard_lectures.runs import RUNS, by_recipe, trained

TITLE = "What a small translator should learn from"
DECKS = ("001",)
CLAIM = "A student of its teacher's translations translates better than one of the captions themselves, at equal size."
EXPECTED = "At equal size a student of its teacher’s translations is better than one of the captions."
FOUND = "The student of the teacher’s translations is 1.21 BLEU ahead and that of both 1.62, in one start."
COST = 2500.0
SEED = 0

TEACHER = "multi30k-de-en"
Lesson = Literal["captions", "teacher", "both"]
LESSONS: dict[Lesson, str] = {
    "captions": "from the captions",
    "teacher": "from what the\nteacher writes",
    "both": "from both",
}


def compute() -> Numbers:
    teacher = by_recipe(TEACHER)
    taught = written(teacher)
    students = {lesson: trained(f"student-{lesson}", run_of(lesson)) for lesson in LESSONS}
    pairs = pairs_of("test_2016_flickr")
    return {
        "teacher": scored(teacher, pairs),
        "students": {lesson: scored(student, pairs) for lesson, student in students.items()},
        "like": round(bleu_and_chrf(taught, [english for _, english in pairs_of("train")]).bleu, 2),
    }


def written(teacher: Model) -> list[str]:
    """What the teacher makes of the captions that it was trained on, once, and kept beside the runs."""
    path = taught_file()
    if not path.is_file():
        part = path.with_suffix(".part")
        write_file(part, "".join(f"{text}\n" for text in translated(teacher, pairs_of("train"))).encode("utf-8"))
        part.replace(path)
    return path.read_text("utf-8").splitlines()


def taught_file() -> Path:
    return (RUNS / "captions-taught.en").absolute()


def taught_pairs(lesson: Lesson) -> list[Pair]:
    """Of both, first the captions and then the teacher's."""
    gold = pairs_of("train")
    texts = taught_file().read_text("utf-8").splitlines()
    taught = [(german, text) for (german, _), text in zip(gold, texts, strict=True)]
    return {"captions": gold, "teacher": taught, "both": gold + taught}[lesson]


def run_of(lesson: Lesson) -> RunSettings:
    return RunSettings(
        task=TranslationSettings(smoothing=0.1),
        data=PairFiles(
            train=files(f"lesson-{lesson}", taught_pairs(lesson)),
            held_out=("multi30k/val.de.gz", "multi30k/val.en.gz"),
            budget=4096,
            longest=100,
            vocabulary=Vocabulary(file=str((RUNS / TEACHER / "tokenizer.json").absolute())),
        ),
        model={"name": "transformer-small", "dim": 128, "depth": 1, "heads": 4, "hidden": 256, "norm": "pre"},
        train=Train(steps=1200, log=50, evaluate=250, save=125, average=4, keep=4, threads=1),
        optimizer=Adam(rate=4e-3),
        schedule=CosineSchedule(warmup=200),
        seed=SEED,
    )


def scored(model: Model, pairs: list[tuple[str, str]]) -> Numbers:
    found = bleu_and_chrf(translated(model, pairs), [english for _, english in pairs])
    weights = sum(x.numel() for x in model.parameters())
    return {"weights": weights, "bleu": round(found.bleu, 2), "chrf": round(found.chrf, 2)}


def draw(numbers: Numbers) -> Figure:
    teacher, students = numbers["teacher"], numbers["students"]
    size = students["captions"]["weights"]
    note = (
        f"Students of {size / 1e6:.1f} M weights, one layer on either side; their teacher has"
        f" {teacher['weights'] / 1e6:.1f} M and four. BLEU of the 1,000 captions of\ntest_2016_flickr, German to"
        " English (sacreBLEU, 13a, cased), beams of 4; one seed."
    )
    figure = style.page(TITLE, note, height=4.7)
    axes = figure.subplots()
    labels = [*LESSONS.values(), "the teacher"]
    heights = [students[lesson]["bleu"] for lesson in LESSONS] + [teacher["bleu"]]
    tints = [style.SECOND, style.WEIGHT, style.WEIGHT, style.EDGE]
    style.bars(axes, labels, heights, color=tints, form="{:.1f}".format)
    axes.set_title("BLEU")
    return figure


def checks(numbers: Numbers) -> list[Check]:
    bleu = {lesson: one["bleu"] for lesson, one in numbers["students"].items()}
    share = numbers["students"]["captions"]["weights"] / numbers["teacher"]["weights"]
    return [
        above(
            "student of the teacher's translations over one of the captions, BLEU",
            bleu["teacher"] - bleu["captions"],
            0,
        ),
        above("student of both over one of the captions, BLEU", bleu["both"] - bleu["captions"], 0),
        aside(above("teacher over the best student, BLEU", numbers["teacher"]["bleu"] - max(bleu.values()), 0)),
        aside(above("weights of the teacher over those of a student", 1 / share, 1.5)),
    ]
