"""ViT and DeiT: what only these papers claim, and timm's folders of both."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

import regard
from regard.errors import CheckpointError, InputError
from regard.folders import export, save
from regard.interop.timm_vit import SIZES, TWO_TOKENS
from regard.model import Model
from regard.models import vit
from regard.models.deit import Config, DeiT
from regard.models.vit import ViT
from regard.nn.positions import interpolate
from tests.contracts.tools import close, numbers, stirred

SMALL = Config(image=12, patch=4, dim=16, depth=2, heads=2, hidden=24, classes=3)
PLAIN = vit.Config(image=12, patch=4, dim=16, depth=2, heads=2, hidden=24, classes=3)


def test_patches_are_unfolded_and_multiplied() -> None:
    net, images = stirred(ViT(PLAIN)), numbers(2, 3, 12, 12)
    cut = F.unfold(images, 4, stride=4).mT  # (b, 9, 3 * 4 * 4): channel, row, column
    wanted = cut @ net.patch.projection.weight.flatten(1).T + net.patch.projection.bias
    close(net.patch(images).flatten(1, 2), wanted)


@pytest.mark.parametrize(("kind", "config", "special"), [(ViT, PLAIN, 1), (DeiT, SMALL, 2)])
def test_moved_patches_and_positions_are_the_same_image(kind: type, config: object, special: int) -> None:
    net, order = stirred(kind(config)).eval(), torch.randperm(9)
    images = numbers(2, 3, 12, 12)
    patches = images.unfold(2, 4, 4).unfold(3, 4, 4).flatten(2, 3)[:, :, order]  # (b, 3, 9, 4, 4)
    moved = patches.unflatten(2, (3, 3)).permute(0, 1, 2, 4, 3, 5).reshape(2, 3, 12, 12)
    wanted = net(images)
    assert not torch.allclose(net(moved), wanted)
    with torch.no_grad():
        net.positions.copy_(torch.cat((net.positions[:, :special], net.positions[:, special:][:, order]), 1))
    close(net(moved), wanted)


def test_the_two_tokens_read_the_same_patches() -> None:
    """The whole net by its equations: [class; distillation; patches] + positions, pre-norm blocks, a head each."""
    net, images = stirred(DeiT(SMALL)).eval(), numbers(2, 3, 12, 12)
    tokens = (net.class_token.expand(2, 1, 16), net.distillation_token.expand(2, 1, 16))
    x = torch.cat((*tokens, net.patch(images).flatten(1, 2)), 1) + net.positions
    for block in net.blocks:
        y = block.mixer_residual.norm(x)
        q, k, v = (F.linear(y, m.weight, m.bias) for m in (block.mixer.q, block.mixer.k, block.mixer.v))
        q, k, v = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in (q, k, v))
        seen = (q @ k.mT / 8**0.5).softmax(-1) @ v
        x = x + block.mixer.out(seen.transpose(1, 2).flatten(2))
        x = x + block.ffn(block.ffn_residual.norm(x))
    x = net.norm(x)
    said = net.answers(images)
    close(said.label, net.head(x[:, 0]))
    close(said.teacher, net.teacher_head(x[:, 1]))
    close(net(images), (said.label + said.teacher) / 2)


def test_each_head_teaches_its_token() -> None:
    net, images = stirred(DeiT(SMALL)).eval(), numbers(2, 3, 12, 12)
    both = (net.class_token, net.distillation_token)
    last = net.norm.weight
    for part, own in (("label", net.head), ("teacher", net.teacher_head)):
        loss = getattr(net.answers(images), part).square().sum()
        slopes = torch.autograd.grad(loss, (*both, last, own.weight))
        assert all(bool(slope.any()) for slope in slopes)
        other = net.teacher_head if part == "label" else net.head
        loss = getattr(net.answers(images), part).square().sum()
        (slope,) = torch.autograd.grad(loss, other.weight, allow_unused=True)
        assert slope is None


def test_one_head_and_none() -> None:
    one, images = DeiT(replace(SMALL, pool="class")).eval(), torch.randn(2, 3, 12, 12)
    assert torch.equal(one(images), one.head(one.features(images)[:, 0]))
    with pytest.raises(ValueError, match="requires a model with two heads, got 1"):
        one.answers(images)
    bare = DeiT(replace(SMALL, classes=0)).eval()
    torch.testing.assert_close(bare(images), bare.features(images)[:, :2].mean(1))


@pytest.mark.parametrize(("kind", "config", "special"), [(ViT, PLAIN, 1), (DeiT, SMALL, 2)])
def test_at_another_size_only_the_grid_is_interpolated(kind: type, config: object, special: int) -> None:
    net = stirred(kind(config)).eval()
    table = interpolate(net.positions, (3, 3), (5, 4))
    assert torch.equal(table[:, :special], net.positions[:, :special])
    assert table.shape == (1, special + 20, 16)
    assert interpolate(net.positions, (3, 3), (3, 3)) is net.positions
    assert net(numbers(2, 3, 20, 16)).shape == (2, 3)
    assert net.axes(numbers(2, 3, 20, 16))["patches"].grid == (5, 4)


def test_it_can_be_looked_at() -> None:
    model, images = Model("deit", stirred(DeiT(SMALL)).eval()), numbers(2, 3, 12, 12)
    looked = model(images, look="blocks.*.mixer")
    found = looked.maps["blocks.1.mixer"]
    assert found.weights.shape == (2, 2, 11, 11)
    assert found.rows == found.columns
    assert (found.rows.special, found.rows.grid) == (2, (3, 3))


def test_without_memory_and_in_half_precision() -> None:
    with torch.device("meta"):
        net = DeiT(SMALL)
    assert net(torch.empty(2, 3, 12, 12, device="meta")).shape == (2, 3)
    with torch.autocast("cpu", torch.bfloat16):
        assert DeiT(SMALL)(torch.randn(2, 3, 12, 12)).isfinite().all()


# ----------------------------------------------------------------------------------------------------- timm's folders


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    net = DeiT(replace(SMALL, dropout=0.25, drop_path=0.1)).eval()
    save(Model("deit", net, labels=("a", "b", "c")), tmp_path / "ours")
    export(tmp_path / "ours", tmp_path / "theirs", to="timm")
    return tmp_path / "theirs"


def test_there_and_back(folder: Path) -> None:
    said = json.loads((folder / "config.json").read_text())
    assert said["architecture"] in TWO_TOKENS
    assert said["label_names"] == ["a", "b", "c"]
    ours, back = regard.load(folder.parent / "ours"), regard.load(folder)
    assert ours.config == back.config
    assert back.labels == ("a", "b", "c")
    for name, x in ours.state_dict().items():
        assert torch.equal(x, back.state_dict()[name]), name


@pytest.mark.parametrize(
    "changes", [{}, {"pool": "mean"}, {"classes": 0}, {"qkv_bias": False, "hidden": 37}, {"dropout": 0.1, "image": 16}]
)
def test_a_vit_of_any_size_goes_out(changes: dict[str, object], tmp_path: Path) -> None:
    net = ViT(replace(PLAIN, **changes)).eval()
    export(Model("vit", net), tmp_path, to="timm")
    back = regard.load(tmp_path)
    assert back.config == net.config
    images = torch.randn(2, 3, net.config.image, net.config.image)
    assert torch.equal(back.net(images), net(images))


def test_what_timm_cannot_say(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be exported(.|\n)*representation = 24"):
        export(Model("vit", ViT(replace(PLAIN, representation=24))), tmp_path / "a", to="timm")
    with pytest.raises(InputError, match=r"a gpt model cannot be exported to this format(.|\n)*vit"):
        export(regard.build("gpt-tiny"), tmp_path / "b", to="timm")
    with pytest.raises(InputError, match="hf or timm"):
        export(regard.build("gpt-tiny"), tmp_path / "b", to="onnx")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"architecture": "deit3_small_patch16_224"}, "model_type = 'timm deit3'"),
        ({"architecture": "deit_huge_distilled_patch16_224"}, "architecture = 'deit_huge_distilled_patch16_224'"),
        ({"global_pool": "map"}, "global_pool = 'map'"),
        ({"num_classes": -1}, "num_classes = -1 must be at least 0"),
        ({"model_args": {"reg_tokens": 4}}, "model_args: reg_tokens = 4 is not supported, expected 0"),
        ({"model_args": {"init_values": 1e-5}}, "init_values = 1e-05 is not supported"),
        ({"model_args": {"mlp_ratio": "wide"}}, "mlp_ratio = 'wide' is not a ratio that gives at least 1 hidden unit"),
        ({"model_args": {"proj_drop_rate": 0.1}}, "pos_drop_rate = 0.0 is not supported, expected 0.1"),
        ({"model_args": {"nonsense": 1}}, "nonsense"),
        ({"model_args": {"depth": 10**9}}, "more layers than the checkpoint has tensors"),
        ({"model_args": {"num_heads": 7, "embed_dim": 16}}, "embed_dim = 16 is not a multiple of num_heads = 7"),
    ],
)
def test_what_is_not_understood_is_refused(folder: Path, changes: dict[str, object], problem: str) -> None:
    said = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(said | changes))
    with pytest.raises(CheckpointError) as caught:
        regard.load(folder)
    assert problem in str(caught.value)


def test_a_mean_after_their_own_norm_is_refused(tmp_path: Path) -> None:
    """There a mean over patches has its norm behind it unless told otherwise."""
    export(Model("vit", ViT(replace(PLAIN, pool="mean"))), tmp_path, to="timm")
    said = json.loads((tmp_path / "config.json").read_text())
    del said["model_args"]["fc_norm"]
    (tmp_path / "config.json").write_text(json.dumps(said))
    with pytest.raises(CheckpointError, match="fc_norm = None is not supported, expected False"):
        regard.load(tmp_path)


def test_a_missing_an_extra_and_a_misshapen_tensor(folder: Path) -> None:
    state = load_file(folder / "model.safetensors")
    state["reg_token"] = torch.zeros(1, 4, 16)
    state["blocks.1.attn.qkv.weight"] = torch.zeros(32, 16)
    del state["head_dist.bias"]
    save_file(state, folder / "model.safetensors")
    with pytest.raises(CheckpointError) as caught:
        regard.load(folder)
    for told in ("reg_token (1, 4, 16)", "blocks.1.attn.qkv.weight (32, 16), expected (48, 16)", "head_dist.bias"):
        assert told in str(caught.value)


def test_their_named_sizes() -> None:
    assert len(SIZES) == 18 + 1 + 4
    assert len(TWO_TOKENS) == 4
    assert SIZES["vit_base_patch16_224"] == vit.PRESETS["vit-base"]
    assert SIZES["vit_huge_patch14_224"] == vit.PRESETS["vit-huge"]
    assert SIZES["deit_base_patch16_384"] == replace(vit.PRESETS["vit-base"], image=384)
