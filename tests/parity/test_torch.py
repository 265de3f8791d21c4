"""PyTorch's own layers, with the same weights, in float64: outputs, maps, and gradients of inputs and weights."""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.transformer import Config, Transformer
from regard.nn.attention import MultiHeadAttention, Softmax
from regard.nn.block import Block
from regard.nn.feedforward import FeedForward
from regard.nn.mask import ALL, CAUSAL, Mask, TensorBias
from regard.nn.norm import build_norm
from regard.nn.residual import Branch, PostNorm, PreNorm
from regard.nn.tap import capture
from tests.parity.ours import EXACT, at_real, cotangent, some
from tests.parity.stock import all_weights, attention_weights, copy_to_ours, layer_weights, run_stock, stock

DIM, HEADS, HIDDEN = 12, 3, 20


@pytest.fixture(autouse=True)
def exact(device: torch.device) -> None:
    if device.type == "mps":
        pytest.skip("this device has no float64")


def drawn(module: nn.Module, device: torch.device) -> nn.Module:
    """In float64, every weight drawn anew: norms around 1, all else around 0."""
    module = module.double().to(device)
    for name, x in module.named_parameters():
        nn.init.normal_(x, mean=float("norm" in name and name.endswith("weight")), std=0.3)
    return module


def random(*shape: int, device: torch.device) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, device=device).requires_grad_()


def same(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=EXACT, atol=EXACT)


def pulled(y: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    """Gradients of one fixed linear function of y."""
    return torch.autograd.grad((y * cotangent("y", y)).sum(), inputs, retain_graph=True)


def both(ours: Tensor, theirs: Tensor, inputs: list[Tensor], weights: list[tuple[Tensor, ...]]) -> None:
    """Outputs agree, and gradients of the inputs and of each pair (theirs, ours, ours ...) of weights."""
    same(ours, theirs)
    if inputs:
        for one, two in zip(pulled(ours, *inputs), pulled(theirs, *inputs), strict=True):
            same(one, two)
    for their, *our in weights:
        same(torch.cat(pulled(ours, *our)), *pulled(theirs, their))


# ---------------------------------------------------------------------------------------------------------- attention


def masks(q: int, k: int, device: torch.device) -> dict[str, Mask]:
    """Every part of a mask, and all of them together; each query may look at something."""
    keys = torch.arange(k, device=device) < torch.tensor([k, max(k - 2, 1)], device=device)[:, None]
    pairs = torch.rand(2, 1, q, k, device=device) < 0.6
    pairs[..., 0] = True
    last = max(k - q, 0)
    return {
        "all": ALL,
        "causal": Mask(causal=True, start=last),
        "keys": Mask(keys=keys),
        "left": Mask(keys=torch.cat((keys[:1], keys[1:].flip(1)))),
        "pairs": Mask(pairs=pairs),
        "every": Mask(causal=True, start=last, keys=keys, pairs=pairs),
    }


def allowed(mask: Mask, q: int, k: int, device: torch.device) -> Tensor:
    """The mask by its definition, position by position."""
    table = torch.ones(2, 1, q, k, dtype=torch.bool, device=device)
    for b in range(2):
        for i in range(q):
            for j in range(k):
                seen = not mask.causal or j <= int(mask.start) + i
                seen = seen and (mask.keys is None or bool(mask.keys[b, j]))
                table[b, 0, i, j] = seen and (mask.pairs is None or bool(mask.pairs[b, 0, i, j]))
    return table


MASKS = ["all", "causal", "keys", "left", "pairs", "every"]


@pytest.mark.parametrize("scale", [None, 1.0, 0.3])
@pytest.mark.parametrize("sizes", [(5, 5), (3, 7), (1, 1), (1, 6)])
@pytest.mark.parametrize("kind", MASKS)
def test_scaled_dot_product(kind: str, sizes: tuple[int, int], scale: float | None, device: torch.device) -> None:
    rows, columns = sizes
    mask = masks(rows, columns, device)[kind]
    q, k, v = (random(2, HEADS, n, 4, device=device) for n in (rows, columns, columns))
    dense = allowed(mask, rows, columns, device)
    kernel = Softmax(scale=scale)
    theirs = F.scaled_dot_product_attention(q, k, v, dense, scale=scale)
    both(kernel(q, k, v, mask), theirs, [q, k, v], [])
    both(kernel.weights(q, k, mask) @ v, theirs, [q, k, v], [])


def test_scaled_dot_product_with_a_bias(device: torch.device) -> None:
    q, k, v = (random(2, HEADS, n, 4, device=device) for n in (3, 7, 7))
    bias = random(2, HEADS, 3, 7, device=device)
    theirs = F.scaled_dot_product_attention(q, k, v, bias)
    both(Softmax()(q, k, v, bias=TensorBias(bias)), theirs, [q, k, v, bias], [])


def test_grouped_heads(device: torch.device) -> None:
    q, k, v = random(2, 6, 5, 4, device=device), random(2, 2, 5, 4, device=device), random(2, 2, 5, 4, device=device)
    theirs = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    both(Softmax()(q, k, v, CAUSAL), theirs, [q, k, v], [])


@pytest.mark.parametrize("kind", MASKS)
def test_multi_head_self_attention(kind: str, device: torch.device) -> None:
    theirs = drawn(nn.MultiheadAttention(DIM, HEADS, batch_first=True), device)
    ours = MultiHeadAttention(DIM, HEADS).double().to(device)
    pairs = attention_weights(theirs, ours)
    copy_to_ours(pairs)
    x, mask = random(2, 6, DIM, device=device), masks(6, 6, device)[kind]
    blocked = ~allowed(mask, 6, 6, device).expand(2, HEADS, 6, 6).flatten(0, 1)  # there True means: may not
    y, weights = theirs(x, x, x, attn_mask=blocked, average_attn_weights=False)
    real = at_words(mask, x)
    both(ours(x, mask=mask)[real], y[real], [x], pairs)
    with capture(ours, "weights") as seen:
        heard = ours(x, mask=mask)
    same(seen["weights"][0].transpose(1, 2)[real], weights.transpose(1, 2)[real])
    same(heard[real], y[real])


def at_words(mask: Mask, x: Tensor) -> Tensor:
    """Where there are words; what comes out at padding nobody says."""
    return torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if mask.keys is None else mask.keys


@pytest.mark.parametrize("context_dim", [DIM, 8])
@pytest.mark.parametrize("queries", [1, 4])
def test_multi_head_cross_attention(queries: int, context_dim: int, device: torch.device) -> None:
    widths = {} if context_dim == DIM else {"kdim": context_dim, "vdim": context_dim}
    theirs = drawn(nn.MultiheadAttention(DIM, HEADS, batch_first=True, **widths), device)
    ours = MultiHeadAttention(DIM, HEADS, context_dim=context_dim).double().to(device)
    pairs = attention_weights(theirs, ours)
    copy_to_ours(pairs)
    x, context = random(2, queries, DIM, device=device), random(2, 7, context_dim, device=device)
    keys = masks(queries, 7, device)["keys"].keys
    y, weights = theirs(x, context, context, key_padding_mask=~keys, average_attn_weights=False)
    both(ours(x, context, mask=Mask(keys=keys)), y, [x, context], pairs)
    with capture(ours, "weights") as seen:
        ours(x, context, mask=Mask(keys=keys))
    same(seen["weights"][0], weights)


# ------------------------------------------------------------------------------------------------------------- blocks


def block(norm_first: bool, act: Callable[[Tensor], Tensor], *, cross: bool, device: torch.device) -> Block:
    kind = PreNorm if norm_first else PostNorm
    return (
        Block(
            MultiHeadAttention(DIM, HEADS),
            FeedForward(DIM, HIDDEN, act),
            lambda: kind(nn.LayerNorm(DIM, 1e-3), Branch(DIM)),
            cross=MultiHeadAttention(DIM, HEADS) if cross else None,
        )
        .double()
        .to(device)
    )


@pytest.mark.parametrize("act", [F.relu, F.gelu])
@pytest.mark.parametrize("norm_first", [True, False])
def test_encoder_layer(norm_first: bool, act: Callable[[Tensor], Tensor], device: torch.device) -> None:
    theirs = nn.TransformerEncoderLayer(
        DIM, HEADS, HIDDEN, 0.0, act, layer_norm_eps=1e-3, batch_first=True, norm_first=norm_first
    )
    theirs, ours = drawn(theirs, device), block(norm_first, act, cross=False, device=device)
    pairs = layer_weights(theirs, ours)
    copy_to_ours(pairs)
    x, mask = random(2, 6, DIM, device=device), masks(6, 6, device)["keys"]
    real = at_words(mask, x)
    both(ours(x, mask=mask)[real], theirs(x, src_key_padding_mask=~mask.keys)[real], [x], pairs)


@pytest.mark.parametrize("norm_first", [True, False])
def test_decoder_layer(norm_first: bool, device: torch.device) -> None:
    theirs = nn.TransformerDecoderLayer(
        DIM, HEADS, HIDDEN, 0.0, F.gelu, layer_norm_eps=1e-3, batch_first=True, norm_first=norm_first
    )
    theirs, ours = drawn(theirs, device), block(norm_first, F.gelu, cross=True, device=device)
    pairs = layer_weights(theirs, ours)
    copy_to_ours(pairs)
    x, context = random(2, 4, DIM, device=device), random(2, 7, DIM, device=device)
    keys = masks(4, 7, device)["keys"].keys
    future = ~torch.ones(4, 4, dtype=torch.bool, device=device).tril()
    y = theirs(x, context, tgt_mask=future, memory_key_padding_mask=~keys)
    both(ours(x, context, mask=CAUSAL, context_mask=Mask(keys=keys)), y, [x, context], pairs)


@pytest.mark.parametrize("side", ["none", "left", "right"])
@pytest.mark.parametrize("norm", ["pre", "post", "admin"])
def test_the_whole_transformer(norm: str, side: str, device: torch.device) -> None:
    sizes = Config(vocab=30, dim=DIM, depth=2, decoder_depth=3, heads=HEADS, hidden=HIDDEN, dropout=0.0, norm=norm)
    ours, theirs = drawn(Transformer(sizes), device), drawn(stock(sizes), device)
    pairs = all_weights(theirs, ours)
    copy_to_ours(pairs)
    assert len({id(x) for _, *own in pairs for x in own}) == len(list(ours.parameters())) - 1  # all but the words
    source, source_keys = words([7, 4], side, device)
    target, keys = words([5, 2], side, device)
    inputs = {"source": source, "target": target} | some(source_keys=source_keys, keys=keys)
    wanted = run_stock(theirs, ours, inputs)
    with capture(ours) as seen:
        heard = ours(source, target, source_keys=source_keys, keys=keys)
    real = at_words(Mask(keys=keys), target)
    found = ours(source, target, source_keys=source_keys, keys=keys)
    both(found[real], wanted.outputs["logits"][real], [], pairs)
    same(heard[real], found[real])
    maps = at_real({name.removesuffix(".weights"): calls[0] for name, calls in seen.items()}, inputs, rows=-2)
    assert maps.keys() == wanted.maps.keys()
    for name, x in maps.items() if side != "left" else ():
        same(x, wanted.maps[name])


def words(lengths: list[int], side: str, device: torch.device) -> tuple[Tensor, Tensor | None]:
    ids = torch.randint(30, (2, lengths[0]), device=device)
    keys = torch.arange(lengths[0], device=device) < torch.tensor(lengths, device=device)[:, None]
    return ids, None if side == "none" else keys.flip(1) if side == "left" else keys


# ------------------------------------------------------------------------------------------------------------- norms


def test_layer_norm_by_its_formula(device: torch.device) -> None:
    """Biased variance, eps within the root, each token by itself."""
    norm, x = drawn(build_norm("layer", DIM, 0.1), device), random(2, 3, DIM, device=device)
    centred = x - x.mean(-1, keepdim=True)
    theirs = centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + 0.1) * norm.weight + norm.bias
    both(norm(x), theirs, [x, norm.weight, norm.bias], [])
    both(norm(x), F.layer_norm(x, (DIM,), norm.weight, norm.bias, 0.1), [x, norm.weight, norm.bias], [])


def test_rms_norm_by_its_formula(device: torch.device) -> None:
    norm, x = drawn(build_norm("rms", DIM, 0.1), device), random(2, 3, DIM, device=device)
    both(norm(x), x / torch.sqrt((x**2).mean(-1, keepdim=True) + 0.1) * norm.weight, [x, norm.weight], [])
    both(norm(x), F.rms_norm(x, (DIM,), norm.weight, 0.1), [x, norm.weight], [])


def test_the_scale_of_a_head(device: torch.device) -> None:
    """1/sqrt of the head's width, not of the model's."""
    ours = drawn(MultiHeadAttention(DIM, HEADS), device)
    x = random(1, 5, DIM, device=device)
    q, k, v = ours.project(x, x, x)
    scores = torch.einsum("bhqe,bhke->bhqk", q, k) / math.sqrt(DIM // HEADS)
    y = torch.einsum("bhqk,bhke->bqhe", scores.softmax(-1), v).flatten(2) @ ours.out.weight.T + ours.out.bias
    both(ours(x), y, [x], [])
