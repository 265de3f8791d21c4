"""Linear attentions: what random features promise, and sums that neither tiles nor later keys can move."""

import copy
import math
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import regard.nn.attention
from regard.nn.attention import Kernel
from regard.nn.cache import Slot
from regard.nn.kernels import performer, rfa, sums
from regard.nn.kernels.directions import Directions, draw_directions
from regard.nn.kernels.performer import Exponentials, Performer
from regard.nn.kernels.rfa import DecayGate, FourierFeatures, RandomFeatures
from regard.nn.kernels.sums import Lifted, LinearAttention
from regard.nn.mask import ALL, CAUSAL, Mask
from regard.nn.recomputation import recompute_forward
from tests.contracts.tools import Largest, close, gradients, numbers, ragged, stirred

WIDTH = 16


def source(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def favor(width: int = WIDTH, **settings) -> Performer:
    return Performer(width, performer.Settings(**settings)).double()


def heads(n: int, *, width: int = WIDTH, spread: float = 1.0, grad: bool = False) -> list[Tensor]:
    found = [numbers(2, 3, n, width) * scale for scale in (spread, spread, 1.0)]
    return [x.requires_grad_(grad) for x in found]


def full(lifted: Lifted) -> Tensor:
    return lifted.values * lifted.level.exp()


# Directions


def test_orthogonal_blocks_are_uniform_among_rotations() -> None:
    """Raw Q of a QR decomposition has entries whose mean is as far as 0.2 from zero."""
    blocks = (
        torch.stack([draw_directions(WIDTH, WIDTH, "orthogonal", "equal", source(i)) for i in range(600)]) / WIDTH**0.5
    )
    close(blocks @ blocks.mT, torch.eye(WIDTH).double().expand(600, WIDTH, WIDTH))
    assert blocks.mean(0).abs().max() < 0.06
    close(blocks.square().mean(0), torch.full((WIDTH, WIDTH), 1 / WIDTH).double(), 0.015)


def test_norms_are_those_of_gaussian_vectors_or_equal() -> None:
    rows = torch.cat([draw_directions(40, WIDTH, "orthogonal", "chi", source(i)) for i in range(100)])
    assert rows.shape == (4000, WIDTH)
    squares = rows.square().sum(1)
    assert abs(squares.mean() - WIDTH) < 0.5
    assert abs(squares.var() - 2 * WIDTH) < 4
    last = draw_directions(40, WIDTH, "orthogonal", "chi", source(0))[32:]  # of a block that is cut
    close(F.normalize(last) @ F.normalize(last).T, torch.eye(8).double())
    for layout in ("orthogonal", "independent"):
        close(draw_directions(40, WIDTH, layout, "equal", source(0)).norm(dim=1), torch.full((40,), 4.0).double())


def test_independent_directions_are_gaussian() -> None:
    rows = draw_directions(4000, WIDTH, "independent", "chi", source(0))
    close(rows.T @ rows / 4000, torch.eye(WIDTH).double(), 0.1)


# Features


@pytest.mark.parametrize("layout", ["orthogonal", "independent"])
@pytest.mark.parametrize("form", ["positive", "trigonometric"])
def test_the_kernel_is_unbiased(form: str, layout: str) -> None:
    """The mean of many estimates is exp(q.k / sqrt e)."""
    torch.manual_seed(0)
    q, k = numbers(5, WIDTH) * 0.35, numbers(5, WIDTH) * 0.35
    estimates = []
    for i in range(600):
        w, scale = draw_directions(WIDTH, WIDTH, layout, "chi", source(i)), WIDTH**-0.25
        lift = Exponentials(w, scale, 0.0) if form == "positive" else FourierFeatures(w, scale)
        count = WIDTH if form == "positive" else 1  # sines and cosines are divided already
        estimates.append(full(lift(q)) @ full(lift(k)).T / count)
    found = torch.stack(estimates)
    error = (found.mean(0) - (q @ k.T / WIDTH**0.5).exp()).abs()
    assert (error < 5 * found.std(0) / 600**0.5 + 1e-5).all()
    assert error.max() < 0.1


@pytest.mark.parametrize("form", ["positive", "trigonometric"])
def test_weights_are_the_formula(form: str) -> None:
    """Written out pair by pair, with no maxima."""
    attention = favor(features=20, form=form)
    q, k = (numbers(2, 3, 5, WIDTH) * 0.7 for _ in range(2))
    w = attention.directions.matrix

    def lifted(x: Tensor) -> Tensor:
        x = x / WIDTH**0.25
        half = x.square().sum() / 2
        if form == "trigonometric":
            return torch.cat(((w @ x).sin(), (w @ x).cos())) * half.exp()
        return (w @ x - half).exp() + 1e-6 + min(2 * math.exp(half) / 20**0.5, 4.0)

    products = torch.stack(
        [lifted(a).dot(lifted(b)) for r, s in zip(q.flatten(0, 1), k.flatten(0, 1), strict=True) for a in r for b in s]
    )
    products = products.view(2, 3, 5, 5)
    found, sums_of = attention.weights(q, k), products.sum(-1, keepdim=True)
    if form == "trigonometric":  # where the sum is not replaced
        found, products, sums_of = (
            x[(sums_of > 0.1 * 20).expand_as(x)] for x in (found, products, sums_of.expand_as(found))
        )
        assert len(found) > 100
    close(found, products / sums_of)


def error_of(m: int, layout: str, spread: float, added: float = 0.0, draws: int = 6) -> float:
    torch.manual_seed(1)
    q, k, v = heads(64, spread=spread)
    exact = F.scaled_dot_product_attention(q, k, v)
    found = []
    for i in range(draws):
        torch.manual_seed(i)
        found.append((favor(features=m, directions=layout, added=added)(q, k, v) - exact).square().mean())
    return float(torch.stack(found).mean().sqrt())


@pytest.mark.parametrize("layout", ["orthogonal", "independent"])
def test_errors_fall_with_the_root_of_the_features(layout: str) -> None:
    """For small queries and keys; for larger ones a few features hold all, and more of them help little."""

    def slope(sizes: list[int], spread: float) -> float:
        errors = [math.log(error_of(m, layout, spread)) for m in sizes]
        return (errors[-1] - errors[0]) / math.log(sizes[-1] / sizes[0])

    assert -0.6 < slope([16, 4096], 0.25) < -0.42
    assert -0.3 < slope([16, 1024], 1.0) < 0.05
    assert error_of(256, layout, 0.25) < 0.006


@pytest.mark.parametrize("spread", [0.25, 0.5, 1.0, 2.0])
def test_what_is_added_does_not_harm(spread: float) -> None:
    """Against nothing added; and where features are noise, about as good as a mean of all values."""
    plain, added = (error_of(256, "orthogonal", spread, added) for added in (0.0, 2.0))
    assert added < 1.02 * plain
    torch.manual_seed(1)
    q, k, v = heads(64, spread=spread)
    uniform = (F.scaled_dot_product_attention(q, k, v) - v.mean(-2, keepdim=True)).square().mean().sqrt()
    assert added < 1.15 * uniform


def test_a_key_far_out_does_not_outshine_all_others() -> None:
    torch.manual_seed(0)
    q, k, _ = heads(64, spread=0.5)
    k[..., 5, :] *= 20
    assert favor(features=256).weights(q, k)[..., 5].mean() < 0.1


def test_features_are_about_e_log_e_in_whole_blocks() -> None:
    assert [len(favor(e).directions.matrix) for e in (1, 4, 16, 64)] == [1, 4, 48, 256]
    with pytest.raises(ValueError, match="at least one random direction"):
        favor(features=0)


# Sums


@pytest.mark.parametrize("start", [0, 3, 60])
@pytest.mark.parametrize("causal", [False, True])
def test_sizes_of_tiles_and_chunks_do_not_matter(causal: bool, start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    attention, (q, k, v) = favor(8, features=5), heads(37, width=8, grad=True)
    mask = Mask(causal, start=start, keys=ragged(2, 37, "left"))
    wanted = attention.weights(q, k, mask) @ v
    slopes = gradients(wanted, q, k, v)
    for chunk, dense in ((1, 1), (4, 16), (5, 1 << 20), (64, 200), (64, 1 << 20)):
        monkeypatch.setattr(sums, "CHUNK", chunk)
        monkeypatch.setattr(regard.nn.attention, "DENSE", dense)
        y = attention(q, k, v, mask)
        close(y, wanted)
        for found, expected in zip(gradients(y, q, k, v), slopes, strict=True):
            close(found, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["performer", "waves", "rfa", "gate"])
def test_no_key_is_too_large_for_another(kind: str, dtype: torch.dtype) -> None:
    """Of any order: each query has what it has if the keys after it are not there, in float32 too."""
    torch.manual_seed(0)
    attention = {
        "performer": lambda: favor(),
        "waves": lambda: favor(form="trigonometric", features=64),
        "rfa": lambda: RandomFeatures(3, WIDTH, rfa.Settings(features=64)),
        "gate": lambda: stirred(RandomFeatures(3, WIDTH, rfa.Settings(features=64, gate=True))),
    }[kind]().to(dtype)
    q, k, v = (x.to(dtype) for x in heads(20))
    if kind != "waves":  # whose factor exp(|k|^2 / 2) lets a large key be all there is, as it is in softmax
        k = k * torch.tensor([1000.0, 30, 1, 1, 1e-3, 10, 1, 5, 100, 1] * 2, dtype=dtype)[:, None]
    k[..., -1, :] = 1e4
    y, error = attention(q, k, v, CAUSAL), 1e-4 if dtype == torch.float32 else 1e-10
    assert y.isfinite().all()
    for n in (1, 2, 5, 12, 19):
        close(attention(q[..., :n, :], k[..., :n, :], v[..., :n, :], CAUSAL), y[..., :n, :], error)
        close((attention.weights(q, k, CAUSAL) @ v)[..., n, :], y[..., n, :], error)


@pytest.mark.parametrize("mask", [ALL, CAUSAL])
def test_neither_pairs_nor_features_stand_in_memory(mask: Mask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regard.nn.attention, "DENSE", 1 << 10)
    attention = favor(8, features=64)
    q, k, v = (numbers(1, 1, 1024, 8, grad=True) for _ in range(3))
    with Largest() as seen:
        attention(q, k, v, mask).sum().backward()
    assert seen.numel <= 1024 * 9


@pytest.mark.parametrize("mask", [ALL, CAUSAL])
def test_derivatives_of_first_and_second_order(mask: Mask) -> None:
    attention, inputs = favor(2, features=3, added=0.5), [numbers(1, 1, 3, 2, grad=True) for _ in range(3)]
    assert torch.autograd.gradcheck(lambda q, k, v: attention(q, k, v, mask), inputs)
    assert torch.autograd.gradgradcheck(lambda q, k, v: attention(q, k, v, mask), inputs)


# Decoding


@pytest.mark.parametrize("kind", ["performer", "gate"])
def test_a_state_that_does_not_grow(kind: str) -> None:
    attention: Kernel = favor() if kind == "performer" else stirred(RandomFeatures(3, WIDTH, rfa.Settings(gate=True)))
    q, k, v = heads(9)
    keys, slot, rows, sizes = ragged(2, 9, "left"), Slot(0), [], set()
    full = attention(q, k, v, Mask(causal=True, keys=keys))
    for i in range(9):
        one = slice(i, i + 1)
        mask = Mask(causal=True, start=i, keys=keys[:, : i + 1])
        rows.append(attention.step(slot, q[..., one, :], k[..., one, :], v[..., one, :], mask))
        sizes.add(sum(x.numel() for x in slot.tensors.values()))
        if i == 4:  # a row takes the other's place, as beams do
            order = torch.tensor([1, 0])
            slot.reorder(order)
            q, k, v, keys, full = (x[order] for x in (q, k, v, keys, full))
            rows = [row[order] for row in rows]
    found = torch.cat(rows, -2)
    real = keys[:, None, :, None].expand_as(found)
    close(found[real], full[real])
    assert len(sizes) == 1
    with pytest.raises(ValueError, match="a cache of 2 rows got 1 rows of tokens: reorder the cache"):
        attention.step(slot, q[:1, :, :1], k[:1, :, :1], v[:1, :, :1], Mask(causal=True, start=9))


# New draws


def test_directions_change_in_training_alone() -> None:
    directions = Directions(6, 4, "orthogonal", "chi", 3)
    seen = [directions().clone() for _ in range(7)]
    assert [torch.equal(a, b) for a, b in pairwise(seen)] == [True, True, False, True, True, False]
    directions.eval()
    assert all(torch.equal(directions(), seen[-1]) for _ in range(7))
    never = Directions(6, 4, "orthogonal", "chi", 0)
    assert all(torch.equal(never(), never()) for _ in range(9))


def test_what_is_drawn_hangs_on_saved_state_alone() -> None:
    """So a resumed run and every process draw the same, whatever else was drawn between; layers draw different ones."""
    first = Directions(6, 4, "orthogonal", "chi", 3)
    for _ in range(2):
        first()
    again, other = copy.deepcopy(first), Directions(6, 4, "orthogonal", "chi", 3)
    resumed = Directions(6, 4, "orthogonal", "chi", 3)
    resumed.load_state_dict(first.state_dict())
    torch.rand(5)
    for _ in range(8):
        wanted = first()
        assert torch.equal(again(), wanted)
        assert torch.equal(resumed(), wanted)
        assert not torch.equal(other(), wanted)


def test_a_gradient_is_that_of_the_directions_it_began_with() -> None:
    attention, (q, k, v) = favor(features=5, redraw=2).train(), heads(4, grad=True)
    y = attention(q, k, v)
    wanted = gradients(attention.weights(q, k) @ v, q, k, v)
    for _ in range(2):
        attention(q, k, v)
    for found, expected in zip(gradients(y, q, k, v), wanted, strict=True):
        close(found, expected)


def test_a_repeated_call_is_no_step() -> None:
    attention, (q, k, v) = favor(features=5, redraw=2).train(), heads(4, grad=True)
    for _ in range(3):
        recompute_forward(attention, q, k, v).sum().backward()
    assert int(attention.directions.calls) == 3


# Random feature attention


def test_with_many_features_it_is_softmax_of_cosines() -> None:
    torch.manual_seed(0)
    attention, (q, k, v) = RandomFeatures(3, WIDTH, rfa.Settings(features=60_000)).double(), heads(12)
    with torch.no_grad():
        attention.log_scale.copy_(torch.tensor([0.0, 0.05, 0.1])[:, None, None])
    scale = attention.log_scale.exp().double()
    turned = [F.normalize(x, dim=-1) * scale for x in (q, k)]
    wanted = F.scaled_dot_product_attention(*turned, v, is_causal=True, scale=1.0)
    assert (attention(q, k, v, CAUSAL) - wanted).abs().max() < 0.05


def test_a_gate_is_the_recurrence_of_the_paper() -> None:
    torch.manual_seed(0)
    attention = stirred(RandomFeatures(3, WIDTH, rfa.Settings(features=512, gate=True)))
    attention.log_scale.data.zero_()
    q, k, v = heads(12)
    gates = torch.sigmoid((k * attention.gate.weight).sum(-1) + attention.gate.bias)  # (b, h, n)
    lift = FourierFeatures(attention.directions.matrix, 1.0)
    a, b = lift(attention.turned(q)).values, lift(attention.turned(k)).values
    y = attention(q, k, v, CAUSAL)
    total, count = torch.zeros(2, 3, 1024, WIDTH).double(), torch.zeros(2, 3, 1024).double()
    for t in range(12):
        g = gates[..., t, None]
        total = g[..., None] * total + (1 - g[..., None]) * b[..., t, :, None] * v[..., t, None, :]
        count = g * count + (1 - g) * b[..., t, :]
        wanted = (a[..., t, None, :] @ total)[..., 0, :] / (a[..., t, :] * count).sum(-1, keepdim=True)
        close(y[..., t, :], wanted)


def test_a_gate_that_never_changes_is_exponential_decay() -> None:
    attention, (q, k, _) = RandomFeatures(3, WIDTH, rfa.Settings(features=64, gate=True)).double(), heads(12)
    decay = torch.sigmoid(torch.tensor(3.0)).double() ** -torch.arange(12)
    plain = RandomFeatures(3, WIDTH, rfa.Settings(features=64)).double()
    plain.load_state_dict(attention.state_dict(), strict=False)
    kept = plain.weights(q, k, CAUSAL) * decay
    close(attention.weights(q, k, CAUSAL), kept / kept.sum(-1, keepdim=True), 1e-8)


def test_a_sum_near_zero_is_replaced() -> None:
    """One direction may say anything: weights stay as small as kernels over the least sum."""
    torch.manual_seed(0)
    attention, (q, k, v) = RandomFeatures(3, WIDTH, rfa.Settings(features=1)).double(), heads(3)
    attention.log_scale.data += 1.0
    assert attention.weights(q, k).abs().sum(-1).max() <= 3 / rfa.LEAST
    assert attention(q, k, v).isfinite().all()


def test_small_sums_are_kept_off_zero_on_their_side() -> None:
    linear = LinearAttention(lambda x: Lifted(x, x[..., :1]), least=1e-3)
    kept = linear.kept_off(torch.tensor([0.0, 1e-6, -1e-6, 2.0, -2.0]))
    assert kept.tolist() == pytest.approx([1.0, 1e-3, -1e-3, 2.0, -2.0])


def test_padding_between_keys_lets_none_of_them_fade() -> None:
    """As after a prompt that was padded on the right: real keys stand to each other as without the padding."""
    torch.manual_seed(0)
    gate, keys = DecayGate(3, WIDTH).double(), numbers(1, 3, 6, WIDTH)
    torch.nn.init.normal_(gate.weight)
    real = torch.tensor([[True, True, False, False, True, True]])
    there = real[0].nonzero()[:, 0]
    padded, alone = gate(keys, real), gate(keys[..., there, :], None)
    close(padded.level[..., there], alone.level)
    close(padded.kept, alone.kept)
