"""The run file that `regard init` prints for each task."""

from regard.errors import ConfigError
from regard.nn.config import near
from regard.train.optimizers import Adam, AdamW
from regard.train.runtext import write
from regard.train.schedules import Cosine, InverseSqrt, Linear
from regard.train.settings import Train

from .goals import (
    Answering,
    Classification,
    Description,
    Detection,
    LanguageModel,
    MaskedModel,
    MissingSpans,
    Similarity,
    Tagging,
    Translation,
)
from .inputs import AnswerFiles, BoxFiles, CaptionFiles, ImageFiles, LabelledFiles, PairFiles, TaggedFiles, TextFiles
from .settings import Run, Start

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
    "classify-text": Run(
        task=Classification(),
        data=LabelledFiles(train=("texts.tsv",)),
        model={"name": "bert-mini", "length": 128},
        train=Train(steps=2000, evaluate=100, save=100, log=10),
        optimizer=AdamW(rate=3e-4, betas=(0.9, 0.999), decay=0.01),
        schedule=Cosine(warmup=200),
    ),
    "fine-tune": Run(
        task=Classification(),
        data=LabelledFiles(train=("texts.tsv",)),
        start=Start(model="./model"),
        train=Train(steps=1000, evaluate=100, save=100, log=10),
        optimizer=AdamW(rate=5e-5, betas=(0.9, 0.999), decay=0.01),
        schedule=Linear(warmup=100),
    ),
    "describe": Run(
        task=Description(),
        data=CaptionFiles(train="captions.csv", images=("images",)),
        model={
            "name": "captioner-tiny",
            "image": 64,
            "patch": 8,
            "dim": 128,
            "depth": 4,
            "heads": 4,
            "hidden": 512,
            "dropout": 0.1,
        },
        train=Train(steps=5000, evaluate=250, save=250, log=25),
        optimizer=AdamW(rate=1e-3, betas=(0.9, 0.98), decay=0.01),
        schedule=Cosine(warmup=200),
    ),
    "tag": Run(
        task=Tagging(),
        data=TaggedFiles(train=("words.conllu",)),
        model={"name": "bilstm", "dropout": 0.3},
        train=Train(steps=2000, evaluate=200, save=200, log=20),
        optimizer=Adam(rate=3e-3),
        schedule=Cosine(warmup=50),
    ),
    "answer": Run(
        task=Answering(),
        data=AnswerFiles(train=("questions.tsv",)),
        model={"name": "bert-mini", "length": 256},
        train=Train(steps=5000, evaluate=250, save=250, log=25),
        optimizer=AdamW(rate=3e-4, betas=(0.9, 0.999), decay=0.01),
        schedule=Linear(warmup=250),
    ),
    "masked": Run(
        task=MaskedModel(),
        data=TextFiles(train=("text.txt",)),
        model={"name": "bert-mini", "length": 128},
        train=Train(steps=10000, evaluate=500, save=500, log=50),
        optimizer=AdamW(rate=1e-3, betas=(0.9, 0.98), decay=0.01),
        schedule=Linear(warmup=500),
    ),
    "spans": Run(
        task=MissingSpans(),
        data=TextFiles(train=("text.txt",), unit="text", longest=128),
        model={"name": "t5-small", "dim": 256, "depth": 3, "heads": 4, "hidden": 1024},
        train=Train(steps=10000, evaluate=500, save=500, log=50),
        optimizer=AdamW(rate=1e-3, betas=(0.9, 0.98), decay=0.01),
        schedule=InverseSqrt(warmup=1000),
    ),
    "similar": Run(
        task=Similarity(),
        data=PairFiles(train=("pairs.tsv",), longest=64),
        model={"name": "bert-mini", "length": 64},
        train=Train(steps=2000, evaluate=100, save=100, log=10),
        optimizer=AdamW(rate=3e-4, betas=(0.9, 0.999), decay=0.01),
        schedule=Linear(warmup=100),
    ),
    "detect": Run(
        task=Detection(),
        data=BoxFiles(train="annotations.json", images=("images",)),
        model={"name": "detr-small", "queries": 50, "depths": [1, 1, 1], "dims": [32, 64, 128], "dim": 128},
        train=Train(steps=20000, clip=0.1, evaluate=500, save=500, log=50),
        optimizer=AdamW(rate=5e-4, betas=(0.9, 0.999), decay=1e-4),
        schedule=Cosine(warmup=500),
    ),
}


def template(task: str) -> str:
    """A run file for a task, every default written out and explained."""
    if task not in TEMPLATES:
        raise ConfigError(f"there is no task {task!r}{near(task, TEMPLATES)}", expected=", ".join(TEMPLATES))
    return write(TEMPLATES[task])
