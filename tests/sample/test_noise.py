"""Noise belongs to an image, whatever is drawn beside it."""

import pytest
import torch

from regard.sample.noise import ImageNoise, normal_numbers, philox_words

SHAPE = (3, 5, 5)  # 75 numbers: not a multiple of what is computed at once


def test_philox_makes_the_published_numbers() -> None:
    """The known answers that come with Random123."""
    cases = {
        (0, 0, 0, 0, 0): "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
        (0xFFFFFFFF,) * 4 + (0xFFFFFFFFFFFFFFFF,): "408f276d 41c83b0e a20bc7c6 6d5451fd",
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0x299F31D0A4093822): "d16cfe09 94fdcceb 5001e420 24126ea1",
    }
    for (*counter, key), expected in cases.items():
        assert " ".join(f"{word:08x}" for word in philox_words(torch.tensor([counter]), key)[0].tolist()) == expected


def test_an_image_gets_its_noise_however_many_are_drawn() -> None:
    alone = [ImageNoise(3, [image], SHAPE) for image in range(16)]
    for count in (4, 16):
        together = ImageNoise(3, range(count), SHAPE)
        assert torch.equal(together.start(), torch.cat([noise.start() for noise in alone[:count]]))
        for step in (0, 7, 999):
            assert torch.equal(together(step), torch.cat([noise(step) for noise in alone[:count]]))
    assert torch.equal(ImageNoise(3, [11, 2], SHAPE)(5), torch.cat([alone[11](5), alone[2](5)]))


def test_noise_does_not_depend_on_what_was_asked_before() -> None:
    noise = ImageNoise(0, [4], SHAPE)
    first = noise(6)
    noise.start(), noise(1)
    assert torch.equal(noise(6), first)


def test_every_address_has_its_own_noise() -> None:
    """Seeds that differ only above 32 bits too, and images and steps that are exchanged."""
    seeds, images, steps = (0, 1, 2**32, 2**40, -1), (0, 1, 2, 70_000), (0, 1, 2, 999)
    found = {
        tuple(normal_numbers(2, seed, image, use, step).tolist())
        for seed in seeds
        for image in images
        for use in (0, 1)
        for step in steps
    }
    assert len(found) == len(seeds) * len(images) * 2 * len(steps)


def test_noise_is_normal_and_independent() -> None:
    noise = ImageNoise(1, range(4), (100_000,), dtype=torch.float64)
    found = torch.cat((noise.start(), noise(0), noise(1)))
    assert found.mean(1).abs().max() < 0.02
    assert (found.var(1) - 1).abs().max() < 0.03
    assert (found**4).mean(1).sub(3).abs().max() < 0.15
    correlated = torch.corrcoef(found) - torch.eye(len(found), dtype=torch.float64)
    assert correlated.abs().max() < 0.02
    assert abs(float(torch.corrcoef(torch.stack((found[0, 1:], found[0, :-1])))[0, 1])) < 0.02
    assert (found[0].sort().values[[2_275, 50_000, 97_725]] - torch.tensor([-2, 0, 2])).abs().max() < 0.05


def test_precision_does_not_change_which_numbers_are_drawn() -> None:
    one, other = (ImageNoise(1, [0], SHAPE, dtype=dtype).start() for dtype in (torch.float32, torch.float64))
    assert (one.dtype, one.shape) == (torch.float32, (1, *SHAPE))
    assert torch.equal(one, other.float())


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="numbers of images must be at least 0"):
        ImageNoise(0, [0, -1], SHAPE)
