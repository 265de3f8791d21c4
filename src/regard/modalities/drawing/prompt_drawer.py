"""Images drawn from texts, one by one, so that an image is the same to the bit, however many are drawn with it.

Shapes: n tokens, c channels of the latents, h rows, w columns; H, W those of the image.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.modalities.captions.matching import framed_text
from regard.modalities.images.classifier import read_pixels
from regard.modalities.text.processor import pad_ids
from regard.modalities.text.translator import check_text
from regard.models.diffusion import Diffusion
from regard.sample.guidance import Denoiser, guided
from regard.sample.inpainting import KnownPart, latent_mask
from regard.sample.loop import DrawnStep, draw_steps
from regard.sample.noise import ImageNoise
from regard.sample.plan import Plan, plan_steps, starting_state
from regard.sample.settings import Denoising

from .drawer import DrawnImage
from .kept_maps import check_as_long, steps_with_kept_maps
from .masks import mask_of
from .prompted import Prompted
from .settings import Drawing, usual_of

StepCallback = Callable[[int, DrawnStep], None]  # the number of the image, and what stands after a step


@dataclass(frozen=True, eq=False)
class PromptTokens:
    """A prompt as the net reads it."""

    ids: tuple[int, ...]
    read: int  # of these from its begin to its end; all others fill it up
    cut: int = 0  # tokens that did not fit


@dataclass(frozen=True, eq=False)
class Canvas:
    """An image to begin with, and what is drawn anew of it."""

    pixels: Tensor  # (1, channels, H, W)
    latents: Tensor  # (1, c, h, w)
    redraw: Tensor | None = None  # (1, 1, H, W) bool


class PromptDrawer:
    """A net that draws from texts, with its tokenizer and what makes pixels of its numbers."""

    def __init__(self, net: Diffusion, prompted: Prompted) -> None:
        self.net, self.prompted = net, prompted
        self.framed = framed_text(prompted.text)

    def tokens(self, prompt: str) -> PromptTokens:
        """What is longer than the model reads is cut; what is shorter is filled up, if the model reads that too."""
        config = self.net.config
        whole, ids = (self.framed.framed([(check_text(prompt),)], most)[0].ids for most in (None, config.length))
        filler = ids[-1] if config.filler is None else config.filler
        more = config.length - len(ids) if config.padding == "read" else 0
        return PromptTokens((*ids, *[filler] * more), len(ids), len(whole) - len(ids))

    def notes(self, prompt: str) -> list[str]:
        """What a user should know before anything is drawn."""
        cut = self.tokens(prompt).cut
        if not cut:
            return []
        return [
            f"the prompt is too long: its last {cut} tokens are not read (the model reads {self.net.config.length})"
        ]

    def draw(self, prompt: str, how: Drawing, step_done: StepCallback | None = None) -> Iterator[DrawnImage]:
        """Image after image; ``step_done`` may raise, to stop."""
        canvas = self.canvas(how)
        for number in range(how.n):
            last = None
            for last in self.steps(prompt, how, number, canvas):
                if step_done is not None:
                    step_done(number, last)
            assert last is not None
            yield DrawnImage(self.image(last.state, canvas), how.seed, number)

    def steps(self, prompt: str, how: Drawing, number: int, canvas: Canvas | None = None) -> Iterator[DrawnStep]:
        """One image, step by step: nothing of it depends on the number of images."""
        if how.keep:
            check_as_long(self.tokens(how.keep).read - 2, self.tokens(prompt).read - 2)
            first, own = (
                self.steps(text, replace(how, keep="", kept=Drawing.kept), number, canvas)
                for text in (how.keep, prompt)
            )
            count = len(self.plan(self.settings(how, canvas)).moves)
            return steps_with_kept_maps(self.net, first, own, round(how.kept * count))
        settings = self.settings(how, canvas)
        plan, like = self.plan(settings), next(self.net.parameters())
        noise = ImageNoise(how.seed, [number], self.net.config.shape, dtype=like.dtype, device=like.device)
        start = noise.start()
        known = self.known(canvas, start)
        begins = canvas is not None and (settings.strength < 1 or known is None)
        state = starting_state(plan, start, canvas.latents if canvas is not None and begins else None)
        beside = self.beside(canvas)  # then nothing is put back between the steps
        denoiser = self.denoiser(prompt, how.negative, settings, beside)
        return draw_steps(denoiser, state, plan, noise, None if beside else known)

    def settings(self, how: Drawing, canvas: Canvas | None) -> Denoising:
        settings = how.denoising or usual_of(self.net.config)
        if how.truncation is not None:
            raise InputError(
                "truncation is for generators that draw in one step", got=f"truncation = {how.truncation:g}"
            )
        if canvas is None and settings.strength < 1:
            got = f"strength = {settings.strength:g}"
            raise InputError("strength needs an image to begin with", got=got, fix="pass one as init")
        return settings

    def plan(self, settings: Denoising) -> Plan:
        try:
            return plan_steps(self.net.config.noise_schedule, self.net.config.prediction, settings)
        except ValueError as error:
            raise InputError("these drawing settings do not fit this model", got=str(error)) from None

    def denoiser(self, prompt: str, negative: str, settings: Denoising, beside: Mapping[str, Tensor]) -> Denoiser:
        """The words are read once. With guidance the net is asked for the prompt and for the negative one together."""
        asked = [self.tokens(prompt), *([self.tokens(negative)] if settings.guidance != 1 else [])]
        filled = pad_ids([one.ids for one in asked])
        with torch.no_grad():
            context = self.net.read(filled.ids, filled.keys)
        count = len(asked)
        beside = {name: x.repeat(count, 1, 1, 1) for name, x in beside.items()}

        def denoise(noisy: Tensor, time: Tensor) -> Tensor:
            found = self.net.denoise(
                noisy.repeat(count, 1, 1, 1), time.repeat(count), context, keys=filled.keys, **beside
            )
            if count == 1:
                return found
            conditional, unconditional = found.chunk(2)
            return guided(conditional, unconditional, settings.guidance, settings.rescale)

        return denoise

    @torch.no_grad()
    def beside(self, canvas: Canvas | None) -> dict[str, Tensor]:
        """What a denoiser that was trained for inpainting reads: where the image is drawn anew, and the latents of the
        image that is grey there; without an image, all of it is."""
        config, like = self.net.config, next(self.net.parameters())
        if config.given == "noise":
            return {}
        pixels = like.new_zeros(1, config.channels, config.image, config.image)
        redraw = torch.ones_like(pixels[:, :1], dtype=torch.bool)
        if canvas is not None and canvas.redraw is not None:
            pixels, redraw = canvas.pixels, canvas.redraw
        known = self.net.compress(pixels.masked_fill(redraw, 0.0))
        return {"known": known, "redraw": latent_mask(redraw, *config.shape[1:])}

    @torch.no_grad()
    def canvas(self, how: Drawing) -> Canvas | None:
        if how.init is None:
            return None
        images: Any = self.prompted.images
        pixels = images.enter(self.net, read_pixels(images, how.init))[None]
        redraw = None if how.mask is None else mask_of(how.mask, *pixels.shape[-2:])
        return Canvas(pixels, self.net.compress(pixels), redraw)

    def known(self, canvas: Canvas | None, noise: Tensor) -> KnownPart | None:
        if canvas is None or canvas.redraw is None:
            return None
        return KnownPart(canvas.latents, latent_mask(canvas.redraw, *self.net.config.shape[1:]), noise)

    @torch.no_grad()
    def image(self, latents: Tensor, canvas: Canvas | None = None) -> Tensor:
        """What was not to be drawn anew stays exactly.  (1, c, h, w) -> (channels, H, W), uint8"""
        pixels = self.net.expand(latents)
        if canvas is not None and canvas.redraw is not None:
            pixels = torch.where(canvas.redraw, pixels, canvas.pixels)
        return self.prompted.drawn.pixels(pixels[0])
