"""TransGAN's generator and the critics: how grids grow, who looks at whom, what is refused."""

import re
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models import convgan, transgan, transgan_critic
from regard.models.convgan import ConvGAN, ConvolutionCritic
from regard.models.transgan import TransGAN
from regard.models.transgan_critic import MultiScaleCritic
from regard.nn.growth import PixelNorm, shuffle_pixels
from regard.nn.tap import capture

CRITIC = transgan_critic.Config(image=8, channels=1, dim=16, depth=(1, 1), heads=2)


def test_channels_become_pixels_in_their_order() -> None:
    """y[c, 2r + i, 2s + j] = x[4c + 2i + j, r, s], as PyTorch's, and as a transposed convolution of zeros and ones."""
    x = torch.randn(2, 12, 3, 5, dtype=torch.float64)
    y = shuffle_pixels(x.movedim(1, -1)).movedim(-1, 1)
    assert torch.equal(y, nn.PixelShuffle(2)(x))
    kernel = torch.zeros(12, 3, 2, 2, dtype=torch.float64)
    for channel in range(12):
        kernel[channel, channel // 4, channel % 4 // 2, channel % 2] = 1
    assert torch.equal(y, F.conv_transpose2d(x, kernel, stride=2))
    assert y.numel() == x.numel()


def test_pixel_norm_is_the_root_of_the_mean_square() -> None:
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    wanted = x / (x.square().sum(1, keepdim=True) / 3 + 0.1).sqrt()
    assert torch.allclose(PixelNorm(0.1, axis=1)(x), wanted, atol=1e-14)
    assert not list(PixelNorm(0.1).parameters())


def generator(**changes: Any) -> TransGAN:
    torch.manual_seed(0)
    return TransGAN(replace(transgan.FAMILY.example(), **changes)).double().eval()


def test_a_window_as_large_as_the_grid_is_full_attention() -> None:
    """The grid attention of the last stage, against one attention with the bias of every pair."""
    net = generator(window=8)
    block: Any = net.stages[1].blocks[0]  # type: ignore[index]
    x = torch.randn(2, 8, 8, 16, dtype=torch.float64)
    attention, table = block.mixer.attention, block.mixer.offsets.weight
    q, k, v = attention.project(*[x.flatten(1, 2)] * 3)
    scores = q @ k.mT * q.shape[-1] ** -0.5
    for i in range(64):
        for j in range(64):
            down, right = i // 8 - j // 8, i % 8 - j % 8
            scores[:, :, i, j] += table[(down + 7) * 15 + right + 7]
    wanted = attention.merge(scores.softmax(-1) @ v).unflatten(1, (8, 8))
    assert torch.allclose(block.mixer(x), wanted, atol=1e-12)


def test_a_grid_never_sees_another() -> None:
    """The gradient of an output is zero at every input of the other windows, and nowhere else."""
    block: Any = generator(window=4).stages[1].blocks[0]  # type: ignore[index]
    x = torch.randn(1, 8, 8, 16, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(block(x)[0, 1, 6].sum(), x)
    reached = slope[0].abs().sum(-1) > 0
    wanted = torch.zeros(8, 8, dtype=torch.bool)
    wanted[:4, 4:] = True
    assert torch.equal(reached, wanted)


def test_stages_grow_and_have_maps() -> None:
    net = generator()
    with capture(net, "*.weights") as seen:
        y = net(torch.randn(3, 8, dtype=torch.float64))
    assert y.shape == (3, 3, 8, 8)
    shapes = {name: tuple(x[0].shape) for name, x in seen.items()}
    assert shapes == {
        "stages.0.blocks.0.mixer.attention.weights": (3, 2, 16, 16),
        "stages.1.blocks.0.mixer.attention.weights": (12, 2, 16, 16),  # four windows of each image
    }


@pytest.mark.parametrize("family", [transgan.FAMILY, convgan.FAMILY])
def test_pixels_are_bounded_unless_they_shall_not(family: Any) -> None:
    noise = 100 * torch.randn(2, 8)
    made = {}
    for bound in ("tanh", "none"):
        torch.manual_seed(0)
        net = family.net(replace(family.example(), bound=bound))
        with torch.no_grad():
            net.colours.weight.mul_(100)
            made[bound] = net(noise)
    assert torch.allclose(made["tanh"], made["none"].tanh())
    assert made["none"].abs().max() > 1


@pytest.mark.parametrize("critic", [MultiScaleCritic(CRITIC), ConvolutionCritic(8, 1, (4, 6))])
def test_a_critic_scores_each_image_alone(critic: nn.Module) -> None:
    critic = critic.double().eval()
    images = torch.randn(3, 1, 8, 8, dtype=torch.float64)
    scores = critic(images)
    assert scores.shape == (3,)
    assert torch.allclose(torch.cat([critic(one[None]) for one in images]), scores, atol=1e-12)
    (slope,) = torch.autograd.grad(critic(images.requires_grad_())[1], images)
    assert slope[1].abs().min() > 0  # every pixel is read
    assert slope[[0, 2]].abs().max() == 0


def test_the_critic_reads_two_scales() -> None:
    net = MultiScaleCritic(CRITIC)
    with capture(net, "*.weights") as seen:
        net(torch.randn(2, 1, 8, 8))
    assert [x[0].shape[-1] for x in seen.values()] == [16, 4, 5]  # patches of 2, of 4, and these with the class token
    assert (net.fine.projection.out_channels, net.coarse.projection.out_channels) == (12, 4)


@pytest.mark.parametrize(
    ("kind", "changes", "told"),
    [
        (transgan.Config, {"image": 30}, "image = 30 is not a multiple of 4, which 3 stages require"),
        (transgan.Config, {"dim": 1000, "heads": 8}, "dim / heads = 125 is not a multiple of 16, which 3 stages"),
        (transgan.Config, {"dim": 1001}, "dim = 1001 is not a multiple of heads = 4"),
        (transgan.Config, {"depth": (2, 0)}, "depth = (2, 0) must be at least 1"),
        (transgan.Config, {"noise": 0}, "noise = 0 must be at least 1"),
        (convgan.Config, {"image": 30}, "image = 30 is not a multiple of 4, which 3 stages require"),
        (transgan_critic.Config, {"depth": (1, 1, 1)}, "is not two numbers of blocks"),
        (transgan_critic.Config, {"image": 30}, "image = 30 is not a multiple of 2 x patch = 4"),
        (transgan_critic.Config, {"dim": 200, "heads": 4}, "dim = 200 is not a multiple of 4 x heads = 16"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(kind: Any, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        kind(**changes)


def test_the_published_generator_has_its_sizes() -> None:
    """8 x 8 x 1024, 16 x 16 x 256, 32 x 32 x 64: of 5, 4 and 2 blocks."""
    config = transgan.PRESETS["transgan-cifar"]
    with torch.device("meta"):
        net = TransGAN(config)
    stages = [(tuple(stage.positions.shape[1:]), len(stage.blocks)) for stage in net.stages]  # type: ignore[union-attr,arg-type]
    assert stages == [((8, 8, 1024), 5), ((16, 16, 256), 4), ((32, 32, 64), 2)]


def test_convolutions_need_no_batch() -> None:
    """Neither net mixes images, in training too."""
    torch.manual_seed(0)
    net = ConvGAN(convgan.FAMILY.example()).train()
    noise = torch.randn(4, 8)
    alone: Tensor = torch.cat([net(one[None]) for one in noise])
    assert torch.allclose(net(noise), alone, atol=1e-6)
