"""The composite of latent diffusion: sizes of its parts follow from the whole, and each part does its work."""

import pytest
import torch
from torch import Tensor

from regard.models.diffusion import FAMILY, PRESETS, Config, Diffusion, random_inputs, scaled_config
from regard.nn.config import config_problems, parse
from regard.sample.schedules import alphas
from regard.zoo import config_data, empty_net

UNET = {"kind": "unet", "dim": 8, "multipliers": [1, 2], "depth": 1, "attended": [0], "heads": 2, "norm_groups": 4}
DIT = {"kind": "dit", "patch": 2, "dim": 16, "depth": 2, "heads": 2, "hidden": 24, "waves": 8}
LATENTS = {"latent": 2, "dim": 8, "multipliers": [1, 2], "depth": 1, "scale": 1.0, "norm_groups": 4}


def small(**changes: object) -> Config:
    return parse(Config, config_data(FAMILY.example()) | changes)


def built(config: Config) -> Diffusion:
    torch.manual_seed(0)
    net = Diffusion(config).double().eval()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return net


@pytest.mark.parametrize(
    ("name", "text", "denoiser", "autoencoder"),
    [
        ("stable-diffusion-1", 123_060_480, 859_520_964, 83_653_863),
        ("stable-diffusion-1-inpainting", 123_060_480, 859_535_364, 83_653_863),
        ("stable-diffusion-2", 340_387_840, 865_910_724, 83_653_863),
    ],
)
def test_published_sizes(name: str, text: int, denoiser: int, autoencoder: int) -> None:
    net = empty_net("diffusion", PRESETS[name])
    counts = {part: sum(x.numel() for x in own.parameters()) for part, own in net.named_children()}
    assert counts == {"text": text, "denoiser": denoiser, "autoencoder": autoencoder}


@pytest.mark.parametrize("denoiser", [UNET, DIT])
@pytest.mark.parametrize("autoencoder", [{}, LATENTS])
def test_any_denoiser_with_and_without_latents(denoiser: dict[str, object], autoencoder: dict[str, object]) -> None:
    config = small(denoiser=denoiser, autoencoder=autoencoder)
    assert config.shape == ((2, 4, 4) if autoencoder else (3, 8, 8))
    net = built(config)
    given = random_inputs(config, 3)
    found = net(**given)
    assert found.shape == given["noisy"].shape
    other = given | {"ids": (given["ids"] + 1) % config.vocab}
    assert not torch.allclose(found, net(**other)), "the denoiser does not read the words"
    images = torch.rand(3, 3, 8, 8, dtype=torch.float64)
    assert net.expand(net.compress(images)).shape == images.shape
    if not autoencoder:
        assert torch.equal(net.expand(net.compress(images)), images)
    layers = [name for name, _ in net.named_modules() if name.endswith((".mixer", ".cross"))]
    axes = net.axes(**given)
    assert {f"denoiser.{name}" for name, _ in net.denoiser.named_modules() if name.endswith(".cross")} <= axes.keys()
    assert all(axes[name].grid is not None for name in layers if name.startswith("denoiser."))


def test_latents_are_scaled_as_the_config_says() -> None:
    images = torch.rand(2, 3, 8, 8, dtype=torch.float64)
    plain = built(small(autoencoder=LATENTS))
    other = Diffusion(scaled_config(plain.config, 2.0, 0.5)).double().eval()
    other.load_state_dict(plain.state_dict())
    torch.testing.assert_close(other.compress(images), (plain.compress(images) - 0.5) * 2)
    torch.testing.assert_close(other.expand(other.compress(images)), plain.expand(plain.compress(images)))


def test_padding_says_nothing() -> None:
    config = small()
    net, given = built(config), random_inputs(config, 2)
    more = torch.cat((given["ids"], torch.zeros(2, 3, dtype=torch.long)), 1)
    keys = torch.arange(8)[None].expand(2, -1) < 5
    torch.testing.assert_close(net(**given | {"ids": more}, keys=keys), net(**given))


def test_a_denoiser_for_inpainting_reads_what_is_known() -> None:
    config = small(given="noise+known")
    assert config.denoiser_config.channels == 7
    net, given = built(config), random_inputs(config, 2)
    known = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    redraw = torch.zeros(2, 1, 8, 8, dtype=torch.bool)
    assert not torch.allclose(net(**given), net(**given, known=known, redraw=redraw))
    with pytest.raises(ValueError, match="not trained with the known part"):
        built(small())(**given, known=known, redraw=redraw)


def test_the_schedule_is_that_of_the_config() -> None:
    assert float(alphas(small(schedule="cosine").noise_schedule)[-1]) < 1e-3
    assert float(alphas(small(terminal="zero", prediction="velocity").noise_schedule)[-1]) == 0
    assert len(alphas(small(times=7).noise_schedule)) == 7
    one, two = (alphas(small(first=first, last=0.5).noise_schedule)[0] for first in (0.1, 0.2))
    assert (float(one), float(two)) == pytest.approx((0.9, 0.8))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"denoiser": {"kind": "net"}}, "denoiser.kind = 'net' is not one of unet, dit"),
        ({"denoiser": {"kind": "unet", "context": 9}}, "denoiser.context is set by the keys of the whole model"),
        ({"denoiser": {"kind": "unet", "dims": 9}}, "denoiser.unknown key 'dims'"),
        ({"text": {"vocab": 9}}, "text.vocab is set by the keys of the whole model"),
        ({"autoencoder": {"latent": -1}}, "autoencoder.latent = -1 must be at least 1"),
        ({"image": 9, "autoencoder": LATENTS}, "image = 9 is not a multiple of 2"),
        ({"times": 1}, "times = 1 must be at least 2"),
        ({"first": 0.5, "last": 0.1}, "first = 0.5 is greater than last = 0.1"),
    ],
)
def test_bad_configs_are_told_with_their_part(changes: dict[str, object], told: str) -> None:
    problems = config_problems(Config, config_data(FAMILY.example()) | changes)
    assert any(told in one for one in problems), problems


def test_equal_configs_are_equal_however_they_are_written() -> None:
    lists = small(denoiser=UNET)
    assert small(denoiser=UNET | {"multipliers": (1, 2), "attended": (0,)}) == lists
    assert parse(Config, config_data(lists)) == lists


def test_gradients_reach_the_words_and_the_denoiser() -> None:
    net, given = built(small()), random_inputs(small(), 2)
    net(**given).square().sum().backward()
    assert all(x.grad is not None and x.grad.any() for x in (net.text.embed.weight, net.denoiser.head.weight))


def rows_alone(net: Diffusion, given: dict[str, Tensor]) -> Tensor:
    return torch.cat([net(**{name: x[i : i + 1] for name, x in given.items()}) for i in range(len(given["ids"]))])


def test_a_row_is_the_same_alone() -> None:
    net, given = built(small()), random_inputs(small(), 3)
    torch.testing.assert_close(rows_alone(net, given), net(**given))
