"""Sparse attention: each pattern pair by pair, what it costs, and what two layers of it reach."""

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import regard.nn.attention
from regard.nn.attention import Softmax
from regard.nn.cache import Slot
from regard.nn.mask import Mask
from tests.contracts.tools import HEADS, WIDTH, Largest, close, gradients, kernel, numbers, ragged

STRIDE, BLOCK, SUMMARY, N = 4, 5, 2, 33


def strided(looks: str, stride: int = STRIDE):
    return kernel({"kind": "strided", "stride": stride, "looks": looks})


def fixed(looks: str, block: int = BLOCK, summary: int = SUMMARY):
    return kernel({"kind": "fixed", "block": block, "summary": summary, "looks": looks})


# Whether query i sees key j, were nothing masked: section 4.3 of the paper, both ways.
PATTERNS = {
    "strided-near": (strided("near"), lambda i, j: abs(i - j) < STRIDE),
    "strided-far": (strided("far"), lambda i, j: (i - j) % STRIDE == 0),
    "strided-merged": (strided("merged"), lambda i, j: abs(i - j) < STRIDE or (i - j) % STRIDE == 0),
    "fixed-near": (fixed("near"), lambda i, j: i // BLOCK == j // BLOCK),
    "fixed-far": (fixed("far"), lambda i, j: i == j or j % BLOCK >= BLOCK - SUMMARY),
    "fixed-merged": (fixed("merged"), lambda i, j: i // BLOCK == j // BLOCK or j % BLOCK >= BLOCK - SUMMARY),
}


def by_hand(name: str, n: int, causal: bool) -> Tensor:
    sees = PATTERNS[name][1]
    return torch.tensor([[sees(i, j) and not (causal and j > i) for j in range(n)] for i in range(n)])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", PATTERNS)
def test_it_is_dense_attention_under_the_pattern(name: str, causal: bool) -> None:
    """Outputs and gradients, for lengths that fill the grid and that do not."""
    for n in (1, 3, 20, N):
        q, k, v = (numbers(2, HEADS, n, WIDTH, grad=True) for _ in range(3))
        dense = Softmax()(q, k, v, Mask(pairs=by_hand(name, n, causal)))
        found = PATTERNS[name][0](q, k, v, Mask(causal=causal))
        close(found, dense)
        for one, other in zip(gradients(found, q, k, v), gradients(dense, q, k, v), strict=True):
            close(one, other)


@pytest.mark.parametrize("family", ["strided", "fixed"])
def test_heads_are_split(family: str) -> None:
    """The first half looks near, the second far; of one head there is only the near half."""
    make = strided if family == "strided" else fixed
    q, k, v = (numbers(2, HEADS, N, WIDTH) for _ in range(3))
    mask = Mask(causal=True)
    both, near, far = (make(looks)(q, k, v, mask) for looks in ("split", "near", "far"))
    close(both, torch.cat((near[:, :2], far[:, 2:]), 1))
    close(make("split")(q[:, :1], k[:, :1], v[:, :1], mask), near[:, :1])
    close(make("split")(q[:, :3], k[:, :3], v[:, :3], mask), torch.cat((near[:, :2], far[:, 2:3]), 1))


def reached(*layers: str, n: int = N) -> Tensor:
    """Whether the input at j can be felt at i after these layers, the first of which is applied first."""
    product = torch.eye(n)
    for name in layers:
        product = by_hand(name, n, True).float() @ product
    return product > 0


def test_two_layers_reach_everything() -> None:
    """Strided in either order; fixed only if blocks are summed up before the sums are read."""
    everything = torch.ones(N, N, dtype=torch.bool).tril()
    assert torch.equal(reached("strided-near", "strided-far"), everything)
    assert torch.equal(reached("strided-far", "strided-near"), everything)
    assert torch.equal(reached("fixed-near", "fixed-far"), everything)
    holes = everything & ~reached("fixed-far", "fixed-near")
    assert holes.any()
    assert not holes[:BLOCK].any()
    for name in PATTERNS:
        assert by_hand(name, N, True).diagonal().all(), "a query sees itself"


@pytest.mark.parametrize(
    "order",
    [("strided", "near", "far"), ("strided", "far", "near"), ("fixed", "near", "far"), ("fixed", "far", "near")],
)
def test_the_kernels_reach_what_the_patterns_do(order: tuple[str, str, str]) -> None:
    """By the gradient of two layers, not by the drawing."""
    family, *looks = order
    x = numbers(1, HEADS, N, WIDTH, grad=True)
    y = x
    for look in looks:
        layer = (strided if family == "strided" else fixed)(look)
        y = layer(numbers(1, HEADS, N, WIDTH), numbers(1, HEADS, N, WIDTH), y, Mask(causal=True))
    felt = [torch.autograd.grad(y[..., i, :].sum(), x, retain_graph=True)[0].abs().sum((0, 1, 3)) > 0 for i in range(N)]
    assert torch.equal(torch.stack(felt), reached(*(f"{family}-{look}" for look in looks)))


@pytest.mark.parametrize("n", [1, 4, 7, 33, 100])
def test_how_many_pairs_are_seen(n: int) -> None:
    """In formulas: with l = c + about sqrt(n), each pattern has about n sqrt(n) pairs."""

    def pairs(attention) -> int:
        x = numbers(1, 1, n, WIDTH)
        return int((attention.weights(x, x, Mask(causal=True)) > 0).sum())

    window = min(n, STRIDE)
    assert pairs(strided("near")) == n * window - window * (window - 1) // 2
    lines, rest = divmod(n, STRIDE)
    assert pairs(strided("far")) == STRIDE * lines * (lines + 1) // 2 + rest * (lines + 1)
    blocks, rest = divmod(n, BLOCK)
    assert pairs(fixed("near")) == blocks * BLOCK * (BLOCK + 1) // 2 + rest * (rest + 1) // 2
    ends = [j for j in range(n) if j % BLOCK >= BLOCK - SUMMARY]
    assert pairs(fixed("far")) == sum(n - j for j in ends) + n - len(ends)


@pytest.mark.parametrize("looks", ["near", "merged"])
def test_a_window_of_all_is_full_attention(looks: str) -> None:
    q, k, v = (numbers(2, HEADS, 9, WIDTH) for _ in range(3))
    for mask in (Mask(causal=True), Mask(), Mask(causal=True, keys=ragged(2, 9, "left"))):
        full = Softmax()(q, k, v, mask)
        close(strided(looks, 9)(q, k, v, mask), full)
        close(fixed(looks, 9, 1)(q, k, v, mask), full)
    close(strided("far", 1)(q, k, v, Mask(causal=True)), Softmax()(q, k, v, Mask(causal=True)))
    close(fixed("far", 1, 1)(q, k, v, Mask(causal=True)), Softmax()(q, k, v, Mask(causal=True)))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", PATTERNS)
def test_a_padded_sentence_is_read_as_if_alone(name: str, side: str) -> None:
    """Strides and blocks begin with the sentence, wherever it stands in its row."""
    attention, keys = PATTERNS[name][0], ragged(3, N, side)
    q, k, v = (numbers(3, HEADS, N, WIDTH) for _ in range(3))
    for causal in (False, True):
        found = attention(q, k, v, Mask(causal=causal, keys=keys))
        for row in range(3):
            real = keys[row]
            alone = attention(*(x[row : row + 1, :, real] for x in (q, k, v)), Mask(causal=causal))
            close(found[row][:, real], alone[0])


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", [*PATTERNS, "strided", "fixed"])
def test_decoding_at_any_place(name: str, padded: bool) -> None:
    """One place or several at a time, from wherever the last step ended in its line or block."""
    attention = PATTERNS[name][0] if name in PATTERNS else {"strided": strided, "fixed": fixed}[name]("split")
    keys = ragged(3, N, "left") if padded else None
    q, k, v = (numbers(3, HEADS, N, WIDTH) for _ in range(3))
    full = attention(q, k, v, Mask(causal=True, keys=keys))
    for size in (1, 3, 7, 20):
        slot, parts = Slot(0), []
        for start in range(0, N, size):
            some, seen = slice(start, start + size), None if keys is None else keys[:, : start + size]
            parts.append(attention.step(slot, q[:, :, some], k[:, :, some], v[:, :, some], Mask(True, start, seen)))
        found = torch.cat(parts, 2)
        if keys is not None:
            found, wanted = (x * keys[:, None, :, None] for x in (found, full))
            close(found, wanted)
        else:
            close(found, full)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("family", ["strided", "fixed"])
@pytest.mark.parametrize("looks", ["near", "far", "merged", "split"])
def test_memory_is_that_of_the_pairs(family: str, looks: str, padded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 1,024 places a sixteenth of what the matrix would take, in training too."""
    monkeypatch.setattr(regard.nn.attention, "DENSE", 1 << 14)
    attention = (strided(looks, 32) if family == "strided" else fixed(looks, 32, 1)).train()
    q, k, v = (torch.randn(1, 2, 1024, 4, requires_grad=True) for _ in range(3))
    with Largest() as seen:
        attention(q, k, v, Mask(causal=True, keys=ragged(1, 1024, "left") if padded else None)).sum().backward()
    assert seen.numel <= 2 * 1024 * 1024 // 16


class Read(TorchDispatchMode):
    """Within, remembers the most numbers that any result had, be it a view."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.numel = max([self.numel, *(x.numel() for x in tree_leaves(out) if isinstance(x, Tensor))])
        return out


def test_a_step_of_decoding_reads_few_keys() -> None:
    q, k, v = numbers(1, 2, 1, 4), numbers(1, 2, 4096, 4), numbers(1, 2, 4096, 4)
    for family, looks in [(f, x) for f in ("strided", "fixed") for x in ("near", "far", "merged")]:
        attention = strided(looks, 64) if family == "strided" else fixed(looks, 64, 4)
        with Read() as seen:
            attention(q, k, v, Mask(causal=True, start=4095))
        assert seen.numel < 2 * 4096 * 4 / 8, (family, looks)


def test_what_cannot_be_is_refused() -> None:
    for make, told in [
        (lambda: strided("far", 0), "stride of strided attention must be at least 1, got 0"),
        (lambda: strided("merged", -1), "stride of strided attention must be at least 1, got -1"),
        (lambda: fixed("near", 0), "block of fixed attention must be at least 1, got 0"),
        (lambda: fixed("far", 4, 5), "summary must be from 1 to the block size 4, got 5"),
        (lambda: fixed("far", 4, 0), "summary must be from 1 to the block size 4, got 0"),
        (lambda: strided("both"), "looks"),
    ]:
        with pytest.raises(ValueError, match=told):
            make()
