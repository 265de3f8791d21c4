"""Draw images from captions: the denoiser and the text encoder of latent diffusion learn together."""

from dataclasses import dataclass, fields
from typing import Any, Literal

import torch
from torch import Tensor

from regard.data.batches import Batches
from regard.errors import InputError
from regard.modalities.captions.matching import framed_text
from regard.modalities.captions.sources.files import CaptionFiles
from regard.modalities.drawing.denoising import Denoise
from regard.modalities.drawing.prompted import of_captions
from regard.modalities.inputs import ModelView
from regard.modalities.net_needs import NeedsByMedia, NetCall, NetNeeds
from regard.modalities.run_parts import Goal, RunPlan, SplitBatches, Template
from regard.modalities.text.vocabulary import with_frame
from regard.models.autoencoder import Autoencoder
from regard.models.diffusion import Diffusion, scaled_config
from regard.nn.config import not_shares, refuse
from regard.tasks.task import Task
from regard.train.optimizers import AdamW
from regard.train.runfile import setting
from regard.train.schedules import CosineSchedule
from regard.train.settings import Train

MEASURED = 256  # images from which the spread of the latents is measured
OF_THE_MODEL = ("scale", "shift", "image")  # keys of an autoencoder that the drawing model has its own of


@dataclass(frozen=True)
class DrawingFromText:
    """Draw images from captions (latent diffusion)."""

    kind: Literal["draw"] = "draw"
    drop: float = setting(0.1, "fraction of captions that are left out, for classifier-free guidance")

    def __post_init__(self) -> None:
        refuse(not_shares(self, "drop"))


def task_of(plan: RunPlan, model: ModelView, sources: SplitBatches) -> Task:
    net: Any = model.net
    assert isinstance(net, Diffusion)
    if net.autoencoder is not None:
        net.autoencoder.requires_grad_(False)
        if plan.start is None:
            fill_autoencoder(net, plan.given.get("autoencoder"))
            scale_latents(net, sources.splits["train"], model.processor.images)
    return Denoise(net, empty_caption(model.processor.text), plan.task.drop)


def empty_caption(text: Any) -> Tensor:
    """The tokens around no words.  -> (m,)"""
    return torch.tensor(framed_text(text).framed([("",)], None)[0].ids)


def fill_autoencoder(net: Diffusion, given: ModelView | None) -> None:
    """With the weights of one that was trained before."""
    assert net.autoencoder is not None
    if given is None:
        raise InputError(
            "the autoencoder of the model has no trained weights",
            expected='[start] with model = "runs/..." and part = "autoencoder": a model of the task reconstruct',
            fix="train one with `regard init reconstruct`, or draw pixels without one: model.autoencoder = {}",
        )
    net_given: Any = given.net
    other = net_given.autoencoder if isinstance(net_given, Diffusion) else net_given
    if not isinstance(other, Autoencoder):
        expected = "an autoencoder, or a model that draws with one"
        raise InputError("the given part is not an autoencoder", got=given.family, expected=expected)
    ours, theirs = net.autoencoder.config, other.config
    unlike = [x.name for x in fields(ours) if getattr(ours, x.name) != getattr(theirs, x.name)]
    if unlike := [name for name in unlike if name not in OF_THE_MODEL]:
        told = [f"autoencoder.{name} = {getattr(ours, name)!r}, and {getattr(theirs, name)!r} there" for name in unlike]
        raise InputError("the model has another autoencoder than the given one", got="; ".join(told))
    net.autoencoder.load_state_dict(other.state_dict())


def scale_latents(net: Diffusion, train: Batches, images: Any) -> None:
    """The latents of the training images get mean 0 and variance 1; what that takes becomes part of the config."""
    assert net.autoencoder is not None
    rows = torch.linspace(0, len(train.source) - 1, min(MEASURED, len(train.source))).long().unique().tolist()
    pixels = images.normalise(torch.stack([train.source[row].image for row in rows]))
    net.eval()
    with torch.no_grad():
        latents = torch.cat([net.autoencoder.encode(some).mode() for some in pixels.split(32)]).double()
    scale, shift = round(1 / max(float(latents.std()), 1e-6), 6), round(float(latents.mean()), 6)
    net.config = scaled_config(net.config, scale, shift)
    own = net.config.autoencoder_config
    assert own is not None
    net.autoencoder.config = own
    net.train()


TEMPLATE = Template(
    task=DrawingFromText(),
    data=CaptionFiles(train="captions.csv", images=("images",)),
    model={"name": "diffusion-tiny", "autoencoder": {}},
    train=Train(steps=20_000, evaluate=1000, save=1000, log=50),
    optimizer=AdamW(rate=5e-4, betas=(0.9, 0.99), decay=0.01),
    schedule=CosineSchedule(warmup=500),
)
PLACE = "regard.modalities.captions.match_goal"
CALLS = (NetCall("forward", "noisy, time, ids, keys=", "predictions (b, c, h, w)"),)
NEEDS: NeedsByMedia = {("text", "noise"): NetNeeds(CALLS, ("image", "channels", "vocab"))}
GOAL = Goal(
    DrawingFromText,
    {"captions": f"{PLACE}:caption_batches", "scenes": f"{PLACE}:scene_batches"},
    task_of,
    {"draw": TEMPLATE},
    given=("autoencoder",),
    tokens=with_frame,
    needs=NEEDS,
    media=("image", "text"),
    processor=of_captions,
)
