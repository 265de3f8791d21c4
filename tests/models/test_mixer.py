"""MLP-Mixer: what only this paper claims, and timm's folders."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import regard
from regard.errors import CheckpointError
from regard.folders import export
from regard.interop.mixer import SIZES, share
from regard.models.mixer import Config, MLPMixer
from tests.contracts.tools import close, numbers, stirred

SMALL = Config(image=12, patch=4, dim=10, depth=2, tokens=6, hidden=14, classes=3)


def test_the_layer_by_its_equations() -> None:
    """U^T = X^T + W2 act(W1 norm(X)^T), Y = U + W4 act(W3 norm(U))"""
    net, images = stirred(MLPMixer(SMALL)).eval(), numbers(2, 3, 12, 12)
    x = net.patch(images).flatten(1, 2)
    for block in net.blocks:
        mlp = block.mixer.mlp
        turned = block.mixer_residual.norm(x).transpose(1, 2)
        hidden = torch.nn.functional.gelu(turned @ mlp.up.weight.T + mlp.up.bias)
        u = x + (hidden @ mlp.down.weight.T + mlp.down.bias).transpose(1, 2)
        inner = torch.nn.functional.gelu(block.ffn_residual.norm(u) @ block.ffn.up.weight.T + block.ffn.up.bias)
        x = u + inner @ block.ffn.down.weight.T + block.ffn.down.bias
    close(net.features(images), net.norm(x))
    close(net(images), net.head(net.norm(x).mean(1)))


def test_moved_patches_need_moved_weights() -> None:
    """It knows places by its weights: with these moved along, a fixed order of patches is as good as any other."""
    net, images, order = stirred(MLPMixer(SMALL)).eval(), numbers(2, 3, 12, 12), torch.randperm(9)
    patches = images.unfold(2, 4, 4).unfold(3, 4, 4).flatten(2, 3)[:, :, order]  # (b, 3, 9, 4, 4)
    moved = patches.unflatten(2, (3, 3)).movedim(3, 4).movedim(4, 3).permute(0, 1, 2, 4, 3, 5).reshape(2, 3, 12, 12)
    wanted = net(images)
    assert not torch.allclose(net(moved), wanted)
    with torch.no_grad():
        for block in net.blocks:
            mlp = block.mixer.mlp
            mlp.up.weight.copy_(mlp.up.weight[:, order])
            mlp.down.weight.copy_(mlp.down.weight[order])
            mlp.down.bias.copy_(mlp.down.bias[order])
    close(net(moved), wanted)


def test_one_size_of_image_alone() -> None:
    net = MLPMixer(SMALL)
    for shape in ((3, 8, 8), (3, 16, 16), (1, 12, 12), (3, 12, 8)):
        with pytest.raises(ValueError, match="images of 3 x 12 x 12, got"):
            net(torch.zeros(1, *shape))


# ----------------------------------------------------------------------------------------------------- timm's folders


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Small enough to be here: one patch, few hidden units, no classes."""
    net = MLPMixer(
        Config(image=32, patch=32, channels=1, dim=512, depth=8, tokens=4, hidden=5, classes=2, dropout=0.25)
    ).eval()
    with torch.no_grad():
        for x in net.parameters():
            x.normal_(std=0.1)
    regard.save(regard.Model("mixer", net), tmp_path / "ours")
    export(tmp_path / "ours", tmp_path / "theirs")
    return tmp_path / "theirs"


def test_there_and_back(folder: Path) -> None:
    said = json.loads((folder / "config.json").read_text())
    assert said["architecture"] == "mixer_s32_224"
    assert said["model_args"].keys() == {"img_size", "in_chans", "mlp_ratio", "proj_drop_rate"}
    ours, back = regard.load(folder.parent / "ours"), regard.load(folder)
    assert ours.config == back.config
    for name, x in ours.state_dict().items():
        assert torch.equal(x, back.state_dict()[name]), name


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"architecture": "mixer_b16_224_gluon"}, "architecture = 'mixer_b16_224_gluon'"),
        ({"global_pool": "max"}, "global_pool = 'max'"),
        ({"stem": 3}, "stem"),
        ({"num_classes": "many"}, "num_classes = 'many'"),
        ({"model_args": 7}, "model_args = 7 is not a table"),
        ({"model_args": {"mlp_ratio": 4.0}}, "mlp_ratio = 4.0 is not a list of two ratios"),
        ({"model_args": {"drop_path_rate": 0.1}}, "drop_path_rate = 0.1 is not supported"),
        ({"model_args": {"nonsense": 1}}, "nonsense"),
        ({"model_args": {"num_blocks": 10**9}}, "more layers than the checkpoint has tensors"),
        ({"model_args": {"embed_dim": -4}}, "embed_dim = -4 must be at least 1"),
        ({"model_args": {"img_size": 33}}, "image = 33 is not a multiple of patch = 32"),
    ],
)
def test_what_is_not_understood_is_refused(folder: Path, changes: dict[str, object], problem: str) -> None:
    said = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(said | changes))
    with pytest.raises(CheckpointError) as caught:
        regard.load(folder)
    assert problem in str(caught.value)


def test_a_missing_an_extra_and_a_misshapen_tensor(folder: Path) -> None:
    state = load_file(folder / "model.safetensors")
    state["blocks.0.gate.weight"] = torch.zeros(2)
    state["blocks.1.mlp_tokens.fc1.weight"] = torch.zeros(4, 2)
    del state["head.bias"]
    save_file(state, folder / "model.safetensors")
    with pytest.raises(CheckpointError) as caught:
        regard.load(folder)
    for told in ("blocks.0.gate.weight (2,)", "blocks.1.mlp_tokens.fc1.weight (4, 2), expected (4, 1)", "head.bias"):
        assert told in str(caught.value)


@pytest.mark.parametrize("dim", [512, 768, 1024, 7, 49])
def test_a_share_gives_the_same_number_again(dim: int) -> None:
    assert all(int(share(hidden, dim) * dim) == hidden for hidden in range(1, 2000))


def test_their_named_sizes_are_those_of_the_paper() -> None:
    assert list(SIZES) == [f"mixer_{size}_224" for size in ("s32", "s16", "b32", "b16", "l32", "l16")]
