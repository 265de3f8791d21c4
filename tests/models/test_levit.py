"""LeViT: what only this paper claims, batch norms that go away, and its folders."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import regard
from regard.building import prepare
from regard.errors import CheckpointError, InputError
from regard.folders import export
from regard.model import Model
from regard.models.levit import Config, LeViT, Looking
from regard.nn.attention import MultiHeadAttention
from regard.nn.batchnorm import BatchNorm
from regard.nn.positions import OffsetBias
from tests.contracts.tools import close, lived, numbers, stirred

SMALL = Config(image=64, classes=3, dim=(16, 24), depth=(2, 1), heads=(2, 3), head_dim=4, hidden=(32, 48))


@pytest.mark.parametrize("distilled", [True, False])
def test_prepared_has_no_norms_and_says_the_same(distilled: bool) -> None:
    net, images = lived(LeViT(replace(SMALL, distilled=distilled))), numbers(2, 3, 64, 64)
    twin = prepare(net)
    assert not any(isinstance(module, BatchNorm) for module in twin.modules())
    assert any(isinstance(module, BatchNorm) for module in net.modules())
    close(twin(images), net(images))
    fused = twin.stages[0].blocks[0].mixer.attention.fused
    assert fused is not None
    assert fused.bias is not None
    quick, plain = prepare(net.float()), net
    close(quick(images.float()), plain(images.float()), 1e-3)  # of numbers of up to 30


def test_the_layer_by_its_equations() -> None:
    """Offsets by their absolute value, an activation before the last projection, values twice as wide."""
    looking = lived(Looking(MultiHeadAttention(8, 2, head_dim=3, value_dim=6, biases=""), 2, 4))
    x = numbers(2, 4, 4, 8)
    tokens, attention, table = x.flatten(1, 2), looking.attention, looking.offsets.weight
    q, k = (getattr(attention, name)(tokens).unflatten(-1, (2, 3)) for name in "qk")
    v = attention.v(tokens).unflatten(-1, (2, 6))
    scores = torch.einsum("bihe,bjhe->bhij", q, k) / 3**0.5
    for i in range(16):
        for j in range(16):
            scores[:, :, i, j] += table[:, abs(i // 4 - j // 4) * 4 + abs(i % 4 - j % 4)]
    mixed = torch.einsum("bhij,bjhf->bihf", scores.softmax(-1), v).flatten(2)
    close(looking(x).flatten(1, 2), attention.out(F.hardswish(mixed)))


def test_a_mirrored_grid_has_the_mirrored_answer() -> None:
    """Nothing but the offsets tells a place, and these are the same on both sides."""
    looking, x = lived(Looking(MultiHeadAttention(8, 2, biases=""), 2, 5)), numbers(2, 5, 5, 8)
    for axis in (1, 2):
        close(looking(x.flip(axis)), looking(x).flip(axis))


def test_every_other_place_looks_at_all() -> None:
    attention = MultiHeadAttention(8, 2, head_dim=3, value_dim=12, biases="")
    looking = lived(Looking(attention, 2, 5, stride=2))
    bias = looking.offsets(5, 5, 2)
    assert bias.shape == (2, 9, 25)
    close(bias, looking.offsets(5, 5)[:, [0, 2, 4, 10, 12, 14, 20, 22, 24]])
    x = numbers(2, 5, 5, 8)
    assert looking(x).shape == (2, 3, 3, 8)
    slopes = torch.autograd.functional.jacobian(lambda x: looking(x[None])[0, 0, 0], x[0])
    assert (slopes.abs().amax((0, 3)) > 0).all()


def test_other_grids() -> None:
    """The table is stretched: no distance stays none, the farthest stays the farthest."""
    table = stirred(OffsetBias(2, 3, 3))
    wide = table(5, 7)
    assert wide.shape == (2, 35, 35)
    close(wide[:, 0, 0], table.weight[:, 0])
    close(wide[:, 0, -1], table.weight[:, -1])
    close(wide[:, 0, -1], wide[:, -1, 0])
    net = lived(LeViT(SMALL))
    for size in ((64, 64), (96, 48), (37, 65), (1, 1)):
        assert net(numbers(2, 3, *size)).isfinite().all()


def test_branches_say_nothing_at_first() -> None:
    net = LeViT(SMALL).eval()
    x = torch.randn(1, 4, 4, 16)
    close(net.stages[0](x), x)


def test_two_heads() -> None:
    net, images = lived(LeViT(SMALL)), numbers(2, 3, 64, 64)
    both = net.answers(images)
    close(net(images), (both.label + both.teacher) / 2)
    assert not torch.allclose(both.label, both.teacher)
    with pytest.raises(ValueError, match="no second head"):
        LeViT(replace(SMALL, distilled=False)).answers(images)
    alone = LeViT(replace(SMALL, classes=0)).eval()
    assert alone(torch.randn(1, 3, 64, 64)).shape == (1, 24)


def test_sizes_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="patch = 12 is not a power of 2"):
        replace(SMALL, patch=12, image=48)
    with pytest.raises(ValueError, match=r"dim = \[16, 24\], depth = \[2, 1\], heads = \[2\]"):
        replace(SMALL, heads=(2,))
    with pytest.raises(ValueError, match="cannot be halved 3 times"):
        LeViT(replace(SMALL, dim=(12, 24)))


@pytest.mark.parametrize("to", ["hf", "timm"])
@pytest.mark.parametrize("changes", [{}, {"distilled": False}, {"classes": 0}])
def test_folders_there_and_back(to: str, changes: dict[str, object], tmp_path: Path) -> None:
    config = replace(SMALL, **changes)
    net = lived(LeViT(config)).float()
    export(Model("levit", net), tmp_path / "theirs", to=to)
    back = regard.load(tmp_path / "theirs")
    assert back.config == config
    images = torch.randn(2, 3, 64, 64)
    close(back.net(images), net(images))


def test_what_their_formats_cannot_say(tmp_path: Path) -> None:
    for to, changes in (
        ("hf", {"patch": 8}),
        ("timm", {"patch": 8}),
        ("hf", {"hidden": (32, 50)}),
        ("timm", {"hidden": (32, 50)}),
    ):
        with pytest.raises(InputError, match="cannot be exported"):
            export(Model("levit", LeViT(replace(SMALL, **changes))), tmp_path / "theirs", to=to)


@pytest.mark.parametrize(
    ("to", "where", "key", "value"),
    [
        ("hf", None, "patch_size", 8),
        ("hf", None, "key_dim", [4, 8]),
        ("hf", None, "attention_ratio", [2, 4]),
        ("hf", None, "down_ops", [["Subsample", 4, 2, 4, 2, 2]]),
        ("hf", None, "down_ops", "none"),
        ("hf", None, "depths", [2]),
        ("timm", None, "architecture", "levit_conv_128s"),
        ("timm", "model_args", "use_conv", True),
        ("timm", "model_args", "act_layer", "silu"),
        ("timm", "model_args", "key_dim", "x"),
    ],
)
def test_what_is_not_understood_is_refused(to: str, where: str | None, key: str, value: object, tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    export(Model("levit", LeViT(SMALL)), folder, to=to)
    data = json.loads((folder / "config.json").read_text())
    (data if where is None else data[where])[key] = value
    (folder / "config.json").write_text(json.dumps(data))
    with pytest.raises(CheckpointError, match=key.removesuffix("s")):
        regard.load(folder)
