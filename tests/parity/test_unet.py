"""The U-Net agrees with diffusers' UNet2DConditionModel and UNet2DModel in outputs, gradients and attention maps."""

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.errors import CheckpointError, InputError
from regard.interop import diffusers_config, unet
from regard.interop.equivalents import unchanged
from regard.interop.exporting import lost_settings
from regard.interop.foreign import ForeignConfig
from regard.interop.rules import export
from regard.models.unet import PRESETS, Config, UNet
from regard.nn.inference import prepare_net
from regard.nn.tap import capture
from tests.parity.diffusers_twins import (
    CONDITIONED,
    FORMATS,
    WORDS,
    DiffusersTwin,
    diffusers,
    imported,
    reference_maps,
    rows,  # noqa: F401
    saved,
    twin_of,
    without_version,
)
from tests.parity.ours import assert_close, cotangent

TWO: dict[str, Any] = {
    "block_out_channels": (8, 16, 16),
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
    "attention_head_dim": (1, 2, 4),
    "use_linear_projection": True,
    "upcast_attention": True,
    "norm_num_groups": 4,
}
PLAIN: dict[str, Any] = {
    "sample_size": 8,
    "block_out_channels": (8, 16),
    "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
    "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
    "layers_per_block": 1,
    "attention_head_dim": None,
    "norm_num_groups": 4,
}
DDPM = {"freq_shift": 1, "flip_sin_to_cos": False, "downsample_padding": 0, "norm_eps": 1e-6}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "sd1": (unet.KIND, CONDITIONED),
    "sd2": (unet.KIND, CONDITIONED | TWO),
    "inpainting": (
        unet.KIND,
        CONDITIONED | {"in_channels": 9, "layers_per_block": 2, "act_fn": "gelu", "freq_shift": 1},
    ),
    "ddpm": (unet.PLAIN, PLAIN | DDPM),
    "plain heads": (unet.PLAIN, PLAIN | {"attention_head_dim": 4, "layers_per_block": 2, "in_channels": 1}),
}
SIZES = [(8, 8), (7, 10), (5, 3)]  # those of odd sides are rounded up, and found again


@pytest.fixture(scope="module", params=CASES)
def twin(request: pytest.FixtureRequest) -> DiffusersTwin:
    return twin_of(*CASES[request.param])


@pytest.fixture(scope="module")
def sd1() -> DiffusersTwin:
    return twin_of(*CASES["sd1"])


def given(twin: DiffusersTwin, size: tuple[int, int] = (8, 8), batch: int = 2) -> list[Tensor]:
    noisy = torch.randn(batch, twin.ours.config.channels, *size, dtype=torch.float64)
    times = torch.tensor([3, 977, 0])[:batch]
    return [noisy, times, *([torch.randn(batch, 5, WORDS, dtype=torch.float64)] if twin.kind == unet.KIND else [])]


def ran(twin: DiffusersTwin, inputs: list[Tensor]) -> tuple[Tensor, Tensor]:
    theirs: Tensor = twin.theirs(*inputs).sample
    return twin.ours(*inputs), theirs


@pytest.mark.parametrize("size", SIZES, ids="{0[0]}x{0[1]}".format)
def test_outputs_and_maps(twin: DiffusersTwin, size: tuple[int, int]) -> None:
    if twin.kind == unet.PLAIN and size != (8, 8):
        size = (8, 12)  # theirs takes no other
    inputs = given(twin, size)
    with torch.no_grad(), reference_maps(twin) as theirs:
        ours, wanted = ran(twin, inputs)
    with torch.no_grad(), capture(twin.ours) as seen:
        looked = twin.ours(*inputs)
    assert_close({"fast": ours, "looking": looked}, {"fast": wanted, "looking": wanted}, exact=True)
    maps = {name.removesuffix(".weights"): one for name, (one,) in seen.items()}
    assert len(maps) > 2
    assert_close(maps, theirs, exact=True)


def test_gradients(twin: DiffusersTwin) -> None:
    """Of the image, of the text, and of all weights."""
    inputs = given(twin)
    floats = [x.requires_grad_() for x in inputs if x.is_floating_point()]
    found = []
    for net, output in zip((twin.ours, twin.theirs), ran(twin, inputs), strict=True):
        parameters = dict(net.named_parameters())
        slopes = torch.autograd.grad((output * cotangent("noise", output)).sum(), [*floats, *parameters.values()])
        entered = {f"input {i}": x for i, x in enumerate(slopes[: len(floats)])}
        found.append((entered, dict(zip(parameters, slopes[len(floats) :], strict=True))))
    (entered, own), (wanted, theirs) = found
    assert_close(entered, wanted, exact=True)
    assert_close(own, twin.renamed(theirs), exact=True)


def test_tokens_that_are_padding(sd1: DiffusersTwin) -> None:
    """As theirs with its mask, and whatever stands there."""
    noisy, time, context = given(sd1)
    keys = torch.tensor([[True, True, True, False, False], [True] * 5])
    theirs = sd1.theirs(noisy, time, context, encoder_attention_mask=keys).sample
    ours = sd1.ours(noisy, time, context, keys=keys)
    nothing = context.masked_fill(~keys[..., None], torch.nan)
    found = {"masked": ours, "garbage": sd1.ours(noisy, time, nothing, keys=keys)}
    assert_close(found, dict.fromkeys(found, theirs), exact=True)
    alone = sd1.ours(noisy[:1], time[:1], context[:1, :3])
    assert_close({"alone": ours[:1]}, {"alone": alone}, exact=True)


def test_rows_do_not_know_of_each_other(twin: DiffusersTwin) -> None:
    inputs = given(twin, batch=3)
    many = twin.ours(*inputs)
    one = torch.cat([twin.ours(*(x[i : i + 1] for x in inputs)) for i in range(3)])
    assert_close({"one": one}, {"one": many}, exact=True)
    inputs[0][1] = torch.nan
    assert torch.equal(twin.ours(*inputs)[::2], many[::2])


def test_prepared(twin: DiffusersTwin) -> None:
    inputs = given(twin)
    assert_close({"noise": prepare_net(twin.ours)(*inputs)}, {"noise": twin.theirs(*inputs).sample}, exact=True)


def test_import_and_export(twin: DiffusersTwin, tmp_path: Path, rows: None) -> None:  # noqa: F811
    """Every tensor comes back, and every key that they wrote; they load what we write, and it is the same net."""
    state, row = twin.theirs.state_dict(), FORMATS[twin.kind]
    found = imported(twin.data, state)
    assert found.config == twin.ours.config
    back = export(found.state, row.rules(found.config, None))
    assert back.keys() == state.keys()
    assert all(torch.equal(x, state[name]) for name, x in back.items())
    data = row.export_config(found.config)
    kind = getattr(diffusers, twin.kind)
    folder = saved(data, back, tmp_path / "out")
    theirs = kind.from_pretrained(folder, torch_dtype=torch.float64).eval()
    told, wanted = without_version(theirs.config), without_version(twin.theirs.config)
    precision = ("upcast_attention",)
    assert {key: x for key, x in told.items() if key not in precision} == {
        key: list(x) if isinstance(x, tuple) else x for key, x in wanted.items() if key not in precision
    }
    inputs = given(twin)
    assert torch.equal(theirs(*inputs).sample, twin.theirs(*inputs).sample)
    assert lost_settings(row, unchanged(found.config, found.state)) == {}


def test_tensors_are_refused_by_name(sd1: DiffusersTwin, rows: None) -> None:  # noqa: F811
    state = dict(sd1.theirs.state_dict())
    for name in ("mid_block.resnets.1.conv2.bias", "up_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k.weight"):
        with pytest.raises(CheckpointError, match=rf"missing:\s+{name}"):
            imported(sd1.data, {key: x for key, x in state.items() if key != name})
        with pytest.raises(CheckpointError, match=rf"of the wrong shape:\s+{name}"):
            imported(sd1.data, state | {name: state[name][1:]})
    with pytest.raises(CheckpointError, match=r"add_embedding\.linear_1\.weight"):
        imported(sd1.data, state | {"add_embedding.linear_1.weight": torch.zeros(2, 2)})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"addition_embed_type": "text_time"}, "addition_embed_type = 'text_time' is not supported, expected None"),
        ({"class_embed_type": "timestep"}, "class_embed_type = 'timestep' is not supported"),
        ({"num_class_embeds": 7}, "num_class_embeds = 7 is not supported"),
        ({"transformer_layers_per_block": [1, 2]}, r"transformer_layers_per_block = \[1, 2\] is not supported"),
        ({"down_block_types": ["SimpleCrossAttnDownBlock2D", "DownBlock2D"]}, "SimpleCrossAttnDownBlock2D"),
        ({"up_block_types": ["CrossAttnUpBlock2D"] * 2}, "up_block_types must have attention at the levels"),
        ({"block_out_channels": [16, 24]}, "24 is not a multiple of the first"),
        ({"resnet_time_scale_shift": "scale_shift"}, "resnet_time_scale_shift = 'scale_shift' is not supported"),
        ({"act_fn": "mish"}, "act_fn = 'mish' is not supported"),
        ({"downsample_padding": 2}, "downsample_padding = 2 is not supported"),
        ({"attention_head_dim": [2, 2, 2]}, "attention_head_dim"),
        ({"rope": True}, "unknown key 'rope'"),
    ],
)
def test_keys_are_refused_by_name(
    sd1: DiffusersTwin,
    changes: dict[str, Any],
    words: str,
    rows: None,  # noqa: F811
) -> None:
    with pytest.raises(CheckpointError, match=words):
        imported(sd1.data | changes, sd1.theirs.state_dict())


def test_older_names_of_a_plain_net(rows: None) -> None:  # noqa: F811
    twin = twin_of(*CASES["ddpm"])
    state = {}
    for name, x in twin.theirs.state_dict().items():
        for new, old in unet.OLD.items():
            name = name.replace(f".{new}.", f".{old}.")
        state[name] = x
    found = imported(twin.data, state)
    assert_close(found.state, dict(twin.ours.state_dict()), exact=True)


def test_an_absent_key_is_what_their_class_assumes() -> None:
    """Not our default: of SD 1, whose file does not say the width of the text."""
    for kind, table in ((unet.KIND, diffusers_config.CONDITIONED), (unet.PLAIN, diffusers_config.UNCONDITIONED)):
        taken = inspect.signature(getattr(diffusers, kind).__init__).parameters
        known = {key: x.default for key, x in taken.items() if x.default is not inspect.Parameter.empty}
        assert table == {key: list(x) if isinstance(x, tuple) else x for key, x in known.items()}
    foreign = ForeignConfig({"_class_name": unet.KIND})
    assert unet.config(foreign) == Config(context=1280)
    assert foreign.finish() == []


SHARED = {"act_fn": "silu", "center_input_sample": False, "layers_per_block": 2, "mid_block_scale_factor": 1}
SHARED |= {"norm_num_groups": 32, "_diffusers_version": "0.6.0"}
STABLE = SHARED | {
    "_class_name": unet.KIND,
    "block_out_channels": [320, 640, 1280, 1280],
    "down_block_types": ["CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"],
    "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"],
    "downsample_padding": 1,
    "flip_sin_to_cos": True,
    "freq_shift": 0,
    "in_channels": 4,
    "norm_eps": 1e-05,
    "out_channels": 4,
}
PUBLISHED: dict[str, dict[str, Any]] = {
    "unet-sd1": STABLE | {"attention_head_dim": 8, "cross_attention_dim": 768, "sample_size": 64},
    "unet-sd2": STABLE
    | {"attention_head_dim": [5, 10, 20, 20], "cross_attention_dim": 1024, "sample_size": 96}
    | {"dual_cross_attention": False, "only_cross_attention": False, "num_class_embeds": None}
    | {"upcast_attention": True, "use_linear_projection": True},
    "unet-ddpm-cifar": SHARED
    | {"_class_name": unet.PLAIN, "attention_head_dim": None, "block_out_channels": [128, 256, 256, 256]}
    | {"down_block_types": ["DownBlock2D", "AttnDownBlock2D", "DownBlock2D", "DownBlock2D"]}
    | {"up_block_types": ["UpBlock2D", "UpBlock2D", "AttnUpBlock2D", "UpBlock2D"], "downsample_padding": 0}
    | {"flip_sin_to_cos": False, "freq_shift": 1, "in_channels": 3, "out_channels": 3, "norm_eps": 1e-06}
    | {"sample_size": 32, "time_embedding_type": "positional"},
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_files(name: str) -> None:
    """What the files of the published weights say is the preset, and is written as they say it."""
    data = PUBLISHED[name]
    row, foreign = FORMATS[data["_class_name"]], ForeignConfig(data)
    assert row.config(foreign) == PRESETS[name]
    assert foreign.finish() == []
    written = row.export_config(PRESETS[name])
    usual = ("upcast_attention", "_diffusers_version", "time_embedding_type", "num_class_embeds")
    usual += ("dual_cross_attention", "only_cross_attention")
    assert {key: x for key, x in data.items() if written.get(key, x) != x or key not in {*written, *usual}} == {}


@pytest.mark.parametrize(
    ("name", "count"),
    [("unet-sd1", 859_520_964), ("unet-sd2", 865_910_724), ("unet-ddpm-cifar", 35_746_307)],
)
def test_published_counts(name: str, count: int) -> None:
    with torch.device("meta"):
        assert sum(x.numel() for x in UNet(PRESETS[name]).parameters()) == count


def test_what_theirs_cannot_say_is_refused() -> None:
    with pytest.raises(InputError, match="does not exist in diffusers"):
        unet.export_config(Config(activation="tanh"))
    with pytest.raises(InputError, match="one width for all heads"):
        unet.export_plain(Config(context=0, heads=2))
    with pytest.raises(InputError, match="without a context"):
        unet.export_config(Config(context=0))
