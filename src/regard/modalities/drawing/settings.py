"""How images are drawn: of noise alone, or of a text, step by step."""

from dataclasses import dataclass

from regard.modalities.inputs import Picture
from regard.nn.config import not_above_zero, not_at_least, not_positive, refuse
from regard.sample.settings import Denoising

MOST_IMAGES = 10_000  # of one call
USUAL = Denoising(guidance=4.0)


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

    def __post_init__(self) -> None:
        many = [f"n = {self.n} is more than {MOST_IMAGES} images"] if self.n > MOST_IMAGES else []
        if self.mask is not None and self.init is None:
            many += ["mask needs init, the image whose parts stay"]
        if self.negative and self.denoising is not None and self.denoising.guidance == 1:
            many += ["negative needs a guidance other than 1"]
        refuse(not_positive(self, "n"), not_at_least(0, self, "seed"), not_above_zero(self, "truncation"), many)

    @property
    def in_steps(self) -> list[str]:
        """What only a model that draws in steps, from a text, can honour."""
        given = {"denoising": self.denoising, "negative": self.negative, "init": self.init, "mask": self.mask}
        return [name for name, value in given.items() if value not in (None, "")]
