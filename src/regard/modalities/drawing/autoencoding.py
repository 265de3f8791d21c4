"""Autoencoding: images as small maps of numbers, and back.

High-Resolution Image Synthesis with Latent Diffusion Models (Rombach et al., 2022), https://arxiv.org/abs/2112.10752,
section 3.1 and appendix G
    loss = distance(x, decode(z)) + kl KL(N(mean, variance) | N(0, 1)),  z ~ N(mean, variance)
both summed over an image and divided by its numbers, so that ``kl`` weighs them as the paper's code does.

Differs from the paper: without its perceptual distance, which needs another trained network, and without its critic of
patches, so that small details come out blurred.

Shapes: b batch, c channels, h rows, w columns, z channels of the latents, k rows and l columns of their map.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.models.autoencoder import LatentGaussian
from regard.tasks.task import Loss, Task, Term

Distance = Literal["l1", "l2"]


def pixel_distance(drawn: Tensor, images: Tensor, distance: Distance) -> Tensor:
    """The sum over all numbers of |drawn - image|, or of its square.  (b, c, h, w), (b, c, h, w) -> ()"""
    if drawn.shape != images.shape:  # else one would be repeated to fit the other
        raise ValueError(
            f"an image came back in another shape: {tuple(images.shape)} became {tuple(drawn.shape)}; "
            "its sides must be multiples of the factor by which the autoencoder divides them"
        )
    gap = drawn - images
    return gap.abs().sum() if distance == "l1" else gap.square().sum()


def divergence(said: LatentGaussian) -> Tensor:
    """KL(N(mean, variance) | N(0, 1)) = (mean^2 + variance - 1 - log variance) / 2, summed over all numbers.  -> ()"""
    return 0.5 * (said.mean.square() + said.log_variance.exp() - 1 - said.log_variance).sum()


class Autoencode(Task):
    """A batch has ``inputs``, images."""

    def __init__(self, net: nn.Module, distance: Distance = "l1", kl: float = 1e-6) -> None:
        self.parts = {"net": net}
        self.net: Any = net
        self.distance: Distance = distance
        self.kl = kl

    def counts(self, batch: Any) -> Mapping[str, float]:
        return {"numbers": float(batch.inputs.numel())}

    def losses(self, batch: Any, step: int) -> Iterator[Loss]:
        said = self.net.encode(batch.inputs)
        gap = pixel_distance(self.net.decode(said.sample()), batch.inputs, self.distance)
        yield Loss("net", {"distance": Term(gap, "numbers"), "kl": Term(divergence(said), "numbers", self.kl)})

    def evaluate(self, batch: Any) -> Mapping[str, Tensor]:
        """Of the most likely latents, so that nothing is left to chance."""
        said = self.net.encode(batch.inputs)
        latents = said.mode()
        drawn = self.net.decode(latents)
        numbers = float(batch.inputs.numel())
        return {
            "distance": pixel_distance(drawn, batch.inputs, self.distance),
            "absolute": pixel_distance(drawn, batch.inputs, "l1"),
            "squared": pixel_distance(drawn, batch.inputs, "l2"),
            "divergence": divergence(said),
            "latent": latents.double().sum(),
            "latent squared": latents.double().square().sum(),
            "latents": torch.tensor(float(latents.numel()), device=drawn.device),
            "numbers": torch.tensor(numbers, device=drawn.device),
        }

    def metrics(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        """``latent std`` tells the ``scale`` of a diffusion model on these latents: one over it."""
        numbers, latents = max(float(sums["numbers"]), 1.0), max(float(sums["latents"]), 1.0)
        mean, divergence = float(sums["latent"]) / latents, float(sums["divergence"])
        variance = max(float(sums["latent squared"]) / latents - mean**2, 0.0)
        return {
            "loss": (float(sums["distance"]) + self.kl * divergence) / numbers,
            "MAE": float(sums["absolute"]) / numbers,
            "MSE": float(sums["squared"]) / numbers,
            "kl": divergence / latents,
            "latent mean": mean,
            "latent std": math.sqrt(variance),
        }
