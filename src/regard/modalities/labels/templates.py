"""Run files for one label for each example: images, texts, texts by a model that there is."""

from regard.modalities.images.sources.files import ImageFiles
from regard.modalities.run_parts import Template
from regard.modalities.text.sources.labelled import LabelledFiles
from regard.train.optimizers import AdamW
from regard.train.schedules import CosineSchedule, LinearSchedule
from regard.train.settings import Train

from .goal import Classification

IMAGES = Template(
    task=Classification(),
    data=ImageFiles(train="images", size="auto"),
    model={"name": "vit-base", "dim": 96, "depth": 6, "heads": 3, "hidden": 192},
    train=Train(steps=5000, evaluate=250, save=250, log=25),
    optimizer=AdamW(rate=1e-3, betas=(0.9, 0.999), decay=0.05),
    schedule=CosineSchedule(warmup=200),
)
TEXTS = Template(
    task=Classification(),
    data=LabelledFiles(train=("texts.tsv",)),
    model={"name": "bert-mini", "length": 128},
    train=Train(steps=2000, evaluate=100, save=100, log=10),
    optimizer=AdamW(rate=3e-4, betas=(0.9, 0.999), decay=0.01),
    schedule=CosineSchedule(warmup=200),
)
FINE_TUNE = Template(
    task=Classification(),
    data=LabelledFiles(train=("texts.tsv",)),
    start="./model",
    train=Train(steps=1000, evaluate=100, save=100, log=10),
    optimizer=AdamW(rate=5e-5, betas=(0.9, 0.999), decay=0.01),
    schedule=LinearSchedule(warmup=100),
)
