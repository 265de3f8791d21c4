"""The autoencoder agrees with diffusers' AutoencoderKL in distributions, images, gradients and attention maps."""

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.errors import CheckpointError
from regard.interop import autoencoder_kl, diffusers_config
from regard.interop.equivalents import unchanged
from regard.interop.exporting import lost_settings
from regard.interop.foreign import ForeignConfig
from regard.interop.rules import export
from regard.models.autoencoder import PRESETS, Autoencoder
from regard.nn.inference import prepare_net
from regard.nn.tap import capture
from tests.parity.diffusers_twins import (
    FORMATS,
    DiffusersTwin,
    diffusers,
    imported,
    levels,
    reference_maps,
    rows,  # noqa: F401
    saved,
    twin_of,
    without_version,
)
from tests.parity.ours import assert_close, cotangent

CASES: dict[str, dict[str, Any]] = {
    "sd": levels(8, 16, 16) | {"layers_per_block": 2},
    "later": levels(8, 16) | {"use_quant_conv": False, "use_post_quant_conv": False, "latent_channels": 6}
    | {"scaling_factor": 1.5305, "shift_factor": 0.0609, "in_channels": 1, "out_channels": 1},
    "one level": levels(8),
}  # fmt: skip


@pytest.fixture(scope="module", params=CASES)
def twin(request: pytest.FixtureRequest) -> DiffusersTwin:
    return twin_of(autoencoder_kl.KIND, CASES[request.param])


@pytest.fixture(scope="module")
def sd() -> DiffusersTwin:
    return twin_of(autoencoder_kl.KIND, CASES["sd"])


def pictures(twin: DiffusersTwin, height: int = 8, width: int = 8, batch: int = 2) -> Tensor:
    return torch.randn(batch, twin.ours.config.channels, height, width, dtype=torch.float64)


@pytest.mark.parametrize(("height", "width"), [(8, 8), (8, 12), (9, 15)])
def test_both_ways_and_maps(twin: DiffusersTwin, height: int, width: int) -> None:
    images = pictures(twin, height, width)
    with torch.no_grad(), reference_maps(twin) as theirs:
        wanted = twin.theirs.encode(images).latent_dist
        drawn = twin.theirs.decode(wanted.mode()).sample
    with torch.no_grad(), capture(twin.ours) as seen:
        looked = twin.ours(images)
    with torch.no_grad():
        said = twin.ours.encode(images)
        found = {"drawn": twin.ours(images), "looking": looked, "decoded": twin.ours.decode(said.mode())}
    assert_close({"mean": said.mean, "log variance": said.log_variance}, {
        "mean": wanted.mean, "log variance": wanted.logvar
    }, exact=True)  # fmt: skip
    assert_close(found, dict.fromkeys(found, drawn), exact=True)
    maps = {name.removesuffix(".weights"): one for name, (one,) in seen.items()}
    assert len(maps) == 2
    assert_close(maps, theirs, exact=True)
    noise = torch.randn_like(said.mean)
    spread = wanted.mean + wanted.std * noise
    assert_close({"sample": said.sample(noise)}, {"sample": spread}, exact=True)


@pytest.mark.parametrize(("moved", "bound"), [(1e6, 20.0), (-1e6, -30.0)])
def test_a_variance_beyond_all_bounds_is_held(moved: float, bound: float) -> None:
    twin = twin_of(autoencoder_kl.KIND, CASES["one level"])
    with torch.no_grad():
        for bias in (twin.ours.mix_out.bias, twin.theirs.quant_conv.bias):
            bias[4:] += moved
        images = pictures(twin)
        ours, theirs = twin.ours.encode(images).log_variance, twin.theirs.encode(images).latent_dist.logvar
    assert ours.unique().tolist() == theirs.unique().tolist() == [bound]


def test_gradients(twin: DiffusersTwin) -> None:
    """Of the image and of all weights, by the distribution and the image that comes back."""
    images, found = pictures(twin).requires_grad_(), []
    for net in (twin.ours, twin.theirs):
        parameters = dict(net.named_parameters())
        said = net.encode(images)
        said = said if net is twin.ours else said.latent_dist
        variance = said.log_variance if net is twin.ours else said.logvar
        drawn = net.decode(said.mode())
        drawn = drawn if net is twin.ours else drawn.sample
        total = sum((x * cotangent(name, x)).sum() for name, x in (("drawn", drawn), ("variance", variance)))
        entered, *slopes = torch.autograd.grad(total, [images, *parameters.values()])
        found.append(({"images": entered}, dict(zip(parameters, slopes, strict=True))))
    (entered, own), (wanted, theirs) = found
    assert_close(entered, wanted, exact=True)
    assert_close(own, twin.renamed(theirs), exact=True)


def test_rows_do_not_know_of_each_other(sd: DiffusersTwin) -> None:
    images = pictures(sd, batch=3)
    many, one = sd.ours(images), torch.cat([sd.ours(image[None]) for image in images])
    assert_close({"one": one}, {"one": many}, exact=True)
    images[1] = torch.nan
    assert torch.equal(sd.ours(images)[::2], many[::2])


def test_prepared(twin: DiffusersTwin) -> None:
    images = pictures(twin)
    assert_close({"drawn": prepare_net(twin.ours)(images)}, {"drawn": twin.theirs(images).sample}, exact=True)


def test_import_and_export(twin: DiffusersTwin, tmp_path: Path, rows: None) -> None:  # noqa: F811
    """Every tensor comes back, and every key that they wrote; they load what we write, and it is the same net."""
    state, row = twin.theirs.state_dict(), FORMATS[twin.kind]
    found = imported(twin.data, state)
    assert found.config == twin.ours.config
    back = export(found.state, row.rules(found.config, None))
    assert back.keys() == state.keys()
    assert all(torch.equal(x, state[name]) for name, x in back.items())
    folder = saved(row.export_config(found.config), back, tmp_path / "out")
    theirs = diffusers.AutoencoderKL.from_pretrained(folder, torch_dtype=torch.float64).eval()
    told, wanted = without_version(theirs.config), without_version(twin.theirs.config)
    assert told == {key: list(x) if isinstance(x, tuple) else x for key, x in wanted.items()}
    images = pictures(twin)
    assert torch.equal(theirs(images).sample, twin.theirs(images).sample)
    assert lost_settings(row, unchanged(found.config, found.state)) == {}


@pytest.mark.parametrize("convolutions", [False, True])
def test_older_names(sd: DiffusersTwin, convolutions: bool, rows: None) -> None:  # noqa: F811
    """Of Stable Diffusion 1, as matrices or as 1x1 convolutions."""
    state = {}
    for name, x in sd.theirs.state_dict().items():
        for new, old in autoencoder_kl.OLD.items():
            name = name.replace(f".{new}.", f".{old}.")
        matrix = ".attentions." in name and x.ndim == 2
        state[name] = x[:, :, None, None] if matrix and convolutions else x
    assert "encoder.mid_block.attentions.0.proj_attn.weight" in state
    assert_close(imported(sd.data, state).state, dict(sd.ours.state_dict()), exact=True)


def test_tensors_are_refused_by_name(sd: DiffusersTwin, rows: None) -> None:  # noqa: F811
    state = dict(sd.theirs.state_dict())
    for name in ("post_quant_conv.weight", "decoder.mid_block.attentions.0.to_out.0.bias"):
        with pytest.raises(CheckpointError, match=rf"missing:\s+{name}"):
            imported(sd.data, {key: x for key, x in state.items() if key != name})
        with pytest.raises(CheckpointError, match=rf"of the wrong shape:\s+{name}"):
            imported(sd.data, state | {name: state[name][1:]})
    with pytest.raises(CheckpointError, match=r"encoder\.extra\.weight"):
        imported(sd.data, state | {"encoder.extra.weight": torch.zeros(2)})
    with pytest.raises(CheckpointError, match=r"unexpected:\s+post_quant_conv\.bias"):
        imported(sd.data | {"use_quant_conv": False, "use_post_quant_conv": False}, state)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"use_quant_conv": False}, "use_post_quant_conv = True is not supported, expected False"),
        ({"latents_mean": [0.0] * 4}, "latents_mean = .* is not supported, expected None"),
        ({"mid_block_add_attention": False}, "mid_block_add_attention = False is not supported"),
        ({"out_channels": 1}, "out_channels = 1 is not supported, expected 3"),
        ({"act_fn": "gelu"}, "act_fn = 'gelu' is not supported, expected 'silu'"),
        ({"down_block_types": ["AttnDownEncoderBlock2D"] * 3}, "AttnDownEncoderBlock2D"),
        ({"up_block_types": ["UpDecoderBlock2D"]}, "must have the same length, got 3 and 1"),
        ({"scaling_factor": 0}, "scaling_factor = 0 must be greater than 0"),
        ({"tiles": 3}, "unknown key 'tiles'"),
    ],
)
def test_keys_are_refused_by_name(
    sd: DiffusersTwin,
    changes: dict[str, Any],
    words: str,
    rows: None,  # noqa: F811
) -> None:
    with pytest.raises(CheckpointError, match=words):
        imported(sd.data | changes, sd.theirs.state_dict())


def test_an_absent_key_is_what_their_class_assumes() -> None:
    taken = inspect.signature(diffusers.AutoencoderKL.__init__).parameters
    known = {key: x.default for key, x in taken.items() if x.default is not inspect.Parameter.empty}
    assert {key: list(x) if isinstance(x, tuple) else x for key, x in known.items()} == diffusers_config.AUTOENCODER
    foreign = ForeignConfig({"_class_name": autoencoder_kl.KIND})
    config = autoencoder_kl.config(foreign)
    assert foreign.finish() == []
    assert (config.image, config.dim, config.multipliers, config.depth) == (32, 64, (1,), 1)


def test_the_published_count() -> None:
    with torch.device("meta"):
        assert sum(x.numel() for x in Autoencoder(PRESETS["autoencoder-sd"]).parameters()) == 83_653_863
