"""Positions: the properties by which the papers chose them (systems.md 3.2)."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.nn.mask import Mask
from regard.nn.positions import (
    ALiBi,
    Buckets,
    Layout,
    Learned,
    Rotary,
    WindowBias,
    buckets,
    interpolate,
    sinusoid,
    window_offsets,
)
from tests.contracts.tools import close, numbers

CPU = torch.device("cpu")


@pytest.mark.parametrize("dim", [1, 2, 7, 8, 33])
@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_sinusoid_formula(dim: int, layout: Layout) -> None:
    found = sinusoid(torch.tensor([0, 1, 5, 300]), dim, layout)
    assert found.shape == (4, dim)
    waves = (dim + 1) // 2
    for row, p in enumerate((0, 1, 5, 300)):
        for i in range(waves):
            angle = p / 10000 ** (2 * i / dim)
            sine, cosine = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, waves + i)
            assert math.isclose(found[row, sine], math.sin(angle), abs_tol=3e-5)
            if cosine < dim:
                assert math.isclose(found[row, cosine], math.cos(angle), abs_tol=3e-5)


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_sinusoid_properties(layout: Layout) -> None:
    """Dot products depend on the offset alone, one rotation shifts every position, the length is sqrt(d/2)."""
    table = sinusoid(torch.arange(40), 16, layout).double()
    close(table.norm(dim=-1), torch.full((40,), math.sqrt(8.0)).double(), 1e-5)
    products = table @ table.T
    for offset in range(40):
        along = products.diagonal(offset)
        waves = sum(math.cos(offset / 10000 ** (2 * i / 16)) for i in range(8))
        close(along, torch.full_like(along, waves), 1e-4)
    sines, cosines = (table[:, ::2], table[:, 1::2]) if layout == "interleaved" else table.chunk(2, -1)
    waves = torch.complex(cosines, sines)
    turn = torch.polar(torch.ones(8).double(), 3 / 10000 ** (torch.arange(8).double() / 8))
    torch.testing.assert_close(waves[:-3] * turn, waves[3:], rtol=1e-5, atol=1e-5)


def test_sinusoid_of_any_shape() -> None:
    places = torch.tensor([[0, 1], [5, 2]])
    close(sinusoid(places, 6)[1, 0], sinusoid(torch.arange(6), 6)[5])


def test_learned_beyond_its_length_is_an_error() -> None:
    table = Learned(4, 3)
    close(table(torch.tensor([[3, 0]]))[0, 0], table.weight[3])
    with pytest.raises(ValueError, match=r"position 4 .* 4 positions"):
        table(torch.tensor([[0, 4]]))
    assert table(torch.empty(1, 0, dtype=torch.long)).shape == (1, 0, 3)


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
@pytest.mark.parametrize("turned", [2, 4, 8])
def test_rotary(turned: int, layout: Layout) -> None:
    """q.k depends on the distance alone, lengths stay, position 0 and what does not take part are untouched."""
    rotary = Rotary(turned, layout=layout)
    q, k = numbers(1, 1, 8).expand(1, 12, 8), numbers(1, 1, 8).expand(1, 12, 8)
    here = torch.arange(12)
    turned_q, products = rotary(q, here), rotary(q, here) @ rotary(k, here).mT
    for offset in range(-11, 12):
        along = products[0].diagonal(offset)
        close(along, along[:1].expand_as(along), 1e-5)
    assert not torch.allclose(products[0, 0], products[0, 0].flip(0)), "positions have no effect"
    close(turned_q.norm(dim=-1), q.norm(dim=-1), 1e-6)
    close(turned_q[:, 0], q[:, 0])
    assert torch.equal(turned_q[..., turned:], q[..., turned:])
    close(rotary(q, here + 5)[:, 0], turned_q[:, 5])
    heads, places = q.expand(3, 2, 12, 8), torch.randint(20, (3, 12))
    rows = rotary(heads, places)
    for row in range(3):
        close(rows[row], rotary(heads[row], places[row]))


def test_rotary_turns_by_the_paper() -> None:
    """Pair i at position p by the angle p * base^(-2i/d), counter-clockwise, in both layouts."""
    for layout, pairs in (("interleaved", [(0, 1), (2, 3)]), ("halves", [(0, 2), (1, 3)])):
        x = numbers(1, 4, 4)
        found = Rotary(4, base=100.0, layout=layout)(x, torch.arange(4))[0]
        for p in range(4):
            for i, (a, b) in enumerate(pairs):
                turn = complex(x[0, p, a], x[0, p, b]) * complex(math.cos(p / 10**i), math.sin(p / 10**i))
                close(found[p, [a, b]], torch.tensor([turn.real, turn.imag]).double(), 1e-6)
    with pytest.raises(ValueError, match="even, got 3"):
        Rotary(3)


@pytest.mark.parametrize("heads", [1, 2, 6, 8, 12, 16])
def test_alibi(heads: int) -> None:
    """A power of two has the ladder 2^(-8/h), 2^(-16/h) ...; what else there is interleaves the next ladder."""
    slopes = ALiBi(heads).slopes(CPU)
    assert len(slopes) == heads
    assert len(slopes.unique()) == heads
    whole = 2 ** int(math.log2(heads))
    close(slopes[:whole], torch.tensor([2 ** (-8 / whole * (i + 1)) for i in range(whole)]), 1e-6)
    close(slopes[whole:], ALiBi(2 * whole).slopes(CPU)[::2][: heads - whole], 1e-6)
    bias = ALiBi(heads, Mask(start=2)).dense(3, 5, CPU)
    for i in range(3):
        for j in range(5):
            close(bias[:, i, j], -slopes * abs(j - i - 2), 1e-6)


@pytest.mark.parametrize("both", [True, False])
def test_buckets(both: bool) -> None:
    """As systems.md A1 has them: near ones each its own, then wider, then all the same; monotone and symmetric."""
    offset = torch.arange(-300, 301)
    found = buckets(offset, 32, 128, both=both)
    assert found.min() == 0
    assert found.max() == 31
    past = found[:301].flip(0)  # distance 0, 1, 2 ... back
    assert (past.diff() >= 0).all()
    exact = 8 if both else 16
    assert past[:exact].tolist() == list(range(exact))
    assert len(past[128:].unique()) == 1
    later = found[301:]
    assert torch.equal(later, past[1:] + 16) if both else not later.any()
    count = 16 if both else 32
    for distance in (20, 50, 100, 127):
        grown = exact + int(math.log(distance / exact) / math.log(128 / exact) * (count - exact))
        assert past[distance] == min(grown, count - 1)


def test_bucket_bias_reads_the_table() -> None:
    table = Buckets(3, 8, 6)
    bias = table(Mask(start=2)).dense(4, 6, CPU)
    place = buckets(Mask(start=2).distances(4, 6, CPU), 8, 6, both=True)
    for h in range(3):
        close(bias[h], table.weight[:, h][place])
    assert bias.requires_grad


def test_window_bias_depends_on_offsets_alone() -> None:
    """And has one number for each of them."""
    bias, index = WindowBias(2, 3, 4)(), window_offsets(3, 4, CPU)
    assert WindowBias(2, 3, 4).weight.shape == (5 * 7, 2)
    assert bias.shape == (2, 12, 12)
    assert index.unique().tolist() == list(range(5 * 7))
    seen: dict[tuple[int, int], Tensor] = {}
    for i in range(12):
        for j in range(12):
            offset = i // 4 - j // 4, i % 4 - j % 4
            assert index[i, j] == (offset[0] + 2) * 7 + offset[1] + 3  # query minus key, rows first
            close(bias[:, i, j], seen.setdefault(offset, bias[:, i, j]))
    with torch.inference_mode():
        window_offsets(2, 2, CPU)
    table = WindowBias(1, 2, 2)
    table().sum().backward()  # what was remembered in inference serves training
    assert table.weight.grad is not None


@pytest.mark.parametrize("special", [0, 1, 2])
def test_interpolate(special: int) -> None:
    table = numbers(1, special + 6, 5)
    assert interpolate(table, (2, 3), (2, 3)) is table
    found = interpolate(table, (2, 3), (4, 9))
    assert found.shape == (1, special + 36, 5)
    assert torch.equal(found[:, :special], table[:, :special])
    for d in range(5):
        image = table[0, special:, d].reshape(1, 1, 2, 3)
        wanted = F.interpolate(image, size=(4, 9), mode="bicubic", align_corners=False)
        close(found[0, special:, d], wanted.flatten())
    flat = torch.full((1, special + 6, 5), 3.0)
    close(interpolate(flat, (2, 3), (5, 2)), torch.full((1, special + 10, 5), 3.0), 1e-5)
    rising = torch.arange(2.0)[:, None].expand(2, 3).reshape(1, 6, 1)  # rows differ, columns do not
    columns = interpolate(rising, (2, 3), (4, 6)).reshape(4, 6)
    close(columns, columns[:, :1].expand(4, 6), 1e-5)
    with pytest.raises(ValueError, match="too few for a grid"):
        interpolate(table, (5, 5), (2, 2))
