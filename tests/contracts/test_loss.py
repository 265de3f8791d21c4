"""The loss in chunks: PyTorch's own numbers and gradients, without ever holding all logits."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import regard.nn.loss
from regard.models.transformer import Config, Transformer
from regard.nn.loss import CrossEntropy, cross_entropy
from tests.contracts.tools import Largest, close

WIDTH, WORDS = 6, 11


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three positions at a time, so that chunks are many and the last one is shorter."""
    monkeypatch.setitem(regard.nn.loss.LOGITS, "cpu", 3 * WORDS)
    monkeypatch.setattr(regard.nn.loss, "FEWEST", 1)


def drawn(*shape: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    x = torch.randn(*shape, WIDTH, dtype=dtype, requires_grad=True)
    weight = torch.randn(WORDS, WIDTH, dtype=dtype, requires_grad=True)
    bias = torch.randn(WORDS, dtype=dtype, requires_grad=True)
    return x, weight, bias, torch.randint(WORDS, shape)


def reference(
    x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, smoothing: float, real: Tensor | None = None
) -> CrossEntropy:
    """All logits at once, positions that do not count left out by PyTorch's own mark."""
    logits = F.linear(x, weight, bias).flatten(0, -2)
    target = (target if real is None else target.masked_fill(~real, -100)).flatten()
    return CrossEntropy(
        F.cross_entropy(logits, target, reduction="sum", label_smoothing=smoothing),
        F.cross_entropy(logits, target, reduction="sum"),
        (logits.argmax(-1) == target).sum(),
    )


def same(found: CrossEntropy, wanted: CrossEntropy, inputs: list[Tensor], error: float = 1e-12) -> None:
    """Each number, and the gradients under a factor from above."""
    close(found.sum, wanted.sum, error)
    close(found.plain, wanted.plain.detach(), error)
    assert torch.equal(found.right, wanted.right)
    assert not found.plain.requires_grad
    slopes = [torch.autograd.grad(y.sum * 0.3 / 7, inputs, retain_graph=True) for y in (found, wanted)]
    for ours, theirs in zip(*slopes, strict=True):
        assert (ours - theirs).norm() <= error * theirs.norm()


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("shape", [(1,), (3,), (7,), (2, 5), (2, 2, 3)])
def test_numbers_and_gradients(shape: tuple[int, ...], smoothing: float, biased: bool) -> None:
    for dtype, error in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        x, weight, bias, target = drawn(*shape, dtype=dtype)
        inputs = [x, weight, bias] if biased else [x, weight]
        added = bias if biased else None
        found = cross_entropy(x, weight, target, bias=added, smoothing=smoothing)
        assert found.sum.dtype == dtype
        same(found, reference(x, weight, added, target, smoothing), inputs, error)


@given(st.integers(0, 12), st.integers(1, 40), st.floats(0, 0.99), st.integers(0, 2**20))
def test_any_mask(n: int, rows: int, smoothing: float, seed: int) -> None:
    """Where real is False neither x nor the target matters, and x gets no gradient there."""
    torch.manual_seed(seed)
    regard.nn.loss.LOGITS["cpu"] = rows * WORDS
    x, weight, bias, target = drawn(2, n)
    real = torch.rand(2, n) < 0.6
    wrong = target.masked_fill(~real, int(torch.randint(-200, 200, ())))
    found = cross_entropy(x, weight, wrong, bias=bias, smoothing=smoothing, real=real)
    wanted = reference(x, weight, bias, target, smoothing, real)
    same(found, wanted, [x, weight, bias])
    nowhere = torch.where(real[..., None], x, torch.nan)
    again = cross_entropy(nowhere, weight, wrong, bias=bias, smoothing=smoothing, real=real)
    assert torch.equal(again.sum, found.sum)
    assert not torch.autograd.grad(found.sum, x)[0][~real].any()


def test_nothing_counts() -> None:
    x, weight, bias, target = drawn(2, 3)
    found = cross_entropy(x, weight, target, bias=bias, smoothing=0.1, real=torch.zeros(2, 3, dtype=torch.bool))
    assert (found.sum.item(), found.plain.item(), found.right.item()) == (0.0, 0.0, 0)
    assert not any(slope.any() for slope in torch.autograd.grad(found.sum, (x, weight, bias)))


def test_the_first_of_equals_is_the_largest() -> None:
    """As argmax has it: logits that are all equal foretell word 0, and not every word."""
    x, target = torch.zeros(WORDS, WIDTH), torch.arange(WORDS)
    assert int(cross_entropy(x, torch.randn(WORDS, WIDTH), target).right) == 1
    bias = torch.tensor([0.0, 2.0, 2.0] + [0.0] * (WORDS - 3))
    assert int(cross_entropy(x, torch.randn(WORDS, WIDTH), target, bias=bias).right) == 1
    assert int(cross_entropy(x[:1], torch.randn(WORDS, WIDTH), torch.tensor([1]), bias=bias).right) == 1


@pytest.mark.parametrize("size", [1e3, -1e3])
def test_large_logits(size: float) -> None:
    """A target of probability 0, and one of probability 1."""
    x, weight, bias, target = drawn(9)
    with torch.no_grad():
        bias[3] += size
    same(cross_entropy(x, weight, target, bias=bias), reference(x, weight, bias, target, 0.0), [x, weight, bias])


def test_a_word_that_cannot_be() -> None:
    x, weight, bias, _ = drawn(4)
    with torch.no_grad():
        bias[3] = -torch.inf
    target = torch.tensor([0, 1, 2, 4])
    same(cross_entropy(x, weight, target, bias=bias), reference(x, weight, bias, target, 0.0), [x, weight, bias])


@pytest.mark.parametrize("learned", range(8))
def test_only_what_is_learned_gets_a_gradient(learned: int) -> None:
    x, weight, bias, target = drawn(5)
    for i, part in enumerate((x, weight, bias)):
        part.requires_grad_(bool(learned >> i & 1))
    inputs = [part for part in (x, weight, bias) if part.requires_grad]
    found = cross_entropy(x, weight, target, bias=bias, smoothing=0.1)
    wanted = reference(x, weight, bias, target, 0.1)
    close(found.sum, wanted.sum, 1e-12)
    assert found.sum.requires_grad == bool(inputs)
    if inputs:
        same(found, wanted, inputs)


def test_without_gradient_no_gradient_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight, bias, target = drawn(5)
    wanted = cross_entropy(x, weight, target, bias=bias, smoothing=0.1)
    monkeypatch.setattr(regard.nn.loss.Sweep, "slopes", lambda *_: pytest.fail("a gradient was made"))
    with torch.no_grad():
        found = cross_entropy(x, weight, target, bias=bias, smoothing=0.1)
    assert not found.sum.requires_grad
    close(found.sum, wanted.sum.detach(), 1e-12)
    assert torch.equal(found.right, wanted.right)


def test_backward_twice_scales_anew() -> None:
    x, weight, bias, target = drawn(5)
    loss = cross_entropy(x, weight, target, bias=bias).sum
    first = torch.autograd.grad(loss * 2, x, retain_graph=True)[0]
    close(torch.autograd.grad(loss * 4, x)[0], 2 * first)


def test_a_second_derivative_is_refused() -> None:
    x, weight, bias, target = drawn(5)
    loss = cross_entropy(x, weight, target, bias=bias).sum
    with pytest.raises(RuntimeError, match="does not support second derivatives"):
        torch.autograd.grad(loss + x.square().sum(), x, create_graph=True)


def test_a_tied_matrix_adds_both_gradients() -> None:
    embedding = nn.Embedding(WORDS, WIDTH).double()
    ids, target = torch.randint(WORDS, (2, 4)), torch.randint(WORDS, (2, 4))
    parts = []
    for loss in (
        cross_entropy(embedding(ids).tanh(), embedding.weight, target, smoothing=0.1),
        reference(embedding(ids).tanh(), embedding.weight, None, target, 0.1),
    ):
        embedding.zero_grad()
        loss.sum.backward()
        parts.append(embedding.weight.grad.clone())
    close(*parts, 1e-12)


@pytest.mark.parametrize("kind", ["autocast", "bfloat16"])
def test_half_precision(kind: str) -> None:
    """As close to float32 as PyTorch's own loss is, and in the types that went in."""
    x, weight, bias, target = drawn(2, 30, dtype=torch.float32)
    real = torch.rand(2, 30) < 0.8
    exact = reference(x, weight, bias, target, 0.1, real)
    inputs = [x, weight, bias]
    wanted = torch.autograd.grad(exact.sum, inputs)
    if kind == "bfloat16":
        inputs = [part.detach().bfloat16().requires_grad_() for part in inputs]
    with torch.autocast("cpu", torch.bfloat16, enabled=kind == "autocast"):
        found = cross_entropy(*inputs[:2], target, bias=inputs[2], smoothing=0.1, real=real)
    assert found.sum.dtype == torch.float32
    close(found.sum, exact.sum, 1e-2)
    close(found.plain, exact.plain.detach(), 1e-2)
    for part, ours, theirs in zip(inputs, torch.autograd.grad(found.sum, inputs), wanted, strict=True):
        assert ours.dtype == part.dtype
        assert (ours - theirs).norm() < 0.02 * theirs.norm()


@pytest.mark.parametrize("graded", [True, False])
def test_all_logits_never_stand_in_memory(graded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    x = torch.randn(2048, 8, requires_grad=graded)
    weight = torch.randn(20_000, 8, requires_grad=graded)
    with Largest() as seen:
        found = cross_entropy(x, weight, torch.randint(20_000, (2048,)), smoothing=0.1)
        if graded:
            found.sum.backward()
    assert seen.numel <= 128 * 20_000


@pytest.mark.parametrize("real", [False, True])
def test_compiled(real: bool) -> None:
    """The graph has no chunks, and the same numbers."""
    x, weight, bias, target = drawn(2, 5)
    mask = torch.rand(2, 5) < 0.6 if real else None

    def loss(x: Tensor, weight: Tensor, bias: Tensor) -> CrossEntropy:
        return cross_entropy(x, weight, target, bias=bias, smoothing=0.1, real=mask)

    compiled = torch.compile(loss, backend="eager", fullgraph=True)
    same(compiled(x, weight, bias), loss(x, weight, bias), [x, weight, bias])


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("target 11 is out of range for a vocabulary of 11", {"target": torch.tensor([0, 11, 2])}),
        ("target -1 is out of range for a vocabulary of 11", {"target": torch.tensor([0, 1, -1])}),
        (r"x \(3, 6\), target \(2,\)", {"target": torch.tensor([0, 1])}),
        (r"target \(3,\), real \(2,\)", {"real": torch.ones(2, dtype=torch.bool)}),
        (r"must be bool \(True: the position counts\), got torch.int64", {"real": torch.ones(3, dtype=torch.int64)}),
        (r"x \(3, 6\), weight \(11, 5\)", {"weight": torch.randn(11, 5)}),
        (r"weight \(11, 6\), bias \(6,\)", {"bias": torch.randn(6)}),
        ("smoothing must be at least 0 and less than 1, got 1.0", {"smoothing": 1.0}),
        ("smoothing must be at least 0 and less than 1, got -0.1", {"smoothing": -0.1}),
    ],
)
def test_what_cannot_be(message: str, arguments: dict[str, object]) -> None:
    whole = {"x": torch.randn(3, 6), "weight": torch.randn(11, 6), "target": torch.tensor([0, 1, 2])}
    with pytest.raises(ValueError, match=message):
        cross_entropy(**(whole | arguments))


def test_a_model_scores_what_it_says() -> None:
    sizes = Config(vocab=WORDS, dim=8, depth=1, heads=2, hidden=12, dropout=0.0, output_bias=True)
    net = Transformer(sizes).double()
    source, given_words, wanted = (torch.randint(WORDS, (2, 5)) for _ in range(3))
    real = torch.arange(5) < torch.tensor([[5], [3]])
    states = net.read(given_words, net.encode(source), keys=real)
    found = net.score(states, wanted, real=real, smoothing=0.2)
    logits = net(source, given_words, keys=real)[real]
    close(found.sum, F.cross_entropy(logits, wanted[real], reduction="sum", label_smoothing=0.2), 1e-12)
    close(found.plain, F.cross_entropy(logits, wanted[real], reduction="sum").detach(), 1e-12)
    assert int(found.right) == int((logits.argmax(-1) == wanted[real]).sum())
