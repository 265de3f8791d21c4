"""Perceiver: what only these papers claim."""

import math

import pytest
import torch

from regard.models import perceiverlm
from regard.models.perceiver import Config, Perceiver
from regard.models.perceiverlm import PerceiverLM
from regard.nn.latents import LatentBlock, Latents, fourier_features, spread_over
from regard.nn.tap import capture
from tests.contracts.tools import close, numbers, stirred

SMALL = Config(
    image=6, channels=2, classes=3, bands=4, latents=5, dim=8, depth=2, repeats=3, looks=3, heads=2, hidden=12,
    cross_hidden=10, pool="mean",
)  # fmt: skip


def test_fourier_features_one_number_at_a_time() -> None:
    places = numbers(4, 2).tanh()
    found = fourier_features(places, 3, 10)
    assert found.shape == (4, 2 * (2 * 3 + 1))
    for i in range(4):
        sines, cosines = [], []
        for axis in range(2):
            for wave in (1.0, 3.0, 5.0):  # equal steps to half of the resolution
                angle = math.pi * wave * float(places[i, axis])
                sines.append(math.sin(angle))
                cosines.append(math.cos(angle))
        close(found[i], torch.tensor([*places[i].tolist(), *sines, *cosines], dtype=torch.float64))


def test_an_image_of_the_paper_has_261_numbers_for_each_pixel() -> None:
    net = Perceiver(Config(latents=2, dim=8, depth=1, repeats=1, heads=1, hidden=4, cross_hidden=4))
    assert net.inputs(torch.zeros(1, 3, 4, 5)).shape == (1, 20, 261)
    assert net.latents.cross.look.k.in_features == 261


def test_points_of_a_grid_go_row_by_row_from_minus_one_to_one() -> None:
    found = spread_over((2, 3), torch.device("cpu"), torch.float64)
    assert found.tolist() == [[-1, -1], [-1, 0], [-1, 1], [1, -1], [1, 0], [1, 1]]


@pytest.mark.parametrize("positions", ["fourier", "learned"])
def test_any_order_of_pixels_is_the_same_input(positions: str) -> None:
    """With their positions along; without, another image."""
    net = stirred(Perceiver(Config(**vars(SMALL) | {"positions": positions, "features": 6}))).eval()
    images, order = numbers(2, 2, 6, 6), torch.randperm(36)
    inputs = net.inputs(images)
    close(net.latents(inputs[:, order]), net.latents(inputs))
    moved = images.flatten(2)[..., order].unflatten(-1, (6, 6))
    assert not torch.allclose(net(moved), net(images))


def test_later_looks_share_their_weights_and_the_first_has_its_own() -> None:
    net, images = stirred(Perceiver(SMALL)).eval(), numbers(1, 2, 6, 6)
    with capture(net, "*.weights") as seen:
        net(images)
    calls = {name.removesuffix(".weights"): len(records) for name, records in seen.items()}
    assert calls == {
        "latents.cross.look": 1,
        "latents.again.look": 2,
        "latents.blocks.0.mixer": 3,
        "latents.blocks.1.mixer": 3,
    }
    x, inputs = net.latents.start.expand(1, -1, -1), net.inputs(images)
    for look in (net.latents.cross, net.latents.again, net.latents.again):
        x = look(x, inputs)
        for block in net.latents.blocks:
            x = block(x)
    close(net(images), net.head(x.mean(1)))


def test_latents_that_are_the_inputs_look_at_themselves() -> None:
    """As many latents as inputs, and these in their place: self-attention of an encoder before its first MLP."""
    look, x = stirred(LatentBlock(8, 8, heads=2, hidden=6)), numbers(2, 5, 8)
    with torch.no_grad():
        look.context_norm.load_state_dict(look.norm.state_dict())
    y = x + look.look(look.norm(x))
    close(look(x, x), y + look.ffn(look.ffn_norm(y)))


def test_padding_is_not_looked_at_and_its_garbage_is_not_read() -> None:
    latents, inputs = stirred(Latents(SMALL, 6)), numbers(2, 7, 6)
    keys = torch.arange(7) < torch.tensor([[7], [4]])
    wanted = latents(inputs[1:, :4])
    close(latents(inputs.masked_fill(~keys[..., None], torch.nan), keys)[1:], wanted)


def test_the_cost_grows_with_the_inputs_not_with_their_square() -> None:
    """Maps are latents x pixels and latents x latents; none is pixels x pixels."""
    net = stirred(Perceiver(SMALL)).eval()
    with capture(net, "*.weights") as seen:
        net(numbers(1, 2, 9, 7))
    assert {tuple(x.shape[-2:]) for records in seen.values() for x in records} == {(5, 63), (5, 5)}


def test_an_answer_for_each_place_forgets_the_query() -> None:
    """What a place is told depends on where it asks only by where it looks: with no keys to tell places apart, all
    hear the same."""
    config = perceiverlm.Config(
        vocab=9, length=6, token_dim=8, latents=3, dim=8, depth=1, heads=2, cross_heads=2, key_dim=4, value_dim=8,
        hidden=8, cross_hidden=8, decoder_heads=2, decoder_keys=4, dropout=0.0,
    )  # fmt: skip
    net, ids = stirred(PerceiverLM(config)).eval(), torch.randint(9, (2, 6))
    assert not torch.allclose(net(ids)[:, 0], net(ids)[:, 1])
    with torch.no_grad():
        net.decoder.look.q.weight.zero_()
    close(net(ids)[:, 1:], net(ids)[:, :1].expand(-1, 5, -1))
    close(net(ids[:, :4]), net(ids, keys=torch.arange(6).expand(2, 6) < 4)[:, :4])


def test_sizes_that_do_not_fit_are_told() -> None:
    with pytest.raises(ValueError, match="looks = 4 is larger than repeats = 3"):
        Config(**vars(SMALL) | {"looks": 4})
    with pytest.raises(ValueError, match="must be a multiple of 3 heads, got 20"):
        Perceiver(Config(**vars(SMALL) | {"cross_heads": 3}))
    with pytest.raises(ValueError, match="an image of 3 x 6 x 6 is not supported, expected 2 channels"):
        Perceiver(SMALL)(torch.zeros(1, 3, 6, 6))
