"""Whole pipelines of Stable Diffusion against diffusers: every step of a drawing, and its image.

Where they differ by design, and are not compared: a prompt that spells <|endoftext|> means these letters here; a
guidance below 1 is none there; an image to begin with is there a sample of what the autoencoder says, here its mode;
what must stay of an image stays here to the pixel; guidance_rescale is one of their text-to-image pipeline alone.
"""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch import Tensor

import regard
from regard.modalities.drawing.prompt_drawer import PromptDrawer
from regard.modalities.drawing.settings import Drawing
from regard.sample.noise import ImageNoise
from regard.sample.settings import Denoising
from tests.parity.pipelines import CLASSES, LENGTH, diffusers, pipeline, same, saved, states

PROMPT, NEGATIVE = "the cat sees a dog!", "a house"
SPACED = ("leading", "trailing", "linspace")
MODULES = [f"diffusers.pipelines.stable_diffusion.pipeline_stable_diffusion_{x}" for x in ("img2img", "inpaint")]


def drawer_of(model: Any) -> PromptDrawer:
    return PromptDrawer(model.net, model.processor)


def settings(model: Any, steps: int, **keys: Any) -> Denoising:
    """Those of the folder, with the faults of the reference."""
    return replace(model.config.told_sampling, steps=steps, reference=True, **({"guidance": 7.5} | keys))


def noise(model: Any, seed: int = 3) -> ImageNoise:
    return ImageNoise(seed, [0], model.config.shape)


@pytest.fixture
def fed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The noise of our image, wherever the reference draws any: at the beginning, and fresh in each step."""

    def feed(model: Any, first: int = 0) -> None:
        numbers, source = itertools.count(first), noise(model)
        for module in MODULES:
            monkeypatch.setattr(f"{module}.randn_tensor", lambda *a, **k: source.start())
        fresh = "diffusers.schedulers.scheduling_ddpm.randn_tensor"
        monkeypatch.setattr(fresh, lambda *a, **k: source(next(numbers)))
        sampled = diffusers.models.autoencoders.vae.DiagonalGaussianDistribution
        monkeypatch.setattr(sampled, "sample", lambda self, generator=None: self.mode())

    return feed


def compare(model: Any, how: Drawing, seen: list[Tensor], image: Any, prompt: str = PROMPT) -> None:
    drawer, canvas = drawer_of(model), drawer_of(model).canvas(how)
    ours = list(drawer.steps(prompt, how, 0, canvas))
    assert len(ours) == len(seen)
    for one, other in zip(ours, seen, strict=True):
        same(one.state, other)
    theirs = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).view(*image.size, 3).permute(2, 0, 1)
    pixels = drawer.image(ours[-1].state)  # of all of it, also of what stays
    assert (pixels.int() - theirs.int()).abs().max() <= 1
    assert pixels.float().std() > 10  # not grey


# ------------------------------------------------------------------------------------------------------ from a text


def drawn_the_same(folder: Path, fed: Any, kind: str, sampler: str, spacing: str, steps: int) -> None:
    pipe = pipeline(folder / "words", kind, sampler, timestep_spacing=spacing)
    model = regard.load(saved(pipe, folder / "pipe"))
    fed(model)
    drawn_here(pipe, model, steps)


def drawn_here(pipe: Any, model: Any, steps: int = 3, prompt: str = PROMPT, rescale: float = 0.0) -> None:
    how = Drawing(seed=3, negative=NEGATIVE, denoising=settings(model, steps, rescale=rescale))
    told = {"negative_prompt": NEGATIVE, "guidance_scale": 7.5, "num_inference_steps": steps}
    found = states(pipe, prompt, **told, latents=noise(model).start(), guidance_rescale=rescale)
    compare(model, how, *found, prompt)


@pytest.mark.parametrize("spacing", SPACED)
@pytest.mark.parametrize("sampler", CLASSES)
def test_every_step_of_stable_diffusion_1(sampler: str, spacing: str, tmp_path: Path, fed: Any) -> None:
    drawn_the_same(tmp_path, fed, "sd1", sampler, spacing, 4)


@pytest.mark.parametrize("sampler", CLASSES)
def test_every_step_of_stable_diffusion_2(sampler: str, tmp_path: Path, fed: Any) -> None:
    drawn_the_same(tmp_path, fed, "sd2", sampler, "leading", 4)


@pytest.mark.slow
@pytest.mark.parametrize("spacing", SPACED)
@pytest.mark.parametrize("sampler", CLASSES)
@pytest.mark.parametrize("kind", ["sd1", "sd2"])
def test_every_step_of_a_long_drawing(kind: str, sampler: str, spacing: str, tmp_path: Path, fed: Any) -> None:
    drawn_the_same(tmp_path, fed, kind, sampler, spacing, 25)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Of each generation, theirs and ours."""
    found = {}
    for kind in ("sd1", "sd2"):
        folder = tmp_path_factory.mktemp(kind)
        pipe = pipeline(folder / "words", kind, "ddim")
        found[kind] = pipe, regard.load(saved(pipe, folder / "pipe"))
    return found


ODD = ["", "   ", "The CAT, the dog!!", "猫 🐱 Ä ö ﬁ", "a_b-c 1234 don't", "the cat sings " * 20, "x" * 60]


@pytest.mark.parametrize("kind", ["sd1", "sd2"])
def test_odd_prompts_are_the_same_tokens(kind: str, both: Any) -> None:
    pipe, model = both[kind]
    drawer = drawer_of(model)
    for prompt in ODD:
        theirs = pipe.tokenizer(prompt, padding="max_length", max_length=LENGTH, truncation=True).input_ids
        assert list(drawer.tokens(prompt).ids) == theirs, prompt
        (note,) = drawer.notes(prompt) or [""]
        assert ("its last" in note) == (len(pipe.tokenizer(prompt).input_ids) > LENGTH)


@pytest.mark.parametrize("kind", ["sd1", "sd2"])
def test_a_prompt_that_is_cut_draws_the_same(kind: str, both: Any, fed: Any) -> None:
    pipe, model = both[kind]
    fed(model)
    drawn_here(pipe, model, 2, ODD[-2])
    drawn_here(pipe, model, 2, "")


def test_rescaled_guidance(both: Any) -> None:
    drawn_here(*both["sd2"], rescale=0.7)


# --------------------------------------------------------------------------------------------------- from an image


def picture(seed: int = 0) -> Image.Image:
    """Of 16 x 16 pixels, neither black nor white."""
    shades = torch.rand(4, 4, 3, generator=torch.Generator().manual_seed(seed)).mul(200).add(20).byte()
    return Image.frombytes("RGB", (4, 4), bytes(shades.flatten().tolist())).resize((16, 16), Image.Resampling.NEAREST)


def mask() -> Image.Image:
    found = Image.new("L", (16, 16), 0)
    found.paste(255, (4, 2, 12, 16))
    return found


@pytest.mark.parametrize("strength", [0.3, 0.8])
@pytest.mark.parametrize("sampler", ["ddim", "euler", "dpm"])
def test_from_an_image(sampler: str, strength: float, tmp_path: Path, fed: Any) -> None:
    pipe = pipeline(tmp_path / "words", "sd1", sampler, "Img2Img")
    model = regard.load(saved(pipe, tmp_path / "pipe"))
    how = Drawing(seed=3, negative=NEGATIVE, init=picture(), denoising=settings(model, 7, strength=strength))
    fed(model)
    told = {"negative_prompt": NEGATIVE, "guidance_scale": 7.5, "num_inference_steps": 7}
    seen, image = states(pipe, PROMPT, image=picture(), strength=strength, **told)
    assert len(seen) == int(7 * strength)
    compare(model, how, seen, image)


@pytest.mark.parametrize("strength", [0.6, 1.0])
@pytest.mark.parametrize("channels", [4, 9])
def test_a_part_drawn_anew(channels: int, strength: float, tmp_path: Path, fed: Any) -> None:
    """Nine channels know the rest of the image; with four it is put back after each step."""
    pipe = pipeline(tmp_path / "words", "sd1", "ddim", "Inpaint", channels=channels)
    model = regard.load(saved(pipe, tmp_path / "pipe"))
    assert model.config.given == ("noise" if channels == 4 else "noise+known")
    denoising = settings(model, 5, strength=strength)
    how = Drawing(seed=3, negative=NEGATIVE, init=picture(), mask=mask(), denoising=denoising)
    fed(model)
    told = {"negative_prompt": NEGATIVE, "guidance_scale": 7.5, "num_inference_steps": 5}
    compare(model, how, *states(pipe, PROMPT, image=picture(), mask_image=mask(), strength=strength, **told))
    kept = next(drawer_of(model).draw(PROMPT, how)).pixels
    before = torch.frombuffer(bytearray(picture().tobytes()), dtype=torch.uint8).view(16, 16, 3).permute(2, 0, 1)
    assert torch.equal(kept[:, :, :4], before[:, :, :4])
    assert not torch.equal(kept[:, 4:, 4:12], before[:, 4:, 4:12])
