"""Latent diffusion: images drawn from a text, as Stable Diffusion draws them.

High-Resolution Image Synthesis with Latent Diffusion Models (Rombach et al., 2022), https://arxiv.org/abs/2112.10752
A text encoder reads the words; a denoiser, which looks at them, takes the noise out of a small map of latents, step by
step; an autoencoder turns that map into an image. The steps themselves are in ``sample``.

Differs from the paper: the denoiser may be a diffusion transformer, and without an autoencoder it works on pixels.

Shapes: b batch, n words, d width of the text encoder, c channels of the latents, h rows and w columns of their map.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.models.autoencoder import Autoencoder
from regard.models.autoencoder import Config as AutoencoderConfig
from regard.models.cliptext import CLIPText
from regard.models.cliptext import Config as TextConfig
from regard.models.dit import Config as DiTConfig
from regard.models.dit import DiT
from regard.models.family import Family
from regard.models.unet import Config as UNetConfig
from regard.models.unet import UNet
from regard.nn.axis import Axis
from regard.nn.config import config_problems, not_above_zero, not_at_least, not_positive, not_shares, parse, refuse
from regard.sample.inpainting import inpainting_input
from regard.sample.prediction import Prediction
from regard.sample.schedules import NoiseSchedule
from regard.sample.settings import Denoising

Parts = Mapping[str, Any]
DENOISERS: dict[str, type[UNetConfig | DiTConfig]] = {"unet": UNetConfig, "dit": DiTConfig}
DERIVED = {
    "text": ("vocab", "length", "classes", "joint"),
    "denoiser": ("image", "channels", "out", "out_channels", "context", "classes"),
    "autoencoder": ("image", "channels"),
}  # keys of the parts that follow from those of the whole


@dataclass(frozen=True, kw_only=True)
class Config:
    image: int = 512  # rows and columns of what is drawn
    channels: int = 3
    vocab: int = 49408
    length: int = 77  # tokens of a prompt
    text: Parts = field(default_factory=lambda: USUAL["text"])  # keys of the text encoder
    denoiser: Parts = field(default_factory=lambda: USUAL["denoiser"])  # its kind, and its keys
    autoencoder: Parts = field(default_factory=lambda: USUAL["autoencoder"])  # its keys; none: pixels are denoised
    padding: Literal["masked", "read"] = "masked"  # of a prompt: Stable Diffusion fills it up, and reads that too
    filler: int | None = None  # the token that a prompt is filled up with; None: its end
    given: Literal["noise", "noise+known"] = "noise"  # with the known part of an image, and a mask of what is not known
    prediction: Prediction = "noise"
    schedule: Literal["linear", "cosine", "scaled-linear"] = "scaled-linear"
    times: int = 1000  # time steps of training
    first: float = 0.00085  # beta of the first time step, and of the last
    last: float = 0.012
    terminal: Literal["as-is", "zero"] = "as-is"
    sampling: Parts | None = None  # how the folder of another library says to draw: settings of sampling; None: nothing

    def __post_init__(self) -> None:
        for key in USUAL:
            object.__setattr__(self, key, plain(getattr(self, key)))
        object.__setattr__(self, "sampling", plain(self.sampling))
        refuse(
            not_positive(self, "image", "channels", "vocab", "length"),
            not_at_least(2, self, "times"),
            not_at_least(0, self, "filler"),
            not_above_zero(self, "first", "last"),
            not_shares(self, "first", "last"),
            *(self.wrong_part(key) for key in USUAL),
            [f"sampling.{problem}" for problem in config_problems(Denoising, self.sampling or {})],
        )
        refuse(self.wrong_sizes())

    def wrong_part(self, key: str) -> list[str]:
        """What is wrong with the keys of a part, each with its place."""
        table = getattr(self, key)
        if not isinstance(table, Mapping) or (key == "autoencoder" and not table):
            return []
        own = {name: x for name, x in table.items() if name != "kind"}
        wrong = [f"{key}.{name} is set by the keys of the whole model" for name in DERIVED[key] if name in own]
        if key == "denoiser" and table.get("kind") not in DENOISERS:
            return [f"denoiser.kind = {table.get('kind')!r} is not one of {', '.join(DENOISERS)}"]
        kind = DENOISERS[table["kind"]] if key == "denoiser" else PARTS[key]
        return wrong + [f"{key}.{problem}" for problem in config_problems(kind, own)]

    def wrong_sizes(self) -> list[str]:
        """What does not go together of parts that are right by themselves."""
        if any(getattr(self, one.name) is None for one in fields(self) if one.name not in ("filler", "sampling")):
            return []
        try:
            factor = self.factor
            _ = self.text_config, self.denoiser_config, self.autoencoder_config, self.noise_schedule
        except ValueError as error:
            return str(error).split("\n")
        return [] if self.image % factor == 0 else [f"image = {self.image} is not a multiple of {factor}"]

    @property
    def text_config(self) -> TextConfig:
        return parse(TextConfig, {**(self.text or {}), "vocab": self.vocab, "length": self.length})

    @property
    def autoencoder_config(self) -> AutoencoderConfig | None:
        if not self.autoencoder:
            return None
        return parse(AutoencoderConfig, {**self.autoencoder, "image": self.image, "channels": self.channels})

    @property
    def denoiser_config(self) -> UNetConfig | DiTConfig:
        own = {name: x for name, x in (self.denoiser or {}).items() if name != "kind"}
        known = self.latent + 1 if self.given == "noise+known" else 0
        own |= {"image": self.image // self.factor, "channels": self.latent + known, "context": self.text_config.dim}
        if (self.denoiser or {})["kind"] == "unet":
            return parse(UNetConfig, own | {"out": self.latent})
        return parse(DiTConfig, own | {"out_channels": self.latent, "classes": 0})

    @property
    def factor(self) -> int:
        """Rows of the image for each row of the latents."""
        own = self.autoencoder_config
        return 1 if own is None else own.factor

    @property
    def latent(self) -> int:
        """Channels of the latents."""
        own = self.autoencoder_config
        return self.channels if own is None else own.latent

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of the noise that an image begins with."""
        return self.latent, self.image // self.factor, self.image // self.factor

    @property
    def told_sampling(self) -> Denoising:
        """The settings of the folder that the model came from, as far as it told any."""
        return parse(Denoising, self.sampling or {})

    @property
    def noise_schedule(self) -> NoiseSchedule:
        return NoiseSchedule(
            kind=self.schedule, steps=self.times, first=self.first, last=self.last, terminal=self.terminal
        )


def plain(table: Any) -> Any:
    """As JSON has it, so that equal configs are equal however they were written."""
    return (
        {key: list(x) if isinstance(x, tuple) else x for key, x in table.items()}
        if isinstance(table, Mapping)
        else table
    )


def keys_of(config: Any, kind: str = "", without: tuple[str, ...] = ()) -> dict[str, Any]:
    """A part's config as a table: what is not its default."""
    usual = type(config)()
    own = {one.name: x for one in fields(config) if (x := getattr(config, one.name)) != getattr(usual, one.name)}
    return ({"kind": kind} if kind else {}) | {
        key: x for key, x in asdict(config).items() if key in own and key not in without
    }


PARTS: dict[str, type] = {"text": TextConfig, "autoencoder": AutoencoderConfig}
# As Stable Diffusion 1 has them.
USUAL: dict[str, Parts] = {
    "text": {"ending": "highest", "dim": 768, "heads": 12, "hidden": 3072},
    "denoiser": {"kind": "unet"},
    "autoencoder": {"latent": 4},
}
SD2: dict[str, Any] = {
    "text": {"ending": "highest", "dim": 1024, "depth": 23, "heads": 16, "hidden": 4096, "activation": "gelu"},
    "denoiser": {"kind": "unet", "heads": [5, 10, 20, 20], "projection": "linear"},
    "padding": "read",
    "filler": 0,
}
PRESETS = {
    "stable-diffusion-1": Config(padding="read"),
    "stable-diffusion-1-inpainting": Config(padding="read", given="noise+known"),
    "stable-diffusion-2-base": Config(**SD2),
    "stable-diffusion-2": Config(**SD2, image=768, prediction="velocity"),
    "diffusion-tiny": Config(
        image=32, vocab=64, length=24, prediction="velocity", schedule="cosine",
        text={"dim": 64, "depth": 2, "heads": 4, "hidden": 256, "activation": "gelu"},
        denoiser={
            "kind": "unet", "dim": 64, "multipliers": [1, 2], "depth": 1, "attended": [0, 1], "heads": 4,
            "norm_groups": 16,
        },
        autoencoder={"latent": 4, "dim": 16, "multipliers": [1, 2, 4], "depth": 1, "norm_groups": 8, "scale": 1.0},
    ),
}  # fmt: skip

AXES = {
    "text.blocks.*.mixer": ("text", "text"),
    "denoiser.*.mixer": ("{layer}", "{layer}"),
    "denoiser.*.cross": ("{layer}", "text"),
}


class Diffusion(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.text = CLIPText(config.text_config)
        made = config.denoiser_config
        self.denoiser: UNet | DiT = UNet(made) if isinstance(made, UNetConfig) else DiT(made)
        own = config.autoencoder_config
        self.autoencoder = None if own is None else Autoencoder(own)

    def read(self, ids: Tensor, keys: Tensor | None = None) -> Tensor:
        """The words, as the denoiser looks at them.  (b, n) -> (b, n, d)"""
        return self.text.features(ids, keys)

    def forward(
        self,
        noisy: Tensor,
        time: Tensor,
        ids: Tensor,
        *,
        known: Tensor | None = None,
        redraw: Tensor | None = None,
        keys: Tensor | None = None,
    ) -> Tensor:
        """What the denoiser predicts.  (b, c, h, w), (b,), (b, n) -> (b, c, h, w); keys (b, n) are False at padding"""
        return self.denoise(noisy, time, self.read(ids, keys), known=known, redraw=redraw, keys=keys)

    def denoise(
        self,
        noisy: Tensor,
        time: Tensor,
        context: Tensor,
        *,
        known: Tensor | None = None,
        redraw: Tensor | None = None,
        keys: Tensor | None = None,
    ) -> Tensor:
        """(b, c, h, w), (b,), (b, n, d) -> (b, c, h, w). A denoiser that was trained for it also reads the ``known``
        latents (b, c, h, w), with nothing where ``redraw`` (b, 1, h, w) is True; without them, nothing is known."""
        if self.config.given == "noise+known":
            redraw = torch.ones_like(noisy[:, :1], dtype=torch.bool) if redraw is None else redraw
            noisy = inpainting_input(noisy, redraw, torch.zeros_like(noisy) if known is None else known)
        elif known is not None:
            raise ValueError("this denoiser was not trained with the known part of an image beside the noise")
        found: Tensor = self.denoiser(noisy, time, context=context, keys=keys)
        return found

    def compress(self, images: Tensor) -> Tensor:
        """Images as latents of mean 0 and variance 1, about.  (b, channels, height, width) -> (b, c, h, w)"""
        return images if self.autoencoder is None else self.autoencoder.scaled(self.autoencoder.encode(images).mode())

    def expand(self, latents: Tensor) -> Tensor:
        """(b, c, h, w) -> (b, channels, height, width)"""
        return latents if self.autoencoder is None else self.autoencoder.decode(self.autoencoder.unscaled(latents))

    def for_inference(self) -> None:
        if isinstance(self.denoiser, UNet):
            self.denoiser.for_inference()
        if self.autoencoder is not None:
            self.autoencoder.for_inference()

    def axes(self, noisy: Tensor, time: Tensor, ids: Tensor) -> dict[str, Axis]:
        grids = self.denoiser.axes(noisy, time)
        layers = [name for name, _ in self.denoiser.named_modules() if name.endswith((".mixer", ".cross"))]
        found = {f"denoiser.{name}": grids[name if name in grids else "patches"] for name in layers}
        return found | {"text": Axis("text", ids.shape[1])}


def random_inputs(config: Config, batch: int) -> dict[str, Tensor]:
    noisy = torch.randn(batch, *config.shape, dtype=torch.float64)
    time, ids = torch.randint(config.times, (batch,)), torch.randint(config.vocab, (batch, 5))
    return {"noisy": noisy, "time": time, "ids": ids}


def scaled_config(config: Config, scale: float, shift: float) -> Config:
    """With latents that are scaled so."""
    return replace(config, autoencoder={**(config.autoencoder or {}), "scale": scale, "shift": shift})


FAMILY = Family(
    config=Config,
    net=Diffusion,
    presets=PRESETS,
    axes=AXES,
    paper="Rombach et al. 2022, High-Resolution Image Synthesis with Latent Diffusion Models",
    link="https://arxiv.org/abs/2112.10752",
    takes=("text", "noise"),
    tasks=("draw",),
    verbs=lambda config, task: ("draw",),
    example=lambda: Config(
        image=8, channels=3, vocab=13, length=12, times=40,
        text={"dim": 8, "depth": 1, "heads": 2, "hidden": 12},
        denoiser={
            "kind": "unet", "dim": 8, "multipliers": [1, 2], "depth": 1, "attended": [0, 1], "heads": 2,
            "norm_groups": 4,
        },
        autoencoder={},
    ),
    inputs=random_inputs,
)  # fmt: skip
