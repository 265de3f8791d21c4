"""Swin and Swin v2: windows are dense attention under a mask, and what only these papers claim."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import regard
from regard.errors import CheckpointError, InputError
from regard.folders import export, save
from regard.look.windows import joined_map, joined_weights
from regard.model import Model
from regard.models import swin, swinv2
from regard.nn.attention import MultiHeadAttention
from regard.nn.axis import Axis, WindowCut
from regard.nn.kernels.cosine import Cosine
from regard.nn.mask import Mask, TensorBias
from regard.nn.mixers.windows import WindowAttention, cut_windows, put_back, window_neighbours
from regard.nn.positions import LogBias, WindowBias
from regard.nn.pyramid import join_neighbours
from regard.nn.tap import capture
from tests.contracts.tools import Largest, close, gradients, numbers, stirred

DIM, HEADS = 8, 2
SMALL = swin.Config(image=16, patch=2, dim=DIM, depth=(2, 2), heads=(2, 2), hidden=12, window=3, classes=3)
SECOND = swinv2.Config(image=16, patch=2, dim=DIM, depth=(2, 2), heads=(2, 2), hidden=12, window=3, classes=3)
EVEN, EVEN_SECOND = replace(SMALL, image=12), replace(SECOND, image=12)  # whole windows, as other libraries need them


def layer(window: int, shift: int) -> WindowAttention:
    attention = MultiHeadAttention(DIM, HEADS)
    return stirred(WindowAttention(attention, WindowBias(HEADS, window, window), window, shift))


def dense(windows: WindowAttention, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Who may look at whom in the whole grid, and with what bias, spelled out for every pair of places.

    A shift cuts the grid at other lines; nothing wraps around.
    """
    m, n = windows.window, rows * columns
    table = windows.offsets(min(m, rows), min(m, columns))
    may, bias = torch.zeros(n, n, dtype=torch.bool), torch.zeros(HEADS, n, n, dtype=torch.float64)
    shifts = [windows.shift if side > m else 0 for side in (rows, columns)]
    wide = min(m, columns)
    for i in range(n):
        for j in range(n):
            (a, b), (c, d) = divmod(i, columns), divmod(j, columns)
            may[i, j] = (a - shifts[0]) // m == (c - shifts[0]) // m and (b - shifts[1]) // m == (d - shifts[1]) // m
            down, across = a - c, b - d
            if abs(down) < min(m, rows) and abs(across) < wide:
                first = max(down, 0) * wide + max(across, 0)
                second = max(-down, 0) * wide + max(-across, 0)
                bias[:, i, j] = table[:, first, second]
    return may, bias


@pytest.mark.parametrize(
    ("grid", "window", "shift"),
    [
        ((4, 8), 4, 0),
        ((4, 8), 4, 2),
        ((6, 6), 3, 1),
        ((8, 12), 4, 2),
        ((8, 8), 4, 1),
        ((5, 7), 3, 0),
        ((5, 7), 3, 1),
        ((7, 9), 4, 2),
        ((3, 9), 4, 2),
        ((2, 3), 4, 2),
        ((1, 1), 3, 1),
    ],
)
def test_windows_are_dense_attention_under_a_mask(grid: tuple[int, int], window: int, shift: int) -> None:
    """In values and gradients; one that is not rolled back, or looks at filling, is another answer."""
    windows, x = layer(window, shift), numbers(2, *grid, DIM, grad=True)
    may, bias = dense(windows, *grid)
    wanted = windows.attention(x.flatten(1, 2), mask=Mask(pairs=may), bias=TensorBias(bias)).unflatten(1, grid)
    found = windows(x)
    close(found, wanted)
    inside = [x, *windows.attention.parameters()]
    for one, other in zip(gradients(found, *inside), gradients(wanted, *inside), strict=True):
        close(one, other)


def test_one_window_is_plain_attention_with_a_bias() -> None:
    windows, x = layer(4, 2), numbers(2, 4, 4, DIM)
    wanted = windows.attention(x.flatten(1, 2), bias=TensorBias(windows.offsets()))
    close(windows(x).flatten(1, 2), wanted)


def test_nothing_leaks_around_the_edge() -> None:
    """The Jacobian is zero between places that no window joins."""
    windows, x = layer(4, 2), numbers(1, 8, 8, DIM)
    slopes = torch.autograd.functional.jacobian(lambda x: windows(x[None]).flatten(1, 2)[0], x[0])
    moves = slopes.flatten(2, 3).abs().amax((1, 3)) > 0
    assert torch.equal(moves, dense(windows, 8, 8)[0])


@pytest.mark.parametrize(
    "cut", [WindowCut((6, 8), (3, 4), (1, 2)), WindowCut((5, 7), (3, 3), (1, 1)), WindowCut((4, 4), (2, 2))]
)
def test_cut_and_put_back(cut: WindowCut) -> None:
    x = numbers(3, *cut.grid, 2)
    windows = cut_windows(x, cut)
    assert windows.shape == (3 * cut.count, cut.window[0] * cut.window[1], 2)
    close(put_back(windows, cut), x)
    for window, places in enumerate(cut.places()):  # what the axes of a map say
        for i, place in enumerate(places):
            there = x[:, place[0], place[1]] if place is not None else torch.zeros(3, 2, dtype=torch.float64)
            close(windows.unflatten(0, (3, -1))[:, window, i], there)


def test_the_regions_of_the_paper() -> None:
    """Nine slices of the rolled grid, as the authors label them."""
    cut = WindowCut((8, 8), (4, 4), (2, 2))
    label, count = torch.zeros(1, 8, 8, 1), 0
    for rows in (slice(0, -4), slice(-4, -2), slice(-2, None)):
        for columns in (slice(0, -4), slice(-4, -2), slice(-2, None)):
            label[:, rows, columns] = count
            count += 1
    labels = cut_windows(label, replace(cut, shift=(0, 0)))[..., 0]
    assert torch.equal(window_neighbours(cut, torch.device("cpu")), labels[:, :, None] == labels[:, None])
    assert window_neighbours(replace(cut, shift=(0, 0)), torch.device("cpu")) is None


def test_merging_order() -> None:
    x = torch.arange(4.0).reshape(1, 2, 2, 1)  # 0 1 / 2 3
    assert join_neighbours(x).flatten().tolist() == [0.0, 2.0, 1.0, 3.0]
    assert join_neighbours(torch.ones(1, 3, 5, 1)).shape == (1, 2, 3, 4)


def test_the_cost_is_linear_in_the_pixels() -> None:
    """Of four times the pixels no tensor is more than four times as large."""
    net = swin.Swin(replace(SMALL, window=4)).eval()
    sizes = []
    for side in (32, 64, 128):
        with torch.inference_mode(), Largest() as seen:
            net(torch.randn(1, 3, side, side))
        sizes.append(seen.numel)
    assert sizes[2] <= 4 * sizes[1] <= 16 * sizes[0]


@pytest.mark.parametrize("size", [(16, 16), (24, 16), (17, 30), (3, 50), (1, 1)])
@pytest.mark.parametrize("net", [swin.Swin(SMALL), swinv2.SwinV2(SECOND)], ids=["v1", "v2"])
def test_images_of_any_size(net: nn.Module, size: tuple[int, int]) -> None:
    images = torch.randn(2, 3, *size)
    assert net.eval()(images).shape == (2, 3)
    bare_net = type(net)(replace(net.config, classes=0)).eval()
    bare_net.load_state_dict({name: x for name, x in net.state_dict().items() if not name.startswith("head")})
    close(bare_net(images), net.features(images).mean(1), 1e-6)


def test_every_other_block_is_shifted() -> None:
    net = swin.Swin(swin.PRESETS["swin-cifar"])
    assert [[block.mixer.shift for block in stage.blocks] for stage in net.stages] == [[0, 2], [0, 2], [0, 2]]
    assert net.stages[0].blocks[1].mixer.cut(16, 16).shift == (2, 2)
    assert net.stages[2].blocks[1].mixer.cut(4, 4).shift == (0, 0)  # the whole grid is one window
    rates = [
        b.mixer_residual.branch.drop_path for s in swin.Swin(replace(SMALL, drop_path=0.3)).stages for b in s.blocks
    ]
    assert rates == pytest.approx([0.0, 0.1, 0.2, 0.3])


def test_tables_of_other_windows() -> None:
    """A smaller window has the near ones of the same offsets; a table that is refit keeps a smooth bias."""
    table = stirred(WindowBias(HEADS, 4, 4))
    small, large = table(2, 3), table()
    assert small.shape == (HEADS, 6, 6)
    rows = [y * 4 + x for y in range(2) for x in range(3)]
    close(small, large[:, rows][:, :, rows])
    with pytest.raises(ValueError, match="windows of at most 4 x 4, got 5 x 4"):
        table(5, 4)
    with torch.no_grad():
        y, x = torch.meshgrid(torch.arange(-3, 4), torch.arange(-3, 4), indexing="ij")
        table.weight.copy_((1.0 * y + 0.5 * x).reshape(-1, 1).expand(-1, HEADS))
    wider = WindowBias(HEADS, 7, 7).double()
    wider.weight = nn.Parameter(table.resized(7, 7))
    middle = wider.offsets()[6, 6]
    close(middle, torch.zeros_like(middle), 1e-9)  # no offset stays none
    assert (wider.offsets()[:-1] < wider.offsets()[1:] + 1e-9).all()
    close(table.resized(4, 4), table.weight)


def test_refit_to_other_images_and_windows() -> None:
    net = stirred(swin.Swin(SMALL)).eval()
    same = swin.refit(net, image=16, window=3)
    images = numbers(2, 3, 16, 16)
    close(same(images), net(images))
    larger = swin.refit(net, image=32, window=5)
    assert larger.config == replace(SMALL, image=32, window=5)
    assert larger.stages[0].blocks[0].mixer.offsets.weight.shape == (81, 2)
    assert larger(numbers(2, 3, 32, 32)).isfinite().all()
    assert not larger.training


# ---------------------------------------------------------------------------------------------------------- Swin v2


def test_scores_do_not_grow_with_queries_and_keys() -> None:
    kernel, q, k = stirred(Cosine(HEADS)), numbers(1, HEADS, 5, 4), numbers(1, HEADS, 5, 4)
    close(kernel.weights(q, k), kernel.weights(7 * q, 0.1 * k))


def test_the_bias_is_of_offsets_within_its_range() -> None:
    bias = stirred(LogBias(HEADS, 4))(4, 4).detach()
    assert 0 <= float(bias.min()) <= float(bias.max()) <= 16
    grid = bias.unflatten(2, (4, 4)).unflatten(1, (4, 4))
    close(grid[:, :3, :3, :3, :3], grid[:, 1:, 1:, 1:, 1:])  # moved together, nothing changes


def test_the_equation_of_the_bias() -> None:
    net, side = stirred(LogBias(HEADS, 5)), 3
    bias = net(side, side)
    for i in range(9):
        for j in range(9):
            offset = torch.tensor([i // 3 - j // 3, i % 3 - j % 3], dtype=torch.float64)
            far = 8 * offset / 4
            spaced = far.sign() * torch.log2(far.abs() + 1) / 3
            close(bias[:, i, j], 16 * torch.sigmoid(net.down(torch.relu(net.up(spaced)))))


def test_windows_grow_without_training() -> None:
    """4 to 8: the near offsets keep their bias, and no weight changes."""
    config = replace(SECOND, image=32, window=4)
    net = stirred(swinv2.SwinV2(config)).eval()
    grown = swinv2.refit(net, image=64, window=8)
    assert grown.config.trained == (4, 4)
    for name, x in net.state_dict().items():
        close(grown.state_dict()[name], x)
    near = [y * 8 + x for y in range(4) for x in range(4)]
    before, after = (one.stages[0].blocks[0].mixer.offsets for one in (net, grown))
    close(after(8, 8)[:, near][:, :, near], before(4, 4))
    assert grown(numbers(1, 3, 64, 64)).isfinite().all()
    again = swinv2.refit(grown, image=32, window=4)
    images = numbers(2, 3, 32, 32)
    close(again(images), net(images))


def test_keys_have_no_bias_and_branches_say_nothing_at_first() -> None:
    net = swinv2.SwinV2(SECOND)
    attention = net.stages[0].blocks[0].mixer.attention
    assert [x.bias is not None for x in (attention.q, attention.k, attention.v)] == [True, False, True]
    x = torch.randn(1, 8, 8, DIM)
    close(net.stages[0](x), x)


def test_activations_stay_small_at_any_depth() -> None:
    """Once all branches speak, those of the first kind add up; normed ones grow by 2 for each block at most."""
    found = {}
    for kind, config in (("v1", SMALL), ("v2", SECOND)):
        build = swin.Swin if kind == "v1" else swinv2.SwinV2
        net = build(replace(config, depth=(24,), heads=(2,)))
        with torch.no_grad():
            for name, x in net.named_parameters():
                if name.endswith("weight") and x.ndim == 2 and "offsets" not in name:
                    nn.init.normal_(x, std=1.0)
                if "residual.norm.weight" in name:
                    nn.init.ones_(x)
        found[kind] = float(net.stages[0](torch.randn(1, 8, 8, DIM)).var().detach())
    assert found["v2"] < 2 * 48 + 10 < found["v1"]


def test_more_norms_in_the_largest() -> None:
    net = swinv2.SwinV2(replace(SECOND, depth=(5,), heads=(2,), every=2))
    assert [type(x).__name__ for x in net.stages[0].blocks] == [
        "Block",
        "Block",
        "LayerNorm",
        "Block",
        "Block",
        "LayerNorm",
        "Block",
    ]


# ---------------------------------------------------------------------------------------------------------- looking


def test_maps_know_where_their_windows_are() -> None:
    model, images = Model("swin", stirred(swin.Swin(SMALL)).eval()), numbers(1, 3, 16, 20)
    maps = model(images, look="*").maps
    one = maps["stages.0.blocks.1.mixer.attention"]
    cut = WindowCut((8, 10), (3, 3), (1, 1))
    assert one.rows == one.columns == Axis("image", 9, grid=(3, 3), cut=cut)
    assert one.weights.shape == (cut.count, 2, 9, 9)
    assert maps["stages.1.blocks.0.mixer.attention"].rows.cut == WindowCut((4, 5), (3, 3))
    full = joined_map(one)
    assert full.weights.shape == (1, 2, 80, 80)
    assert full.rows.grid == (8, 10)
    close(full.weights.sum(-1), torch.ones(1, 2, 80, dtype=torch.float64))
    assert torch.equal(full.weights[0, 0] > 0, dense(model.net.stages[0].blocks[1].mixer, 8, 10)[0])
    with pytest.raises(InputError, match="not a map of windows"):
        joined_map(full)


def test_joined_maps_are_those_of_dense_attention() -> None:
    windows, x = layer(3, 1), numbers(2, 6, 6, DIM)
    may, bias = dense(windows, 6, 6)
    attention = windows.attention
    q, k, _ = attention.project(*[x.flatten(1, 2)] * 3)
    wanted = attention.kernel.weights(q, k, Mask(pairs=may), TensorBias(bias))
    with capture(windows) as seen:
        windows(x)
    close(joined_weights(seen["attention.weights"][0], windows.cut(6, 6)), wanted)


# ---------------------------------------------------------------------------------------------------------- folders


def test_what_a_mixer_of_windows_cannot_honour() -> None:
    windows, x = layer(2, 0), numbers(1, 4, 4, DIM)
    for given in ({"mask": Mask(causal=True)}, {"bias": TensorBias(torch.zeros(1))}):
        with pytest.raises(ValueError, match="does not support a context, mask, bias or cache"):
            windows(x, **given)


def test_stages_must_fit() -> None:
    with pytest.raises(ValueError, match=r"depth = \[2, 2\], heads = \[2, 2, 2\] must have the same number of stages"):
        replace(SMALL, heads=(2, 2, 2))
    with pytest.raises(ValueError, match=r"dim = 8 is not a multiple of heads = \(2, 3\)"):
        replace(SMALL, heads=(2, 3))
    with pytest.raises(ValueError, match=r"depth = \(\) must be at least 1"):
        replace(SMALL, depth=(), heads=())


@pytest.mark.parametrize(
    ("family", "config", "to"),
    [("swin", EVEN, "timm"), ("swinv2", EVEN_SECOND, "timm"), ("swinv2", EVEN_SECOND, "hf"), ("swin", EVEN, "hf")],
)
def test_folders_there_and_back(family: str, config: object, to: str, tmp_path: Path) -> None:
    net = stirred((swin.Swin if family == "swin" else swinv2.SwinV2)(config)).float().eval()
    export(Model(family, net), tmp_path / "theirs", to=to)
    back = regard.load(tmp_path / "theirs")
    assert back.config == config
    images = torch.randn(2, 3, 16, 16)
    close(back.net(images), net(images))


def test_a_file_with_the_index_of_older_versions(tmp_path: Path) -> None:
    net = swin.Swin(EVEN)
    folder = tmp_path / "theirs"
    export(Model("swin", net), folder)
    state = load_file(folder / "model.safetensors")
    name = "swin.encoder.layers.0.blocks.0.attention.self.relative_position_index"
    y, x = torch.meshgrid(torch.arange(3), torch.arange(3), indexing="ij")
    y, x = y.flatten(), x.flatten()
    state[name] = (y[:, None] - y + 2) * 5 + x[:, None] - x + 2
    save_file(state, folder / "model.safetensors")
    assert regard.load(folder).config == EVEN
    state[name] = state[name].flip(0).contiguous()
    save_file(state, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match="but its values differ"):
        regard.load(folder)


@pytest.mark.parametrize(
    ("to", "where", "key", "value"),
    [
        ("hf", None, "use_absolute_embeddings", True),
        ("hf", None, "layer_norm_eps", 1e-6),
        ("hf", None, "depths", [2, 0]),
        ("hf", None, "depths", 4),
        ("hf", None, "depths", [9999, 2]),
        ("hf", None, "mlp_ratio", 1.3),
        ("hf", None, "window_size", 5),
        ("hf", None, "num_layers", 3),
        ("hf", None, "strange", 1),
        ("timm", None, "architecture", "swin_s3_tiny_224"),
        ("timm", None, "global_pool", ""),
        ("timm", "model_args", "window_size", [3, 4]),
        ("timm", "model_args", "always_partition", True),
        ("timm", "model_args", "head_dim", 4),
        ("timm", "model_args", "strange", 1),
    ],
)
def test_what_is_not_understood_is_refused(to: str, where: str | None, key: str, value: object, tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    export(Model("swin", swin.Swin(EVEN)), folder, to=to)
    data = json.loads((folder / "config.json").read_text())
    (data if where is None else data[where])[key] = value
    (folder / "config.json").write_text(json.dumps(data))
    with pytest.raises(CheckpointError, match=key):
        regard.load(folder)


@pytest.mark.parametrize(
    ("config", "what"),
    [
        (replace(EVEN, eps=1e-3), "eps"),
        (replace(EVEN, attention="cosine"), "cannot be exported|attention"),
        (replace(EVEN, image=8), "window = 3"),
    ],
)
def test_what_their_format_cannot_say(config: swin.Config, what: str, tmp_path: Path) -> None:
    with pytest.raises((InputError, CheckpointError), match=what):
        export(Model("swin", swin.Swin(config)), tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()


def test_ours_keeps_anything(tmp_path: Path) -> None:
    config = replace(SECOND, attention=("cosine", "softmax"), trained=(2, 2), every=1)
    save(Model("swinv2", swinv2.SwinV2(config)), tmp_path / "ours")
    assert regard.load(tmp_path / "ours").config == config
    data = json.loads((tmp_path / "ours" / "regard.json").read_text())
    data["config"]["depth"] = [10**9, 1]
    (tmp_path / "ours" / "regard.json").write_text(json.dumps(data))
    with pytest.raises(CheckpointError, match="more layers than the checkpoint has tensors"):
        regard.load(tmp_path / "ours")
