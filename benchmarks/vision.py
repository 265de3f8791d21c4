"""Swin against the libraries that people use today, and its time against the pixels.

python -m benchmarks windows pixels
"""

import math
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard
from regard.model import Model
from tests.guard import mend_torchvision

from .measure import Result, race

SIDES = (224, 448, 672, 896)
SLOPE = 1.1  # at most: of time against pixels, both by their logarithm


def references() -> tuple[nn.Module, nn.Module, Model]:
    """Swin-T of both peers and of ours, with the same weights."""
    mend_torchvision()
    import timm
    from transformers import SwinConfig, SwinForImageClassification

    theirs = SwinForImageClassification(SwinConfig(num_labels=1000, drop_path_rate=0.0)).eval()
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        ours = regard.load(Path(folder))
        regard.model.export(ours, Path(folder) / "timm", to="timm")
        other = timm.create_model(f"local-dir:{folder}/timm", pretrained=True).eval()
    return theirs, other, ours


def agree(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)


def windows(rounds: int, threads: int) -> Result:
    """Swin-T sees four images."""
    theirs, other, ours = references()
    fast, images = regard.prepare(ours), torch.randn(4, 3, 224, 224)
    with torch.inference_mode():
        agree(fast(images), theirs(images).logits)
        agree(fast(images), other(images))
        contenders: dict[str, Callable[[], object]] = {
            "timm": lambda: other(images),
            "transformers": lambda: theirs(images).logits,
            "regard": lambda: ours(images),
            "regard, prepared": lambda: fast(images),
        }
        return race("Swin-T sees 4 images", contenders, rounds=rounds, threads=threads)


def learning(rounds: int, threads: int) -> Result:
    """Swin-T makes a training step."""
    theirs, other, ours = references()
    images, labels = torch.randn(4, 3, 224, 224), torch.randint(1000, (4,))
    for net in (theirs, other, ours):
        net.train()

    def step(logits: Tensor) -> None:
        F.cross_entropy(logits, labels).backward()

    contenders: dict[str, Callable[[], object]] = {
        "timm": lambda: step(other(images)),
        "transformers": lambda: step(theirs(images).logits),
        "regard": lambda: step(ours(images)),
    }
    return race("Swin-T, forward and backward, 4 images", contenders, rounds=rounds, threads=threads)


def pixels(rounds: int, threads: int) -> Result:
    """Swin-T sees one image of more and more pixels: it must not take longer than in proportion."""
    net = regard.prepare(regard.build("swin-tiny", classes=0).eval())
    images = {side: torch.randn(1, 3, side, side) for side in SIDES}
    with torch.inference_mode():
        contenders: dict[str, Callable[[], object]] = {
            f"{side} x {side}": lambda side=side: net(images[side])  # type: ignore[misc]
            for side in SIDES
        }
        result = race("Swin-T sees an image", contenders, rounds=rounds, threads=threads)
        found = slope([seconds(lambda side=side: net(images[side]), rounds) for side in SIDES])  # type: ignore[misc]
    print(f"time grows with pixels to the power of {found:.2f}, at most {SLOPE}: {'yes' if found <= SLOPE else 'NO'}")
    return result


def seconds(run: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def slope(times: list[float]) -> float:
    """Of the line through the logarithms."""
    x, y = [2 * math.log(side) for side in SIDES], [math.log(t) for t in times]
    return statistics.linear_regression(x, y).slope


ALL: dict[str, Callable[[int, int], Result]] = {"windows": windows, "windows-learn": learning, "pixels": pixels}
