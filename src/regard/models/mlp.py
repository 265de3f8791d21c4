"""Multi-layer perceptron.

Learning representations by back-propagating errors (Rumelhart, Hinton and Williams, 1986)
https://doi.org/10.1038/323533a0
    f_k(x) = sigma_k(W_k x + b_k)
and no sigma after the last, whose numbers are logits. An image is a list of pixels to it: which of them are neighbours
it would have to learn.

Shapes: b batch, c classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from torch import Tensor, nn

from regard.models.family import Family, classifier_verbs
from regard.nn.axis import Axis
from regard.nn.config import not_one_of, not_positive, not_shares, refuse
from regard.nn.dropout import Dropout
from regard.nn.embed import check_image_shape
from regard.nn.feedforward import ACTIVATIONS, Activation, activation


@dataclass(frozen=True, kw_only=True)
class Config:
    image: int = 28
    channels: int = 1
    classes: int = 10
    hidden: int = 300
    depth: int = 2  # maps; all but the last are as wide as hidden
    dropout: float = 0.0
    activation: str = "relu"

    def __post_init__(self) -> None:
        refuse(
            not_positive(self, "image", "channels", "classes", "hidden", "depth"),
            not_shares(self, "dropout"),
            not_one_of(ACTIVATIONS, self, "activation"),
        )


PRESETS = {"mlp-mnist": Config()}

AXES: dict[str, tuple[str, str]] = {}  # it looks at nothing


class LinearStack(nn.Module):
    """Stacked linear layers of the given widths with an activation between them."""

    def __init__(self, widths: Sequence[int], act: Activation, dropout: float = 0.0) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(widths))
        self.act, self.dropout = act, Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(..., first width) -> (..., last width)"""
        for i, affine in enumerate(self.maps):
            x = affine(self.dropout(self.act(x)) if i else x)
        return x


class MLP(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        pixels = config.channels * config.image**2
        widths = [pixels, *[config.hidden] * (config.depth - 1), config.classes]
        self.layers = LinearStack(widths, activation(config.activation), config.dropout)

    def forward(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, c)"""
        images = check_image_shape(images, self.config.channels, self.config.image)
        logits: Tensor = self.layers(images.flatten(1))
        return logits

    def axes(self, images: Tensor) -> dict[str, Axis]:
        return {}


FAMILY = Family(
    config=Config,
    net=MLP,
    presets=PRESETS,
    axes=AXES,
    paper="Rumelhart, Hinton and Williams 1986, Learning representations by back-propagating errors",
    link="https://doi.org/10.1038/323533a0",
    takes=("image",),
    tasks=("classify",),
    verbs=classifier_verbs,
    example=lambda: Config(image=8, channels=3, classes=5, hidden=24),
)
