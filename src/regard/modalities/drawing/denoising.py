"""Learning to draw from texts: a denoiser learns to tell the noise in images, with their captions in view.

Denoising Diffusion Probabilistic Models (Ho et al., 2020), https://arxiv.org/abs/2006.11239, equation 14
    loss = |target - denoiser(x_t, t, caption)|^2,  x_t = sqrt(alpha_t) x_0 + sqrt(1 - alpha_t) noise
for a time step t of each image at random, and the target that the net predicts (``sample.prediction``). A share of the
captions is left out, so that the net can also be asked without one, which guidance needs (Ho and Salimans, 2022).

Shapes: b batch, n tokens, m tokens of the empty caption, c channels of the latents, h rows, w columns.
"""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.modalities.captions.matching import Matched
from regard.models.diffusion import Diffusion
from regard.sample.noise import normal_numbers
from regard.sample.prediction import add_noise, alphas_at, training_target
from regard.sample.schedules import alphas
from regard.tasks.task import Loss, Task, Term


@dataclass(frozen=True, eq=False)
class NoisyBatch:
    """Latents, what was mixed into them, and the captions that are told."""

    latents: Tensor  # (b, c, h, w)
    noise: Tensor  # (b, c, h, w)
    time: Tensor  # (b,)
    ids: Tensor  # (b, n)
    keys: Tensor | None


class Denoise(Task):
    def __init__(self, net: Diffusion, empty: Tensor, drop: float = 0.1) -> None:
        """``empty`` are the tokens of a caption without words, (m,); ``drop`` is the share of captions left out."""
        self.parts = {"net": net}
        self.net, self.empty, self.drop = net, empty, drop
        self.alphas = alphas(net.config.noise_schedule)

    def counts(self, batch: Matched) -> Mapping[str, float]:
        return {"images": float(len(batch.images))}

    def losses(self, batch: Matched, step: int) -> Iterator[Loss]:
        with torch.no_grad():
            latents = self.net.compress(batch.images)
        time = torch.randint(len(self.alphas), (len(latents),)).to(latents.device)
        left_out = torch.rand(len(latents)).to(latents.device) < self.drop
        told = without_captions(batch, left_out, self.empty)
        noise = torch.randn(latents.shape, dtype=latents.dtype).to(latents.device)
        yield Loss(
            "net", {"loss": Term(self.distance(NoisyBatch(latents, noise, time, told.ids, told.keys)), "images")}
        )

    def distance(self, noisy: NoisyBatch) -> Tensor:
        """The sum over images of the mean over their numbers.  -> ()"""
        alpha = alphas_at(self.alphas, noisy.time, noisy.latents)
        state = add_noise(noisy.latents, noisy.noise, alpha)
        target = training_target(self.net.config.prediction, noisy.latents, noisy.noise, alpha)
        found = self.net(state, noisy.time, noisy.ids, keys=noisy.keys)
        return (found - target).square().flatten(1).mean(1).sum()

    def evaluate(self, batch: Matched) -> Mapping[str, Tensor]:
        """Noise and time of an image follow from the image itself, so that they are the same in every evaluation."""
        latents = self.net.compress(batch.images)
        seeds = [zlib.crc32(image.cpu().float().numpy().tobytes()) for image in batch.images]
        noise = torch.stack([normal_numbers(latents[0].numel(), seed, 0, 0, 0) for seed in seeds])
        time = torch.tensor([seed % len(self.alphas) for seed in seeds], device=latents.device)
        noisy = NoisyBatch(latents, noise.view(latents.shape).to(latents), time, batch.ids, batch.keys)
        return {"loss": self.distance(noisy), "images": torch.tensor(float(len(latents)), device=latents.device)}

    def metrics(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        return {"loss": float(sums["loss"]) / max(float(sums["images"]), 1.0)}


def without_captions(batch: Matched, left_out: Tensor, empty: Tensor) -> Matched:
    """Where ``left_out`` (b,) is True, an image is told the empty caption."""
    count, wide = len(batch.ids), max(batch.ids.shape[1], len(empty))
    real = torch.ones_like(batch.ids, dtype=torch.bool) if batch.keys is None else batch.keys
    blank = empty.to(batch.ids)[None].expand(count, -1)
    ids = torch.where(left_out[:, None], widened(blank, wide), widened(batch.ids, wide))
    keys = torch.where(left_out[:, None], widened(torch.ones_like(blank, dtype=torch.bool), wide), widened(real, wide))
    return replace(batch, ids=ids, keys=keys)


def widened(x: Tensor, wide: int) -> Tensor:
    """(b, n) -> (b, wide), zeros behind"""
    return torch.nn.functional.pad(x, (0, wide - x.shape[1]))
