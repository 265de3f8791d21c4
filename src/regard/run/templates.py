"""The run file that `regard init` prints for each task."""

from regard.errors import ConfigError
from regard.nn.config import near
from regard.train.optimizers import Adam, AdamW
from regard.train.runtext import write
from regard.train.schedules import Cosine, InverseSqrt
from regard.train.settings import Train

from .goals import Classification, LanguageModel, Translation
from .inputs import ImageFiles, PairFiles, TextFiles
from .settings import Run

TEMPLATES: dict[str, Run] = {
    "translate": Run(
        task=Translation(),
        data=PairFiles(train=("pairs.tsv",)),
        model={"name": "transformer-small"},
        train=Train(steps=10000, evaluate=500, save=500, log=50),
        optimizer=Adam(rate=2e-3),
        schedule=InverseSqrt(warmup=1000),
    ),
    "language": Run(
        task=LanguageModel(),
        data=TextFiles(train=("text.txt",)),
        model={"name": "gpt-small", "length": 256, "dim": 256, "depth": 6, "heads": 4, "hidden": 1024},
        train=Train(steps=5000, evaluate=250, save=250, log=25),
        schedule=Cosine(warmup=200),
    ),
    "classify": Run(
        task=Classification(),
        data=ImageFiles(train="images"),
        model={
            "name": "vit-base",
            "image": 28,
            "patch": 4,
            "channels": 1,
            "dim": 96,
            "depth": 6,
            "heads": 3,
            "hidden": 192,
        },
        train=Train(steps=5000, evaluate=250, save=250, log=25),
        optimizer=AdamW(rate=1e-3, betas=(0.9, 0.999), decay=0.05),
        schedule=Cosine(warmup=200),
    ),
}


def template(task: str) -> str:
    """A run file for a task, every default written out and explained."""
    if task not in TEMPLATES:
        raise ConfigError(f"there is no task {task!r}{near(task, TEMPLATES)}", expected=", ".join(TEMPLATES))
    return write(TEMPLATES[task])
