"""Reconstruction: images as small maps of numbers, and back."""

from dataclasses import dataclass, replace
from typing import Literal

from regard.modalities.drawing.autoencoding import Autoencode
from regard.modalities.images.sources.files import ImageFiles
from regard.modalities.inputs import ModelView
from regard.modalities.net_needs import NeedsByMedia, NetCall, NetNeeds
from regard.modalities.run_parts import Goal, OpenedData, RunPlan, SplitBatches, Template
from regard.nn.config import not_at_least, refuse
from regard.tasks.task import Task
from regard.train.optimizers import AdamW
from regard.train.runfile import setting
from regard.train.schedules import CosineSchedule
from regard.train.settings import Train


@dataclass(frozen=True)
class Reconstruction:
    """Reconstruction: an autoencoder learns to draw images again from few numbers."""

    kind: Literal["reconstruct"] = "reconstruct"
    distance: Literal["l1", "l2"] = setting("l1", "distance of pixels: absolute or squared")
    kl: float = setting(1e-6, "weight of the divergence of the latents from a normal distribution")

    def __post_init__(self) -> None:
        refuse(not_at_least(0, self, "kl"))


def task_of(plan: RunPlan, model: ModelView, sources: SplitBatches) -> Task:
    return Autoencode(model.net, plan.task.distance, plan.task.kl)


def unlabelled(opened: OpenedData) -> OpenedData:
    """Whatever the images show, nobody asks."""
    return replace(opened, names=())


TEMPLATE = Template(
    task=Reconstruction(),
    data=ImageFiles(train="images", size="auto"),
    model={"name": "autoencoder-tiny"},
    train=Train(steps=5000, evaluate=250, save=250, log=25),
    optimizer=AdamW(rate=1e-3, betas=(0.9, 0.99), decay=0.0),
    schedule=CosineSchedule(warmup=100),
)
PIXELS = "regard.modalities.images.batching:image_batches"
CALLS = (
    NetCall("encode", "images", "means and log variances of the latents, each (b, latent, rows, columns)"),
    NetCall("decode", "latents", "images (b, channels, height, width)"),
)
NEEDS: NeedsByMedia = {("image",): NetNeeds(CALLS, ("channels", "latent"))}
GOAL = Goal(
    Reconstruction,
    {"images": PIXELS, "digits": PIXELS, "dataset": PIXELS, "scene-images": PIXELS},
    task_of,
    {"reconstruct": TEMPLATE},
    needs=NEEDS,
    opened=unlabelled,
)
