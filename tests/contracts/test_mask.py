"""Masks and biases: whole, in tiles and for any start, they say the same."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from regard.nn.mask import ALL, CAUSAL, Mask, TensorBias, add_bias, masked_softmax, slice_tile
from regard.nn.positions import ALiBi, Buckets
from tests.contracts.tools import BIASES, HEADS, MASKS, close, numbers, some_pairs, spelled, stirred

CPU = torch.device("cpu")


def dense(mask: Mask, rows: int, columns: int) -> Tensor:
    """bool (3, h, q, k)"""
    allowed = mask.dense(rows, columns, CPU)
    shape = (3, HEADS, rows, columns)
    return torch.ones(shape, dtype=torch.bool) if allowed is None else allowed.expand(shape)


@pytest.mark.parametrize("size", [(5, 5), (3, 7), (1, 6), (1, 1)])
@pytest.mark.parametrize("mask", MASKS)
def test_dense_is_what_the_parts_mean(mask: str, size: tuple[int, int]) -> None:
    made = MASKS[mask](3, *size)
    assert torch.equal(dense(made, *size), spelled(made, 3, *size))


@given(
    rows=st.integers(1, 6),
    columns=st.integers(1, 8),
    start=st.integers(0, 8),
    height=st.integers(1, 4),
    form=st.sampled_from(["int", "tensor", "rows"]),
    data=st.data(),
)
def test_tiles_and_reach(rows: int, columns: int, start: int, height: int, form: str, data: st.DataObject) -> None:
    """Every tile is a part of the whole, and beyond its reach there is nothing to see."""
    starts = {"int": start, "tensor": torch.tensor(start), "rows": torch.tensor([start, 0, start + 1])}
    keys = data.draw(st.sampled_from([None, torch.rand(3, columns) < 0.6]))
    pairs = data.draw(st.sampled_from([None, some_pairs(3, rows, columns), torch.rand(1, columns) < 0.6]))
    mask = Mask(data.draw(st.booleans()), starts[form], keys, pairs)
    whole = dense(mask, rows, columns)
    assert torch.equal(whole, spelled(mask, 3, rows, columns))
    for top in range(0, rows, height):
        tile = slice(top, min(top + height, rows))
        seen = mask.reach(tile, columns)
        assert 1 <= seen <= columns
        assert not whole[:, :, tile, seen:].any()
        assert torch.equal(dense(mask.tile(tile, seen), tile.stop - tile.start, seen), whole[:, :, tile, :seen])


def test_reach_is_no_longer_than_needed() -> None:
    assert CAUSAL.reach(slice(2, 4), 9) == 4
    assert Mask(causal=True, start=3).reach(slice(2, 4), 9) == 7
    assert Mask(causal=True, start=30).reach(slice(2, 4), 9) == 9
    assert ALL.reach(slice(2, 4), 9) == 9


def test_nothing_is_formed_where_all_is_allowed() -> None:
    assert ALL.dense(3, 4, CPU) is None
    assert Mask(causal=True, start=3).dense(1, 4, CPU) is None  # one new token after three
    assert Mask(causal=True, start=2).dense(1, 4, CPU) is not None
    assert Mask(causal=True, start=2).dense(2, 4, CPU) is not None


@pytest.mark.parametrize("start", [0, 3, torch.tensor(3), torch.tensor([0, 3, 1])])
@pytest.mark.parametrize("bias", ["given", "alibi", "buckets"])
def test_tiles_of_a_bias(bias: str, start: int | Tensor) -> None:
    made = BIASES[bias](Mask(causal=True, start=start), 5, 9)
    whole = made.dense(5, 9, CPU)
    assert torch.broadcast_shapes(whole.shape, (3, HEADS, 5, 9)) == (3, HEADS, 5, 9)
    for tile, seen in ((slice(0, 2), 9), (slice(2, 5), 7), (slice(4, 5), 1)):
        rows = tile.stop - tile.start
        close(made.tile(tile, seen).dense(rows, seen, CPU), whole[..., tile, :seen])
    again = made.tile(slice(1, 4), 8).tile(slice(1, 3), 6)  # a tile of a tile
    close(again.dense(2, 6, CPU), whole[..., 2:4, :6])


@pytest.mark.parametrize("make", [lambda mask: ALiBi(HEADS, mask), stirred(Buckets(HEADS, 8, 6)), None])
def test_each_row_has_a_start_of_its_own(make) -> None:
    """A tensor of one start for each row is each row by itself; of one for all, the number."""
    starts = torch.tensor([0, 3, 1])
    masks = [Mask(start=starts), Mask(start=torch.tensor(3)), *(Mask(start=int(start)) for start in starts)]
    if make is None:
        whole, one, *rows = (mask.distances(4, 6, CPU) for mask in masks)
        whole = whole[:, 0]
    else:
        whole, one, *rows = (make(mask).dense(4, 6, CPU) for mask in masks)
    close(whole, torch.stack(rows))
    close(one, rows[1])


@pytest.mark.parametrize("part", ["keys", "pairs"])
@pytest.mark.parametrize("dtype", [torch.long, torch.float32])
def test_only_true_and_false_mask(part: str, dtype: torch.dtype) -> None:
    """Elsewhere a mask of 0 and 1 may mean either, and one of numbers is added."""
    with pytest.raises(ValueError, match=rf"Mask.{part} must be bool \(True: may be attended to\), got {dtype}"):
        Mask(**{part: torch.ones(2, 4, dtype=dtype)})


def test_cut_keeps_what_stands_for_all() -> None:
    assert slice_tile(numbers(2, 1, 7), slice(1, 3), slice(0, 4)).shape == (2, 1, 4)
    assert slice_tile(numbers(2, 5, 1), slice(1, 3), slice(0, 4)).shape == (2, 2, 1)
    assert slice_tile(numbers(7), slice(1, 3), slice(0, 4)).shape == (4,)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_masked_softmax(dtype: torch.dtype) -> None:
    """In float32 at least, zeros where nothing is allowed, finite however large the scores are."""
    scores = (numbers(2, 3, 4, 5) * 8).to(dtype)
    allowed = torch.rand(2, 1, 4, 5) < 0.6
    allowed[:, :, 0], allowed[:, :, 1:, 0] = False, True
    weights = masked_softmax(scores, allowed)
    assert weights.dtype == dtype
    exact = torch.where(allowed, scores.double(), -torch.inf).softmax(-1).nan_to_num(0.0)
    close(weights.double(), exact, {torch.float64: 1e-12, torch.float32: 1e-6}.get(dtype, 5e-3))
    assert not weights[(~allowed).expand_as(weights)].any()
    assert masked_softmax(torch.full((1, 1, 1, 4), 6e4).to(dtype), None).isfinite().all()
    huge = torch.tensor([[1e4, -1e4, 0.0]]).to(dtype)
    assert masked_softmax(huge, torch.tensor([[False, True, True]])).tolist() == [[0.0, 0.0, 1.0]]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_bias_takes_the_type_of_the_scores(dtype: torch.dtype) -> None:
    scores = numbers(1, HEADS, 3, 3).to(dtype)
    for bias in (ALiBi(HEADS), TensorBias(numbers(3, 3))):
        assert add_bias(scores, bias).dtype == dtype


def test_structured() -> None:
    mask = Mask(causal=True, keys=torch.ones(1, 3, dtype=torch.bool))
    assert mask.structured("Performer") is mask
    with pytest.raises(ValueError, match=r"Performer.*Mask\.pairs"):
        Mask(pairs=torch.ones(1, 1, dtype=torch.bool)).structured("Performer")
