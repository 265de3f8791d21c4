"""How images are drawn: of noise alone, or of a text, step by step."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from regard.modalities.inputs import Picture
from regard.nn.config import not_above_zero, not_at_least, not_positive, refuse
from regard.sample.settings import LIMITED_BY, Denoising

MOST_IMAGES = 10_000  # of one call
USUAL = Denoising(guidance=4.0)
PIPELINE_STEPS, PIPELINE_GUIDANCE = 50, 7.5  # with which models of other libraries are usually drawn


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """How many images are drawn, and in which way; what a model has no use for, it refuses."""

    n: int = 1  # images
    seed: int = 0  # image i belongs to (seed, i), however many are drawn
    truncation: float | None = None  # no number of the noise is larger than this; None: as in training
    denoising: Denoising | None = None  # of what is drawn in steps; None: the usual
    negative: str = ""  # what is not wanted: with guidance, the image is led away from this text
    init: Picture | None = None  # an image to begin with; see Denoising.strength
    mask: Picture | None = None  # white where that image is drawn anew; all else stays
    keep: str = ""  # another prompt with as many tokens, whose attention maps are kept
    kept: float = 0.8  # the share of the steps, from the first, in which they are

    def __post_init__(self) -> None:
        many = [f"n = {self.n} is more than {MOST_IMAGES} images"] if self.n > MOST_IMAGES else []
        if self.mask is not None and self.init is None:
            many += ["mask needs init, the image whose parts stay"]
        if not 0 <= self.kept <= 1:
            many += [f"kept = {self.kept:g} is not between 0 and 1"]
        if self.kept != type(self).kept and not self.keep:
            many += ["kept needs keep, the prompt whose attention maps are kept"]
        if self.negative and self.denoising is not None and self.denoising.guidance == 1:
            many += ["negative needs a guidance other than 1"]
        refuse(not_positive(self, "n"), not_at_least(0, self, "seed"), not_above_zero(self, "truncation"), many)

    @property
    def in_steps(self) -> list[str]:
        """What only a model that draws in steps, from a text, can honour."""
        given = {"denoising": self.denoising, "negative": self.negative, "init": self.init, "mask": self.mask}
        given |= {"keep": self.keep}
        return [name for name, value in given.items() if value not in (None, "")]


def usual_of(config: Any) -> Denoising:
    """How a net draws unless it is told otherwise: as the folder says that it was read from, if it says anything."""
    if not getattr(config, "sampling", None):
        return USUAL
    told: Denoising = config.told_sampling
    return replace(told, steps=min(PIPELINE_STEPS, max(config.times // 2, 1)), guidance=PIPELINE_GUIDANCE)


def with_options(usual: Denoising, asked: Mapping[str, Any]) -> Denoising:
    """Single settings changed; with another solver or spacing goes what belongs to the old one alone."""
    gone: dict[str, Any] = {}
    if asked.get("solver", usual.solver) != usual.solver:
        gone |= {key: value for key, (_, value) in LIMITED_BY.items()}
    if asked.get("spacing", usual.spacing) != usual.spacing:
        gone |= {"offset": 0}
    return replace(usual, **(gone | dict(asked)))
