"""Imitation: a generator learns to draw images like those of the data, with a discriminator as its judge."""

from dataclasses import dataclass
from typing import Any, Literal

from regard.errors import InputError
from regard.modalities.drawing.adversarial import AdversarialLoss, Imitate
from regard.modalities.drawing.batching import drawn_data
from regard.modalities.drawing.critics import ConvolutionJudge, Judge, TransformerJudge
from regard.modalities.drawing.diffaugment import DiffAugment
from regard.modalities.images.sources.files import ImageFiles
from regard.modalities.inputs import ModelView
from regard.modalities.net_needs import NeedsByMedia, NetCall, NetNeeds
from regard.modalities.run_parts import Goal, RunPlan, SplitBatches, Template
from regard.nn.config import not_at_least, not_positive, refuse
from regard.tasks.task import Task
from regard.train.optimizers import Adam
from regard.train.runfile import setting
from regard.train.schedules import ConstantSchedule
from regard.train.settings import Train

HALF = (0.5,)


@dataclass(frozen=True)
class Imitation:
    """Draw images like those of the data (GAN). A training step is one of the discriminator."""

    kind: Literal["imitate"] = "imitate"
    loss: AdversarialLoss = setting("wasserstein", "adversarial loss")
    penalty: float = setting(10.0, "weight of the gradient penalty (WGAN-GP) of the discriminator; 0: none")
    drift: float = setting(1e-3, "weight of the squared scores of real images in the discriminator's loss; 0: none")
    critic_steps: int = setting(4, "training steps of the discriminator for each one of the generator")
    larger: int = setting(1, "batch size of the generator, as a multiple of data.batch")
    critic: Judge = setting(ConvolutionJudge(), "the discriminator")
    augment: DiffAugment = setting(DiffAugment(), "random changes of all images that the discriminator sees")

    def __post_init__(self) -> None:
        refuse(not_at_least(0, self, "penalty", "drift"), not_positive(self, "critic_steps", "larger"))


def problems(task: Any, data: Any) -> list[str]:
    """A generator gives values from -1 to 1, and learns no labels."""
    wrong = []
    if (data.mean, data.deviation) != (HALF, HALF):
        wrong += ["data.mean and data.deviation must be [0.5]: generated pixels lie between -1 and 1"]
    if data.augment.mixes:
        wrong += ["data.augment: mixup and cutmix would be imitated; use task.augment"]
    return wrong


def task_of(plan: RunPlan, model: ModelView, sources: SplitBatches) -> Task:
    task = plan.task
    try:
        judge = task.critic.build(model.get("image"), model.get("channels"))
    except ValueError as error:
        raise InputError(
            "the discriminator does not fit the images", where="task.critic", got="; ".join(str(error).split("\n"))
        ) from None
    return Imitate(
        model.net,
        judge,
        loss=task.loss,
        penalty=task.penalty,
        drift=task.drift,
        critic_steps=task.critic_steps,
        larger=task.larger,
        augment=task.augment,
    )


TEMPLATE = Template(
    task=Imitation(
        critic=TransformerJudge(dim=192, depth=(2, 2), patch=4),
        augment=DiffAugment(colour=1.0, translation=0.125, cutout=0.5),
    ),
    data=ImageFiles(train="images"),
    model={"name": "transgan-tiny"},
    train=Train(steps=20_000, evaluate=1000, save=1000, log=50, clip=5.0),
    optimizer=Adam(rate=1e-4, betas=(0.0, 0.99), eps=1e-8),
    schedule=ConstantSchedule(),
)
BATCHES = "regard.modalities.drawing.batching:batches_to_imitate"
CALL = NetCall("forward", "noise", "images (b, channels, image, image)")
NEEDS: NeedsByMedia = {("noise",): NetNeeds((CALL,), ("noise", "image", "channels"))}
GOAL = Goal(
    Imitation,
    {"images": BATCHES, "digits": BATCHES, "dataset": BATCHES},
    task_of,
    {"imitate": TEMPLATE},
    parts=("generator", "discriminator"),
    kept="generator",
    problems=problems,
    needs=NEEDS,
    media=("image",),
    opened=drawn_data,
)
