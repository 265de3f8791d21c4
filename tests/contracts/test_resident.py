"""Attention in parts gives its memory back, to the system and not to PyTorch alone; and its gradients are those of the
whole, whatever the parts borrow from elsewhere."""

import json
import os
import resource
import subprocess
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual

import regard.nn.attention
from regard.nn.attention import MultiHeadAttention, Softmax, by_rows
from regard.nn.kernels.additive import Additive
from regard.nn.kernels.talking import TalkingHeads
from regard.nn.mask import ALL, Bias, Mask, TensorBias
from regard.nn.positions import Buckets
from regard.nn.recomputation import recompute_forward
from regard.nn.tap import Tap, capture, listen
from tests.contracts.tools import DIM, HEADS, WIDTH, close, gradients, numbers, ragged, stirred

LENGTH = 3072
MATRIX = LENGTH * LENGTH * 4  # bytes of all scores of one head
CASES = ["padding", "causal", "bias", "evaluation"]


@pytest.fixture(scope="module")
def grown() -> dict[str, int]:
    """By how many bytes each case makes a process grow, at its peak, with the C library's own allocator."""
    tuned = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD", "THP_")
    plain = {name: value for name, value in os.environ.items() if not name.startswith(tuned)}
    found = subprocess.run(
        [sys.executable, "-c", "from tests.contracts.test_resident import measure_all; measure_all()"],
        env=plain | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return dict(json.loads(line) for line in found.stdout.splitlines())


def measure_all() -> None:
    """Each case in a process of its own, but what PyTorch needs is imported once."""
    attend("padding", 64, 1 << 10)
    for case in CASES:
        child = os.fork()
        if not child:
            print(json.dumps([case, measure(case)]), flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0, case


def measure(case: str) -> int:
    attend(case, 64, 1 << 10)
    before = peak()
    attend(case, LENGTH, 1 << 15)  # as many parts as a far longer sequence has
    return peak() - before


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def attend(case: str, n: int, dense: int) -> None:
    regard.nn.attention.DENSE = dense
    training = case != "evaluation"
    bias = Buckets(1)() if case in ("bias", "evaluation") else None
    layer = MultiHeadAttention(8, 1, kernel=Softmax(0.1 if bias is None else 0.0)).train(training)
    mask = Mask(causal=case == "causal", keys=ragged(2, n, "right")[1:])
    with torch.set_grad_enabled(training):
        y = layer(torch.randn(1, n, 8), mask=mask, bias=bias)
        if training:
            y.sum().backward()


@pytest.mark.parametrize("case", CASES)
def test_memory_is_given_back(case: str, grown: dict[str, int]) -> None:
    assert grown[case] < MATRIX / 3, f"{grown[case] >> 20} MiB more, of {MATRIX >> 20} for all scores at once"


MASK = Mask(keys=ragged(2, 6, "left"))


@pytest.mark.parametrize("training", [False, True])
def test_a_part_leaves_nothing_behind(training: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regard.nn.attention, "DENSE", 1)
    kernel, made = stirred(Additive(HEADS, WIDTH, 0.1)), []
    inner = kernel.explicit

    def watched(*x: Tensor) -> Tensor:
        assert not any(part() is not None for part in made), "an earlier part is still there"
        y = inner(*x)
        made.append(weakref.ref(y))
        return y

    monkeypatch.setattr(kernel, "explicit", watched)
    q, k, v = (numbers(2, HEADS, 6, WIDTH, grad=training) for _ in range(3))
    with torch.set_grad_enabled(training):
        y = kernel.train(training)(q, k, v, MASK)
        if training:
            y.sum().backward()
    assert len(made) == (12 if training else 6)


def same_in_parts(run: Callable[[], list[Tensor]], monkeypatch: pytest.MonkeyPatch, error: float = 1e-10) -> None:
    """Whole, and in parts of one row each."""
    whole = run()
    monkeypatch.setattr(regard.nn.attention, "DENSE", 1)
    for found, wanted in zip(run(), whole, strict=True):
        close(found, wanted, error)


def layers(kernel: Callable[[], regard.nn.attention.Kernel] = Softmax) -> list[MultiHeadAttention]:
    return [stirred(MultiHeadAttention(DIM, HEADS, kernel=kernel())) for _ in range(2)]


def test_a_bias_that_also_made_the_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second layer's queries depend on the bias that it shares with the first: a part must not go that way."""
    first, second = layers()
    x, table, given = numbers(2, 6, DIM, grad=True), stirred(Buckets(HEADS, 8, 6)), numbers(HEADS, 6, 6, grad=True)

    def run() -> list[Tensor]:
        made = TensorBias(given.exp())
        y = second(first(x, mask=MASK, bias=table(MASK)), mask=MASK, bias=table(MASK))
        z = second(first(x, mask=MASK, bias=made), mask=MASK, bias=made)
        return gradients(y + 2 * z, x, given, *table.parameters(), *first.parameters(), *second.parameters())

    same_in_parts(run, monkeypatch)


def test_a_bias_made_of_the_kernels_own_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = stirred(MultiHeadAttention(DIM, HEADS, kernel=TalkingHeads(HEADS))), numbers(2, 6, DIM, grad=True)
    shape = numbers(6, 6)

    def run() -> list[Tensor]:
        bias = TensorBias(layer.kernel.before.weight.mean() * shape)
        return gradients(layer(x, mask=MASK, bias=bias), x, *layer.parameters())

    same_in_parts(run, monkeypatch)


@dataclass(frozen=True)
class Content:
    """A bias that looks at the queries, as relative positions do."""

    q: Tensor
    places: Tensor

    def dense(self, rows: int, columns: int, device: torch.device) -> Tensor:
        return self.q @ self.places[:columns].T

    def tile(self, rows: slice, columns: int) -> "Content":
        return Content(self.q[..., rows, :], self.places)


def test_a_bias_made_of_the_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = (numbers(2, HEADS, 6, WIDTH, grad=True) for _ in range(3))
    places = numbers(6, WIDTH, grad=True)
    same_in_parts(lambda: gradients(Softmax()(q, k, v, MASK, Content(q, places)), q, k, v, places), monkeypatch)


def test_inputs_made_of_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    q, kernel = numbers(2, HEADS, 6, WIDTH, grad=True), stirred(Additive(HEADS, WIDTH))

    def run() -> list[Tensor]:
        k = q * 2
        return gradients(kernel(q, k, k, MASK), q, *kernel.parameters())

    same_in_parts(run, monkeypatch)


def test_only_a_bias_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = (numbers(2, HEADS, 6, WIDTH) for _ in range(3))
    table = stirred(Buckets(HEADS, 8, 6))
    same_in_parts(lambda: gradients(Softmax()(q, k, v, MASK, table(MASK)), table.weight), monkeypatch)
    assert not Softmax()(q, k, v, MASK, table.requires_grad_(False)(MASK)).requires_grad


class Steps:
    """A bias for the first query alone, of several tensors."""

    def __init__(self, first: int, *parts: Tensor) -> None:
        self.first, self.parts = first, parts

    def dense(self, rows: int, columns: int, device: torch.device) -> Tensor:
        row = torch.cat(self.parts) if self.first == 0 else torch.zeros(columns, dtype=torch.float64)
        return torch.cat((row[None], torch.zeros(rows - 1, columns, dtype=torch.float64)))

    def tile(self, rows: slice, columns: int) -> "Steps":
        return Steps(self.first + rows.start, *self.parts)


def test_a_bias_for_some_parts_of_many_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = (numbers(2, HEADS, 6, WIDTH) for _ in range(3))
    parts = [numbers(3, grad=True) for _ in range(2)]
    same_in_parts(lambda: gradients(Softmax()(q, k, v, Mask(), Steps(0, *parts)), *parts), monkeypatch)


class Tapped(Softmax):
    """Something to listen to in each part."""

    def __init__(self) -> None:
        super().__init__()
        self.mixed = Tap()

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = ALL, bias: Bias | None = None) -> Tensor:
        return by_rows(self.explicit, q, k, v, mask, bias)

    def explicit(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Bias | None) -> Tensor:
        return self.mixed(super().explicit(q, k, v, mask, bias))


def test_listeners_of_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heard once; and what they replace is replaced again for the gradient, though they have left."""
    kernel, (q, k, v) = Tapped(), (numbers(2, HEADS, 6, WIDTH, grad=True) for _ in range(3))
    factor = numbers(WIDTH, grad=True)

    def run() -> list[Tensor]:
        with listen(kernel, "mixed", lambda _, y: y * factor), capture(kernel, "mixed") as seen:
            y = kernel(q, k, v, MASK)
        slopes = gradients(y, q, k, v, factor)
        close(torch.cat(seen["mixed"][::-1], -2), y)
        return [y, *slopes]

    same_in_parts(run, monkeypatch)


def test_the_result_may_be_changed_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, (q, k, v) = stirred(Additive(HEADS, WIDTH)), (numbers(2, HEADS, 6, WIDTH, grad=True) for _ in range(3))
    same_in_parts(lambda: gradients(kernel(q, k, v, MASK).mul_(2), q, k, v), monkeypatch)


def test_a_leaf_that_is_a_view(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = (numbers(2, HEADS, 6, WIDTH) for _ in range(3))
    given = numbers(2, HEADS, 6, 6)[1].requires_grad_()
    same_in_parts(lambda: gradients(Softmax()(q, k, v, MASK, TensorBias(given)), given), monkeypatch)


def test_a_hook_is_called_once(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = (numbers(2, HEADS, 6, WIDTH, grad=True) for _ in range(3))
    table, calls = stirred(Buckets(HEADS, 8, 6)), []
    table.weight.register_hook(lambda slope: calls.append(1) or slope * 3)
    monkeypatch.setattr(regard.nn.attention, "DENSE", 1)
    hooked = gradients(Softmax()(q, k, v, MASK, table(MASK)), table.weight)[0]
    assert len(calls) == 1
    table.weight._backward_hooks.clear()
    close(hooked, 3 * gradients(Softmax()(q, k, v, MASK, table(MASK)), table.weight)[0])
    made = numbers(HEADS, 6, 6, grad=True).exp()
    made.retain_grad()
    close(gradients(Softmax()(q, k, v, MASK, TensorBias(made)), q, made)[1], made.grad)


@pytest.mark.parametrize("kernel", [lambda: Softmax(0.3), lambda: Additive(HEADS, WIDTH, 0.3)])
def test_parts_within_recomputation(kernel: Callable[[], Softmax], monkeypatch: pytest.MonkeyPatch) -> None:
    """Random numbers are the same in all three runs, and the random state is left as it was."""
    monkeypatch.setattr(regard.nn.attention, "DENSE", 40)
    layer, x = stirred(MultiHeadAttention(DIM, HEADS, kernel=kernel())).train(), numbers(2, 6, DIM, grad=True)
    results = []
    for again in (False, True):
        torch.manual_seed(3)
        y = recompute_forward(lambda x: layer(x, mask=MASK), x) if again else layer(x, mask=MASK)
        torch.rand(5)
        state = torch.get_rng_state()
        results.append([y, *torch.autograd.grad(y.sin().sum(), (x, *layer.parameters()))])
        assert torch.equal(torch.get_rng_state(), state)
    for a, b in zip(*results, strict=True):
        close(a, b)


def test_a_gradient_of_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same dropped weights. With something borrowed it would not be right, so it is refused."""
    monkeypatch.setattr(regard.nn.attention, "DENSE", 8)
    kernel, q, k, v = Softmax(0.3).train(), *(numbers(1, 1, 4, 2, grad=True) for _ in range(3))

    def seeded(*x: Tensor) -> Tensor:
        torch.manual_seed(3)
        return kernel(*x)

    assert torch.autograd.gradgradcheck(seeded, (q, k, v))
    y = Softmax()(q, k, v, bias=stirred(Buckets(1, 8, 6))())
    with pytest.raises(RuntimeError, match="does not support second derivatives"):
        torch.autograd.grad(y.sum(), q, create_graph=True)


@pytest.mark.parametrize("kernel", [Softmax(0.3), Softmax()])
def test_a_gradient_that_will_be_differentiated_is_the_same(kernel: Softmax, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same weights are dropped, and inputs that were made of each other are not counted twice."""
    monkeypatch.setattr(regard.nn.attention, "DENSE", 8)
    q, mask = numbers(1, 1, 5, 2, grad=True), Mask(pairs=torch.ones(5, 5, dtype=torch.bool).tril())
    k = q * 2
    y = kernel.train()(q, k, k, mask).sin().sum()
    close(*(torch.autograd.grad(y, q, retain_graph=True, create_graph=twice)[0] for twice in (False, True)))


def test_forward_and_batched_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v, along = (numbers(2, HEADS, 6, WIDTH, grad=True) for _ in range(4))
    mask, kernel = Mask(causal=True, keys=MASK.keys), stirred(Additive(HEADS, WIDTH))

    def run() -> list[Tensor]:
        with dual_level():
            forward = unpack_dual(kernel(make_dual(q, along), k, v, mask)).tangent
        slopes = torch.stack([torch.ones_like(q), along.detach()])
        jvp = torch.func.jvp(lambda q: kernel(q, k, v, mask), (q,), (along,))[1]
        batched = torch.autograd.grad(kernel(q, k, v, mask), q, slopes, is_grads_batched=True)[0]
        each = torch.vmap(lambda q: kernel(q, k[0], v[0], Mask(causal=True)))(q)
        return [forward, jvp, batched, each]

    same_in_parts(run, monkeypatch)


def test_the_precision_is_that_of_the_forward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backward pass inside of autocast does not round what was computed outside of it, and the other way round."""
    monkeypatch.setattr(regard.nn.attention, "DENSE", 1)
    kernel, seen = Additive(HEADS, WIDTH), []
    inner = kernel.explicit
    monkeypatch.setattr(kernel, "explicit", lambda *x: seen.append((y := inner(*x)).dtype) or y)
    for forward in (False, True):
        q, k, v = (torch.randn(2, HEADS, 6, WIDTH, requires_grad=True) for _ in range(3))
        with torch.autocast("cpu", torch.bfloat16, enabled=forward):
            y = kernel(q, k, v, MASK)
        seen.clear()
        with torch.autocast("cpu", torch.bfloat16, enabled=not forward):
            y.float().sum().backward()
        assert set(seen) == {torch.bfloat16 if forward else torch.float32}
        assert len(seen) == 6


def test_gradients_are_added_up_precisely(monkeypatch: pytest.MonkeyPatch) -> None:
    """In bfloat16 256 + 1 is 256, so the sum over many parts is not taken in it."""
    monkeypatch.setattr(regard.nn.attention, "DENSE", 1)
    q, k, v = (torch.zeros(1, 1, n, 1, dtype=torch.bfloat16, requires_grad=True) for n in (600, 1, 1))
    Softmax(0.5).eval()(q, k, v, bias=TensorBias(torch.zeros(1))).sum().backward()
    assert v.grad.item() == 600
