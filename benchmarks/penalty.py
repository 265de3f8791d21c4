"""What a gradient penalty costs: python -m benchmarks.penalty [--batch 16] [--rounds 5]

Seconds of the processor for a step of TransGAN's discriminator on images of 32 x 32, who takes turns: without a
penalty; without one, but on the explicit path of attention, which has a second derivative; and with the penalty. Beside
them the same of the convolutional discriminator, which has no attention.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

from regard.modalities.drawing.adversarial import Imitate, twice_differentiable
from regard.modalities.drawing.critics import ConvolutionJudge, TransformerJudge
from regard.models.convgan import Config, ConvGAN
from regard.tasks.classify import ClassifyBatch

SIDE = 32


def step_of(task: Imitate, batch: ClassifyBatch) -> None:
    """Forward and back, of the discriminator alone."""
    loss = next(task.losses(batch, 0))
    total = torch.stack([term.sum * term.weight for term in loss.terms.values()]).sum() / len(batch.inputs)
    total.backward()


def explicit(task: Imitate, batch: ClassifyBatch) -> None:
    with twice_differentiable(task.parts["discriminator"]):
        step_of(task, batch)


def measured(ways: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """The median of each, in turns."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for i in range(rounds + 1):
        for name, way in ways.items():
            before = time.process_time()
            way()
            if i:  # the first is to warm up
                found[name].append(time.process_time() - before)
    return {name: statistics.median(times) for name, times in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    torch.manual_seed(0)
    batch = ClassifyBatch(torch.randn(given.batch, 3, SIDE, SIDE), torch.zeros(given.batch, dtype=torch.long))
    generator = ConvGAN(Config(dims=(64, 32, 16)))
    critics: dict[str, nn.Module] = {
        "transformer": TransformerJudge(dim=192, depth=(2, 2)).build(SIDE, 3),
        "convolution": ConvolutionJudge().build(SIDE, 3),
    }
    for name, critic in critics.items():
        plain, whole = (Imitate(generator, critic, penalty=penalty) for penalty in (0.0, 10.0))
        ways: dict[str, Callable[[], None]] = {
            "no penalty": lambda plain=plain: step_of(plain, batch),  # type: ignore[misc]
            "no penalty, explicit": lambda plain=plain: explicit(plain, batch),  # type: ignore[misc]
            "penalty": lambda whole=whole: step_of(whole, batch),  # type: ignore[misc]
        }
        found = measured(ways, given.rounds)
        for way, seconds in found.items():
            print(f"{name:12} {way:22} {seconds:7.3f} s  {seconds / found['no penalty']:5.2f} x")


if __name__ == "__main__":
    main()
