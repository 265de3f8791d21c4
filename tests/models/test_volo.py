"""VOLO: outlook attention by its equations, what only this paper claims, and timm's folders."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import regard
from regard.errors import CheckpointError
from regard.folders import export
from regard.interop.volo import SIZES, STAGES
from regard.model import Model
from regard.models.volo import PRESETS, VOLO, Config
from regard.nn.attention import split_heads
from regard.nn.mask import CAUSAL, TensorBias
from regard.nn.mixers.outlook import Outlook
from regard.nn.tap import capture, listen
from tests.contracts.tools import Largest, close, numbers, stirred

SMALL = Config(
    image=16, patch=4, stem_dim=6, fine_dim=8, outlookers=2, fine_heads=2, fine_hidden=12, dim=12, depth=3, heads=3,
    hidden=18, classes=5,
)  # fmt: skip


def spelled(layer: Outlook, x: Tensor) -> Tensor:
    """Window by window, place by place, as the paper's equations say."""
    rows, columns, k, heads = x.shape[1], x.shape[2], layer.window, layer.heads
    width = x.shape[-1] // heads
    v, y = layer.v(x), torch.zeros_like(x)
    for top in range(0, rows, layer.stride):
        for left in range(0, columns, layer.stride):
            told = x[:, top : top + layer.stride, left : left + layer.stride].mean((1, 2))
            scores = layer.scores(told).view(len(x), heads, k * k, k * k) / width**0.5
            weights = scores.softmax(-1)
            near = [(top + i - k // 2, left + j - k // 2) for i in range(k) for j in range(k)]
            real = [(a, place) for a, place in enumerate(near) if 0 <= place[0] < rows and 0 <= place[1] < columns]
            for a, (i, j) in real:
                for h in range(heads):
                    part = slice(h * width, (h + 1) * width)
                    for c, (p, q) in real:
                        y[:, i, j, part] += weights[:, h, a, c, None] * v[:, p, q, part]
    return layer.out(y)


@pytest.mark.parametrize(("window", "stride"), [(3, 1), (3, 2), (5, 1), (1, 1), (5, 2)])
@pytest.mark.parametrize("grid", [(4, 4), (5, 3), (1, 1), (2, 6)])
def test_outlook_attention_by_its_equations(window: int, stride: int, grid: tuple[int, int]) -> None:
    layer = stirred(Outlook(8, 2, window=window, stride=stride, bias=True)).eval()
    x = numbers(2, *grid, 8, grad=True)
    with torch.no_grad():
        close(layer(x), spelled(layer, x))


@pytest.mark.parametrize("stride", [1, 2])
def test_the_law(stride: int) -> None:
    """What is looked at is what is computed: weights @ values, and listening changes nothing."""
    layer = stirred(Outlook(8, 2, stride=stride)).eval()
    x = numbers(2, 5, 4, 8, grad=True)
    plain = layer(x)
    with capture(layer, "*") as seen:
        heard = layer(x)
    close(heard, plain)
    weights, v, mixed = seen["weights"][0], seen["values"][0], seen["mixed"][0]
    assert weights.shape == (2, 2, 20, 20)
    close(weights @ v, mixed)
    close(v, split_heads(layer.v(x).flatten(1, 2), 2))
    assert seen["local"][0].shape == (2, 2, 20 if stride == 1 else 6, 9, 9)
    close(seen["local"][0].sum(-1), torch.ones(seen["local"][0].shape[:-1]).double())
    with listen(layer, "weights", lambda _, w: w * 0):
        close(layer(x), layer.out.bias.expand(2, 5, 4, 8))


def test_uniform_weights_are_a_box_filter_applied_twice() -> None:
    """With W_A = 0, y = k^2 times the zero-padded mean over k x k, of the zero-padded mean over k x k."""
    layer = stirred(Outlook(8, 2)).eval()
    with torch.no_grad():
        layer.scores.weight.zero_()
        layer.scores.bias.zero_()
    x = numbers(2, 6, 5, 8)
    v = layer.v(x).movedim(-1, 1)
    twice = F.avg_pool2d(F.avg_pool2d(v, 3, 1, padding=1), 3, 1, padding=1)
    close(layer(x), layer.out(9 * twice.movedim(1, -1)))


def test_nothing_is_compared_and_nothing_far_is_seen() -> None:
    """The weights of a window come from its middle alone; an output reaches two steps."""
    layer = stirred(Outlook(8, 2)).eval()
    x = numbers(1, 7, 7, 8)
    before = layer.looks(x)
    x[:, 0, 0] += 1
    changed = (layer.looks(x) != before).flatten(3).any(-1)[0, 0]
    assert changed.nonzero()[:, 0].tolist() == [0]
    x.requires_grad_()
    (slope,) = torch.autograd.grad(layer(x)[0, 3, 3].sum(), x)
    reached = slope[0].abs().sum(-1) > 0
    wanted = torch.zeros(7, 7, dtype=torch.bool)
    wanted[1:6, 1:6] = True
    assert torch.equal(reached, wanted)


def test_it_forms_no_map_unless_someone_looks() -> None:
    layer, x = Outlook(8, 2).eval(), torch.randn(1, 40, 40, 8)
    with Largest() as largest, torch.no_grad():
        layer(x)
    assert largest.numel < 1600 * 1600


@pytest.mark.parametrize(
    "asked",
    [{"context": torch.zeros(1, 2, 8)}, {"mask": CAUSAL}, {"bias": TensorBias(torch.zeros(2, 4, 4))}],
    ids=["context", "mask", "bias"],
)
def test_what_it_cannot_honour_it_refuses(asked: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="outlook attention"):
        Outlook(8, 2)(torch.zeros(1, 2, 2, 8), **asked)
    with pytest.raises(ValueError, match="must be odd"):
        Outlook(8, 2, window=4)
    with pytest.raises(ValueError, match="8 is not a multiple of 3"):
        Outlook(8, 3)


# ---------------------------------------------------------------------------------------------------------- the model


def test_what_both_heads_say() -> None:
    net, images = stirred(VOLO(SMALL)).eval(), numbers(2, 3, 16, 16)
    said, x = net.answers(images), net.features(images)
    assert said.tokens.shape == (2, 4, 5)
    close(said.label, net.head(x[:, 0]))
    close(net(images), said.label + 0.5 * said.tokens.max(1).values)
    one = VOLO(replace(SMALL, token_head=False)).eval()
    with pytest.raises(ValueError, match="requires a model with two heads, got 1"):
        one.answers(images.float())


def test_the_order_of_its_parts() -> None:
    """Stem, outlookers, four tokens into one, positions, blocks, class attention."""
    net, images = stirred(VOLO(SMALL)).eval(), numbers(2, 3, 16, 16)
    x = net.stem(images)
    assert x.shape == (2, 4, 4, 8)
    for block in net.outlookers:
        x = x + block.mixer(block.mixer_residual.norm(x))
        x = x + block.ffn(block.ffn_residual.norm(x))
    weight, bias = net.merge.projection.weight, net.merge.projection.bias
    x = F.conv2d(x.movedim(-1, 1), weight, bias, stride=2).flatten(2).mT + net.positions
    for block in net.blocks:
        x = x + block.mixer(block.mixer_residual.norm(x))
        x = x + block.ffn(block.ffn_residual.norm(x))
    token = net.class_token.expand(2, 1, 12)
    for look in net.looks:
        token = look(token, x)
    close(net.features(images), net.norm(torch.cat((token, x), 1)))


def test_stochastic_depth_leaves_out_the_outlookers() -> None:
    net = VOLO(replace(SMALL, drop_path=0.4))
    assert {block.mixer_residual.branch.drop_path for block in net.outlookers} == {0.0}
    assert [block.ffn_residual.branch.drop_path for block in net.blocks] == pytest.approx([0.2, 0.3, 0.4])


def test_what_it_looked_at() -> None:
    model, images = Model("volo", stirred(VOLO(SMALL)).eval()), numbers(2, 3, 16, 24)
    maps = model(images, look="*").maps
    assert maps["outlookers.1.mixer"].weights.shape == (2, 2, 24, 24)
    assert maps["outlookers.1.mixer"].rows.grid == (4, 6)
    assert maps["blocks.2.mixer"].rows.grid == (2, 3)
    assert (maps["looks.0.mixer"].columns.special, maps["looks.0.mixer"].columns.grid) == (1, (2, 3))


def test_at_another_size_positions_are_interpolated() -> None:
    net = stirred(VOLO(SMALL)).eval()
    assert net(numbers(2, 3, 24, 40)).shape == (2, 5)
    with pytest.raises(ValueError, match="20 x 16 cannot be divided into patches of 8 x 8"):
        net(numbers(2, 3, 20, 16))


def test_what_cannot_be_halved() -> None:
    with pytest.raises(ValueError, match="patch = 5 is not even"):
        replace(SMALL, patch=5)
    with pytest.raises(ValueError, match="image = 20 is not a multiple of twice patch = 4"):
        replace(SMALL, image=20)
    with pytest.raises(ValueError, match="fine_dim = 9 is not a multiple of fine_heads = 2"):
        replace(SMALL, fine_dim=9)


def test_without_memory_and_in_half_precision() -> None:
    with torch.device("meta"):
        net = VOLO(SMALL)
    assert net(torch.empty(2, 3, 16, 16, device="meta")).shape == (2, 5)
    with torch.autocast("cpu", torch.bfloat16):
        assert VOLO(SMALL)(torch.randn(2, 3, 16, 16)).isfinite().all()


def test_a_frozen_and_a_learning_norm() -> None:
    """In training the stem counts the batch and remembers; in use it counts what it remembers."""
    net, images = VOLO(SMALL), torch.randn(4, 3, 16, 16) * 3 + 1
    before = net.stem.first.norm.mean.clone()
    net.train()(images)
    assert not torch.equal(net.stem.first.norm.mean, before)
    before = net.stem.first.norm.mean.clone()
    net.eval()(images)
    assert torch.equal(net.stem.first.norm.mean, before)


# ----------------------------------------------------------------------------------------------------- timm's folders

# As small as one that has a name can be.
NAMED = replace(PRESETS["volo-d1"], image=32, patch=4, stem_dim=4, hidden=8, fine_hidden=4, classes=3, channels=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("volo") / "theirs"
    torch.manual_seed(0)
    export(Model("volo", VOLO(NAMED).eval()), path)
    return path


def test_there_and_back(folder: Path) -> None:
    said = json.loads((folder / "config.json").read_text())
    assert said["architecture"] == "volo_d1_224"
    back = regard.load(folder)
    assert back.config == NAMED
    torch.manual_seed(0)
    wanted = VOLO(NAMED).state_dict()
    assert all(torch.equal(x, wanted[name]) for name, x in back.state_dict().items())


def test_timm_loads_it(folder: Path) -> None:
    from tests.guard import mend_torchvision

    mend_torchvision()
    timm = pytest.importorskip("timm", reason="the reference is not installed: pip install regard[parity]")
    theirs = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
    images = torch.randn(2, 1, 32, 32)
    torch.testing.assert_close(regard.load(folder).net(images), theirs(images), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"architecture": "volo_d6_224"}, "architecture = 'volo_d6_224'"),
        ({"model_args": {"layers": [4, 4, 8]}}, "layers = [4, 4, 8] is not a list of 4 integers"),
        ({"model_args": {"layers": [4, 4, 8, 10**9]}}, "more layers than the checkpoint has tensors"),
        ({"model_args": {"embed_dims": [192, 384, 192, 384]}}, "must each be equal in the last three stages"),
        ({"model_args": {"post_layers": ["ca"]}}, "post_layers = ['ca'] is not supported"),
        ({"model_args": {"pooling_scale": 4}}, "pooling_scale = 4"),
        ({"model_args": {"nonsense": 1}}, "nonsense"),
        ({"model_args": {"patch_size": 5}}, "patch = 5 is not even"),
    ],
)
def test_what_is_not_understood_is_refused(folder: Path, changes: dict[str, object], problem: str) -> None:
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(json.dumps(json.loads(text) | changes))
    try:
        with pytest.raises(CheckpointError) as caught:
            regard.load(folder)
    finally:
        (folder / "config.json").write_text(text)
    assert problem in str(caught.value)


def test_their_named_sizes() -> None:
    assert len(SIZES) == 11
    for name, stages in STAGES.items():
        assert PRESETS[f"volo-{name}"].depth == sum(stages)
