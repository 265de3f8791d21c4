"""Every mechanism in a block: shapes, gradients, compilation, other devices and types; and the residuals around it."""

import pytest
import torch
from torch import Tensor, nn

import regard.nn.attention
import regard.nn.tap
from regard.contracts import mixers
from regard.nn.block import Block
from regard.nn.feedforward import FeedForward, Gated, Maxout
from regard.nn.mask import ALL, CAUSAL, Mask
from regard.nn.mechanisms import build_mixer
from regard.nn.norm import build_norm
from regard.nn.positions import ALiBi
from regard.nn.residual import Branch, Placement, build_residual
from regard.nn.site import Site
from tests.contracts.tools import (
    BIASED,
    CHOICES,
    CROSSING,
    DECODERS,
    DIM,
    DROPPING,
    HEADS,
    close,
    gradients,
    numbers,
    ragged,
    refuses,
    stirred,
    variants_later,
)

CPU = torch.device("cpu")
REFUSED = ("causal", "context", "bias", "pairs", "dropout", "length")


def block(
    name: str, *, placement: Placement = "pre", dropout: float = 0.0, causal: bool = False, cross: bool = False
) -> Block:
    return mixers.block(CHOICES[name], placement=placement, dropout=dropout, causal=causal, cross=cross)


@pytest.mark.parametrize("name", CROSSING)
def test_shape_and_gradients(name: str) -> None:
    """Every weight and every position takes part; with a context too."""
    mixers.shape_and_gradients(CHOICES[name], cross=True)


def test_a_context_is_needed_or_refused() -> None:
    x = numbers(2, 3, DIM)
    with pytest.raises(ValueError, match="needs a context"):
        stirred(block("softmax", cross=True))(x)
    with pytest.raises(ValueError, match="has no cross-attention"):
        stirred(block("softmax"))(x, x)


@pytest.mark.parametrize("name", variants_later(CHOICES))
def test_compiled_is_eager(name: str) -> None:
    """One graph, the same numbers, in evaluation and with a gradient."""
    torch.compiler.reset()
    layer, x = stirred(block(name, causal=name in DECODERS)).eval(), numbers(2, 6, DIM, grad=True)
    mask = Mask(causal=name in DECODERS, keys=ragged(2, 6, "left"))
    compiled = torch.compile(layer, backend="eager", fullgraph=True)
    y, wanted = compiled(x, mask=mask), layer(x, mask=mask)
    close(y, wanted, 1e-12)
    close(gradients(y, x)[0], gradients(wanted, x)[0], 1e-12)


@pytest.mark.parametrize("name", ["softmax", "additive"])
def test_compiled_in_tiles(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.compiler.reset()
    monkeypatch.setattr(regard.nn.attention, "DENSE", 8)
    layer, x = stirred(block(name, causal=True)).train(), numbers(2, 6, DIM, grad=True)
    mask = Mask(causal=True, keys=ragged(2, 6, "left"))
    y, wanted = torch.compile(layer, backend="eager", fullgraph=True)(x, mask=mask), layer(x, mask=mask)
    close(y, wanted, 1e-12)
    close(gradients(y, x)[0], gradients(wanted, x)[0], 1e-12)


@pytest.mark.parametrize("name", CHOICES)
def test_without_memory(name: str) -> None:
    with torch.device("meta"):
        cross = name in CROSSING
        layer, x = block(name, cross=cross), torch.empty(2, 5, DIM)
        keys = torch.ones(2, 5, dtype=torch.bool)
    y = layer(x, x if cross else None, mask=Mask(causal=name in DECODERS, keys=keys), context_mask=Mask(keys=keys))
    assert (y.shape, y.device.type) == (x.shape, "meta")


@pytest.mark.parametrize("look", [False, True])
@pytest.mark.parametrize("name", CHOICES)
def test_half_precision(name: str, look: bool) -> None:
    """bfloat16 by autocast and throughout: finite, and near to float32; with a bias whose own type is float32."""
    layer = stirred(block(name, causal=name in DECODERS)).float().eval()
    x, bias = torch.randn(2, 6, DIM), ALiBi(HEADS) if name in BIASED else None
    mask = Mask(causal=name in DECODERS, keys=ragged(2, 6, "left"))
    tap = regard.nn.tap.capture(layer, "*") if look else torch.no_grad()
    with tap:
        exact = layer(x, mask=mask, bias=bias)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            half = layer(x, mask=mask, bias=bias)
        throughout = layer.bfloat16()(x.bfloat16(), mask=mask, bias=bias)
    assert throughout.dtype == torch.bfloat16
    for found in (half, throughout):
        assert found.isfinite().all()
        assert (found.float() - exact).norm() < 0.1 * exact.norm()


def test_local_p_counts_beyond_256_in_half_precision() -> None:
    kernel = build_mixer({"kind": "local-p", "window": 3}, Site(dim=4, heads=1)).kernel
    length, places = kernel.places(torch.zeros(1, 1, 600, 4, dtype=torch.bfloat16), ALL)
    assert int(length) == 600
    assert places.tolist() == list(range(600))
    keys = ragged(2, 600, "left")
    length, places = kernel.places(torch.zeros(2, 1, 600, 4, dtype=torch.bfloat16), Mask(keys=keys))
    assert length.flatten().tolist() == [600, 598]
    assert places[1, 0, 0, 2:].tolist() == list(range(598))


@pytest.mark.parametrize("name", DROPPING)
def test_dropout_in_training_alone(name: str) -> None:
    layer, x = stirred(block(name, dropout=0.5)), numbers(2, 6, DIM)
    assert not torch.allclose(layer.train()(x), layer(x))
    assert torch.equal(layer.eval()(x), layer(x))
    without = stirred(block(name))
    without.load_state_dict(layer.state_dict())
    close(without(x), layer(x))


@pytest.mark.parametrize("steps", [(2, 3, 1), (1,) * 6])
@pytest.mark.parametrize("name", DECODERS)
def test_cached_is_full(name: str, steps: tuple[int, ...]) -> None:
    """Or a cache is refused."""
    mixers.cached(CHOICES[name], steps)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", CHOICES)
def test_padding_never_changes_what_is_real(name: str, side: str) -> None:
    mixers.padded(CHOICES[name], side, causal=name in DECODERS)


@pytest.mark.parametrize("name", DECODERS)
def test_nothing_of_the_future_is_seen(name: str) -> None:
    """Not even which chunk or bucket a later position falls into, unless the paper's sorting says so."""
    mixers.no_future(CHOICES[name])


@pytest.mark.parametrize("name", CHOICES)
def test_the_recorded_map_is_the_explicit_one(name: str) -> None:
    mixers.looked_at(CHOICES[name], causal=name in DECODERS)


@pytest.mark.parametrize("name", CHOICES)
def test_what_it_refuses_is_found_by_asking(name: str) -> None:
    """As a plug-in's refusals are, which no table lists."""
    assert mixers.refusals(CHOICES[name]) == {what for what in REFUSED if refuses(name, what)}


def norm_of(x: Tensor) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()


@pytest.mark.parametrize("placement", ["pre", "post", "admin", "res-post"])
def test_where_the_norm_stands(placement: Placement) -> None:
    residual = build_residual(placement, nn.LayerNorm(DIM), Branch(DIM), DIM).double()
    x, omega = numbers(2, 3, DIM), numbers(DIM)
    if placement == "admin":
        with torch.no_grad():
            residual.omega.copy_(omega)
    wanted = {
        "pre": x + (2 * norm_of(x) + 1),
        "post": norm_of(x + 2 * x + 1),
        "res-post": x + norm_of(2 * x + 1),
        "admin": norm_of(omega * x + 2 * x + 1),
    }
    close(residual(x, lambda y: 2 * y + 1), wanted[placement])


def test_unknown_words() -> None:
    with pytest.raises(ValueError, match="unknown norm placement 'before'; valid values are pre, post, admin"):
        build_residual("before", nn.LayerNorm(2), Branch(2), 2)
    with pytest.raises(ValueError, match="unknown norm 'batch'"):
        build_norm("batch", 2, 1e-5)


def test_norms() -> None:
    x = numbers(3, 5)
    close(build_norm("layer", 5, 1e-5).double()(x), norm_of(x))
    close(build_norm("rms", 5, 1e-3).double()(x), x / (x.square().mean(-1, keepdim=True) + 1e-3).sqrt())


def test_branch_scale_and_dropout() -> None:
    branch, y = Branch(4, scale=0.1).double(), numbers(2, 3, 4)
    close(branch(y), 0.1 * y, 1e-7)
    assert gradients(branch(numbers(2, 3, 4)), branch.scale)[0].shape == (4,)
    assert Branch(4).scale is None
    dropped = Branch(4, dropout=0.5).train()(torch.ones(8, 8, 4))
    assert set(dropped.unique().tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("rate", [0.25, 0.5])
def test_drop_path_skips_whole_examples_and_keeps_the_mean(rate: float) -> None:
    branch, y = Branch(4, drop_path=rate), torch.rand(4000, 3, 4) + 0.5
    found = branch.train()(y)
    kept = found[:, 0, 0] != 0
    assert torch.equal(found[~kept], torch.zeros_like(found[~kept]))
    close(found[kept], y[kept] / (1 - rate), 1e-6)
    assert abs(float(kept.float().mean()) - (1 - rate)) < 0.03
    assert abs(float(found.mean() / y.mean()) - 1) < 0.06
    assert torch.equal(branch.eval()(y), y)


def test_feed_forward() -> None:
    x = numbers(2, 3, 4)
    mlp = stirred(FeedForward(4, 6, torch.tanh))
    close(mlp(x), torch.tanh(x @ mlp.up.weight.T + mlp.up.bias) @ mlp.down.weight.T + mlp.down.bias)
    gated = stirred(Gated(4, 6))
    gate, up = x @ gated.gate.weight.T, x @ gated.up.weight.T
    close(gated(x), (gate * torch.sigmoid(gate) * up) @ gated.down.weight.T)
    maxout = stirred(Maxout(4, 3, pieces=2))
    pieces = x @ maxout.linear.weight.T + maxout.linear.bias
    close(maxout(x), torch.maximum(pieces[..., ::2], pieces[..., 1::2]))
    assert not torch.allclose(
        FeedForward(4, 64, dropout=0.5).double().train()(x), FeedForward(4, 64, dropout=0.5).double().train()(x)
    )


def test_the_stream_passes_a_tap() -> None:
    layer, x = stirred(block("softmax")), numbers(2, 3, DIM)
    with regard.nn.tap.capture(nn.ModuleList([layer]), "0.stream") as seen:
        y = layer(x, mask=CAUSAL)
    close(seen["0.stream"][0], y)
