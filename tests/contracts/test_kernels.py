"""The law of every kernel, forward(q, k, v) == weights(q, k) @ v, and what any attention must keep."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.contracts.kernels import (
    groups_of_heads,
    heads_of,
    later_keys,
    law,
    law_of_mask,
    mixture,
    other_widths,
    padding,
    refusal,
    refusal_of_bias,
)
from regard.nn.attention import Mixer, repeat_heads
from regard.nn.mask import ALL, Mask, TensorBias
from regard.nn.mechanisms import build_mixer
from regard.nn.site import Site
from tests.contracts.tools import (
    BIASED,
    BIASES,
    CHOICES,
    DECODERS,
    DIM,
    HEADS,
    KERNELS,
    MASKS,
    WIDTH,
    asked,
    close,
    gradients,
    kernel,
    later,
    numbers,
    ragged,
    refuses,
    spelled,
    traits,
)

LINFORMER = {name for name in CHOICES if name.startswith("linformer")}
SYNTHESIZERS = {name for name in CHOICES if name.startswith("synthesizer")}
LOCAL_P = {"local-p", "local-p-window"}
# Whose queries stand among the keys, or know their places, so that padding before a key moves it away from a query that
# stays, and queries that change places see others.
PLACED = {name for name in CHOICES if traits(name).placed}
FREE = {name for name in CHOICES if traits(name).sums == "free"}
# Who knows where a key stands, so that shuffled keys are another question.
POSITIONAL = PLACED | LOCAL_P | LINFORMER | SYNTHESIZERS | {"random-features-gate"}

REFUSED = [(name, mask) for name in KERNELS for mask in MASKS if refuses(name, *asked(MASKS[mask](2, 2, 2)))]
SERVED = [(name, mask) for name in KERNELS for mask in MASKS if (name, mask) not in REFUSED]


@pytest.mark.parametrize(("name", "mask"), SERVED)
def test_law(name: str, mask: str) -> None:
    """In outputs and gradients, in evaluation and in training."""
    law_of_mask(kernel(CHOICES[name]), traits(name), mask)


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize(
    ("name", "mask"),
    later(
        [case for case in SERVED if case[1] in ("none", "causal-start-per-row", "left", "all") and case[0] in BIASED]
    ),
)
def test_law_with_bias(name: str, mask: str, bias: str) -> None:
    for size in ((5, 5), (3, 7)):
        given_mask = MASKS[mask](3, *size)
        law(kernel(CHOICES[name]), traits(name), size, given_mask, BIASES[bias](given_mask, *size))


@pytest.mark.parametrize("keys", [None, "left"])
@pytest.mark.parametrize("name", [name for name in KERNELS if name in BIASED])
def test_a_bias_may_forbid(name: str, keys: str | None) -> None:
    """Minus infinity in a bias is a mask, as Swin and AlphaFold have it; also of a whole row, alone or with a mask."""
    numbers = torch.randn(HEADS, 3, 7).double()
    numbers[:, 1] = -torch.inf
    numbers[:, 2, 4:] = -torch.inf  # with the padding on the left, nothing is left to the shortest row
    mask, bias = Mask(keys=None if keys is None else ragged(3, 7, keys)), TensorBias(numbers)
    attention, (q, k, v) = kernel(CHOICES[name]), heads_of((3, 7))
    weights = attention.weights(q, k, mask, bias)
    assert weights.isfinite().all()
    if name not in FREE:
        assert not weights[:, :, 1].any()
        assert not weights[:, :, 2, 4:].any()
        assert weights[0, :, 0].sum() > 0
    y, wanted = attention(q, k, v, mask, bias), weights @ v
    close(y, wanted)
    inputs = [q, k, v, *attention.parameters()]
    for found, expected in zip(gradients(y, *inputs), gradients(wanted, *inputs), strict=True):
        assert found.isfinite().all()
        close(found, expected)


@pytest.mark.parametrize(("name", "mask"), REFUSED)
def test_a_mask_that_cannot_be_honoured_is_refused(name: str, mask: str) -> None:
    """By the definition, by the fast way and while decoding, in the same words."""
    word = "|".join(what for what in asked(MASKS[mask](3, 3, 5)) if refuses(name, what))
    refusal(kernel(CHOICES[name]), mask, word)


@pytest.mark.parametrize("name", [name for name in KERNELS if name not in BIASED])
def test_a_bias_that_cannot_be_honoured_is_refused(name: str) -> None:
    refusal_of_bias(kernel(CHOICES[name]))


@pytest.mark.parametrize("name", CHOICES)
def test_what_a_site_asks_for_is_served_or_refused(name: str) -> None:
    """When a model is built, not when it runs; what is not named in REFUSES is served."""
    for what, changes in {
        "causal": {"causal": True},
        "context": {"cross": True},
        "dropout": {"dropout": 0.1},
    }.items():
        site = Site(dim=DIM, heads=HEADS, length=64, **changes)
        if refuses(name, what):
            with pytest.raises(ValueError, match=f"attention '.*': .*{what}"):
                build_mixer(CHOICES[name], site)
        else:
            assert isinstance(build_mixer(CHOICES[name], site), Mixer)


@pytest.mark.parametrize("bias", ["given", "alibi", "buckets"])
@pytest.mark.parametrize("name", [name for name in KERNELS if name in BIASED])
def test_bias_is_not_ignored(name: str, bias: str) -> None:
    """Each number of a bias has a say in its own pair."""
    attention, (q, k, v) = kernel(CHOICES[name]), heads_of((4, 6))
    added = BIASES[bias](ALL, 4, 6)
    assert not torch.allclose(attention(q, k, v), attention(q, k, v, ALL, added))
    weights = attention.weights(q, k)
    raised = torch.zeros(HEADS, 4, 6).double()
    raised[1, 2, 3] = 1.0
    changed = (attention.weights(q, k, ALL, TensorBias(raised)) - weights).abs().sum((0, -1)) > 1e-9
    assert not changed[:, [0, 1, 3]].any(), "another query was moved"
    if (weights[:, 1, 2, 3] > 1e-3).all():
        assert changed[1, 2]


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    ("name", "mask"), later([case for case in SERVED if case[1] in ("none", "causal", "left", "all")])
)
def test_groups_of_heads_share_keys(name: str, groups: int, mask: str) -> None:
    """Head i looks at group i // (heads / groups): the same as with each group's keys written out."""
    groups_of_heads(kernel(CHOICES[name]), groups, mask)
    k = numbers(3, groups, 5, WIDTH)
    close(repeat_heads(k, HEADS), k[:, [i // (HEADS // groups) for i in range(HEADS)]])


@pytest.mark.parametrize("values", [1, 3, 9])
@pytest.mark.parametrize("name", KERNELS)
def test_values_of_another_width(name: str, values: int) -> None:
    other_widths(kernel(CHOICES[name]), values)


@pytest.mark.parametrize(
    ("name", "mask"), [case for case in SERVED if case[1] in ("none", "causal", "left", "pairs", "causal-left")]
)
def test_any_leading_axes(name: str, mask: str) -> None:
    """(b, s, h, n, e), as rows of an alignment have it, is b calls; and there may be no batch at all."""
    attention = kernel(CHOICES[name])
    q, k, v = numbers(2, 3, HEADS, 4, WIDTH), numbers(2, 3, HEADS, 6, WIDTH), numbers(2, 3, HEADS, 6, 5)
    given_mask = MASKS[mask](3, 4, 6)
    bias = TensorBias(numbers(HEADS, 4, 6))
    for added in (None, bias) if name in BIASED else (None,):
        y = attention(q, k, v, given_mask, added)
        wanted = torch.stack([attention(*rows, given_mask, added) for rows in zip(q, k, v, strict=True)])
        close(y, wanted)
        close(attention.weights(q, k, given_mask, added) @ v, wanted)
        part = Mask(
            given_mask.causal,
            given_mask.start,
            None if given_mask.keys is None else given_mask.keys[1],
            None if given_mask.pairs is None else given_mask.pairs[1],
        )
        close(attention(q[0, 1], k[0, 1], v[0, 1], part, added), wanted[0, 1])


@pytest.mark.parametrize("name", KERNELS)
def test_each_set_of_leading_axes_has_its_own_keys_and_bias(name: str) -> None:
    attention = kernel(CHOICES[name])
    q, k, v = numbers(2, 3, HEADS, 4, WIDTH), numbers(2, 3, HEADS, 6, WIDTH), numbers(2, 3, HEADS, 6, WIDTH)
    keys = torch.rand(2, 3, 6) < 0.7
    keys[..., 0] = True
    bias = numbers(2, 1, HEADS, 4, 6)  # AlphaFold: one for all rows of an alignment
    y = attention(q, k, v, Mask(keys=keys), TensorBias(bias) if name in BIASED else None)
    for b in range(2):
        for s in range(3):
            added = TensorBias(bias[b, 0]) if name in BIASED else None
            close(y[b, s], attention(q[b, s], k[b, s], v[b, s], Mask(keys=keys[b, s]), added))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", [name for name in KERNELS if name not in PLACED])
def test_padding_is_as_if_it_were_not_there(name: str, side: str) -> None:
    padding(kernel(CHOICES[name]), side)


@pytest.mark.parametrize("name", [name for name in KERNELS if name in DECODERS])
def test_a_later_key_never_matters(name: str) -> None:
    """Not if it is huge, either; and each query alone sees the keys up to its own place."""
    later_keys(kernel(CHOICES[name]))


@pytest.mark.parametrize("name", [name for name in KERNELS if name not in POSITIONAL])
def test_keys_have_no_order(name: str) -> None:
    attention, (q, k, v) = kernel(CHOICES[name]), heads_of((3, 6))
    keys, order = ragged(3, 6, "right"), torch.randperm(6)
    close(attention(q, k[:, :, order], v[:, :, order], Mask(keys=keys[:, order])), attention(q, k, v, Mask(keys=keys)))


@pytest.mark.parametrize("name", [name for name in KERNELS if name not in PLACED])
def test_queries_do_not_know_of_each_other(name: str) -> None:
    attention, (q, k, v) = kernel(CHOICES[name]), heads_of((4, 6))
    order = torch.randperm(4)
    close(attention(q[:, :, order], k, v), attention(q, k, v)[:, :, order])


@pytest.mark.parametrize("name", KERNELS)
def test_output_is_a_mixture_of_values(name: str) -> None:
    """Linear in v; where rows sum to 1, within the hull of v, and one key alone gives its own value."""
    mixture(kernel(CHOICES[name]), traits(name))


@settings(max_examples=15)
@given(data=st.data())
@pytest.mark.parametrize("name", KERNELS)
def test_law_for_any_shape(name: str, data: st.DataObject) -> None:
    attention = kernel(CHOICES[name])
    rows, more = data.draw(st.integers(1, 6), "queries"), data.draw(st.integers(0, 6), "keys beyond")
    groups, values = data.draw(st.sampled_from([1, 2, 4]), "groups"), data.draw(st.integers(1, 7), "width of values")
    causal = name in DECODERS and data.draw(st.booleans(), "causal")
    columns = rows + more
    lengths = data.draw(st.lists(st.integers(0, columns), min_size=3, max_size=3), "lengths")
    places, lengths = torch.arange(columns), torch.tensor(lengths)[:, None]
    keys = places < lengths if data.draw(st.booleans(), "right") else places >= columns - lengths
    pairs = torch.rand(3, 1, rows, columns) < data.draw(st.floats(0, 1), "share of pairs")
    pairs = None if refuses(name, "pairs") else pairs
    start = data.draw(st.integers(0, more), "start")
    mask = Mask(
        causal,
        data.draw(st.sampled_from([start, torch.tensor(start), torch.arange(3) % (more + 1)]), "start"),
        data.draw(st.sampled_from([None, keys]), "keys"),
        data.draw(st.sampled_from([None, pairs]), "pairs"),
    )
    q, k, v = heads_of((rows, columns), groups=groups, values=values)
    weights, y = attention.weights(q, k, mask), attention(q, k, v, mask)
    close(y, weights @ v.repeat_interleave(HEADS // groups, 1))
    assert not weights[~spelled(mask, 3, rows, columns)].any()
    assert all(g.isfinite().all() for g in gradients(y, q, k, v))
