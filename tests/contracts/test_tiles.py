"""Attention for some queries at a time: the same numbers, and never a whole matrix in memory."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import regard.nn.attention
from regard.nn.attention import Kernel, Softmax
from regard.nn.mask import ALL, CAUSAL, Bias, Mask, TensorBias
from regard.nn.positions import ALiBi
from tests.contracts.tools import (
    BIASED,
    BIASES,
    CHOICES,
    DECODERS,
    DROPPING,
    HEADS,
    KERNELS,
    MASKS,
    WIDTH,
    Largest,
    asked,
    close,
    gradients,
    kernel,
    later,
    numbers,
    ragged,
    refuses,
    stirred,
    variants_later,
)

SERVED = [(name, mask) for name in KERNELS for mask in MASKS if not refuses(name, *asked(MASKS[mask](2, 2, 2)))]
DROPPED = [name for name in KERNELS if name in DROPPING]


# Masks that are parts of another one here; of all but these kernels they are for the slow tests.
PARTS, WIDELY = (
    ("none", "right", "causal-spare-keys", "causal-late-start", "causal-start-tensor", "pairs", "causal-pairs"),
    ("softmax", "additive"),
)


def rarely(cases: list[tuple[str, str]], parts: Sequence[str], often: Sequence[str]) -> list[Any]:
    slow = [case for case in cases if case[1] in parts and case[0] not in often]
    return [pytest.param(*case, marks=pytest.mark.slow) if case in slow else later([case])[0] for case in cases]


@pytest.mark.parametrize(("name", "mask"), rarely(SERVED, PARTS, WIDELY))
def test_tiles_are_the_whole(name: str, mask: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs and gradients, for tiles of one row and of several, with every bias."""
    attention = kernel(CHOICES[name])
    q, k, v = numbers(3, HEADS, 5, WIDTH, grad=True), numbers(3, 2, 7, WIDTH, grad=True), numbers(3, 2, 7, 3, grad=True)
    given_mask = MASKS[mask](3, 5, 7)
    for bias in BIASES if mask in ("left", "causal-start-per-row", "all") and name in BIASED else ["no-bias"]:
        added = BIASES[bias](given_mask, 5, 7)
        learned = list(added.table.parameters()) if bias == "buckets" else []
        inputs = [q, k, v, *attention.parameters(), *learned]
        whole = attention(q, k, v, given_mask, added)
        wanted = gradients(whole, *inputs)
        for rows in (1, 2):
            footprint = WIDTH if name in ("additive", "concat") else 1
            monkeypatch.setattr(regard.nn.attention, "DENSE", rows * 7 * footprint)
            tiled = attention(q, k, v, given_mask, added)
            close(tiled, whole)
            for found, expected in zip(gradients(tiled, *inputs), wanted, strict=True):
                close(found, expected)
        with torch.no_grad():
            close(attention.eval()(q, k, v, given_mask, added), whole)
        monkeypatch.undo()


@pytest.mark.parametrize("dense", [1, 15, 1 << 20])
@pytest.mark.parametrize("name", DROPPED)
def test_dropout_is_replayed(name: str, dense: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient is that of the very weights that were dropped in the forward pass, whatever was drawn since."""
    monkeypatch.setattr(regard.nn.attention, "DENSE", dense)
    attention = kernel(CHOICES[name], dropout=0.4).train()
    mask = Mask(causal=name in DECODERS, keys=ragged(2, 6, "right"))
    q, k, v = (numbers(2, HEADS, 6, WIDTH, grad=True) for _ in range(3))
    toward, along = numbers(2, HEADS, 6, WIDTH), [numbers(2, HEADS, 6, WIDTH) for _ in range(3)]

    def run(step: float) -> Tensor:
        torch.manual_seed(3)
        return attention(*(x + step * a for x, a in zip((q, k, v), along, strict=True)), mask)

    y = run(0.0)
    torch.rand(7)
    slopes = torch.autograd.grad((y * toward).sum(), (q, k, v), materialize_grads=True)  # not all have keys
    close(run(0.0), y)
    with torch.no_grad():
        measured = ((run(1e-6) - run(-1e-6)) * toward).sum() / 2e-6
        assert not torch.allclose(attention(q, k, v, mask), y), "another draw drops other weights"
    close(sum((slope * a).sum() for slope, a in zip(slopes, along, strict=True)), measured, 1e-6)


# A weight that is the sum of what several rounds found is dropped in parts.
IN_PARTS = {"lsh-often"}


@pytest.mark.parametrize("dense", [1, 1 << 20])
@pytest.mark.parametrize("name", variants_later(name for name in DROPPED if name not in IN_PARTS))
def test_dropout_acts_on_the_weights(name: str, dense: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regard.nn.attention, "DENSE", dense)
    attention = kernel(CHOICES[name], dropout=0.25).train()
    q, k = numbers(8, HEADS, 12, WIDTH), numbers(8, HEADS, 12, WIDTH)
    eye = torch.eye(12, dtype=torch.float64).expand(8, HEADS, 12, 12)
    weights, dropped = attention.weights(q, k), attention(q, k, eye)  # values that show each weight by itself
    kept = dropped != 0
    close(dropped[kept], weights[kept] / 0.75)
    looked = weights != 0
    assert abs(float(kept[looked].double().mean()) - 0.75) < 0.05
    for axis in (0, 1, 2, 3):  # each weight for itself: no head, row or key is dropped as a whole
        step = 1 if (looked & looked.roll(1, axis)).any() else 2  # strided attention sees no two neighbours
        both = looked & looked.roll(step, axis)
        assert (kept != kept.roll(step, axis))[both].any()
    mixed = attention(q, k, numbers(8, HEADS, 12, WIDTH))
    assert (mixed != 0).double().mean() > 0.8, "outputs were dropped, not weights"
    close(attention.eval()(q, k, eye), weights)


LONG = {
    "none": ALL,
    "causal": CAUSAL,
    "later-start": Mask(causal=True, start=torch.tensor(0)),
    "left": Mask(keys=ragged(1, 96, "left")),
    "keys-of-all": Mask(keys=ragged(1, 96, "left")[0]),
    "causal-left": Mask(causal=True, keys=ragged(1, 96, "left")),
}


# All but what learns its scores themselves, and so has a matrix of weights.
SMALL = [name for name in KERNELS if name not in ("synthesizer", "synthesizer-random")]


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize(
    ("name", "mask"),
    rarely(
        [(name, mask) for name in SMALL for mask in LONG if name in DECODERS or not LONG[mask].causal],
        ("none", "later-start", "keys-of-all"),
        ("softmax",),
    ),
)
def test_no_matrix_stands_in_memory(name: str, mask: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regard.nn.attention, "DENSE", 1024)
    attention = kernel(CHOICES[name], dropout=0.1 if name in DROPPING else 0.0).train(mode == "train")
    check_memory(attention, 96, LONG[mask], None, mode)
    if name == "softmax":
        check_memory(attention, 96, LONG[mask], ALiBi(1), mode)


def check_memory(attention: Kernel, n: int, mask: Mask, bias: Bias | None, mode: str) -> None:
    heads = HEADS if any(len(p) == HEADS for p in attention.parameters()) else 1
    q, k, v = (numbers(1, heads, n, WIDTH, grad=mode == "train") for _ in range(3))
    with Largest() as seen, torch.set_grad_enabled(mode == "train"):
        y = attention(q, k, v, mask, bias)
        if mode == "train":
            y.sum().backward()
    assert seen.numel < n * n / 2, f"{seen.numel} numbers at once, of {n} x {n} scores"


@torch.no_grad()
@pytest.mark.parametrize("name", SMALL)
def test_the_limit_counts_all_numbers_of_a_score(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small network for each pair needs as many numbers as a head is wide."""
    monkeypatch.setattr(regard.nn.attention, "DENSE", 48 * 48)
    q, k, v = (numbers(1, HEADS, 48, WIDTH) for _ in range(3))
    with Largest() as seen:
        kernel(CHOICES[name])(q, k, v)
    assert seen.numel <= HEADS * 48 * 48


@torch.no_grad()
@pytest.mark.parametrize("shape", [(96, WIDTH), (2, 1, 1, 96, WIDTH), (1, 1, 96, WIDTH)])
@pytest.mark.parametrize("mask", [ALL, CAUSAL, Mask(keys=ragged(1, 96, "left")[0])])
def test_any_shape_is_fused(mask: Mask, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """More axes or fewer, values of another width: all is brought into the form that the fused kernel takes."""
    monkeypatch.setattr(regard.nn.attention, "DENSE", 1024)
    shape = shape if len(shape) > 2 else (1, *shape)
    q, k, v = numbers(*shape), numbers(*shape), numbers(*shape[:-1], 2 * WIDTH)
    with Largest() as seen:
        Softmax()(q, k, v, mask)
    assert seen.numel < 96 * 96 / 2


def test_the_fused_kernel_drops_where_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere than on the processor, in training alone."""
    told, fused = [], F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *a, **b: told.append(a[4]) or fused(*a, **b))
    attention, x = Softmax(0.3), torch.empty(1, HEADS, 5, WIDTH, device="meta")
    attention.train()(x, x, x)
    attention.eval()(x, x, x)
    assert told == [0.3, 0.0]


def test_the_fused_kernel_knows_a_causal_mask_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, fused = [], F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *a, **b: calls.append(a[3:6]) or fused(*a, **b))
    x = numbers(1, HEADS, 5, WIDTH)
    Softmax()(x, x, x, CAUSAL)
    Softmax()(x[:, :, :1], x, x, Mask(causal=True, start=4))  # one new token sees all: no mask at all
    assert calls == [(None, 0.0, True), (None, 0.0, False)]


@pytest.mark.parametrize("name", SMALL)
def test_no_matrix_is_kept_for_the_gradient(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tile is small, but all of them together would be the matrix."""
    monkeypatch.setattr(regard.nn.attention, "DENSE", 1024)
    attention, kept = kernel(CHOICES[name], dropout=0.1 if name in DROPPING else 0.0).train(), {}

    def keep(x: Tensor) -> Tensor:
        kept[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes() // x.element_size()
        return x

    q, k, v = (numbers(1, HEADS, 96, WIDTH, grad=True) for _ in range(3))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        attention(q, k, v, Mask(causal=name in DECODERS)).sum().backward()
    assert sum(kept.values()) < HEADS * 96 * 96 / 2


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("mask", [CAUSAL, Mask(causal=True, keys=ragged(1, 2048, "right")), ALL])
def test_the_real_limit(mask: Mask, mode: str) -> None:
    """A sequence of 2,048 has four times as many scores as may stand in memory."""
    attention = stirred(Softmax(0.1)).train(mode == "train")
    q, k, v = (torch.randn(1, 1, 2048, 2, requires_grad=True) for _ in range(3))
    with Largest() as seen, torch.set_grad_enabled(mode == "train"):
        y = attention(q, k, v, mask)
        if mode == "train":
            y.sum().backward()
    assert seen.numel <= regard.nn.attention.DENSE <= 1 << 20


def test_groups_stay_together_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and values that several heads share are not written out for each in the fused way."""
    monkeypatch.setattr(regard.nn.attention, "DENSE", 1024)
    q, k, v = numbers(1, 8, 64, WIDTH), numbers(1, 1, 64, WIDTH), numbers(1, 1, 64, WIDTH)
    with Largest() as seen, torch.no_grad():
        Softmax()(q, k, v, CAUSAL)
    assert seen.numel <= q.numel()


def test_a_causal_tile_does_not_touch_what_comes_after(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the scores of a causal mask are never computed."""
    monkeypatch.setattr(regard.nn.attention, "DENSE", 4 * 64)
    widths = []
    attention = kernel("additive")
    inner = attention.weights
    monkeypatch.setattr(attention, "weights", lambda q, k, *more: widths.append(k.shape[-2]) or inner(q, k, *more))
    x = numbers(1, HEADS, 64, WIDTH)
    attention(x, x, x, CAUSAL, TensorBias(numbers(HEADS, 64, 64)))
    assert sorted(widths) == list(range(1, 65))
