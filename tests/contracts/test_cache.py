"""The cache: where new tokens stand, what is kept, and that nothing is copied without need."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.nn.attention import MultiHeadAttention
from regard.nn.cache import Cache, Slot, decoder_mask
from regard.nn.mask import Mask
from tests.contracts.tools import DIM, HEADS, close, numbers, ragged, stirred

CPU = torch.device("cpu")


def test_places_without_padding() -> None:
    cache = Cache()
    for n, start in ((3, 0), (1, 3), (2, 4)):
        mask = cache.take(n)
        assert (mask.causal, mask.start, mask.keys) == (True, start, None)
        assert mask.positions(n, CPU).tolist() == list(range(start, start + n))
    assert cache.length == 6


@given(data=st.data())
def test_positions_count_real_tokens(data: st.DataObject) -> None:
    """Wherever padding stands, in a prompt or later, the i-th real token of a row has position i."""
    cache, written = Cache(), torch.zeros(3, 0, dtype=torch.bool)
    for n in data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4), "steps"):
        keys = data.draw(st.sampled_from([None, torch.rand(3, n) < 0.6]), "keys")
        mask = cache.take(n, keys)
        written = torch.cat((written, torch.ones(3, n, dtype=torch.bool) if keys is None else keys), 1)
        start = written.shape[1] - n
        assert mask.start == start
        assert torch.equal(written, torch.ones_like(written) if mask.keys is None else mask.keys)
        positions = mask.positions(n, CPU).expand(3, n)
        assert (positions >= 0).all()
        for row in range(3):
            for i in range(n):
                if written[row, start + i]:
                    assert positions[row, i] == written[row, : start + i].sum()


@pytest.mark.parametrize("side", ["left", "right"])
def test_place_of_a_padded_prompt(side: str) -> None:
    keys = ragged(2, 4, side)
    mask = decoder_mask(torch.randint(13, (2, 4)), keys, None)
    assert mask.positions(4, CPU)[keys].tolist() == [0, 1, 2, 3, 0, 1]
    assert mask.start == 0
    cache = Cache()
    cache.take(4, keys)
    then = cache.take(2)
    assert then.positions(2, CPU).tolist() == [[4, 5], [2, 3]]
    assert then.keys is not None
    assert then.keys[:, 4:].all()


def test_a_slot_writes_in_place_within_its_capacity() -> None:
    slot, parts = Slot(6), [numbers(2, 3, n, 4) for n in (2, 1, 3)]
    pointers = set()
    for i, part in enumerate(parts):
        whole = slot.append("k", part)
        close(whole, torch.cat(parts[: i + 1], -2))
        assert whole.data_ptr() == slot["k"].data_ptr()
        pointers.add(whole.data_ptr())
    assert len(pointers) == 1
    assert slot.tensors["k"].shape[-2] == 6


def test_a_slot_grows_beyond_its_capacity_and_seldom() -> None:
    slot, parts, pointers = Slot(2), [numbers(2, 3, 1, 4) for _ in range(40)], []
    for i, part in enumerate(parts):
        close(slot.append("k", part), torch.cat(parts[: i + 1], -2))
        pointers.append(slot.tensors["k"].data_ptr())
    assert sum(a != b for a, b in pairwise(pointers)) <= 6  # doubling, not one copy a step
    assert slot.tensors["k"].isfinite().all()


def test_what_is_not_yet_written_is_finite() -> None:
    slot = Slot(50)
    slot.append("k", numbers(2, 3, 1, 4))
    assert slot.tensors["k"].isfinite().all()


def test_a_slot_under_a_gradient() -> None:
    """A gradient flows to every step, also when steps with and without one are mixed."""
    slot, parts = Slot(8), [numbers(1, 2, 2, 3, grad=True) for _ in range(3)]
    outs = [slot.append("k", part).square().sum() for part in parts]
    found = torch.autograd.grad(sum(outs), parts)
    for part, gradient, times in zip(parts, found, (3, 2, 1), strict=True):
        close(gradient, 2 * part * times)
    with torch.no_grad():
        last = numbers(1, 2, 2, 3)
        close(slot.append("k", last), torch.cat((*parts, last), -2))
        close(slot.append("k", last), torch.cat((*parts, last, last), -2))
    more = numbers(1, 2, 1, 3, grad=True)
    whole = slot.append("k", more)
    close(whole[..., -1:, :], more)
    assert whole.shape[-2] == 11


def test_no_gradient_where_none_is_wanted() -> None:
    slot, x = Slot(4), numbers(1, 2, 2, 3)
    first = slot.append("k", x)  # gradients are enabled, but nothing requires one: in place all the same
    assert slot.append("k", x).data_ptr() == first.data_ptr()


def test_a_cache_that_was_not_reordered_is_refused() -> None:
    """Where the number of rows shows it: one row must not be written to all."""
    for rows in (1, 3):
        slot = Slot(4)
        slot.append("k", numbers(2, 3, 1, 4))
        with pytest.raises(ValueError, match=f"a cache of 2 rows got {rows} rows of tokens: reorder the cache"):
            slot.append("k", numbers(rows, 3, 1, 4))
        assert slot["k"].shape == (2, 3, 1, 4)


def test_slots_hold_states_too() -> None:
    slot = Slot(4)
    assert "sum" not in slot
    slot["sum"] = numbers(2, 5)
    slot["sum"] = state = numbers(2, 5)
    assert slot["sum"] is state
    slot.append("k", numbers(2, 1, 3, 4))
    slot.reorder(torch.tensor([1, 1, 0]))
    close(slot["sum"], state[[1, 1, 0]])
    assert slot["k"].shape == (3, 1, 3, 4)


def test_each_call_site_has_its_own_slot() -> None:
    cache, a, b = Cache(capacity=7), torch.nn.Identity(), torch.nn.Identity()
    assert cache.slot(a) is cache.slot(a)
    assert cache.slot(a) is not cache.slot(b)
    assert cache.slot(a) is not cache.context(a)
    assert cache.slot(a).capacity == 7
    assert cache.at("2").slot(a) is not cache.slot(a)
    assert cache.at("2").slot(a) is cache.at("2").slot(a)
    assert cache.at("2").at("1").slot(a) is not cache.at("2").slot(a)
    assert cache.at("2").slot(a) in cache.slots.values()


def test_a_shared_layer_decodes_with_a_name_for_each_call() -> None:
    layer, x = stirred(MultiHeadAttention(DIM, HEADS)).eval(), numbers(2, 5, DIM)
    mask = Mask(causal=True)
    full = layer(layer(x, mask=mask), mask=mask)
    cache, parts = Cache(5), []
    for i in range(5):
        mask = cache.take(1)
        once = layer(x[:, i : i + 1], mask=mask, cache=cache.at("first"))
        parts.append(layer(once, mask=mask, cache=cache.at("second")))
    close(torch.cat(parts, 1), full)


@pytest.mark.parametrize("padded", [False, True])
def test_reorder(padded: bool) -> None:
    """Rows are kept, doubled and dropped with all that belongs to them; an un-reordered cache is another answer."""
    layer, x = stirred(MultiHeadAttention(DIM, HEADS)).eval(), numbers(3, 6, DIM)
    keys = ragged(3, 4, "left") if padded else None
    rows = torch.tensor([2, 0, 2, 1])

    def decode(order: torch.Tensor | None) -> torch.Tensor:
        cache = Cache(8)
        layer(x[:, :4], mask=cache.take(4, keys), cache=cache)
        if order is not None:
            cache.reorder(order)
        new = x[rows, 4:]
        mask = cache.take(2)
        if padded:
            firsts = mask.positions(2, CPU)[:, 0].tolist()
            assert firsts == [[4, 2, 1][i] for i in (range(3) if order is None else order)]
        return layer(new[: len(cache.slot(layer)["k"])], mask=mask, cache=cache)

    everything = None if keys is None else torch.cat((keys, torch.ones(3, 2, dtype=torch.bool)), 1)[rows]
    full = layer(x[rows], mask=Mask(causal=True, keys=everything))[:, 4:]
    close(decode(rows), full)
    assert not torch.allclose(decode(None), full[:3]), "forgetting to reorder would not be noticed"


def test_reorder_of_sentences() -> None:
    """Contexts are kept once per sentence, and follow only when sentences are finished."""
    layer = stirred(MultiHeadAttention(DIM, HEADS)).eval()
    context, x = numbers(3, 5, DIM), numbers(6, 1, DIM)  # two beams for each of three sentences
    keys = ragged(3, 5, "right")
    cache = Cache()
    full = layer(x, context, mask=Mask(keys=keys), cache=cache)
    stored = cache.context(layer)["k"]
    assert len(stored) == 3
    cache.reorder(torch.tensor([1, 0, 3, 2, 4, 4]))
    assert cache.context(layer)["k"] is stored
    cache.reorder(torch.tensor([4, 5, 0, 1]), torch.tensor([2, 0]))
    assert len(cache.context(layer)["k"]) == 2
    rows = [4, 5, 0, 1]
    left = context[[2, 0]]
    for _ in range(2):
        close(layer(x[rows], left, mask=Mask(keys=keys[[2, 0]]), cache=cache), full[rows])
    with pytest.raises(ValueError, match="another context"):
        layer(x[rows], context[[0, 2]], mask=Mask(keys=keys[[0, 2]]), cache=cache)


def test_a_cache_that_was_filled_from_one_context_refuses_another() -> None:
    """Its keys and values would be taken for the other's, whose shape may be the same."""
    layer, x, context, cache = (
        stirred(MultiHeadAttention(DIM, HEADS)).eval(),
        numbers(2, 1, DIM),
        numbers(2, 5, DIM),
        Cache(),
    )
    first = layer(x, context, cache=cache)
    for other in (numbers(2, 5, DIM), context.clone()):
        with pytest.raises(ValueError, match="another context"):
            layer(x, other, cache=cache)
    cache.reorder(torch.tensor([1, 0]))  # beams change their places, the context stays
    close(layer(x, context, cache=cache), first)
    close(layer(x, other, cache=Cache()), first)
