"""A teacher that is shown the very images that its student is."""

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.modalities.inputs import ModelView

from .processor import Images


def same_images(name: str, teacher: ModelView, model: ModelView) -> nn.Module:
    """As numbers that it knows."""
    theirs, ours = (None if x.processor is None else x.processor.media.get("image") for x in (teacher, model))
    if not isinstance(theirs, Images) or not isinstance(ours, Images):
        raise InputError("the teacher or the student has no image processor", where=name)
    if (theirs.size, theirs.channels) != (ours.size, ours.channels):
        raise InputError(
            "the image sizes or channels of teacher and student differ",
            where=name,
            got=f"{theirs.size} x {theirs.size}, {theirs.channels} channels",
            expected=f"{ours.size} x {ours.size}, {ours.channels} channels",
        )
    if (theirs.mean, theirs.std) == (ours.mean, ours.std):
        return teacher.net
    return Renormalised(teacher.net, ours, theirs)


class Renormalised(nn.Module):
    """A net for images that were normalised as ``before``, which knows them as ``after``."""

    def __init__(self, net: nn.Module, before: Images, after: Images) -> None:
        super().__init__()
        self.net, self.before, self.after = net, before, after

    def forward(self, images: Tensor) -> Tensor:
        mean, std = (torch.tensor(x, device=images.device)[:, None, None] for x in (self.before.mean, self.before.std))
        return self.net(self.after.normalise((images * std + mean) * 255))
