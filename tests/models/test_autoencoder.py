"""What the autoencoder itself claims: distributions, sizes, and the latents of a diffusion model."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from regard.models.autoencoder import FAMILY, Autoencoder, Config, LatentGaussian
from tests.contracts.tools import close, stirred

SMALL = FAMILY.example()


def net(config: Config = SMALL) -> Autoencoder:
    torch.manual_seed(0)
    return stirred(Autoencoder(config)).eval()


def test_samples_are_spread_as_the_distribution_says() -> None:
    said = LatentGaussian(torch.tensor([[3.0, -1.0]]).expand(20_000, 2), torch.tensor([[0.0, -4.0]]).expand(20_000, 2))
    torch.manual_seed(0)
    found = said.sample()
    close(found.mean(0), torch.tensor([3.0, -1.0]), 0.03)
    close(found.std(0), torch.tensor([1.0, 0.1353]), 0.02)
    assert torch.equal(said.mode(), said.mean)
    assert torch.equal(said.sample(torch.zeros(20_000, 2)), said.mean)


def test_latents_of_a_diffusion_model() -> None:
    """First moved, then stretched; and back."""
    model = net(replace(SMALL, scale=0.5, shift=3.0))
    latents = torch.tensor([3.0, 5.0])
    assert model.scaled(latents).tolist() == [0.0, 1.0]
    assert torch.equal(model.unscaled(model.scaled(latents)), latents)


@pytest.mark.parametrize(("size", "latent"), [((8, 8), (4, 4)), ((8, 12), (4, 6)), ((9, 11), (4, 5))])
def test_sizes(size: tuple[int, int], latent: tuple[int, int]) -> None:
    model, images = net(), torch.randn(2, 3, *size, dtype=torch.float64)
    said = model.encode(images)
    assert said.mean.shape == said.log_variance.shape == (2, 2, *latent)
    assert model(images).shape == (2, 3, 2 * latent[0], 2 * latent[1])
    assert model.axes(images)["pixels"].grid == latent


def test_an_image_smaller_than_a_latent() -> None:
    with pytest.raises(ValueError, match=r"at least 2 x 2 pixels, .* got 1 x 8"):
        net()(torch.randn(1, 3, 1, 8, dtype=torch.float64))


def test_an_image_comes_back_from_its_mode() -> None:
    model, images = net(), torch.randn(2, 3, 8, 8, dtype=torch.float64)
    assert torch.equal(model(images), model.decode(model.encode(images).mode()))


@pytest.mark.parametrize("depth", [1, 3])
def test_as_many_blocks_as_are_asked_for(depth: int) -> None:
    """In each level, and one more on the way back."""
    model = Autoencoder(replace(SMALL, depth=depth))
    assert [len(level.residuals) for level in model.encoder.levels] == [depth] * 2
    assert [len(level.residuals) for level in model.decoder.levels] == [depth + 1] * 2


def test_the_size_is_what_a_length_comes_from() -> None:
    for image, length in ((8, 16), (16, 64)):
        model = Autoencoder(replace(SMALL, attention="linformer", image=image))
        assert {x.shape[-1] for name, x in model.named_parameters() if ".kernel." in name} == {length}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"multipliers": (2, 2)}, r"multipliers = \[2, 2\] must begin with 1"),
        ({"norm_groups": 3}, "dim = 8 is not a multiple of norm_groups = 3"),
        ({"image": 9}, "image = 9 is not a multiple of 2"),
        ({"scale": 0.0}, r"scale = 0\.0 must be greater than 0"),
    ],
)
def test_configs_that_do_not_go_together(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(SMALL, **changes)
