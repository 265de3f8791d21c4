"""Vision models against the libraries that people use today, with the same weights; and Swin's time against the pixels.

python -m benchmarks vit deit swin vit-learn deit-learn swin-learn pixels
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard
from regard.comparison.measure import cost_exponent
from regard.model import Model
from tests.guard import mend_torchvision

from .measure import Result, race

IMAGES = 4
SIDES = (224, 448, 672, 896)
SLOPE = 1.1  # at most: of time against pixels, both by their logarithm


@dataclass(frozen=True)
class Trio:
    """One model, three times, with the same weights."""

    title: str
    theirs: nn.Module  # of transformers
    other: nn.Module  # of timm
    ours: Model


def trio(name: str) -> Trio:
    """Made by transformers; what it writes we read, and what we write timm reads."""
    mend_torchvision()
    import timm
    import transformers as hf

    plain = {"layer_norm_eps": 1e-6}  # as the published ones have it, and timm always
    small = plain | {"hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536}
    still = {"num_labels": 1000, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    titles = {"vit": "ViT-B/16", "deit": "DeiT-S", "swin": "Swin-T"}
    makers: dict[str, Callable[[], nn.Module]] = {
        "vit": lambda: hf.ViTForImageClassification(hf.ViTConfig(**still, **plain)),
        "deit": lambda: hf.DeiTForImageClassificationWithTeacher(hf.DeiTConfig(**still, **small)),
        "swin": lambda: hf.SwinForImageClassification(hf.SwinConfig(**still, drop_path_rate=0.0)),
    }
    theirs = makers[name]().eval()
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)  # type: ignore[operator]
        ours = regard.load(Path(folder))
        regard.export(ours, Path(folder) / "timm", to="timm")
        other = timm.create_model(f"local-dir:{folder}/timm", pretrained=True).eval()
    return Trio(titles[name], theirs, other, ours)


def agree(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)


def see(name: str, rounds: int, threads: int) -> Result:
    """Some images are judged."""
    found = trio(name)
    fast, images = regard.prepare(found.ours), torch.randn(IMAGES, 3, 224, 224)
    with torch.inference_mode():
        agree(fast(images), found.theirs(images).logits)
        agree(fast(images), found.other(images))
        contenders: dict[str, Callable[[], object]] = {
            "timm": lambda: found.other(images),
            "transformers": lambda: found.theirs(images).logits,
            "regard": lambda: found.ours(images),
            "regard, prepared": lambda: fast(images),
        }
        return race(f"{found.title} sees {IMAGES} images", contenders, rounds=rounds, threads=threads)


def learn(name: str, rounds: int, threads: int) -> Result:
    """A training step, without the optimizer."""
    found = trio(name)
    images, labels = torch.randn(IMAGES, 3, 224, 224), torch.randint(1000, (IMAGES,))
    for net in (found.theirs, found.other, found.ours):
        net.train()

    def step(logits: Tensor) -> None:
        F.cross_entropy(logits, labels).backward()

    contenders: dict[str, Callable[[], object]] = {
        "timm": lambda: step(found.other(images)),
        "transformers": lambda: step(found.theirs(images).logits),
        "regard": lambda: step(found.ours(images)),
    }
    what = f"{found.title}, forward and backward, {IMAGES} images"
    return race(what, contenders, rounds=rounds, threads=threads)


def pixels(rounds: int, threads: int) -> Result:
    """Swin-T sees one image of more and more pixels: it must not take longer than in proportion."""
    net = regard.prepare(regard.build("swin-tiny", classes=0).eval())
    with torch.inference_mode():
        contenders: dict[str, Callable[[], object]] = {
            f"{side} x {side}": partial(net, torch.randn(1, 3, side, side)) for side in SIDES
        }
        result = race("Swin-T sees an image", contenders, rounds=rounds, threads=threads)
    found = cost_exponent([side**2 for side in SIDES], [timing.milliseconds for timing in result.timings])
    print(f"time grows with pixels to the power of {found:.2f}, at most {SLOPE}: {'yes' if found <= SLOPE else 'NO'}")
    return result


ALL: dict[str, Callable[[int, int], Result]] = {
    **{name: partial(see, name) for name in ("vit", "deit", "swin")},
    **{f"{name}-learn": partial(learn, name) for name in ("vit", "deit", "swin")},
    "pixels": pixels,
}
