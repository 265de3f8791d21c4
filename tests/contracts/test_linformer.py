"""Linformer: what it is in the limit, what it costs, who shares what, and what random projections can do."""

import pytest
import torch
from torch import nn

from regard.folders import load as load_model
from regard.folders import save
from regard.model import Model
from regard.nn.attention import MultiHeadAttention, Softmax
from regard.nn.kernels.linformer import DenseProjection, Linformer, WindowProjection
from regard.nn.mask import Mask
from regard.nn.mechanisms import build_mixer
from regard.nn.site import Site
from regard.zoo import FAMILIES, count_parameters, empty_net, find_preset
from tests.contracts.families import config, net
from tests.contracts.tools import DIM, HEADS, WIDTH, Largest, close, gradients, kernel, numbers, ragged


def linformer(**settings) -> Linformer:
    found = kernel({"kind": "linformer", **settings})
    assert isinstance(found, Linformer)
    return found


@pytest.mark.parametrize("shared", ["none", "heads", "values"])
def test_as_many_sums_as_keys_can_be_softmax(shared: str) -> None:
    """E = F = 1 is full attention, outputs and gradients; for shorter inputs too."""
    attention = linformer(rank=9, length=9, shared=shared)
    with torch.no_grad():
        for projection in attention.parameters():
            projection.copy_(torch.eye(9).expand_as(projection))
    q, k, v = (numbers(2, HEADS, 9, WIDTH, grad=True) for _ in range(3))
    found, wanted = attention(q, k, v), Softmax()(q, k, v)
    close(found, wanted)
    for one, other in zip(gradients(found, q, k, v), gradients(wanted, q, k, v), strict=True):
        close(one, other)
    close(attention.weights(q, k), Softmax().weights(q, k))


def test_the_formula() -> None:
    """Head by head, key by key: softmax(q (E k)^T / sqrt e) F v."""
    attention = linformer(rank=3, length=7, shared="none")
    e, f = attention.keys.weight, attention.values.weight
    q, k, v = numbers(2, HEADS, 4, WIDTH), numbers(2, HEADS, 5, WIDTH), numbers(2, HEADS, 5, WIDTH)
    found = attention(q, k, v)
    for b in range(2):
        for h in range(HEADS):
            few, sums = e[h, :, :5] @ k[b, h], f[h, :, :5] @ v[b, h]
            close(found[b, h], (q[b, h] @ few.T / WIDTH**0.5).softmax(-1) @ sums)


@pytest.mark.parametrize("sums", ["mean", "convolution"])
def test_windows(sums: str) -> None:
    """Each window of two is summed up; an odd one at the end has less in it."""
    attention = linformer(rank=4, length=8, sums=sums)
    q, k, v = numbers(1, HEADS, 3, WIDTH), numbers(1, HEADS, 5, WIDTH), numbers(1, HEADS, 5, WIDTH)
    keys = torch.tensor([0.5, 0.5]).double() if sums == "mean" else attention.keys.taps[0, :, 0]
    values = torch.tensor([0.5, 0.5]).double() if sums == "mean" else attention.values.taps[0, :, 0]

    def windows(x, taps):
        rows = [taps[0] * x[:, :, i] + (taps[1] * x[:, :, i + 1] if i < 4 else 0) for i in (0, 2, 4)]
        return torch.stack(rows, 2)

    close(attention(q, k, v), Softmax()(q, windows(k, keys), windows(v, values)))
    assert sum(p.numel() for p in attention.parameters()) == (0 if sums == "mean" else 4)


@pytest.mark.parametrize("shared", ["none", "heads", "values"])
def test_who_shares_what(shared: str) -> None:
    """The number of weights is linear in the length, and a head's own only where nothing is shared."""
    count = {
        length: sum(p.numel() for p in linformer(rank=8, length=length, shared=shared).parameters())
        for length in (64, 128)
    }
    assert count[128] == 2 * count[64]
    assert count[64] == {"none": 2 * HEADS, "heads": 2, "values": 1}[shared] * 8 * 64


def layered(shared: str = "layers") -> nn.Module:
    return net("bert", attention={"kind": "linformer", "rank": 3, "shared": shared}, depth=3)


def test_all_layers_share_one_projection(tmp_path) -> None:
    """It has one name, in the first layer; a copy, a file and another type keep it one."""
    model, ids = layered(), torch.randint(13, (2, 7))
    names = [name for name, _ in model.named_parameters() if "kernel" in name]
    assert names == ["blocks.0.mixer.kernel.keys.weight"]
    assert [name for name in model.state_dict() if "kernel" in name] == names
    before = model(ids).states
    with torch.no_grad():
        model.blocks[0].mixer.kernel.keys.weight.mul_(-1.0)
    apart = layered("values")
    apart.load_state_dict(model.state_dict(), strict=False)
    for block in apart.blocks:
        block.mixer.kernel.keys.weight.data = model.blocks[0].mixer.kernel.keys.weight.data.clone()
    close(model(ids).states, apart(ids).states)
    assert not torch.allclose(model(ids).states, before)
    save(Model("bert", model.float()), tmp_path / "shared")
    again = load_model(str(tmp_path / "shared")).net
    close(again(ids).states, model(ids).states, 1e-6)
    again(ids).states.square().mean().backward()
    assert again.blocks[0].mixer.kernel.keys.weight.grad.abs().sum() > 0
    assert again.blocks[2].mixer.kernel.projections()[0] is again.blocks[0].mixer.kernel.keys


def test_layers_cannot_share_where_a_model_has_no_place_for_it() -> None:
    with pytest.raises(ValueError, match="cannot share its projection between layers"):
        build_mixer({"kind": "linformer", "shared": "layers"}, Site(dim=DIM, heads=HEADS, length=16))
    vit = FAMILIES["vit"].net(config("vit", attention={"kind": "linformer", "shared": "layers"}))
    assert sum(isinstance(m, DenseProjection | WindowProjection) for m in vit.modules()) == 1


def test_a_length_is_needed_and_kept() -> None:
    with pytest.raises(ValueError, match="needs the maximum sequence length: set `length`"):
        build_mixer("linformer", Site(dim=DIM, heads=HEADS))
    layer = build_mixer({"kind": "linformer", "length": 6}, Site(dim=DIM, heads=HEADS)).double()
    assert isinstance(layer, MultiHeadAttention)
    layer(numbers(1, 6, DIM))
    with pytest.raises(ValueError, match="got 7 keys, expected at most 6"):
        layer(numbers(1, 7, DIM))
    with pytest.raises(ValueError, match="rank = 0 must be at least 1"):
        build_mixer({"kind": "linformer", "rank": 0}, Site(dim=DIM, heads=HEADS, length=6))


@pytest.mark.parametrize("sums", ["learned", "convolution", "mean"])
def test_padding_anywhere(sums: str) -> None:
    """Before, behind and within: the row is the sentence without it."""
    attention = linformer(rank=4, length=8, sums=sums)
    keys = torch.cat((ragged(2, 8, "left"), ragged(2, 8, "right"), torch.rand(2, 8) < 0.5))
    keys[-2:, 3] = True
    q, k, v = (numbers(6, HEADS, 8, WIDTH) for _ in range(3))
    found, weights = attention(q, k, v, Mask(keys=keys)), attention.weights(q, k, Mask(keys=keys))
    for row in range(6):
        real = keys[row]
        rows = slice(row, row + 1)
        close(found[rows], attention(q[rows], k[rows][:, :, real], v[rows][:, :, real]))
        close(weights[rows][..., real], attention.weights(q[rows], k[rows][:, :, real]))
        assert not weights[rows][..., ~real].any()


def test_memory_grows_with_the_length_not_with_its_square() -> None:
    most = {}
    for n in (512, 1024):
        attention = Linformer(1024, DenseProjection(1, 16, 1024), None)
        q, k, v = (torch.randn(1, 2, n, 4, requires_grad=True) for _ in range(3))
        with Largest() as seen:
            attention(q, k, v).sum().backward()
        most[n] = seen.numel
    assert most[1024] <= 2 * max(most[512], 16 * 1024)


def test_a_random_projection_keeps_products_but_no_softmax() -> None:
    """Johnson and Lindenstrauss: P R^T R V is P V up to an error of 1 / sqrt(rank). It says nothing of a projection
    inside of the softmax: with random E = F that error does not fall, so they must be learned."""
    n, ranks = 64, (64, 256, 1024)
    q, k, v = (torch.randn(1, 1, n, 16, dtype=torch.float64) for _ in range(3))
    exact = Softmax()(q, k, v)
    outside, inside = [], []
    for rank in ranks:
        r = torch.randn(20, rank, n, dtype=torch.float64) / rank**0.5
        mapped = Softmax().weights(q, k)[0, 0] @ r.mT @ r @ v[0, 0]
        outside.append(float(((mapped - exact[0]).square().mean() / exact.square().mean()).sqrt()))
        within = Softmax()(q.expand(20, 1, n, 16), (r @ k[0, 0])[:, None], (r @ v[0, 0])[:, None])
        inside.append(float(((within - exact).square().mean() / exact.square().mean()).sqrt()))
    for i in range(2):
        assert 1.7 < outside[i] / outside[i + 1] < 2.3
    assert min(inside) > 0.7


def test_a_whole_model_has_one_projection_more() -> None:
    """RoBERTa's sizes, and 256 x n weights for all twelve layers together."""
    for name, n in (("linformer-base", 512), ("linformer-base-long", 4096)):
        own = count_parameters(empty_net(*find_preset(name, {})))
        assert own - count_parameters(empty_net(*find_preset(name, {"attention": "softmax"}))) == 256 * n
