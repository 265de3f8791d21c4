"""CaiT: what only this paper claims, and timm's folders."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import regard
from regard.errors import CheckpointError, InputError
from regard.folders import export
from regard.interop.cait import SIZES
from regard.model import Model
from regard.models import vit
from regard.models.cait import PRESETS, CaiT, Config, first_scale
from regard.nn.attention import MultiHeadAttention
from regard.nn.classattention import ClassBlock
from regard.nn.feedforward import FeedForward
from regard.nn.tap import capture
from tests.contracts.tools import Largest, close, numbers, stirred

SMALL = Config(image=12, patch=4, dim=16, depth=2, heads=2, hidden=24, classes=3)


def test_with_silent_changes_it_is_a_plain_pre_norm_transformer() -> None:
    """Factors of 1 and heads that do not talk: the patches go through the blocks of a ViT."""
    net = stirred(CaiT(SMALL)).eval()
    plain = vit.ViT(vit.Config(image=12, patch=4, dim=16, depth=2, heads=2, hidden=24, classes=3, pool="mean"))
    plain = plain.double().eval()
    with torch.no_grad():
        for block in net.blocks:
            block.mixer_residual.branch.scale.fill_(1.0)
            block.ffn_residual.branch.scale.fill_(1.0)
            for exchange in (block.mixer.kernel.before, block.mixer.kernel.after):
                exchange.weight.copy_(torch.eye(2))
                exchange.bias.zero_()
    mine, theirs = net.state_dict(), plain.state_dict()
    plain.load_state_dict(
        {name: mine[name] if name in mine and "head" not in name else theirs[name] for name in theirs}
    )
    images = numbers(2, 3, 12, 12)
    close(net.features(images)[:, 1:], plain.features(images))


def test_class_attention_is_the_class_row_of_full_attention() -> None:
    attention = MultiHeadAttention(16, 2)
    block = stirred(ClassBlock(attention, FeedForward(16, 24), 16, 1e-6, scale=0.5)).eval()
    token, patches = numbers(3, 1, 16), numbers(3, 7, 16)
    both = torch.cat((token, patches), 1)
    row = attention(block.norm(both))[:, :1]  # all look at all
    wanted = token + block.branch.scale * row
    wanted = wanted + block.ffn_residual.branch.scale * block.ffn(block.ffn_residual.norm(wanted))
    close(block(token, patches), wanted)


def test_its_cost_is_linear_in_the_patches() -> None:
    block, held = ClassBlock(MultiHeadAttention(16, 2), FeedForward(16, 24), 16, 1e-6).eval(), []
    for n in (512, 1024):
        with Largest() as largest, torch.no_grad():
            block(torch.randn(1, 1, 16), torch.randn(1, n, 16))
        held.append(largest.numel)
    assert held[1] <= 2.1 * held[0] < 1024 * 1024


def test_patches_are_the_same_for_both_looks_and_learn_through_them() -> None:
    net, images = stirred(CaiT(SMALL)).eval(), numbers(2, 3, 12, 12)
    given = []
    handles = [look.register_forward_pre_hook(lambda _, args: given.append(args[1])) for look in net.looks]
    net(images).sum().backward()
    for handle in handles:
        handle.remove()
    assert given[0] is given[1]
    assert net.blocks[0].mixer.q.weight.grad.any()
    assert net.positions.grad.any()


def test_the_class_token_has_no_position() -> None:
    assert CaiT(SMALL).positions.shape == (1, 9, 16)


@pytest.mark.parametrize(("depth", "scale"), [(1, 0.1), (18, 0.1), (19, 1e-5), (24, 1e-5), (25, 1e-6), (48, 1e-6)])
def test_factors_start_the_smaller_the_deeper(depth: int, scale: float) -> None:
    assert first_scale(depth) == scale
    with torch.device("meta"):
        net = CaiT(replace(SMALL, depth=depth))
    assert net.scale == scale


def test_the_scale_is_one_factor_for_each_feature() -> None:
    net, images = stirred(CaiT(SMALL)).eval(), numbers(2, 3, 12, 12)
    block, x = net.blocks[0], net.tokens(images)
    said = block.mixer(block.mixer_residual.norm(x))
    close(block.mixer_residual(x, block.mixer), x + block.mixer_residual.branch.scale * said)
    plain = CaiT(replace(SMALL, scaled=False))
    assert not any("scale" in name for name in plain.state_dict())


def test_stochastic_depth_is_the_same_in_every_layer() -> None:
    net = CaiT(replace(SMALL, depth=5, drop_path=0.2))
    assert {block.mixer_residual.branch.drop_path for block in net.blocks} == {0.2}
    assert {look.branch.drop_path for look in net.looks} == {0.0}


def test_where_the_class_token_looked() -> None:
    model, images = Model("cait", stirred(CaiT(SMALL)).eval()), numbers(2, 3, 12, 16)
    looked = model(images, look="looks.*.mixer")
    assert list(looked.maps) == ["looks.0.mixer", "looks.1.mixer"]
    found = looked.maps["looks.1.mixer"]
    assert found.weights.shape == (2, 2, 1, 13)
    close(found.weights.sum(-1), torch.ones(2, 2, 1).double())
    assert (found.columns.special, found.columns.grid) == (1, (3, 4))
    assert found.rows.kind == "class"
    assert model(images, look="blocks.0.mixer").maps["blocks.0.mixer"].rows.grid == (3, 4)
    net = model.net
    with capture(net, "looks.0.mixer.*") as seen:
        net(images)
    q, k = seen["looks.0.mixer.queries"][0], seen["looks.0.mixer.keys"][0]
    close(seen["looks.0.mixer.weights"][0], (q @ k.mT / 8**0.5).softmax(-1))


def test_looking_at_the_patches_leaves_the_class_attention_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, fused = [], F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *a, **b: calls.append(1) or fused(*a, **b))
    net, images = CaiT(SMALL).eval(), torch.randn(1, 3, 12, 12)
    with capture(net, "blocks.*.weights"):
        net(images)
    assert len(calls) == 2


def test_at_another_size_positions_are_interpolated() -> None:
    net = stirred(CaiT(SMALL)).eval()
    assert net(numbers(2, 3, 20, 16)).shape == (2, 3)
    with pytest.raises(ValueError, match="13 x 12 cannot be divided"):
        net(numbers(2, 3, 13, 12))


def test_without_memory_and_in_half_precision() -> None:
    with torch.device("meta"):
        net = CaiT(SMALL)
    assert net(torch.empty(2, 3, 12, 12, device="meta")).shape == (2, 3)
    with torch.autocast("cpu", torch.bfloat16):
        assert CaiT(SMALL)(torch.randn(2, 3, 12, 12)).isfinite().all()


# ----------------------------------------------------------------------------------------------------- timm's folders


@pytest.mark.parametrize(
    "changes", [{}, {"hidden": 64, "looks": 1}, {"dropout": 0.25, "drop_path": 0.1, "attention_dropout": 0.5}]
)
def test_there_and_back(changes: dict[str, object], tmp_path: Path) -> None:
    net = CaiT(replace(SMALL, **changes)).eval()
    export(Model("cait", net), tmp_path)
    back, images = regard.load(tmp_path), torch.randn(2, 3, 12, 12)
    assert back.config == net.config
    assert torch.equal(back.net(images), net(images))


@pytest.mark.parametrize("changes", [{"scaled": False}, {"attention": "softmax"}, {"eps": 1e-5}])
def test_what_timm_cannot_say(changes: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"cannot be exported(.|\n)*got: .*\b{next(iter(changes))} = "):
        export(Model("cait", CaiT(replace(SMALL, **changes))), tmp_path / "theirs")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"architecture": "cait_l24_224"}, "architecture = 'cait_l24_224'"),
        ({"model_args": {"mlp_ratio": 1.5}}, "mlp_ratio_token_only must be equal to mlp_ratio"),
        ({"model_args": {"global_pool": "avg"}}, "global_pool = 'avg'"),
        ({"model_args": {"pos_drop_rate": 0.1}}, "pos_drop_rate = 0.1 is not supported"),
        ({"model_args": {"depth_token_only": 10**7}}, "more layers than the checkpoint has tensors"),
        ({"model_args": {"nonsense": 1}}, "nonsense"),
    ],
)
def test_what_is_not_understood_is_refused(changes: dict[str, object], problem: str, tmp_path: Path) -> None:
    export(Model("cait", CaiT(SMALL)), tmp_path)
    said = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(said | changes))
    with pytest.raises(CheckpointError) as caught:
        regard.load(tmp_path)
    assert problem in str(caught.value)


def test_their_named_sizes() -> None:
    assert len(SIZES) == 10
    assert {name.split("_")[1] for name in SIZES} == {name.removeprefix("cait-") for name in PRESETS}
