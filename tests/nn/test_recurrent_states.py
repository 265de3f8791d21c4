"""Recurrent layers against themselves: reversed, padded, step by step, heard, compiled."""

import copy
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from regard.nn.cache import Cache
from regard.nn.recomputation import recompute_forward
from regard.nn.recurrent import (
    CELLS,
    GRUCell,
    LSTMCell,
    Recurrent,
    RecurrentOutput,
    RNNCell,
    cell_kind,
    detach,
    keep_state,
    recall_state,
)
from regard.nn.tap import capture, listen
from tests.nn.recurrence import NAMES, PATHS, THEIRS, build, close, forbidden, on, padded, random_state, score


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", CELLS)
def test_reversal(name: str, path: str) -> None:
    """Reverse every sequence within its own length and swap the directions: the output is reversed and swapped."""
    net = build(name, bidirectional=True)
    swapped = copy.deepcopy(net)
    swapped.ahead, swapped.back = swapped.back, swapped.ahead
    rows = [torch.randn(n, 3) for n in (4, 6, 1)]
    x, keys = padded(rows, "right")
    y, _ = padded([row.flip(0) for row in rows], "right")
    with on(path, net):
        one = net(x, keys=keys)
    with on(path, swapped):
        two = swapped(y, keys=keys)
    for i, row in enumerate(rows):
        close(one.outputs[i, : len(row)], two.outputs[i, : len(row)].flip(0).roll(4, -1))
    for part in one.state:
        close(one.state[part], two.state[part].roll(4, -1))


@given(
    name=st.sampled_from(sorted(CELLS)),
    depth=st.integers(1, 3),
    bidirectional=st.booleans(),
    dim=st.integers(1, 4),
    hidden=st.integers(1, 4),
    keys=st.integers(1, 6).flatmap(
        lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=1, max_size=4)
    ),
    given_state=st.booleans(),
)
def test_padding_does_not_exist(
    name: str, depth: int, bidirectional: bool, dim: int, hidden: int, keys: list[list[bool]], given_state: bool
) -> None:
    """Padding anywhere, also in the middle, also everywhere: each row is as if it were alone and had none."""
    net = Recurrent(CELLS[name], dim, hidden, depth, bidirectional=bidirectional)
    real = torch.tensor(keys)
    x = torch.randn(*real.shape, dim)
    state = random_state(name, len(x), depth, net.width) if given_state else None
    for path in PATHS:
        with on(path, net):
            result = net(x.masked_fill(~real[..., None], torch.nan), keys=real, state=state)
        assert result.outputs.shape == (*real.shape, net.width)
        assert torch.equal(result.outputs[~real], torch.zeros_like(result.outputs[~real]))
        for i, row in enumerate(real):
            before = {part: torch.zeros(1, depth, net.width) for part in NAMES[name]}
            before = before if state is None else {part: value[i : i + 1] for part, value in state.items()}
            alone = (
                net(x[i : i + 1, row], state=before)
                if row.any()
                else RecurrentOutput(x.new_zeros(1, 0, net.width), before)
            )
            close(result.outputs[i, row], alone.outputs[0])
            for part in NAMES[name]:
                close(result.state[part][i], alone.state[part][0])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", CELLS)
def test_padding_gets_and_gives_no_gradient(name: str, path: str) -> None:
    """Not even NaN, not even in a row of padding alone."""
    net = build(name, 2, bidirectional=True)
    keys = torch.tensor([[0, 0, 1, 1], [1, 0, 0, 0], [0, 0, 0, 0]], dtype=torch.bool)
    x = torch.randn(3, 4, 3).masked_fill(~keys[..., None], torch.nan).requires_grad_()
    with on(path, net):
        result = net(x, keys=keys)
    score([result.outputs], list(result.state.values())).backward()
    assert torch.equal(x.grad[~keys], torch.zeros_like(x.grad[~keys]))
    assert (x.grad[keys] != 0).any()
    assert all(weight.grad.isfinite().all() for weight in net.parameters())


@pytest.mark.parametrize("name", CELLS)
def test_one_token(name: str) -> None:
    """A layer over one token is its cell; reading from both ends, its two cells side by side."""
    x = torch.randn(2, 1, 3)
    for bidirectional in (False, True):
        net = build(name, bidirectional=bidirectional)
        result = net(x)
        states = [cell(x[:, 0]) for cell in (*net.ahead, *net.back)]
        close(result.outputs[:, 0], torch.cat([state["h"] for state in states], -1))
        for part in NAMES[name]:
            close(result.state[part][:, 0], torch.cat([state[part] for state in states], -1))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", CELLS)
def test_final_state_is_where_the_outputs_end(name: str, path: str) -> None:
    net = build(name, 2, bidirectional=True)
    x, keys = padded([torch.randn(n, 3) for n in (2, 5, 3)], "left")
    with on(path, net):
        result = net(x, keys=keys)
    close(result.state["h"][:, -1, :4], result.outputs[:, -1, :4])  # ahead: after the last token
    first = torch.stack([result.outputs[i, 5 - n] for i, n in enumerate((2, 5, 3))])
    close(result.state["h"][:, -1, 4:], first[:, 4:])  # back: after the first one
    assert not torch.allclose(result.state["h"][:, 0], result.state["h"][:, 1])


def prefix(name: str, depth: int) -> tuple[Recurrent, Tensor, RecurrentOutput]:
    net, x = build(name, depth).eval(), torch.randn(3, 6, 3)
    return net, x, net(x)


@pytest.mark.parametrize("steps", [(2, 3, 1), (1,) * 6])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", CELLS)
def test_cached_is_whole(name: str, path: str, steps: tuple[int, ...]) -> None:
    net, x, whole = prefix(name, 2)
    cache = Cache()
    with on(path, net):
        parts = [net(piece, cache=cache) for piece in x.split(steps, 1)]
    close(torch.cat([part.outputs for part in parts], 1), whole.outputs)
    for part in NAMES[name]:
        close(parts[-1].state[part], whole.state[part])


@pytest.mark.parametrize("name", CELLS)
def test_cached_with_left_padding_and_an_initial_state(name: str) -> None:
    """The state is given at every call, as a decoder has it at hand; it counts before the first token alone."""
    net, rows = build(name, 2), [torch.randn(n, 3) for n in (6, 3, 4)]
    x, keys = padded(rows, "left")
    state, cache = random_state(name, 3, 2, 4), Cache()
    pieces = zip(x.split((3, 1, 2), 1), keys.split((3, 1, 2), 1), strict=True)
    outputs = torch.cat([net(piece, keys=real, state=state, cache=cache).outputs for piece, real in pieces], 1)
    for i, row in enumerate(rows):
        alone = net(row[None], state={part: value[i : i + 1] for part, value in state.items()})
        close(outputs[i, 6 - len(row) :], alone.outputs[0])


@pytest.mark.parametrize("name", CELLS)
def test_reordered_cache(name: str) -> None:
    """Beam search keeps some rows, twice perhaps, in another order."""
    net, x, _ = prefix(name, 2)
    cache, rows = Cache(), torch.tensor([2, 0, 2, 1])
    net(x[:, :4], cache=cache)
    cache.reorder(rows)
    later = torch.randn(4, 2, 3)
    close(net(later, cache=cache).outputs, net(torch.cat((x[rows, :4], later), 1)).outputs[:, 4:])


def test_cache_sites_and_owners_are_apart() -> None:
    net, other, x, _ = *(build("gru") for _ in range(2)), *prefix("gru", 1)[1:]
    cache = Cache()
    for piece in x.split(2, 1):
        first, second, third = net(piece, cache=cache), other(piece, cache=cache), net(-piece, cache=cache.at("again"))
    for result, whole in ((first, net(x)), (second, other(x)), (third, net(-x))):
        close(result.outputs, whole.outputs[:, -2:])


@pytest.mark.parametrize("name", CELLS)
def test_cell_by_hand_with_a_cache(name: str) -> None:
    """As a decoder with attention does it: recall, step, remember; reordering in between."""
    cell, x, cache = CELLS[name](3, 4), torch.randn(5, 2, 3), Cache()
    rows = torch.tensor([1, 1, 0])
    state = None
    for step in x[:3]:
        state = cell(step, state)
        keep_state(cache, cell, cell(step, recall_state(cache, cell)))
    cache.reorder(rows)
    kept = recall_state(cache, cell)
    assert state is not None
    assert kept is not None
    for part in NAMES[name]:
        close(kept[part], state[part][rows])
    assert recall_state(None, cell) is None
    keep_state(None, cell, state)


@pytest.mark.parametrize("name", CELLS)
def test_pieces_with_a_carried_state_are_the_whole(name: str) -> None:
    """Truncated learning through time: the numbers go on, the gradient does not."""
    net, x, whole = prefix(name, 2)
    x.requires_grad_()
    first = net(x[:, :4])
    second = net(x[:, 4:], state=detach(first.state))
    close(torch.cat((first.outputs, second.outputs), 1), whole.outputs)
    (gradient,) = torch.autograd.grad(second.outputs.sum(), x)
    assert torch.equal(gradient[:, :4], torch.zeros(3, 4, 3))
    (gradient,) = torch.autograd.grad(net(x[:, 4:], state=first.state).outputs.sum(), x)
    assert (gradient[:, :4] != 0).all()


@pytest.mark.parametrize("name", CELLS)
def test_both_ends_refuse_a_cache(name: str) -> None:
    with pytest.raises(ValueError, match="bidirectional network"):
        build(name, bidirectional=True)(torch.randn(1, 2, 3), cache=Cache())


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", CELLS)
def test_dropout_is_between_layers_alone(name: str, path: str) -> None:
    """With everything dropped a second layer reads zeros, but its own past and the first layer are untouched."""
    net, x = build(name, 2, dropout=1.0), torch.randn(2, 5, 3)
    with on(path, net):
        result = net(x)
    first, second = Recurrent(CELLS[name], 3, 4), Recurrent(CELLS[name], 4, 4)
    first.ahead[0].load_state_dict(net.ahead[0].state_dict())
    second.ahead[0].load_state_dict(net.ahead[1].state_dict())
    below, above = first(x), second(torch.zeros(2, 5, 4))
    close(result.outputs, above.outputs)
    for part in NAMES[name]:
        close(result.state[part], torch.cat((below.state[part], above.state[part]), 1))
    net.eval()
    close(net(x).outputs, second(below.outputs).outputs)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", CELLS)
def test_one_layer_has_no_dropout(name: str, path: str) -> None:
    net, x = build(name, bidirectional=True, dropout=0.9), torch.randn(2, 5, 3)
    with on(path, net):
        close(net(x).outputs, net.eval()(x).outputs)


@pytest.mark.parametrize("name", THEIRS)
def test_fast_path_is_taken(name: str) -> None:
    net, keys = build(name, 2, bidirectional=True), torch.tensor([[True, True], [False, True]])
    with forbidden("walk"):
        net(torch.randn(2, 2, 3))
        net(torch.randn(2, 2, 3), keys=keys)
        with capture(net, "said") as seen:  # what comes out can be heard without leaving it
            result = net(torch.randn(2, 2, 3))
    assert torch.equal(seen["said"][0], result.outputs)


def test_slow_path_is_taken_where_it_must() -> None:
    with forbidden("fused"):
        build("gru_before")(torch.randn(2, 2, 3))
        Recurrent(partial(RNNCell, act=torch.sigmoid), 3, 4)(torch.randn(2, 2, 3))
        build("lstm", 2)(torch.randn(2, 1, 3))  # one step: see Recurrent.kernel
        mixed = build("gru", 2)
        mixed.ahead[1] = GRUCell(4, 4, reset="before")
        mixed(torch.randn(2, 2, 3))
        net = build("lstm", 2)
        with capture(net, "ahead.1.f"):
            net(torch.randn(2, 2, 3))


TAPS = {"rnn": "h", "gru": "rznh", "gru_before": "rznh", "lstm": "ifgoch"}


@pytest.mark.parametrize("name", CELLS)
def test_every_step_can_be_heard(name: str) -> None:
    net, x = build(name, 2, bidirectional=True), torch.randn(2, 5, 3)
    expected = net(x)
    with capture(net, "*") as seen:
        result = net(x)
    close(result.outputs, expected.outputs)
    places = [f"{side}.{layer}.{tap}" for side in ("ahead", "back") for layer in (0, 1) for tap in TAPS[name]]
    assert sorted(seen) == sorted([*places, "said"])
    assert all(len(seen[place]) == 5 for place in places)
    close(torch.stack(seen["ahead.1.h"], 1), result.outputs[..., :4])
    close(torch.stack(seen["back.1.h"][::-1], 1), result.outputs[..., 4:])  # heard from the far end on


def test_gates_can_be_replaced() -> None:
    gru, lstm, x = build("gru"), build("lstm"), torch.randn(2, 5, 3)
    state = random_state("lstm", 2, 1, 4)
    with listen(gru, "*.z", lambda _, z: torch.ones_like(z)):
        assert torch.equal(gru(x, state={"h": state["h"]}).state["h"], state["h"])
    with listen(lstm, "*.f", lambda _, f: torch.zeros_like(f)), listen(lstm, "*.i", lambda _, i: torch.zeros_like(i)):
        assert torch.equal(lstm(x, state=state).state["c"], torch.zeros(2, 1, 4))
    with listen(lstm, "*.o", lambda _, o: torch.zeros_like(o)):
        assert torch.equal(lstm(x).outputs, torch.zeros(2, 5, 4))


@pytest.mark.parametrize("name", CELLS)
def test_recomputed_gradients_are_the_same(name: str) -> None:
    net, x = build(name, 2), torch.randn(2, 4, 3, requires_grad=True)
    with capture(net, "*.h") as seen:
        y = recompute_forward(lambda x: net(x).outputs, x)
    (again,) = torch.autograd.grad(y.sum(), x)
    (plain,) = torch.autograd.grad(net(x).outputs.sum(), x)
    close(again, plain)
    assert len(seen["ahead.0.h"]) == 4


@pytest.mark.parametrize("name", CELLS)
def test_without_memory(name: str) -> None:
    with torch.device("meta"):
        net, x, keys = build(name, 2, bidirectional=True), torch.empty(2, 5, 3), torch.ones(2, 5, dtype=torch.bool)
        net.float()
        result = net(x, keys=keys)
    assert result.outputs.shape == net(x).outputs.shape == (2, 5, 8)
    assert result.state["h"].shape == (2, 2, 8)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", CELLS)
def test_autocast(name: str, path: str) -> None:
    net, x = build(name, 2, bidirectional=True).float(), torch.randn(2, 5, 3, dtype=torch.float32)
    keys = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]], dtype=torch.bool)
    for real in (None, keys):
        expected = net(x, keys=real).outputs
        with torch.autocast("cpu", torch.bfloat16), on(path, net):
            y = net(x, keys=real).outputs
        assert y.dtype == torch.bfloat16
        torch.testing.assert_close(y.float(), expected, atol=0.03, rtol=0)
        y.sum().backward()
    assert all(weight.grad.dtype == torch.float32 for weight in net.parameters())


@pytest.mark.parametrize("name", ["gru_before", "lstm"])
def test_compiled(name: str) -> None:
    """One that is traced, and one whose fused kernel stays out of the graph: inductor cannot lower it."""
    net, x = build(name).float(), torch.randn(2, 2, 3, dtype=torch.float32, requires_grad=True)
    traced: list[object] = []

    def backend(graph: torch.fx.GraphModule, _: list[Tensor]) -> Callable[..., object]:
        traced.extend(node.target for node in graph.graph.nodes)
        return graph.forward

    compiled = torch.compile(net, backend=backend)
    for keys in (None, torch.tensor([[True, True], [False, True]])):
        got, expected = compiled(x, keys=keys).outputs, net(x, keys=keys).outputs
        torch.testing.assert_close(got, expected)
        (one,), (two,) = (torch.autograd.grad(y.square().sum(), x) for y in (got, expected))
        torch.testing.assert_close(one, two)
    assert traced
    assert torch.lstm not in traced


def test_names_in_checkpoints() -> None:
    names = [
        f"{side}.{layer}.{linear}.{part}"
        for side in ("ahead", "back")
        for layer in (0, 1)
        for linear in ("input", "recurrent")
        for part in ("weight", "bias")
    ]
    for name, gates in (("rnn", 1), ("gru", 3), ("gru_before", 3), ("lstm", 4)):
        weights = build(name, 2, bidirectional=True).state_dict()
        assert list(weights) == names
        assert weights["back.1.input.weight"].shape == (4 * gates, 8)
        assert weights["ahead.0.input.weight"].shape == (4 * gates, 3)
        assert weights["ahead.1.recurrent.bias"].shape == (4 * gates,)


def test_errors_say_what_is_wrong() -> None:
    net, x = build("lstm", 2), torch.randn(2, 5, 3)
    h = torch.zeros(2, 2, 4)
    for wrong in (x[0], x[:, :0], x[..., :2]):
        with pytest.raises(ValueError, match=r"must have the shape \(batch, at least 1, 3\)"):
            net(wrong)
    for keys in (torch.ones(2, 5), torch.ones(2, 4, dtype=torch.bool), torch.ones(5, dtype=torch.bool)):
        with pytest.raises(ValueError, match=r"bool \(2, 5\)"):
            net(x, keys=keys)
    for state in ({"h": h}, {"h": h, "c": h[:1]}, {"h": h, "c": h, "d": h}, {"h": h[:, :1], "c": h[:, :1]}):
        with pytest.raises(ValueError, match="initial state must have"):
            net(x, state=state)
    close(net(x, state={"c": h, "h": h + 1}).outputs, net(x, state={"h": h + 1, "c": h}).outputs)  # names, not order
    with pytest.raises(ValueError, match="depth of a recurrent network must be at least 1"):
        build("gru", 0)
    with pytest.raises(ValueError, match="valid values are after, before"):
        GRUCell(3, 4, reset="never")
    with pytest.raises(ValueError, match="valid names are rnn, gru, gru_before, lstm"):
        cell_kind("elman")
    assert cell_kind("lstm") is LSTMCell
