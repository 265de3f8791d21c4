"""MultiHeadAttention: its parts and its variants, with and without a cache, and whatever stands at padding."""

from itertools import product

import pytest
import torch
from torch import Tensor, nn

from regard.building import prepare
from regard.nn.attention import MultiHeadAttention, Softmax
from regard.nn.cache import Cache
from regard.nn.mask import ALL, CAUSAL, Mask, TensorBias
from regard.nn.positions import ALiBi, Rotary
from tests.contracts.tools import (
    CHOICES,
    DECODERS,
    DIM,
    HEADS,
    KERNELS,
    close,
    gradients,
    mixer,
    numbers,
    ragged,
    stirred,
)

CPU = torch.device("cpu")

VARIANTS = {
    "plain": {},
    "no-bias": {"biases": ""},
    "some-biases": {"biases": "qv"},
    "other-biases": {"biases": "ko"},
    "one-bias": {"biases": "k"},
    "groups": {"groups": 2},
    "one-group": {"groups": 1},
    "wide-heads": {"head_dim": 6},
    "wide-values": {"value_dim": 7},
    "shared-qk": {"shared": "qk"},
    "shared-kv": {"shared": "kv"},
    "shared-kv-groups": {"shared": "kv", "groups": 2, "biases": "o"},
    "rotary": {"rotary": Rotary(4)},
    "rotary-part": {"rotary": Rotary(2, layout="halves"), "groups": 2},
    "all": {"groups": 2, "head_dim": 6, "value_dim": 3, "rotary": Rotary(4)},
}


def attention(variant: str) -> MultiHeadAttention:
    return stirred(MultiHeadAttention(DIM, HEADS, **VARIANTS[variant])).eval()


def by_hand(layer: MultiHeadAttention, x: Tensor, context: Tensor, allowed: Tensor, bias: Tensor) -> Tensor:
    """The sum of heads: each head's map times what the two value matrices make of the context.  One sentence."""
    total = torch.zeros(len(x), DIM).double()
    for h in range(layer.heads):
        g = h // (layer.heads // layer.groups)
        made = {}
        for name, linear, index in (
            ("q", layer.q, h),
            ("k", layer.k or layer.q, g),
            ("v", layer.v or layer.k or layer.q, g),
        ):
            e = linear.out_features // (layer.heads if name == "q" else layer.groups)
            weight = linear.weight[index * e : (index + 1) * e]
            add = 0 if linear.bias is None else linear.bias[index * e : (index + 1) * e]
            made[name] = (x if name == "q" else context) @ weight.T + add
        if layer.rotary is not None:
            made["q"], made["k"] = (layer.rotary(made[name], torch.arange(len(x))) for name in "qk")
        scores = made["q"] @ made["k"].T / made["q"].shape[1] ** 0.5 + bias[h]
        weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
        f = layer.out.in_features // layer.heads
        total += weights @ made["v"] @ layer.out.weight[:, h * f : (h + 1) * f].T
    return total if layer.out.bias is None else total + layer.out.bias


@pytest.mark.parametrize("variant", VARIANTS)
def test_sum_of_heads(variant: str) -> None:
    """The formula with concatenated heads equals the one that sums over heads, for every way to be built."""
    layer, x, bias = attention(variant), numbers(3, 5, DIM), numbers(HEADS, 5, 5)
    allowed = torch.ones(5, 5, dtype=torch.bool).tril()
    found = layer(x, mask=CAUSAL, bias=TensorBias(bias))
    for row in range(3):
        close(found[row], by_hand(layer, x[row], x[row], allowed, bias), 1e-6 if layer.rotary else 1e-10)


@pytest.mark.parametrize("variant", [name for name in VARIANTS if "rotary" not in VARIANTS[name]])
def test_cross(variant: str) -> None:
    """With a context; the same layer over z = x is self-attention."""
    layer, x, context = attention(variant), numbers(2, 3, DIM), numbers(2, 6, DIM)
    found = layer(x, context, mask=Mask(keys=ragged(2, 6, "right")), bias=TensorBias(numbers(HEADS, 3, 6) * 0))
    for row in range(2):
        allowed = ragged(2, 6, "right")[row].expand(3, 6)
        close(found[row], by_hand(layer, x[row], context[row], allowed, torch.zeros(HEADS, 3, 6).double()))
    close(layer(x, x), layer(x))
    bias = TensorBias(numbers(HEADS, 3, 3))
    close(layer(x, x, mask=CAUSAL, bias=bias), layer(x, mask=CAUSAL, bias=bias))


def test_a_causal_context_has_its_own_places() -> None:
    """``start`` is the place of the first query among the context's keys; padding stays where it is."""
    layer, x, context = attention("plain"), numbers(2, 2, DIM), numbers(2, 6, DIM)
    keys = ragged(2, 6, "left")
    found = layer(x, context, mask=Mask(causal=True, start=3, keys=keys))
    for i in range(2):
        mask = Mask(keys=keys[:, : 4 + i])
        close(found[:, i : i + 1], layer(x[:, i : i + 1], context[:, : 4 + i], mask=mask))


def test_a_context_of_another_width() -> None:
    layer = stirred(MultiHeadAttention(DIM, HEADS, context_dim=6))
    assert layer(numbers(2, 3, DIM), numbers(2, 5, 6)).shape == (2, 3, DIM)


def test_what_is_shared_is_one() -> None:
    """One projection and one tensor, and fewer weights."""
    x, plain = numbers(2, 3, DIM), sum(p.numel() for p in attention("plain").parameters())
    for shared, (a, b) in {"qk": (0, 1), "kv": (1, 2)}.items():
        layer = attention(f"shared-{shared}")
        parts = layer.project(x, x, x)
        assert torch.equal(parts[a], parts[b])
        assert sum(p.numel() for p in layer.parameters()) == plain - DIM * DIM - DIM


def test_what_cannot_be() -> None:
    for message, arguments in {
        "not a multiple of 5 heads": {"heads": 5},
        r"number of key-value groups \(3\)": {"heads": 4, "groups": 3},
        "keys and values can share one projection only": {"heads": 4, "shared": "kv", "value_dim": 3},
        "only if they have the same sizes": {"heads": 4, "shared": "qk", "groups": 2},
        "queries and keys can share one projection only if they have the same sizes": {
            "heads": 4,
            "shared": "qk",
            "context_dim": 3,
        },
    }.items():
        with pytest.raises(ValueError, match=message):
            MultiHeadAttention(DIM, **arguments)
    with pytest.raises(ValueError, match="rotary"):
        attention("rotary")(numbers(1, 2, DIM), numbers(1, 3, DIM))
    with pytest.raises(ValueError, match=r"query rows \(3\) must be a multiple of the number of contexts \(2\)"):
        attention("plain")(numbers(3, 2, DIM), numbers(2, 3, DIM))
    with pytest.raises(ValueError, match=r"query rows \(1\) must be a multiple of the number of contexts \(2\)"):
        attention("plain")(numbers(1, 2, DIM), numbers(2, 3, DIM))


@pytest.mark.parametrize("variant", VARIANTS)
def test_parts_compose(variant: str) -> None:
    layer, x = attention(variant), numbers(2, 5, DIM)
    q, k, v = layer.project(x, x, x)
    groups = VARIANTS[variant].get("groups", HEADS)
    assert (q.shape[:3], k.shape[:3], v.shape[:3]) == ((2, HEADS, 5), (2, groups, 5), (2, groups, 5))
    if layer.rotary is not None:
        q, k = layer.rotary(q, torch.arange(5)), layer.rotary(k, torch.arange(5))
    close(layer.merge(layer.attend(q, k, v, CAUSAL)), layer(x, mask=CAUSAL))
    other, values = numbers(2, 5, DIM), numbers(2, 5, DIM)
    q, k, v = layer.project(other, x, values)
    close(q, layer.project(other, other, other)[0])
    close(k, layer.project(x, x, x)[1])
    if VARIANTS[variant].get("shared") != "kv":
        close(v, layer.project(values, values, values)[2])


@pytest.mark.parametrize("variant", VARIANTS)
def test_fused_projections_are_the_same(variant: str) -> None:
    """For every variant, also with three different inputs; the twin is a frozen copy and leaves the model alone."""
    layer, x = attention(variant), numbers(2, 5, DIM)
    names = list(layer.state_dict())
    twin = prepare(layer)
    assert twin.fused is not None
    assert layer.fused is None
    assert list(layer.state_dict()) == names
    assert all(p.requires_grad for p in layer.parameters())
    assert not any(p.requires_grad for p in twin.parameters())
    for name, parameter in layer.named_parameters():
        assert torch.equal(twin.get_parameter(name), parameter)
        assert twin.get_parameter(name).data_ptr() != parameter.data_ptr()
    assert twin.q.weight.data_ptr() == twin.fused.weight.data_ptr(), "the parts are views of the whole"
    calls: list[nn.Module] = []
    for linear in (twin.q, twin.k, twin.v, twin.fused):
        if linear is not None:
            linear.register_forward_hook(lambda module, *_: calls.append(module))
    close(twin(x, mask=CAUSAL), layer(x, mask=CAUSAL), 1e-12)
    assert calls == [twin.fused], "q, k and v must be one product"
    calls.clear()
    close(twin.train()(x, mask=CAUSAL), layer(x, mask=CAUSAL), 1e-12)
    assert twin.fused not in calls, "in training each has its own"
    twin.eval()
    for found, wanted in zip(twin.project(x, x, x), layer.project(x, x, x), strict=True):
        close(found, wanted, 1e-12)
    other, values = numbers(2, 3, DIM), numbers(2, 5, DIM)
    for found, wanted in zip(twin.project(other, x, values), layer.project(other, x, values), strict=True):
        close(found, wanted)
    cache, parts = Cache(5), []
    for i in range(5):
        parts.append(twin(x[:, i : i + 1], mask=cache.take(1), cache=cache))
    close(torch.cat(parts, 1), layer(x, mask=CAUSAL))


def test_projections_from_other_widths_stay_apart() -> None:
    layer = stirred(MultiHeadAttention(DIM, HEADS, context_dim=6)).eval()
    x, context = numbers(2, 3, DIM), numbers(2, 5, 6)
    assert prepare(layer).fused is None
    close(prepare(layer)(x, context), layer(x, context))


@pytest.mark.parametrize("variant", ["rotary", "rotary-part"])
def test_rotary_is_relative(variant: str) -> None:
    """The whole sentence may stand anywhere; a cache's start turns keys and queries alike."""
    layer, x = attention(variant), numbers(3, 6, DIM)
    close(
        layer(x, mask=Mask(causal=True, start=torch.tensor(50), pairs=torch.ones(6, 6, dtype=torch.bool).tril())),
        layer(x, mask=CAUSAL),
        1e-4,
    )
    assert not torch.allclose(layer(x), layer(x.flip(1)).flip(1)), "order has no effect"
    cache = Cache()
    parts = [layer(part, mask=cache.take(part.shape[1]), cache=cache) for part in x.split((2, 3, 1), 1)]
    close(torch.cat(parts, 1), layer(x, mask=CAUSAL), 1e-6)


@pytest.mark.parametrize("steps", [(2, 3, 1), (1,) * 6, (6,), (1, 5)])
@pytest.mark.parametrize("variant", VARIANTS)
def test_cached_is_full(variant: str, steps: tuple[int, ...]) -> None:
    layer, x = attention(variant), numbers(2, 6, DIM)
    for side, bias in product((None, "left", "right", "holes"), (False, True)):
        keys = {None: None, "holes": torch.tensor([[1, 0, 1, 0, 0, 1], [0, 1, 1, 1, 0, 1]]).bool()}.get(side)
        keys = ragged(2, 6, side) if side in ("left", "right") else keys
        whole = Mask(causal=True, keys=keys)
        full = layer(x, mask=whole, bias=ALiBi(HEADS, whole) if bias else None)
        cache, parts, start = Cache(4), [], 0
        for n in steps:
            mask = cache.take(n, None if keys is None else keys[:, start : start + n])
            added = ALiBi(HEADS, mask) if bias else None
            parts.append(layer(x[:, start : start + n], mask=mask, bias=added, cache=cache))
            start += n
        close(torch.cat(parts, 1), full, 1e-6 if layer.rotary else 1e-10)
        assert cache.slot(layer)["k"].shape[1] == layer.groups  # the groups are kept, not every head


def test_each_row_at_a_place_of_its_own() -> None:
    """Rows that are at different places, in a memory of fixed size that is not full."""
    layer, x = attention("rotary"), numbers(2, 7, DIM)
    starts, keys = torch.tensor([4, 2]), torch.ones(2, 7, dtype=torch.bool)
    keys[0, 1] = False
    q, k, v = layer.project(x, x, x)
    whole, some = Mask(causal=True, keys=keys), Mask(True, starts, keys)
    k, few = layer.rotary(k, whole.positions(7, CPU)), torch.stack([q[0, :, 4:6], q[1, :, 2:4]])
    found = layer.attend(layer.rotary(few, some.positions(2, CPU)), k, v, some)
    full = layer.attend(layer.rotary(q, whole.positions(7, CPU)), k, v, whole)
    close(found, torch.stack([full[0, :, 4:6], full[1, :, 2:4]]))


STARTS = {"whole": 0, "start": 2, "start-tensor": torch.tensor(2), "start-rows": torch.tensor([2, 2, 2])}


@pytest.mark.parametrize("poison", [torch.nan, torch.inf, 1e300])
@pytest.mark.parametrize(
    ("name", "place"), [(name, place) for name in KERNELS for place in STARTS if name in DECODERS or place == "whole"]
)
def test_padding_may_hold_anything(name: str, place: str, poison: float) -> None:
    """NaN at padding reaches no real output and no gradient, of inputs or of weights."""
    causal, start = name in DECODERS, STARTS[place]
    layer, x = mixer(CHOICES[name]), numbers(3, 5, DIM)
    if place != "whole":
        keys = torch.cat((torch.ones(3, 2, dtype=torch.bool), ragged(3, 5, "right")), 1)
        past = numbers(3, 2, DIM)
    else:
        keys, past = ragged(3, 5, "right"), None
    real = keys[:, -5:]

    def run(value: float) -> list[Tensor]:
        given = torch.where(real[..., None], x, value).requires_grad_()
        cache = Cache()
        if past is not None:
            layer(past, mask=Mask(causal, keys=keys[:, :2]), cache=cache)
        mask = Mask(causal, start, keys)
        y = layer(given, mask=mask, cache=cache if past is not None else None)[real]
        return [y, *(g[real] if g.shape == x.shape else g for g in gradients(y, given, *layer.parameters()))]

    for found, wanted in zip(run(poison), run(0.0), strict=True):
        close(found, wanted)


def test_padding_of_a_context_may_hold_anything() -> None:
    layer, x, context, keys = attention("plain"), numbers(2, 3, DIM), numbers(2, 5, DIM), ragged(2, 5, "left")

    def run(value: float) -> list[Tensor]:
        y = layer(x, torch.where(keys[..., None], context, value), mask=Mask(keys=keys))
        return [y, *gradients(y, *layer.parameters())]

    for found, wanted in zip(run(torch.nan), run(0.0), strict=True):
        close(found, wanted)


def test_leading_axes() -> None:
    """(b, s, n, d): rows of an alignment, each with its own padding."""
    layer, x, keys = attention("plain"), numbers(2, 3, 5, DIM), torch.rand(2, 3, 5) < 0.7
    found = layer(x, mask=Mask(keys=keys))
    for b in range(2):
        close(found[b], layer(x[b], mask=Mask(keys=keys[b])))
    close(layer(x[0, 0], mask=ALL), layer(x[:1, 0], mask=ALL)[0])


@pytest.mark.parametrize("groups", [4, 2])
@pytest.mark.parametrize("seen", ["all", "some", "a row sees nothing", "the bias forbids a row"])
def test_a_bias_that_learns(seen: str, groups: int) -> None:
    """In training the kernel takes another way than in use: by weights and slopes it is the same, blind rows too."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, heads, 5, 3, dtype=torch.float64).requires_grad_() for heads in (4, groups, groups))
    added = torch.randn(4, 5, 5, dtype=torch.float64)
    pairs = torch.rand(2, 1, 5, 5) < 0.7
    pairs |= torch.eye(5, dtype=torch.bool)
    if seen == "a row sees nothing":
        pairs[1, :, 2] = False
    if seen == "the bias forbids a row":
        added[:, 3] = -torch.inf
    mask = ALL if seen == "all" else Mask(pairs=pairs)
    added.requires_grad_()
    kernel = Softmax()
    found, wanted = kernel(q, k, v, mask, TensorBias(added)), kernel.explicit(q, k, v, mask, TensorBias(added))
    assert torch.allclose(found, wanted, atol=1e-12)
    slopes = [torch.autograd.grad(y.square().sum(), (q, k, v, added)) for y in (found, wanted)]
    for one, other in zip(*slopes, strict=True):
        assert one.isfinite().all()
        assert torch.allclose(one, other, atol=1e-12)
