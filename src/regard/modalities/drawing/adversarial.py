"""Learning to draw from a judge: a generator makes images of noise, a discriminator learns to tell them from real ones.

Generative Adversarial Nets (Goodfellow et al., 2014), https://arxiv.org/abs/1406.2661, with one of three losses, where
D is the score of an image, x a real one and G(z) one of noise:
    wasserstein    discriminator D(G(z)) - D(x), generator -D(G(z))      (Gulrajani et al., 2017, arXiv:1704.00028)
    hinge          max(0, 1 + D(G(z))) + max(0, 1 - D(x)), -D(G(z))      (Lim and Ye, 2017, arXiv:1705.02894)
    non-saturating softplus(D(G(z))) + softplus(-D(x)), softplus(-D(G(z)))
Added for the discriminator are penalty x (|gradient of D at a point between G(z) and x| - 1)^2, the norm taken over all
pixels of an image, and drift x D(x)^2, which keeps its scores near zero (Karras et al., 2018, arXiv:1710.10196).

The penalty is a gradient that is differentiated again, and fused attention has no second derivative. There the weights
of all attentions are listened to: a layer that is listened to takes its definition, weights(q, k) @ v, which has one.

Every step is a step of the discriminator, on images of its own; every so many steps the generator follows.

Shapes: b batch, z size of the noise, c channels, h height, w width.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.tap import Tap, listen, named
from regard.tasks.classify import ClassifyBatch
from regard.tasks.task import Loss, Task, Term

from .diffaugment import DiffAugment
from .moments import Features, distance_of_sums, moment_sums, small_pixels

AdversarialLoss = Literal["wasserstein", "hinge", "non-saturating"]
WEIGHTS = "*.weights"


def wasserstein(real: Tensor, fake: Tensor) -> Tensor:
    return fake - real


def hinge(real: Tensor, fake: Tensor) -> Tensor:
    return F.relu(1 + fake) + F.relu(1 - real)


def non_saturating(real: Tensor, fake: Tensor) -> Tensor:
    return F.softplus(fake) + F.softplus(-real)


def negated(fake: Tensor) -> Tensor:
    return -fake


def softened(fake: Tensor) -> Tensor:
    return F.softplus(-fake)


# What the discriminator minimizes, of the scores of real and of drawn images; and the generator.
DISCRIMINATING: dict[AdversarialLoss, Callable[[Tensor, Tensor], Tensor]] = {
    "wasserstein": wasserstein,
    "hinge": hinge,
    "non-saturating": non_saturating,
}
GENERATING: dict[AdversarialLoss, Callable[[Tensor], Tensor]] = {
    "wasserstein": negated,
    "hinge": negated,
    "non-saturating": softened,
}


class Imitate(Task):
    goal = "pixel distance"

    def __init__(
        self,
        generator: nn.Module,
        discriminator: nn.Module,
        *,
        loss: AdversarialLoss = "wasserstein",
        penalty: float = 10.0,
        drift: float = 1e-3,
        critic_steps: int = 1,
        larger: int = 1,
        augment: DiffAugment | None = None,
        features: Features = small_pixels,
    ) -> None:
        self.parts = {"generator": generator, "discriminator": discriminator}
        self.loss: AdversarialLoss = loss
        self.penalty, self.drift = penalty, drift
        self.critic_steps, self.larger = critic_steps, larger
        self.augment, self.features = augment or DiffAugment(), features

    def noise(self, like: Tensor, count: int) -> Tensor:
        """-> (b, z)"""
        config: Any = self.parts["generator"].config
        return torch.randn(count, config.noise, dtype=like.dtype, device=like.device)

    def score(self, images: Tensor) -> Tensor:
        """What the discriminator says of images as it may see them.  (b, c, h, w) -> (b,)"""
        found: Tensor = self.parts["discriminator"](self.augment(images))
        return found

    def counts(self, batch: ClassifyBatch) -> Mapping[str, float]:
        return {"images": float(len(batch.inputs)), "drawn": float(self.larger * len(batch.inputs))}

    def losses(self, batch: ClassifyBatch, step: int) -> Iterator[Loss]:
        real, generator = batch.inputs, self.parts["generator"]
        with torch.no_grad():
            fake = generator(self.noise(real, len(real)))
        scored = self.score(real)
        terms = {"loss": Term(DISCRIMINATING[self.loss](scored, self.score(fake)).sum(), "images")}
        if self.penalty:
            terms["penalty"] = Term(self.penalties(real, fake).sum(), "images", self.penalty)
        if self.drift:
            terms["drift"] = Term(scored.square().sum(), "images", self.drift)
        yield Loss("discriminator", terms)
        if (step + 1) % self.critic_steps == 0:
            made = generator(self.noise(real, self.larger * len(real)))
            yield Loss("generator", {"loss": Term(GENERATING[self.loss](self.score(made)).sum(), "drawn")})

    def penalties(self, real: Tensor, fake: Tensor) -> Tensor:
        """Of each image.  (b, c, h, w) twice -> (b,)"""
        share = torch.rand(len(real), 1, 1, 1, dtype=real.dtype, device=real.device)
        between = (real + share * (fake - real)).detach().requires_grad_()
        with torch.enable_grad(), twice_differentiable(self.parts["discriminator"]):
            score = self.score(between).sum()
        (slope,) = torch.autograd.grad(score, between, create_graph=torch.is_grad_enabled())
        length: Tensor = slope.flatten(1).norm(dim=1)
        return (length - 1).square()

    def evaluate(self, batch: ClassifyBatch) -> Mapping[str, Tensor]:
        """Of images as they are; as many are drawn as there are real ones."""
        real, judge = batch.inputs, self.parts["discriminator"]
        made = self.parts["generator"](self.noise(real, len(real)))
        return {
            "real": moment_sums(self.features(real)),
            "drawn": moment_sums(self.features(made)),
            "gap": (judge(real) - judge(made)).sum(),
            "images": torch.tensor(float(len(real)), device=real.device),
        }

    def metrics(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        """The gap of the discriminator's scores is what it still can tell, by its own measure."""
        count = float(sums["images"])
        return {
            "pixel distance": distance_of_sums(sums["real"], sums["drawn"], count),
            "gap": float(sums["gap"]) / count,
        }


def twice_differentiable(net: nn.Module) -> AbstractContextManager[object]:
    """Within, this net's attentions take the way that can be differentiated twice."""
    looks = any(isinstance(module, Tap) and named(name, WEIGHTS) for name, module in net.named_modules())
    return listen(net, WEIGHTS, unheard) if looks else nullcontext()


def unheard(name: str, weights: Tensor) -> None:
    """Nothing is kept: that there is a listener is enough."""
