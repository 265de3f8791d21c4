"""The discriminators that a generator can be taught by: tables of a run file, each with its net."""

from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from regard.models import transgan_critic
from regard.models.convgan import ConvolutionCritic
from regard.models.transgan_critic import MultiScaleCritic
from regard.nn.config import not_positive, refuse
from regard.train.runfile import setting


@dataclass(frozen=True)
class TransformerJudge:
    """TransGAN's discriminator: a transformer that reads patches of two sizes."""

    kind: Literal["transformer"] = "transformer"
    patch: int = setting(2, "side of the small patches in pixels; the large ones have twice that")
    dim: int = setting(384, "hidden size; 3/4 of it is for the small patches")
    depth: tuple[int, ...] = setting((3, 3), "number of blocks at the fine scale and at the coarse one")
    heads: int = setting(4, "number of attention heads")
    token_norm: Literal["layer", "pixel"] = setting("layer", "normalisation: layer norm, or pixel norm without weights")

    def __post_init__(self) -> None:
        refuse(not_positive(self, "patch", "dim", "depth", "heads"), not_two(self.depth))

    def build(self, image: int, channels: int) -> nn.Module:
        """May raise a ValueError: sizes that do not fit the image."""
        given: dict[str, Any] = {name: x for name, x in vars(self).items() if name != "kind"}
        return MultiScaleCritic(transgan_critic.Config(image=image, channels=channels, **given))


@dataclass(frozen=True)
class ConvolutionJudge:
    """A convolutional discriminator, as of WGAN-GP: strides of 2 and no norm."""

    kind: Literal["convolution"] = "convolution"
    dims: tuple[int, ...] = setting((64, 128, 256), "channels of each convolution; each halves the sides")

    def __post_init__(self) -> None:
        refuse(not_positive(self, "dims"))

    def build(self, image: int, channels: int) -> nn.Module:
        return ConvolutionCritic(image, channels, self.dims)


Judge = TransformerJudge | ConvolutionJudge


def not_two(depth: tuple[int, ...] | None) -> list[str]:
    return [] if depth is None or len(depth) == 2 else [f"depth = {list(depth)} is not two numbers, one for each scale"]
