"""MultiHeadAttention: beams that share a context, and what passes its taps."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.attention import MultiHeadAttention, Softmax
from regard.nn.cache import Cache
from regard.nn.mask import CAUSAL, Bias, Mask, TensorBias
from regard.nn.tap import capture, listen
from tests.contracts.tools import (
    BIASES,
    CHOICES,
    CROSSING,
    DIM,
    HEADS,
    KERNELS,
    MASKS,
    WIDTH,
    close,
    mixer,
    numbers,
    ragged,
    spelled,
    stirred,
)

CPU = torch.device("cpu")


def attention(groups: int = HEADS) -> MultiHeadAttention:
    return stirred(MultiHeadAttention(DIM, HEADS, groups=groups)).eval()


@pytest.mark.parametrize("look", [False, True])
@pytest.mark.parametrize("name", [name for name in KERNELS if name in CROSSING])
def test_beams_share_a_context(name: str, look: bool) -> None:
    """Kept once per sentence, and equal to a context repeated for every beam; also while someone looks."""
    layer, beams = mixer(CHOICES[name]), 3
    x, context, keys = numbers(2 * beams, 2, DIM), numbers(2, 5, DIM), ragged(2, 5, "right")
    repeated = Mask(keys=keys.repeat_interleave(beams, 0))
    full = layer(x, context.repeat_interleave(beams, 0), mask=repeated)
    cache = Cache()
    for _ in range(2):
        if look:
            with capture(nn.ModuleList([layer])) as seen:
                found = layer(x, context, mask=Mask(keys=keys), cache=cache)
            assert seen["0.weights"][0].shape == (2 * beams, HEADS, 2, 5)
        else:
            found = layer(x, context, mask=Mask(keys=keys), cache=cache)
        close(found, full)
        context.fill_(torch.nan)  # what was read once is not read again
    assert len(cache.context(layer)["k"]) == 2


def test_beams_refuse_what_they_cannot_honour() -> None:
    layer, x, context = attention(), numbers(4, 2, DIM), numbers(2, 5, DIM)
    bias: Bias = TensorBias(numbers(HEADS, 2, 5))
    for arguments in ({"bias": bias}, {"mask": CAUSAL}, {"mask": Mask(pairs=torch.ones(2, 5, dtype=torch.bool))}):
        with pytest.raises(ValueError, match="beams"):
            layer(x, context, **arguments)


def test_what_passes_the_taps() -> None:
    """queries, keys, values, weights and mixed are what the formula says."""
    layer, x = attention(groups=2), numbers(2, 5, DIM)
    with capture(nn.ModuleList([layer]), "*") as seen:
        y = layer(x, mask=CAUSAL)
    assert {name: tuple(records[0].shape) for name, records in seen.items()} == {
        "0.queries": (2, HEADS, 5, WIDTH),
        "0.keys": (2, 2, 5, WIDTH),
        "0.values": (2, 2, 5, WIDTH),
        "0.weights": (2, HEADS, 5, 5),
        "0.mixed": (2, HEADS, 5, WIDTH),
    }
    q, k, v, weights, mixed = (seen[f"0.{name}"][0] for name in ("queries", "keys", "values", "weights", "mixed"))
    for found, wanted in zip((q, k, v), layer.project(x, x, x), strict=True):
        close(found, wanted)
    close(weights, layer.kernel.weights(q, k, CAUSAL))
    close(mixed, weights @ v.repeat_interleave(2, 1))
    close(y, layer.merge(mixed))


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("mask", MASKS)
def test_looking_honours_masks_and_biases(mask: str, bias: str) -> None:
    layer, x = attention(), numbers(3, 5, DIM)
    given_mask = MASKS[mask](3, 5, 5)
    added = BIASES[bias](given_mask, 5, 5)
    with capture(nn.ModuleList([layer])) as seen:
        y = layer(x, mask=given_mask, bias=added)
    close(y, layer(x, mask=given_mask, bias=added))
    assert not seen["0.weights"][0][~spelled(given_mask, 3, 5, 5)].any()


def heard(layer: nn.Module, tap: str, hear, x: Tensor) -> Tensor:
    with listen(nn.ModuleList([layer]), f"0.{tap}", hear):
        return layer(x, mask=CAUSAL)


def test_editing_what_passes() -> None:
    layer, x = attention(), numbers(2, 5, DIM)
    q, k, v = layer.project(x, x, x)
    weights = layer.kernel.weights(q, k, CAUSAL)
    first = torch.zeros_like(weights)
    first[..., 0] = 1.0
    close(heard(layer, "weights", lambda *_: first, x), layer.merge(first @ v))
    close(heard(layer, "weights", lambda _, w: w * 2, x), layer.merge(2 * weights @ v))
    head = torch.ones(HEADS, 1, 1)
    head[2] = 0.0
    close(heard(layer, "mixed", lambda _, y: y * head, x), layer.merge(weights @ v * head))
    close(heard(layer, "values", lambda _, v: v * head, x), layer.merge(weights @ v * head))
    close(heard(layer, "queries", lambda _, q: q * 0, x), layer.merge(layer.attend(q * 0, k, v, CAUSAL)))
    close(heard(layer, "keys", lambda _, k: k * 3, x), layer.merge(layer.attend(q, k * 3, v, CAUSAL)))
    assert not torch.allclose(heard(layer, "mixed", lambda _, y: y * head, x), layer(x, mask=CAUSAL))


def test_only_the_weights_leave_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x, calls = attention(), numbers(2, 5, DIM), []
    fused = F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *a, **b: calls.append(1) or fused(*a, **b))
    for tap, count in (("queries", 1), ("keys", 1), ("values", 1), ("mixed", 1), ("weights", 0)):
        calls.clear()
        heard(layer, tap, lambda *_: None, x)
        assert len(calls) == count, tap


def test_dropout_while_looking_drops_the_recorded_weights() -> None:
    layer = stirred(MultiHeadAttention(DIM, HEADS, kernel=Softmax(0.5))).train()
    x = numbers(2, 6, DIM)
    with capture(nn.ModuleList([layer]), "*") as seen:
        layer(x)
    weights, mixed, v = seen["0.weights"][0], seen["0.mixed"][0], seen["0.values"][0]
    close(weights.sum(-1), torch.ones(2, HEADS, 6).double())  # as the definition has them
    assert not torch.allclose(mixed, weights @ v)
