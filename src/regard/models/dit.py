"""A Transformer that takes noise out of images, or of their latents.

Scalable Diffusion Models with Transformers (Peebles and Xie, 2023), https://arxiv.org/abs/2212.09748
Patches are tokens; the step of the diffusion and the label do not stand among them, but shift, scale and gate what
every layer does, and at first the gates let nothing through, so that each block begins as the identity (adaLN-zero).

Differs from the paper: any number of channels out; and with a context, each block also looks at the tokens of a text,
as in PixArt-alpha (Chen et al., 2023), https://arxiv.org/abs/2310.00426.

Shapes: b batch, c channels, h, w height and width, n patches, m tokens of the context, d width, e width of the context.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.family import Family, no_verbs
from regard.nn.attention import MultiHeadAttention
from regard.nn.axis import Axis, image_axis
from regard.nn.config import not_above_zero, not_at_least, not_divided, not_one_of, not_positive, not_shares, refuse
from regard.nn.dropout import Dropout
from regard.nn.embed import Lookup, Patches
from regard.nn.feedforward import ACTIVATIONS, FeedForward, activation
from regard.nn.mask import Mask, fitted_keys
from regard.nn.mechanisms import Choice, build_mixer, layer_choices, unknown_choices
from regard.nn.positions import sinusoid
from regard.nn.site import Site
from regard.nn.tap import Tap

PERIOD = 10000.0  # of the slowest wave, times 2 pi


@dataclass(frozen=True, kw_only=True)
class Config:
    image: int = 32  # side of what is denoised; of other sizes, positions are spread over the same grid
    patch: int = 2
    channels: int = 4
    out_channels: int | None = None  # as many as come in unless given; twice as many with a learned variance
    classes: int = 1000  # 0: it is told no label
    label_dropout: float = 0.1  # share of labels that are hidden in training, for guidance
    context: int | None = None  # width of the tokens of a text that each block looks at, if it does
    dim: int = 1152
    depth: int = 28
    heads: int = 16
    hidden: int = 4608
    waves: int = 256  # that tell the step
    slowest: int = 0  # 1: the waves end at the largest period; 0: one wave before it, as in the paper
    dropout: float = 0.0
    attention_dropout: float = 0.0
    eps: float = 1e-6
    ffn_eps: float | None = None  # of the norm before the feed-forward; as the others unless given
    affine: bool = False  # whether that norm has weights of its own
    activation: str = "gelu_tanh"
    qkv_bias: bool = True
    attention: Choice = "softmax"
    cross: Choice = "softmax"

    def __post_init__(self) -> None:
        refuse(
            not_positive(self, "image", "patch", "channels", "out_channels", "context", "dim", "depth", "heads"),
            not_positive(self, "hidden", "waves"),
            not_at_least(0, self, "classes", "slowest"),
            not_above_zero(self, "eps", "ffn_eps"),
            not_shares(self, "label_dropout", "dropout", "attention_dropout"),
            not_divided(self, "dim", "heads"),
            not_divided(self, "image", "patch"),
            not_one_of(ACTIVATIONS, self, "activation"),
            unknown_choices(self, "attention", "cross"),
            [f"{key} = {x} must be {words}" for key, x, words in self.odd()],
        )
        if self.out_channels == self.channels:  # one way to say it
            object.__setattr__(self, "out_channels", None)
        if self.ffn_eps == self.eps:
            object.__setattr__(self, "ffn_eps", None)

    def odd(self) -> list[tuple[str, int, str]]:
        """What cannot be halved, or is none of the two ways to space waves."""
        found = [("dim", self.dim, "a multiple of 4", 4), ("waves", self.waves, "an even number of at least 4", 2)]
        wrong = [(key, x, words) for key, x, words, part in found if isinstance(x, int) and x > 0 and x % part]
        if self.waves == 2:
            wrong.append(("waves", self.waves, "an even number of at least 4"))
        if isinstance(self.slowest, int) and self.slowest > 1:
            wrong.append(("slowest", self.slowest, "0 or 1"))
        return wrong

    @property
    def made(self) -> int:
        """The channels that come out."""
        return self.channels if self.out_channels is None else self.out_channels


def sized(dim: int, depth: int, heads: int, patch: int) -> Config:
    """Of the paper: latents of images of 256 x 256, noise and variance of each channel."""
    return Config(out_channels=8, dim=dim, depth=depth, heads=heads, hidden=4 * dim, patch=patch)


SIZES = {"s": (384, 12, 6), "b": (768, 12, 12), "l": (1024, 24, 16), "xl": (1152, 28, 16)}
PRESETS = {f"dit-{name}-{patch}": sized(*sizes, patch) for name, sizes in SIZES.items() for patch in (2, 4, 8)}
PRESETS["dit-tiny"] = Config(image=8, classes=10, dim=128, depth=4, heads=4, hidden=512)
PRESETS["dit-tiny-text"] = replace(PRESETS["dit-tiny"], classes=0, context=64)

AXES = {"blocks.*.mixer": ("patches", "patches"), "blocks.*.cross": ("patches", "tokens")}


class StepEmbedding(nn.Module):
    """A step as waves of many periods, all cosines first, and two layers that learn from them."""

    def __init__(self, waves: int, dim: int, slowest: int) -> None:
        super().__init__()
        self.waves, self.slowest = waves, slowest
        self.first, self.last = nn.Linear(waves, dim), nn.Linear(dim, dim)

    def forward(self, time: Tensor) -> Tensor:
        """(b,) -> (b, d)"""
        half = self.waves // 2
        places = torch.arange(half, device=time.device, dtype=torch.float64) / (half - self.slowest)
        angle = time[:, None].double() * torch.exp(-math.log(PERIOD) * places)
        found = torch.cat((angle.cos(), angle.sin()), -1).to(self.first.weight.dtype)
        return self.last(F.silu(self.first(found)))


class Conditioned(nn.Module):
    """Block: what each layer reads is scaled and shifted by the condition, and what it adds is gated by it."""

    def __init__(self, config: Config, choice: Choice, cross: Choice) -> None:
        super().__init__()
        biases = "qkvo" if config.qkv_bias else "o"
        length = (config.image // config.patch) ** 2
        site = Site(dim=config.dim, heads=config.heads, length=length, dropout=config.attention_dropout, biases=biases)
        beyond = replace(site, length=None, cross=True, context_dim=config.context)
        self.modulation = nn.Linear(config.dim, 6 * config.dim)
        self.mixer_norm = nn.LayerNorm(config.dim, config.eps, elementwise_affine=False)
        self.mixer = build_mixer(choice, site)
        self.cross = None if config.context is None else build_mixer(cross, beyond)
        ffn_eps = config.eps if config.ffn_eps is None else config.ffn_eps
        self.ffn_norm = nn.LayerNorm(config.dim, ffn_eps, elementwise_affine=config.affine)
        self.ffn = FeedForward(config.dim, config.hidden, activation(config.activation), dropout=config.dropout)
        self.dropout, self.stream = Dropout(config.dropout), Tap()

    def forward(self, x: Tensor, condition: Tensor, context: Tensor | None, beyond: Mask) -> Tensor:
        """(b, n, d), (b, 1, d), (b, m, e) -> (b, n, d)"""
        shift, scale, gate, ffn_shift, ffn_scale, ffn_gate = self.modulation(condition).chunk(6, -1)
        x = x + gate * self.dropout(self.mixer(self.mixer_norm(x) * (1 + scale) + shift))
        if self.cross is not None:
            x = x + self.cross(x, context, mask=beyond)
        return self.stream(x + ffn_gate * self.ffn(self.ffn_norm(x) * (1 + ffn_scale) + ffn_shift))


class DiT(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.patch = Patches(config.patch, config.channels, config.dim)
        self.step = StepEmbedding(config.waves, config.dim, config.slowest)
        self.labels = Lookup(config.classes + 1, config.dim) if config.classes else None  # the last: no label
        choices = zip(
            layer_choices(config.attention, config.depth), layer_choices(config.cross, config.depth), strict=True
        )
        self.blocks = nn.ModuleList(Conditioned(config, choice, cross) for choice, cross in choices)
        self.norm = nn.LayerNorm(config.dim, config.eps, elementwise_affine=False)
        self.modulation = nn.Linear(config.dim, 2 * config.dim)
        self.head = nn.Linear(config.dim, config.patch**2 * config.made)
        self.reset()

    def reset(self) -> None:
        """As the paper's code: Xavier everywhere, and zeros in all that lets a block or the head say something."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        nn.init.xavier_uniform_(self.patch.projection.weight.flatten(1))
        if self.patch.projection.bias is not None:
            nn.init.zeros_(self.patch.projection.bias)
        for early in (self.step.first, self.step.last, self.labels):
            if early is not None:
                nn.init.normal_(early.weight, std=0.02)
        blocks: list[Any] = list(self.blocks)
        silent = [self.modulation, self.head, *(block.modulation for block in blocks)]
        for layer in silent + [block.cross.out for block in blocks if isinstance(block.cross, MultiHeadAttention)]:
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def tokens(self, noisy: Tensor) -> Tensor:
        """(b, c, h, w) -> (b, h / patch, w / patch, d)"""
        x = self.patch(noisy)
        side = self.config.image // self.config.patch
        rows, columns = (
            torch.arange(size, device=x.device, dtype=torch.float64) * side / size for size in x.shape[1:3]
        )
        along = sinusoid(columns, self.config.dim // 2, "halves").expand(len(rows), -1, -1)
        down = sinusoid(rows, self.config.dim // 2, "halves")[:, None].expand(-1, len(columns), -1)
        return x + torch.cat((along, down), -1).to(x.dtype)

    def condition(self, time: Tensor, label: Tensor | None) -> Tensor:
        """(b,), (b,) -> (b, 1, d); without a label, its place is taken by the row that stands for none"""
        found = self.step(time)
        if self.labels is None:
            if label is not None:
                raise ValueError("this model has no labels (classes = 0), so it cannot be told one")
            return F.silu(found)[:, None]
        none = torch.full_like(time, self.config.classes, dtype=torch.long)
        label = none if label is None else label
        if self.training and self.config.label_dropout:
            hidden = torch.rand(label.shape, device=label.device) < self.config.label_dropout
            label = torch.where(hidden, none, label)
        return F.silu(found + self.labels(label))[:, None]

    def forward(
        self,
        noisy: Tensor,
        time: Tensor,
        label: Tensor | None = None,
        context: Tensor | None = None,
        *,
        keys: Tensor | None = None,
    ) -> Tensor:
        """(b, c, h, w), (b,), (b,), (b, m, e) -> (b, out channels, h, w); keys is False at padding of the context"""
        if (context is None) != (self.config.context is None):
            got = "got none" if context is None else "got one"
            raise ValueError(f"the tokens of a text: {got}, with config.context = {self.config.context}")
        beyond = Mask() if context is None else Mask(keys=fitted_keys(keys, context))
        condition, x = self.condition(time, label), self.tokens(noisy)
        grid, x = x.shape[1:3], x.flatten(1, 2)
        for block in self.blocks:
            x = block(x, condition, context, beyond)
        shift, scale = self.modulation(condition).chunk(2, -1)
        x = self.head(self.norm(x) * (1 + scale) + shift)
        x = x.unflatten(-1, (self.config.patch, self.config.patch, -1)).unflatten(1, grid)
        return x.permute(0, 5, 1, 3, 2, 4).flatten(4, 5).flatten(2, 3)

    def axes(
        self, noisy: Tensor, time: Tensor, label: Tensor | None = None, context: Tensor | None = None
    ) -> dict[str, Axis]:
        found = {"patches": image_axis(noisy, self.config.patch, 0)}
        return found if context is None else found | {"tokens": Axis("text", context.shape[1])}


def drawn_inputs(config: Config, batch: int) -> dict[str, Tensor]:
    """What the net takes, drawn at random."""
    shape = (batch, config.channels, config.image, config.image)
    found = {"noisy": torch.randn(shape, dtype=torch.float64), "time": torch.randint(1000, (batch,))}
    if config.classes:
        found["label"] = torch.randint(config.classes, (batch,))
    if config.context is not None:
        found["context"] = torch.randn(batch, 7, config.context, dtype=torch.float64)
    return found


FAMILY = Family(
    config=Config,
    net=DiT,
    presets=PRESETS,
    axes=AXES,
    paper="Peebles and Xie 2023, Scalable Diffusion Models with Transformers",
    link="https://arxiv.org/abs/2212.09748",
    takes=("noise",),
    tasks=("denoise",),
    verbs=no_verbs,
    example=lambda: Config(image=8, classes=5, dim=16, depth=2, heads=4, hidden=24, waves=8),
    papers={
        "dit-tiny-text": ("Chen et al. 2023, PixArt-alpha", "https://arxiv.org/abs/2310.00426"),
    },
    inputs=drawn_inputs,
)
