"""Convolutional nets: how far they see, padding that changes nothing, and the non-local block."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard
from regard.errors import CheckpointError, InputError
from regard.folders import export, save
from regard.model import Model
from regard.models.resnet import PRESETS, Backbone, Config, ResNet, ResNetSizes
from regard.nn.attention import Softmax
from regard.nn.batchnorm import BatchNorm, FrozenBatchNorm
from regard.nn.convolution import Field, LayerWindow, real_pixels, receptive_field
from regard.nn.kernels.pairwise import MeanConcat, MeanDot
from regard.nn.mask import ALL, Mask
from regard.nn.mixers.non_local import NonLocal
from regard.nn.tap import capture
from tests.contracts.tools import Largest, close, numbers, ragged, stirred

SMALL = Config(width=4, stem="small", layer="basic", depths=(1, 2), dims=(6, 8), classes=3)
FORMS = ["gaussian", "embedded", "dot", "concat"]


# -------------------------------------------------------------------------------------------------- receptive field


@pytest.mark.parametrize("layers", range(1, 9))
def test_layers_of_three_by_three_see_two_more_each(layers: int) -> None:
    assert receptive_field([LayerWindow(3)] * layers) == Field(2 * layers + 1, 1)


@pytest.mark.parametrize(
    "windows",
    [
        [LayerWindow(3), LayerWindow(3, 2), LayerWindow(3), LayerWindow(2, 2), LayerWindow(5)],
        [LayerWindow(1, 2), LayerWindow(3)],
        [LayerWindow(3, 1, 2), LayerWindow(3, 2, 3), LayerWindow(1), LayerWindow(3)],
        [LayerWindow(7, 2), LayerWindow(3, 2), LayerWindow(3)],
    ],
)
def test_the_support_of_a_gradient_is_the_field(windows: list[LayerWindow]) -> None:
    """Of one unit, and of its neighbour: positive weights, no activation."""
    field = receptive_field(windows)
    x = torch.ones(1, 1, field.size + field.step, field.size + field.step, dtype=torch.float64, requires_grad=True)
    y = x
    for window in windows:
        weight = torch.rand(1, 1, window.kernel, window.kernel, dtype=torch.float64) + 0.1
        y = F.conv2d(y, weight, stride=window.stride, dilation=window.dilation)
    for i in range(2):
        (slopes,) = torch.autograd.grad(y[0, 0, i, i], x, retain_graph=True)
        for axis in (0, 1):
            assert reached(slopes[0], axis) == (i * field.step, i * field.step + field.size)


def reached(slopes: Tensor, axis: int) -> tuple[int, int]:
    """From the first that is seen to the one behind the last; with strides there may be holes."""
    places = (slopes != 0).any(0).any(1 - axis).nonzero()[:, 0]
    return int(places[0]), int(places[-1]) + 1


@pytest.mark.parametrize("layer", ["plain", "basic", "bottleneck"])
@pytest.mark.parametrize("halving", ["first", "middle"])
def test_a_net_sees_what_its_windows_say(layer: str, halving: str) -> None:
    config = replace(SMALL, layer=layer, halving=halving, depths=(1, 2, 1), dims=(4, 4, 8))
    net = positive(Backbone(config))
    field = receptive_field(net.windows())
    x = torch.ones(1, 3, 8 * field.size // 2, 8 * field.size // 2, dtype=torch.float64, requires_grad=True)
    y = net(x)
    middle = y.shape[-1] // 2
    y[0, :, middle, middle].sum().backward()
    assert x.grad is not None
    for axis in (0, 1):
        first, last = reached(x.grad[0], axis)
        assert last - first == field.size


def positive(net: Backbone) -> Backbone:
    """Weights above 0 let everything through every ReLU."""
    with torch.no_grad():
        for x in net.double().eval().parameters():
            x.copy_(x.abs() + 0.01 if x.ndim > 1 else torch.ones_like(x))
    for module in net.modules():
        if isinstance(module, BatchNorm):
            nn.init.zeros_(module.bias)
    return net


def test_published_fields() -> None:
    """ResNet-18 sees 435 pixels; ResNet-50 483 as in the paper, 427 as its weights are published."""
    sizes = {
        "resnet-18": 435,
        "resnet-50": 427,
    }
    for name, size in sizes.items():
        assert receptive_field(meta(PRESETS[name]).windows()) == Field(size, 32)
    assert receptive_field(meta(replace(PRESETS["resnet-50"], halving="first")).windows()).size == 483


def meta(config: Config) -> Backbone:
    with torch.device("meta"):
        return Backbone(config)


# -------------------------------------------------------------------------------------------------------------- norms


def test_batch_norm_is_torchs_own() -> None:
    ours, theirs, x = BatchNorm(5).double(), nn.BatchNorm2d(5).double(), numbers(4, 5, 3, 2)
    for _ in range(3):
        close(ours(x), theirs(x))
    close(ours.mean, theirs.running_mean)
    close(ours.variance, theirs.running_var)
    close(ours.eval()(x), theirs.eval()(x))


def test_a_frozen_norm_is_that_of_evaluation_and_never_learns() -> None:
    norm, frozen, x = stirred(BatchNorm(5)), FrozenBatchNorm(5).double(), numbers(4, 5, 3, 2)
    norm(x)
    frozen.load_state_dict(norm.state_dict())
    before = {name: value.clone() for name, value in frozen.state_dict().items()}
    close(frozen.train()(x), norm.eval()(x))
    assert not list(frozen.parameters())
    assert all(torch.equal(value, before[name]) for name, value in frozen.state_dict().items())


# ------------------------------------------------------------------------------------------------------------ padding


@pytest.mark.parametrize("stem", ["small", "large"])
@pytest.mark.parametrize("layer", ["plain", "basic", "bottleneck"])
def test_an_image_in_a_padded_batch_gets_the_numbers_that_it_gets_alone(stem: str, layer: str) -> None:
    config = replace(SMALL, stem=stem, layer=layer, depths=(1, 2, 1), dims=(4, 8, 8))
    net = Backbone(config, FrozenBatchNorm)
    stirred(net)
    for x in net.buffers():
        x.add_(torch.rand_like(x) * 0.5)
    sizes = torch.tensor([[23, 30], [16, 9], [1, 17], [24, 1]])
    images = torch.where(real_pixels(sizes, 24, 30)[:, None], numbers(4, 3, 24, 30), torch.nan)
    found = net(images, sizes)
    for i, (rows, columns) in enumerate(sizes.tolist()):
        alone = net(images[i : i + 1, :, :rows, :columns])[0]
        close(found[i][:, : alone.shape[1], : alone.shape[2]], alone)
        assert not found[i][:, alone.shape[1] :].any()
        assert not found[i][:, :, alone.shape[2] :].any()


def test_batch_norm_measures_no_padding() -> None:
    """Mean and variance are those of the real pixels, and gradients flow to them alone."""
    norm, x = BatchNorm(3).train(), numbers(2, 3, 4, 5).requires_grad_()
    norm.to(x.dtype)
    kept = real_pixels(torch.tensor([[4, 5], [2, 3]]), 4, 5)
    pixels = x.detach().movedim(1, -1)[kept]
    found = norm(x, kept)
    close(found.movedim(1, -1)[kept], (pixels - pixels.mean(0)) / (pixels.var(0, correction=0) + 1e-5).sqrt())
    close(norm.mean, 0.1 * pixels.mean(0))
    assert not found.movedim(1, -1)[~kept].any()
    found.square().sum().backward()
    assert x.grad is not None
    assert not x.grad.movedim(1, -1)[~kept].any()


def test_sizes_that_cannot_be_are_refused() -> None:
    net, images = Backbone(SMALL), torch.randn(2, 3, 8, 8)
    for wrong in ([[8, 8]], [[0, 8], [8, 8]], [[9, 8], [8, 8]]):
        with pytest.raises(ValueError, match="sizes"):
            net(images, torch.tensor(wrong))
    with pytest.raises(ValueError, match="expected 3 channels"):
        net(torch.zeros(1, 2, 8, 8))


# ---------------------------------------------------------------------------------------------------- non-local blocks


@pytest.mark.parametrize("form", FORMS)
def test_a_new_block_is_the_identity(form: str) -> None:
    block, x = NonLocal(6, form), torch.randn(2, 6, 3, 4)
    assert torch.equal(block.train()(x), x)
    assert torch.equal(block.eval()(x), x)


@pytest.mark.parametrize("form", FORMS)
def test_the_block_by_its_equation(form: str) -> None:
    """y_i = (1/C) sum_j f(x_i, x_j) g(x_j), z = norm(W y) + x, pixel by pixel"""
    block, x = stirred(NonLocal(6, form)).eval(), numbers(2, 6, 3, 4)
    pixels, attention = x.flatten(2).mT, block.attention
    theta, phi, g = attention.q(pixels), attention.k(pixels), attention.v(pixels)
    wanted = torch.zeros(2, 12, 6).double()
    for b in range(2):
        for i in range(12):
            if form == "concat":
                w = torch.cat((attention.kernel.queries, attention.kernel.keys), 1)[0, :, 0]
                f = torch.stack([(w @ torch.cat((theta[b, i], phi[b, j]))).relu() for j in range(12)])
            else:
                f = torch.stack([theta[b, i] @ phi[b, j] for j in range(12)])
            f = f.exp() if form in ("gaussian", "embedded") else f
            total = f.sum() if form in ("gaussian", "embedded") else 12
            wanted[b, i] = attention.out((f[:, None] * g[b]).sum(0) / total)
    close(block(x), x + block.norm(wanted.mT.unflatten(2, (3, 4))))


def test_embedded_gaussian_is_attention_without_a_scale() -> None:
    block, x = stirred(NonLocal(6)).eval(), numbers(2, 6, 3, 4)
    pixels, attention = x.flatten(2).mT, block.attention
    y = F.scaled_dot_product_attention(attention.q(pixels), attention.k(pixels), attention.v(pixels), scale=1.0)
    close(block(x), x + block.norm(attention.out(y).mT.unflatten(2, (3, 4))))


@pytest.mark.parametrize("grid", [(4, 6), (5, 3)])
def test_sub_sampling_takes_the_largest_of_each_square(grid: tuple[int, int]) -> None:
    block, x = stirred(NonLocal(6, pool=2)).eval(), numbers(2, 6, *grid)
    attention, pixels = block.attention, x.flatten(2).mT
    few = [
        F.max_pool2d(part(pixels).mT.unflatten(2, grid), 2, ceil_mode=True).flatten(2).mT
        for part in (attention.k, attention.v)
    ]
    y = F.scaled_dot_product_attention(attention.q(pixels), *few, scale=1.0)
    close(block(x), x + block.norm(attention.out(y).mT.unflatten(2, grid)))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("pool", [1, 2])
def test_padding_is_not_looked_at(form: str, pool: int) -> None:
    block, sizes = stirred(NonLocal(6, form, pool)).eval(), torch.tensor([[4, 5], [3, 2], [1, 1]])
    x = numbers(3, 6, 4, 5).masked_fill(~real_pixels(sizes, 4, 5)[:, None], 0.0)
    found = block(x, sizes)
    for i, (rows, columns) in enumerate(sizes.tolist()):
        close(found[i, :, :rows, :columns], block(x[i : i + 1, :, :rows, :columns])[0])


def test_looking_at_a_block() -> None:
    """The map of every pixel; when nobody looks, the fused kernel."""
    net = stirred(ResNet(replace(SMALL, nonlocals=(1, 2)))).eval()
    images = numbers(2, 3, 8, 6)
    with capture(net) as seen:
        looked = net(images)
    close(looked, net(images))
    assert {name: x[0].shape for name, x in seen.items()} == {
        "backbone.stages.0.non_local.attention.weights": (2, 1, 48, 48),
        "backbone.stages.1.non_local.attention.weights": (2, 1, 12, 12),
    }
    for (weights,) in seen.values():
        close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
    maps = Model("resnet", net)(images, look="*").maps
    assert sorted(maps) == ["backbone.stages.0.non_local.attention", "backbone.stages.1.non_local.attention"]


@pytest.mark.parametrize(
    "mask",
    [ALL, Mask(keys=ragged(2, 7, "right")), Mask(causal=True, start=2), Mask(pairs=torch.rand(2, 3, 5, 7) < 0.5)],
    ids=["all", "keys", "causal", "pairs"],
)
@pytest.mark.parametrize("kernel", [MeanDot(), MeanConcat(3, 4)], ids=["dot", "concat"])
def test_the_law(kernel: nn.Module, mask: Mask) -> None:
    kernel = stirred(kernel)
    q, k, v = numbers(2, 3, 5, 4), numbers(2, 3, 7, 4), numbers(2, 3, 7, 6)
    weights = kernel.weights(q, k, mask)
    close(kernel(q, k, v, mask), weights @ v)
    allowed = mask.dense(5, 7, q.device)
    assert allowed is None or not weights.masked_select(~allowed.expand_as(weights)).any()


def test_a_mean_of_products_never_forms_the_matrix() -> None:
    q, k, v = (torch.randn(1, 1, 512, 4) for _ in range(3))
    with Largest() as most:
        MeanDot()(q, k, v)
    assert most.numel < 512 * 512
    close(MeanDot()(q, k, v), MeanDot().weights(q, k) @ v, 1e-5)


def test_two_far_corners() -> None:
    """One pixel changes what another says only within the field; with a block, wherever it is."""
    plain = ResNet(replace(PRESETS["cnn-small"], width=4, dims=(4, 6, 8)))
    looking = ResNet(replace(PRESETS["cnn-small"], width=4, dims=(4, 6, 8), nonlocals=(3,)))
    for net, far in ((plain, False), (looking, True)):
        stirred(net).eval()
        images = numbers(1, 3, 64, 64, grad=True)
        net.features(images)[0, :, 0, 0].sum().backward()
        assert images.grad is not None
        assert bool(images.grad[..., -8:, -8:].any()) == far


def test_softmax_without_a_scale_is_what_a_block_uses() -> None:
    kernel = NonLocal(6).attention.kernel
    assert isinstance(kernel, Softmax)
    assert kernel.scale == 1.0


# ------------------------------------------------------------------------------------------------------------- configs


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"depths": [1, 2]}, "depths = [1, 2], dims = [64, 128, 256, 512] must have the same number of stages"),
        ({"dims": [64, 0, 1, 1]}, "dims = [64, 0, 1, 1] must be at least 1"),
        ({"depths": []}, "depths = [] must be at least 1"),
        ({"nonlocals": [0]}, "nonlocals = [0] must name stages from 1 to 4"),
        ({"layer": "dense"}, "layer = 'dense' is not one of"),
    ],
)
def test_impossible_sizes(changes: dict[str, object], problem: str) -> None:
    with pytest.raises(InputError) as caught:
        regard.build("resnet-18", **changes)
    assert problem in str(caught.value)


def test_in_half_precision_and_without_memory() -> None:
    net = ResNet(replace(SMALL, nonlocals=(2,)))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = net(torch.randn(2, 3, 8, 8)).float().square().mean()
    loss.backward()
    assert all(x.grad is not None and x.grad.isfinite().all() for x in net.parameters())
    with torch.device("meta"):
        assert ResNet(PRESETS["resnet-50"])(torch.empty(2, 3, 64, 64)).shape == (2, 1000)


# ------------------------------------------------------------------------------------------------------------- folders


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    net = ResNet(replace(SMALL, stem="large")).eval()
    save(Model("resnet", net), tmp_path / "ours")
    export(tmp_path / "ours", tmp_path / "theirs")
    return tmp_path / "theirs"


def test_there_and_back(folder: Path) -> None:
    ours, back = regard.load(folder.parent / "ours"), regard.load(folder)
    assert ours.config == back.config
    for name, x in ours.state_dict().items():
        assert torch.equal(x, back.state_dict()[name]), name


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"hidden_act": "gelu"}, "hidden_act = 'gelu' is not supported"),
        ({"layer_type": "dense"}, "layer_type = 'dense' is not supported"),
        ({"downsample_in_first_stage": True}, "downsample_in_first_stage = True is not supported"),
        ({"depths": [1, 2, 3]}, "the same number of stages, got 3 and 2"),
        ({"depths": [10**9, 1]}, "more layers than the checkpoint has tensors"),
        ({"hidden_sizes": "wide"}, "hidden_sizes = 'wide' is not a list of integers"),
        ({"deep_stem": True}, "deep_stem"),
    ],
)
def test_what_is_not_understood_is_refused(folder: Path, changes: dict[str, object], problem: str) -> None:
    said = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(said | changes))
    with pytest.raises(CheckpointError) as caught:
        regard.load(folder)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "key"), [({"stem": "small"}, "stem"), ({"layer": "plain"}, "layer"), ({"nonlocals": (1,)}, "nonlocals")]
)
def test_what_has_no_counterpart_cannot_go_out(changes: dict[str, object], key: str, tmp_path: Path) -> None:
    save(Model("resnet", ResNet(replace(SMALL, **{"stem": "large"} | changes))), tmp_path / "ours")
    with pytest.raises(InputError, match=key):
        export(tmp_path / "ours", tmp_path / "theirs")


@pytest.mark.parametrize("layer", ["plain", "basic", "bottleneck"])
def test_a_dilated_stage_sees_the_same_and_more_often(layer: str) -> None:
    """With the same weights, every other place of its map is that of a stage that halves; and it looks as far."""
    config = ResNetSizes(channels=2, width=4, stem="small", layer=layer, depths=(1, 2, 3), dims=(8, 8, 12))
    halving, dilated = (Backbone(replace(config, last=last)).double().eval() for last in ("halving", "dilated"))
    dilated.load_state_dict(halving.state_dict())
    images = torch.randn(2, 2, 24, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    few, many = halving(images), dilated(images)
    assert many.shape[-2:] == (12, 16)
    assert torch.allclose(many[..., ::2, ::2], few, atol=1e-12)
    assert (halving.config.stride, dilated.config.stride) == (4, 2)
    assert receptive_field(dilated.windows()).size == receptive_field(halving.windows()).size
