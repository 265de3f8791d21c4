"""DETR: padding, queries, and what its maps are of."""

import copy
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import regard
from regard.errors import CheckpointError
from regard.folders import export, save
from regard.model import Model
from regard.models.detr import DETR, PRESETS, Config, sine_positions
from regard.nn.convolution import real_pixels
from regard.nn.mask import ALL
from regard.nn.tap import capture, listen
from tests.contracts.tools import close, numbers, stirred

SMALL = Config(
    width=4, stem="small", layer="basic", depths=(1, 1, 1), dims=(4, 6, 8), classes=3, queries=5, dim=16, depth=2,
    heads=2, hidden=12, dropout=0.0, attention_dropout=0.0, hidden_dropout=0.0,
)  # fmt: skip


def net(**changes: object) -> DETR:
    found = DETR(replace(SMALL, **changes))
    stirred(found).eval()
    for x in found.buffers():
        x.add_(torch.rand_like(x) * 0.3)
    return found


@pytest.mark.parametrize("last", ["halving", "dilated"])
def test_a_padded_image_is_detected_as_it_is_alone(last: str) -> None:
    """Whatever stands at padding, NaN too; and so for what is said after each layer."""
    model, sizes = net(last=last), torch.tensor([[12, 16], [9, 5], [1, 1], [4, 16]])
    images = torch.where(real_pixels(sizes, 12, 16)[:, None], numbers(4, 3, 12, 16), torch.nan)
    whole = model(images, sizes)
    for i, (rows, columns) in enumerate(sizes.tolist()):
        alone = model(images[i : i + 1, :, :rows, :columns])
        for found, wanted in zip((whole, *whole.earlier), (alone, *alone.earlier), strict=True):
            close(found.logits[i], wanted.logits[0])
            close(found.boxes[i], wanted.boxes[0])


def test_padding_gets_no_weight_and_no_gradient() -> None:
    model, sizes = net(), torch.tensor([[12, 16], [7, 5]])
    images = numbers(2, 3, 12, 16, grad=True)
    with capture(model) as seen:
        out = model(images, sizes)
    keys = real_pixels((sizes + 3) // 4, 3, 4).flatten(1)
    for name, (weights,) in seen.items():
        if not name.startswith("decoder.0.mixer") and weights.shape[-1] == 12:
            assert not weights[1][..., ~keys[1]].any()
            close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
    (out.logits.sum() + out.boxes.sum()).backward()
    assert images.grad is not None
    assert not images.grad[~real_pixels(sizes, 12, 16)[:, None].expand_as(images)].any()


def test_queries_are_a_set() -> None:
    """In another order they say the same, in that order: only their vectors tell them apart."""
    model, images, order = net(), numbers(2, 3, 12, 16), torch.randperm(5)
    wanted = model(images)
    with torch.no_grad():
        model.queries.copy_(model.queries[order])
    found = model(images)
    close(found.logits, wanted.logits[:, order])
    close(found.boxes, wanted.boxes[:, order])


def test_positions_are_compared_and_never_told() -> None:
    """Other positions give the values of the first layer nothing, its queries and keys something."""
    model, images = net(), numbers(1, 3, 12, 16)
    seen: list[dict[str, list[Tensor]]] = []
    for shift in (0.0, 1.0):
        with torch.no_grad():
            model.queries.add_(shift)
        with capture(model, "decoder.0.*") as one:
            model(images)
        seen.append(one)
    first, second = seen
    assert not torch.allclose(first["decoder.0.mixer.queries"][0], second["decoder.0.mixer.queries"][0])
    assert not torch.allclose(first["decoder.0.mixer.keys"][0], second["decoder.0.mixer.keys"][0])
    close(first["decoder.0.mixer.values"][0], second["decoder.0.mixer.values"][0])
    assert not torch.allclose(first["decoder.0.cross.queries"][0], second["decoder.0.cross.queries"][0])
    close(first["decoder.0.cross.keys"][0], second["decoder.0.cross.keys"][0])
    close(first["decoder.0.cross.values"][0], second["decoder.0.cross.values"][0])


def test_pixels_without_positions_are_a_set() -> None:
    """An encoder that is told nothing of places gives moved pixels moved answers; ours does not."""
    model = net()
    x, order = numbers(1, 12, 16), torch.randperm(12)
    where = sine_positions((3, 4), None, 16, x)
    close(model.encode(x[:, order], where * 0, ALL), model.encode(x, where * 0, ALL)[:, order])
    assert not torch.allclose(model.encode(x[:, order], where, ALL), model.encode(x, where, ALL)[:, order])


def test_sine_positions_by_the_formula() -> None:
    sizes = torch.tensor([[3, 4], [2, 1]])
    found = sine_positions((3, 4), sizes, 16, numbers(1)).unflatten(1, (3, 4))
    for b, (rows, columns) in enumerate(sizes.tolist()):
        for y in range(rows):
            for x in range(columns):
                for half, share in enumerate(((y + 1) / (rows + 1e-6), (x + 1) / (columns + 1e-6))):
                    for i in range(8):
                        angle = torch.tensor(share * 2 * torch.pi / 10000 ** (2 * (i // 2) / 8), dtype=torch.float64)
                        wanted = angle.cos() if i % 2 else angle.sin()
                        close(found[b, y, x, 8 * half + i], wanted)


def test_maps_know_where_they_are() -> None:
    model, images = Model("detr", net()), numbers(1, 3, 12, 13)
    maps = model(images, look="*").maps
    assert sorted(maps) == sorted(
        [*(f"encoder.{i}.mixer" for i in range(2)), *(f"decoder.{i}.{x}" for i in range(2) for x in ("mixer", "cross"))]
    )
    cross = maps["decoder.1.cross"]
    assert (cross.rows.kind, cross.rows.size) == ("queries", 5)
    assert (cross.columns.kind, cross.columns.grid) == ("image", (3, 4))
    assert maps["decoder.0.mixer"].columns.kind == "queries"


def test_a_query_can_be_made_blind() -> None:
    """What the weights of its last look are changed to, changes what it says, and nothing else does."""
    model, images = net(), numbers(1, 3, 12, 16)
    wanted = model(images)

    def blind(_: str, weights: Tensor) -> Tensor:
        changed = weights.clone()
        changed[:, :, 2] = 0.0
        return changed

    with listen(model, "decoder.1.cross.weights", blind):
        found = model(images)
    others = [0, 1, 3, 4]
    close(found.logits[:, others], wanted.logits[:, others])
    assert not torch.allclose(found.logits[:, 2], wanted.logits[:, 2])


def test_in_half_precision_and_without_memory() -> None:
    model = DETR(SMALL).train()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(torch.randn(2, 3, 12, 16), torch.tensor([[12, 16], [5, 7]]))
        loss = sum(x.logits.float().square().mean() + x.boxes.float().mean() for x in (out, *out.earlier))
    loss.backward()
    assert all(x.grad is not None and x.grad.isfinite().all() for x in model.parameters())
    with torch.device("meta"):
        whole = DETR(PRESETS["detr-resnet-50"])(torch.empty(1, 3, 64, 96))
    assert (whole.logits.shape, whole.boxes.shape, len(whole.earlier)) == ((1, 100, 92), (1, 100, 4), 5)


def test_the_backbones_norms_never_change() -> None:
    model = DETR(SMALL).train()
    before = {name: x.clone() for name, x in model.named_buffers()}
    out = model(torch.randn(2, 3, 12, 16))
    out.logits.sum().backward()
    torch.optim.SGD(model.parameters(), 0.1).step()
    assert before
    assert all(torch.equal(x, before[name]) for name, x in model.named_buffers())


def test_a_backbone_from_nothing_learns_its_norms() -> None:
    """Of images of any sizes: with more padding around them, it learns the same."""
    model, images = DETR(replace(SMALL, backbone_norm="batch")).train(), torch.randn(2, 3, 12, 16)
    before = {name: x.clone() for name, x in model.named_buffers()}
    model(images)
    assert all(not torch.equal(x, before[name]) for name, x in model.named_buffers())
    sizes = torch.tensor([[12, 16], [5, 7]])
    one, two = (copy.deepcopy(model) for _ in range(2))
    close(one(images, sizes).logits, two(F.pad(images, (0, 5, 0, 9), value=7.0), sizes).logits, 1e-5)
    for x, y, (name, first) in zip(one.buffers(), two.buffers(), model.named_buffers(), strict=True):
        close(x, y, 1e-5)
        assert not torch.equal(x, first), name


def test_dim_for_two_axes_of_sines_and_cosines() -> None:
    with pytest.raises(ValueError, match="dim = 18 is not a multiple of 4"):
        replace(SMALL, dim=18)


# ------------------------------------------------------------------------------------------------------------- folders


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(Model("detr", DETR(replace(SMALL, stem="large", decoder_depth=2))), tmp_path / "ours")
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
        ({"auxiliary_loss": True}, "auxiliary_loss = True is not supported"),
        ({"position_embedding_type": "learned"}, "position_embedding_type = 'learned'"),
        ({"decoder_ffn_dim": 99}, "decoder_ffn_dim = 99"),
        ({"backbone_config": None, "use_timm_backbone": False}, "model.backbone.conv_encoder.model.encoder.stages.2"),
        ({"num_channels": 1}, "num_channels = 1 is not supported, expected 3"),
        ({"d_model": 18}, "dim = 18 is not a multiple of 4"),
        ({"encoder_layers": 10**9}, "more layers than the checkpoint has tensors"),
        ({"nonsense": 1}, "nonsense"),
    ],
)
def test_what_is_not_understood_is_refused(folder: Path, changes: dict[str, object], problem: str) -> None:
    said = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(said | changes))
    with pytest.raises(CheckpointError) as caught:
        regard.load(folder)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"out_features": ["stage2"]}, "backbone_config: out_features = ['stage2'] is not supported"),
        ({"model_type": "swin"}, "backbone_config: model_type = 'swin'"),
        ({"depths": [1, 1]}, "backbone_config: depths and hidden_sizes"),
        ({"output_stride": 16}, "output_stride"),
    ],
)
def test_what_is_not_understood_of_the_backbone(folder: Path, changes: dict[str, object], problem: str) -> None:
    said = json.loads((folder / "config.json").read_text())
    said["backbone_config"] |= changes
    (folder / "config.json").write_text(json.dumps(said))
    with pytest.raises(CheckpointError) as caught:
        regard.load(folder)
    assert problem in str(caught.value)
