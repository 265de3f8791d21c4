"""The parts of DeiT's recipe that change images and labels: each by its paper's rule, and by row and step alone."""

from importlib import import_module

import numpy as np
import pytest
import scipy
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from regard.data.counter_rng import AUGMENT, MIX, beta_samples, normal_samples, philox, uniform_samples
from regard.data.order import Order
from regard.data.repeated import RepeatedOrder, RepeatedRows
from regard.errors import InputError
from regard.modalities.images.cropping import part, random_crop, random_mirror
from regard.modalities.images.erasing import cutout, random_erase
from regard.modalities.images.frequencies import frequency_distances, high_pass, low_pass, power_spectrum
from regard.modalities.images.mixing import Mix, PixelBox, cut_mix, draw_mix, mix_images, mix_labels, partners, smoothed
from regard.modalities.images.randaugment import WAYS, RandAugment, to_image, to_pixels
from regard.nn.initialization import truncated_normal


@pytest.fixture(scope="module", autouse=True)
def statistics() -> None:
    """Imported here: it takes long, and is no test's own work."""
    import_module("scipy.stats")


def numbers(row: int = 0, step: int = 0, use: int = AUGMENT) -> np.random.Philox:
    return philox(use, 0, step, row)


def picture(channels: int = 3, height: int = 20, width: int = 24, seed: int = 0) -> Tensor:
    """Smooth, so that no change is hidden in noise."""
    draw = torch.Generator().manual_seed(seed)
    coarse = torch.rand(1, channels, 4, 5, generator=draw) * 255
    return F.interpolate(coarse, (height, width), mode="bicubic").clamp(0, 255).to(torch.uint8)[0]


# ------------------------------------------------------------------------------------------------------------- chance


def test_normals_and_shares_are_drawn_as_they_should() -> None:
    assert scipy.stats.kstest(normal_samples(numbers(), 5000), "norm").pvalue > 1e-3
    for a in (0.2, 0.8, 1.0, 4.0):
        drawn = [beta_samples(numbers(step=step), a) for step in range(2000)]
        assert scipy.stats.kstest(drawn, scipy.stats.beta(a, a).cdf).pvalue > 1e-3
        assert all(0 <= share <= 1 for share in drawn)


def test_a_truncated_normal_has_no_tails_and_the_right_deviation() -> None:
    """PyTorch's own cuts at -2 and 2 as they are: at a deviation of 0.02, nothing."""
    x = truncated_normal(torch.empty(500_000), 0.02)
    assert float(x.std()) == pytest.approx(0.02, rel=0.01)
    assert abs(float(x.mean())) < 1e-4
    assert float(x.abs().max()) <= 2 * 0.02 / 0.8796
    assert float(x.abs().max()) > 1.99 * 0.02 / 0.8796
    plain = torch.nn.init.trunc_normal_(torch.empty(500_000), std=0.02)
    assert float(plain.abs().max()) > 4 * 0.02


# --------------------------------------------------------------------------------------------------- mixup and cutmix


@given(st.integers(0, 10_000), st.integers(2, 40), st.integers(2, 40))
def test_labels_are_mixed_as_pixels_are(step: int, height: int, width: int) -> None:
    """Of images that are 1 and 0 everywhere, the mean is the share; and labels sum to 1."""
    mix = draw_mix(numbers(step=step, use=MIX), (height, width))
    found = mix_images(torch.ones(2, 3, height, width).double(), torch.zeros(2, 3, height, width).double(), mix)
    assert float(found.mean()) == pytest.approx(mix.share, abs=1e-9)
    labels = mix_labels(torch.tensor([0, 1]), torch.tensor([2, 1]), mix, 4, 0.1)
    assert torch.allclose(labels.sum(-1), torch.ones(2))
    off = 0.1 / 4
    torch.testing.assert_close(labels[0], torch.tensor([mix.share * 0.9 + off, off, (1 - mix.share) * 0.9 + off, off]))
    torch.testing.assert_close(labels[1], torch.tensor([off, 0.9 + off, off, off]))


def test_a_share_of_one_changes_nothing() -> None:
    images, others = torch.randn(2, 3, 4, 4), torch.randn(2, 3, 4, 4)
    assert torch.equal(mix_images(images, others, Mix(1.0)), images)
    assert torch.equal(mix_images(images, others, cut_mix(numbers(), (4, 4), 1.0)), images)
    assert draw_mix(numbers(), (4, 4), mixup=0, cutmix=0) == Mix(1.0)


def test_mixup_by_its_equation() -> None:
    images, others = torch.randn(2, 3, 4, 4), torch.randn(2, 3, 4, 4)
    torch.testing.assert_close(mix_images(images, others, Mix(0.3)), 0.3 * images + 0.7 * others)


def test_the_box_of_cutmix() -> None:
    """Its sides are sqrt(1 - l) of the image's; at the edge it is cut off, and the share is of what is left."""
    whole = clipped = 0
    for step in range(500):
        mix = cut_mix(numbers(step=step), (40, 60), 0.75)
        assert mix.box is not None
        box = mix.box
        assert 0 <= box.top <= box.bottom <= 40
        assert 0 <= box.left <= box.right <= 60
        assert mix.share == 1 - box.area / 2400
        inside = (box.bottom - box.top, box.right - box.left) == (20, 30)
        whole, clipped = whole + inside, clipped + (not inside)
        assert inside or box.top == 0 or box.left == 0 or box.bottom == 40 or box.right == 60
    assert whole > 100
    assert clipped > 100
    images, others = torch.zeros(1, 1, 4, 4), torch.ones(1, 1, 4, 4)
    found = mix_images(images, others, Mix(0.75, PixelBox(1, 0, 3, 2)))
    assert found[0, 0].int().tolist() == [[0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]]


def test_both_ways_are_drawn() -> None:
    mixes = [draw_mix(numbers(step=step, use=MIX), (8, 8)) for step in range(1000)]
    assert 450 < sum(mix.box is not None for mix in mixes) < 550
    assert all(mix.box is None for mix in (draw_mix(numbers(step=i), (8, 8), cutmix=0) for i in range(20)))
    assert all(mix.box is not None for mix in (draw_mix(numbers(step=i), (8, 8), mixup=0) for i in range(20)))


@pytest.mark.parametrize("cuts", [(8,), (3, 5), (1, 1, 6), (2, 2, 2, 2)])
def test_any_split_of_a_batch_is_mixed_alike(cuts: tuple[int, ...]) -> None:
    whole = Order(50, rows=8, seed=3).rows(4)
    images, labels = torch.randn(50, 3, 6, 6), torch.arange(50) % 5
    mix = draw_mix(philox(MIX, 3, 4), (6, 6))
    together = mix_images(images[whole], images[whole].flip(0), mix)
    told = mix_labels(labels[whole], labels[whole].flip(0), mix, 5)
    pieces, shares = [], []
    for rows in np.split(whole, np.cumsum(cuts)[:-1]):
        others = partners(rows, whole)
        pieces.append(mix_images(images[rows], images[others], draw_mix(philox(MIX, 3, 4), (6, 6))))
        shares.append(mix_labels(labels[rows], labels[others], mix, 5))
    assert torch.equal(torch.cat(pieces), together)
    assert torch.equal(torch.cat(shares), told)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_label_smoothing_is_that_of_pytorch(smoothing: float) -> None:
    logits, labels = torch.randn(6, 7), torch.randint(7, (6,))
    wanted = F.cross_entropy(logits, labels, label_smoothing=smoothing)
    torch.testing.assert_close(F.cross_entropy(logits, smoothed(labels, 7, smoothing)), wanted)
    with pytest.raises(ValueError, match="must be at least 0 and below 1"):
        smoothed(labels, 7, 1.0)


def timm_data(name: str) -> object:
    from importlib import import_module

    from tests.guard import mend_torchvision

    mend_torchvision()
    pytest.importorskip("timm", reason="the reference is not installed: pip install regard[parity]")
    return import_module(f"timm.data.{name}")


def test_labels_are_those_of_timm() -> None:
    theirs = timm_data("mixup")
    labels = torch.randint(5, (6,))
    wanted = theirs.mixup_target(labels, 5, 0.3, 0.1)
    torch.testing.assert_close(mix_labels(labels, labels.flip(0), Mix(0.3), 5, 0.1), wanted)


# ------------------------------------------------------------------------------------------------------------ erasing


def test_random_erasing() -> None:
    """A quarter of the images; 2 to 33 % of the area; heights over widths from 0.3 to 3.3; noise of deviation 1."""
    areas, ratios, noise, count = [], [], [], 0
    for row in range(2000):
        image = torch.full((3, 64, 64), 9.0)
        found = random_erase(image, numbers(row))
        gone = (found != image).any(0)
        if not gone.any():
            assert found is image
            continue
        count += 1
        rows, columns = gone.any(1).nonzero()[:, 0], gone.any(0).nonzero()[:, 0]
        high, wide = int(rows[-1] - rows[0]) + 1, int(columns[-1] - columns[0]) + 1
        assert int(gone.sum()) == high * wide
        areas.append(high * wide / 64**2)
        ratios.append(high / wide)
        noise.append(found[:, gone].flatten()[:50])
    assert 400 < count < 600
    assert 0.015 < min(areas) < 0.03
    assert 0.3 < max(areas) < 0.35
    assert 0.27 < min(ratios) < 0.4
    assert 2.5 < max(ratios) < 3.7
    assert abs(float(np.median(np.log(ratios)))) < 0.1
    drawn = torch.cat(noise)
    assert abs(float(drawn.mean())) < 0.05
    assert float(drawn.std()) == pytest.approx(1, abs=0.05)
    assert torch.equal(random_erase(torch.ones(1, 1, 1), numbers(), chance=1.0), torch.ones(1, 1, 1))  # nothing fits


def test_cutout_may_overhang() -> None:
    areas = []
    for row in range(500):
        image = torch.ones(2, 16, 16)
        found = cutout(image, numbers(row), 6)
        assert image.all()
        areas.append(int((found == 0).sum()) // 2)
    assert max(areas) == 36
    assert 9 <= min(areas) < 36
    assert not cutout(torch.ones(1, 4, 4), numbers(), 99).any()


# -------------------------------------------------------------------------------------------------------- RandAugment


MOVED = {name: way for name, way in WAYS.items() if name not in ("autocontrast", "equalize")}


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", WAYS)
def test_every_way(name: str, channels: int) -> None:
    """At strength 0 what has one is the identity; the stronger, the more it changes; the size stays."""
    pixels = picture(channels)
    image = to_image(pixels)
    found = [to_pixels(WAYS[name](image, strength)) for strength in (0.0, 0.5, 1.0)]
    assert all(x.shape == pixels.shape and x.dtype == torch.uint8 for x in found)
    if name in MOVED:
        assert torch.equal(found[0], pixels)
    away = [float((x.float() - pixels.float()).abs().mean()) for x in found]
    if name in ("rotate", "shear-x", "shear-y", "solarize", "posterize", "brightness", "contrast"):
        assert away[0] < away[1] < away[2]
    if name.startswith("translate"):  # what moves on may meet what it was before
        assert min(away[1:]) > 5
    assert len(WAYS) == 14


def test_each_way_is_that_of_timm() -> None:
    theirs = timm_data("auto_augment")
    image = to_image(picture())
    how = {"resample": Image.Resampling.BILINEAR, "fillcolor": (128, 128, 128)}
    pairs = {
        "autocontrast": theirs.auto_contrast(image),
        "equalize": theirs.equalize(image),
        "rotate": theirs.rotate(image, 30 * 0.7, **how),
        "solarize": theirs.solarize(image, theirs._solarize_increasing_level_to_arg(7, {})[0]),
        "color": theirs.color(image, 1 + 0.9 * 0.7),
        "contrast": theirs.contrast(image, 1 + 0.9 * 0.7),
        "brightness": theirs.brightness(image, 1 + 0.9 * 0.7),
        "sharpness": theirs.sharpness(image, 1 + 0.9 * 0.7),
        "shear-x": theirs.shear_x(image, 0.3 * 0.7, **how),
        "shear-y": theirs.shear_y(image, 0.3 * 0.7, **how),
        "translate-x": theirs.translate_x_rel(image, 0.45 * 0.7, **how),
        "translate-y": theirs.translate_y_rel(image, 0.45 * 0.7, **how),
        "posterize": theirs.posterize(image, 5),
    }
    for name, wanted in pairs.items():
        assert torch.equal(to_pixels(WAYS[name](image, 0.7)), to_pixels(wanted)), name


def test_randaugment_draws_every_way_alike() -> None:
    """By row and step alone; with no chance or no count it changes nothing."""
    pixels, change = picture(), RandAugment(count=1, chance=1.0)
    found = [change(pixels, numbers(row)) for row in range(300)]
    assert all(torch.equal(change(pixels, numbers(row)), found[row]) for row in range(20))
    assert len({x.numpy().tobytes() for x in found}) > 150
    still = sum(torch.equal(x, pixels) for x in found)  # the identity, one of 14, and what changes no pixel of these
    assert 8 <= still <= 75
    assert torch.equal(RandAugment(count=0)(pixels, numbers()), pixels)
    assert torch.equal(RandAugment(chance=0.0)(pixels, numbers()), pixels)
    drawn = [int(uniform_samples(numbers(row), 3)[0] * 14) for row in range(5000)]
    assert scipy.stats.chisquare(np.bincount(drawn)).pvalue > 1e-3
    with pytest.raises(ValueError, match="strength from 0 to 10"):
        RandAugment(strength=11)
    with pytest.raises(ValueError, match="expected a uint8 image of shape"):
        RandAugment()(pixels.float(), numbers())


def test_strength_zero_is_near_the_identity() -> None:
    pixels, change = picture(), RandAugment(count=3, strength=0.0, spread=0.0, chance=1.0)
    same = [torch.equal(change(pixels, numbers(row)), pixels) for row in range(200)]
    assert sum(same) > 0.5 * 200  # all but autocontrast and equalize: (12 / 14)^3 = 0.63


# ----------------------------------------------------------------------------------------------- crops, mirrors, copies


def test_a_random_crop() -> None:
    areas, ratios = [], []
    for row in range(1000):
        left, top, right, bottom = part((60, 40), numbers(row), (0.08, 1.0), (3 / 4, 4 / 3))
        assert 0 <= left < right <= 60
        assert 0 <= top < bottom <= 40
        areas.append((right - left) * (bottom - top) / 2400)
        ratios.append((right - left) / (bottom - top))
    assert 0.07 < min(areas) < 0.12
    assert max(areas) > 0.85
    assert min(ratios) > 0.7
    assert max(ratios) < 1.4
    assert random_crop(picture(), numbers(), 16).shape == (3, 16, 16)
    assert torch.equal(random_crop(picture(3, 16, 16), numbers(), 16, area=(1, 1), shape=(1, 1)), picture(3, 16, 16))
    turned = [torch.equal(random_mirror(picture(), numbers(row)), picture().flip(-1)) for row in range(400)]
    assert 160 < sum(turned) < 240


class Counted:
    faults, lengths = (), None

    def __len__(self) -> int:
        return 20

    def __getitem__(self, i: int) -> int:
        return 100 + i

    def where(self, i: int) -> str:
        return f"row {i}"


def test_repeated_augmentation() -> None:
    """Every image of a batch three times, each copy with its own chance; an epoch is as long as before."""
    order, rows = RepeatedOrder(20, rows=6, copies=3, seed=1), RepeatedRows(Counted(), 3)
    assert len(order) == len(Order(20, rows=6)) == 4
    epoch = [order.rows(step) for step in range(4)]
    for batch in epoch:
        assert len(set(batch.tolist())) == 6
        images = [rows[int(i)] for i in batch]
        assert sorted(images.count(image) for image in set(images)) == [3, 3]
    seen = {rows[int(i)] for batch in epoch for i in batch}
    assert len(seen) == 8  # of 20, and others in the next epoch
    assert seen != {rows[int(i)] for step in range(4, 8) for i in order.rows(step)}
    first, second = philox(AUGMENT, 0, 0, int(epoch[0][0])), philox(AUGMENT, 0, 0, int(epoch[0][1]))
    assert rows[int(epoch[0][0])] == rows[int(epoch[0][1])]
    assert uniform_samples(first, 1) != uniform_samples(second, 1)
    assert (len(rows), rows.where(59)) == (60, "row 19")
    with pytest.raises(IndexError):
        rows[60]
    with pytest.raises(InputError, match="7 rows, 3 copies"):
        RepeatedOrder(20, rows=7, copies=3)


# -------------------------------------------------------------------------------------------------------- frequencies


@pytest.mark.parametrize("size", [(8, 8), (7, 12), (1, 1)])
def test_both_parts_are_the_image(size: tuple[int, int]) -> None:
    images = torch.randn(2, 3, *size, dtype=torch.float64)
    for radius in (0, 1.5, 3, 99):
        torch.testing.assert_close(low_pass(images, radius) + high_pass(images, radius), images, rtol=0, atol=1e-12)
        torch.testing.assert_close(low_pass(low_pass(images, radius), radius), low_pass(images, radius))
    torch.testing.assert_close(low_pass(images, 0), images.mean((-2, -1), keepdim=True).expand_as(images))
    torch.testing.assert_close(low_pass(images, 99), images)


def test_a_wave_is_in_one_part() -> None:
    wave = torch.cos(2 * torch.pi * 3 * torch.arange(16).double() / 16).expand(1, 16, 16)  # 3 waves over the image
    torch.testing.assert_close(low_pass(wave, 3), wave)
    torch.testing.assert_close(high_pass(wave, 2.9), wave)
    assert int(power_spectrum(wave)[0].argmax()) == 3
    count = torch.bincount(frequency_distances(16, 16, torch.device("cpu")).round().long().flatten())
    noise = torch.randn(1, 16, 16).double()
    torch.testing.assert_close((power_spectrum(noise)[0] * count).sum() / 256, noise.square().sum())
