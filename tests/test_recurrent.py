"""Recurrent cells and layers, against PyTorch's own, against their equations, and against themselves."""

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.nn.cache import Cache
from regard.nn.recurrent import (
    CELLS,
    Cell,
    GRUCell,
    LSTMCell,
    Recurred,
    Recurrent,
    RNNCell,
    State,
    cell_kind,
    detach,
    recall,
    remember,
)
from regard.nn.replay import recompute
from regard.nn.tap import capture, listen

THEIRS = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
THEIR_CELLS = {"rnn": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}
NAMES = {"rnn": ("h",), "gru": ("h",), "gru_before": ("h",), "lstm": ("h", "c")}
PATHS = ("fused", "walk")
close = partial(torch.testing.assert_close, rtol=1e-10, atol=1e-10)


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def build(name: str, depth: int = 1, *, bidirectional: bool = False, dropout: float = 0.0) -> Recurrent:
    return Recurrent(CELLS[name], 3, 4, depth, bidirectional=bidirectional, dropout=dropout)


def twins(name: str, depth: int, bidirectional: bool, dropout: float = 0.0) -> tuple[Recurrent, nn.RNNBase]:
    """PyTorch's layer, and ours with its weights."""
    theirs = THEIRS[name](3, 4, depth, batch_first=True, bidirectional=bidirectional, dropout=dropout)
    ours = build(name, depth, bidirectional=bidirectional, dropout=dropout)
    ours.load_state_dict({our_name(key): value for key, value in theirs.state_dict().items()})
    return ours, theirs


def our_name(theirs: str) -> str:
    """weight_hh_l1_reverse -> back.1.recurrent.weight"""
    part, which, layer, *reverse = theirs.split("_")
    return f"{'back' if reverse else 'ahead'}.{layer[1:]}.{'input' if which == 'ih' else 'recurrent'}.{part}"


def on(path: str, net: Recurrent) -> AbstractContextManager[object]:
    """Whoever listens inside a cell makes the layer walk step by step."""
    return capture(net, "*.h") if path == "walk" else nullcontext()


@contextmanager
def forbidden(what: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recurrent, what, lambda *_: pytest.fail(f"Recurrent.{what} was called"))
        yield


def padded(rows: list[Tensor], side: str) -> tuple[Tensor, Tensor]:
    """Sequences (n_i, d) of unequal lengths -> (b, n, d) with junk at padding, and keys."""
    n = max(len(row) for row in rows)
    x, keys = torch.full((len(rows), n, rows[0].shape[-1]), 1e3), torch.zeros(len(rows), n, dtype=torch.bool)
    for i, row in enumerate(rows):
        here = slice(0, len(row)) if side == "right" else slice(n - len(row), n)
        x[i, here], keys[i, here] = row, True
    return x, keys


def random_state(name: str, b: int, depth: int, width: int) -> State:
    return {part: torch.randn(b, depth, width) for part in NAMES[name]}


def to_theirs(part: Tensor, sides: int) -> Tensor:
    """(b, l, s * e) -> (l * s, b, e), the last layer last, written out"""
    e = part.shape[2] // sides
    return torch.stack([part[:, i, j * e : (j + 1) * e] for i in range(part.shape[1]) for j in range(sides)])


def run_theirs(theirs: nn.RNNBase, rows: list[Tensor], state: State, sides: int) -> tuple[list[Tensor], list[Tensor]]:
    """-> the outputs of each row, at its real tokens, and the final states"""
    parts = [to_theirs(part, sides) for part in state.values()]
    lengths = torch.tensor([len(row) for row in rows])
    x = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    outputs, final = theirs(packed, tuple(parts) if len(parts) > 1 else parts[0])
    outputs, _ = pad_packed_sequence(outputs, batch_first=True)
    return [y[:n] for y, n in zip(outputs, lengths, strict=True)], list(final) if len(parts) > 1 else [final]


def score(outputs: list[Tensor], finals: list[Tensor]) -> Tensor:
    """One number that depends on everything, each place with its own weight."""
    flat = torch.cat([y.flatten() for y in (*outputs, *finals)])
    return (flat * torch.linspace(-1, 2, flat.numel()).cos()).sum()


# Against PyTorch's own


@pytest.mark.parametrize("name", THEIRS)
def test_cell_is_pytorchs(name: str) -> None:
    theirs, ours = THEIR_CELLS[name](3, 4), CELLS[name](3, 4)
    for linear, short in ((ours.input, "ih"), (ours.recurrent, "hh")):
        linear.load_state_dict({part: getattr(theirs, f"{part}_{short}") for part in ("weight", "bias")})
    x, state = torch.randn(5, 3), {part: torch.randn(5, 4) for part in NAMES[name]}
    expected = theirs(x, tuple(state.values()) if name == "lstm" else state["h"])
    got = ours(x, state)
    assert list(got) == list(NAMES[name])
    for part, value in zip(got.values(), expected if name == "lstm" else [expected], strict=True):
        close(part, value)
    empty = theirs(x)
    close(ours(x)["h"], empty[0] if name == "lstm" else empty)


@pytest.mark.parametrize("side", ["none", "right", "left"])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("name", "bidirectional", "depth"), list(product(THEIRS, (False, True), (1, 2, 3))))
def test_layer_is_pytorchs(name: str, bidirectional: bool, depth: int, path: str, side: str) -> None:
    """Outputs, final states, and the gradients of inputs, weights and initial states, for packed sequences."""
    ours, theirs = twins(name, depth, bidirectional)
    lengths = (5, 5, 5, 5) if side == "none" else (2, 5, 1, 4)
    rows = [torch.randn(n, 3, requires_grad=True) for n in lengths]
    state = {key: part.requires_grad_() for key, part in random_state(name, 4, depth, ours.width).items()}
    expected = run_theirs(theirs, rows, state, ours.sides)

    x, keys = padded(rows, side)
    with on(path, ours):
        result = ours(x, keys=None if side == "none" else keys, state=state)
    outputs = [y[real] for y, real in zip(result.outputs, keys, strict=True)]
    finals = [to_theirs(part, ours.sides) for part in result.state.values()]
    for got, wanted in zip((*outputs, *finals), (*expected[0], *expected[1]), strict=True):
        close(got, wanted)
    assert torch.equal(result.outputs[~keys], torch.zeros_like(result.outputs[~keys]))

    inputs = [*rows, *state.values()]
    named = dict(ours.named_parameters())
    weights = [named[our_name(key)] for key, _ in theirs.named_parameters()]
    assert len(weights) == len(named)
    got_gradients = torch.autograd.grad(score(outputs, finals), [*inputs, *weights])
    gradients = torch.autograd.grad(score(*expected), [*inputs, *theirs.parameters()])
    for got, wanted in zip(got_gradients, gradients, strict=True):
        close(got, wanted)


def test_relu_rnn_is_pytorchs() -> None:
    theirs = nn.RNN(3, 4, 2, nonlinearity="relu", batch_first=True)
    ours = Recurrent(partial(RNNCell, act=F.relu), 3, 4, 2)
    ours.load_state_dict({our_name(key): value for key, value in theirs.state_dict().items()})
    x = torch.randn(2, 6, 3)
    with forbidden("walk"):
        close(ours(x).outputs, theirs(x)[0])
    with on("walk", ours):
        close(ours(x).outputs, theirs(x)[0])


@pytest.mark.parametrize("name", THEIRS)
def test_dropout_is_pytorchs(name: str) -> None:
    """The same random numbers in training, none in evaluation."""
    ours, theirs = twins(name, 3, True, dropout=0.5)
    x = torch.randn(2, 6, 3)
    torch.manual_seed(1)
    got = ours(x).outputs
    torch.manual_seed(1)
    close(got, theirs(x)[0])
    ours.eval(), theirs.eval()
    close(ours(x).outputs, theirs(x)[0])
    assert not torch.allclose(got, ours(x).outputs)


def test_first_weights_are_within_pytorchs_bound() -> None:
    for kind in CELLS.values():
        largest = [float(weight.detach().abs().max()) for weight in kind(3, 100).parameters()]
        assert all(0.09 < value <= 0.1 for value in largest), largest


# Against the equations


def parts_of(cell: Cell, gates: int) -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """W, U, b, c of each gate."""
    both = cell.input.weight, cell.recurrent.weight, cell.input.bias, cell.recurrent.bias
    return list(zip(*(part.chunk(gates) for part in both), strict=True))


@pytest.mark.parametrize("reset", ["after", "before"])
def test_gru_is_its_equations(reset: str) -> None:
    cell = GRUCell(3, 4, reset=reset)
    x, h = torch.randn(3), torch.randn(4)
    (Wr, Ur, br, cr), (Wz, Uz, bz, cz), (Wn, Un, bn, cn) = parts_of(cell, 3)
    r = 1 / (1 + torch.exp(-(Wr @ x + br + Ur @ h + cr)))
    z = 1 / (1 + torch.exp(-(Wz @ x + bz + Uz @ h + cz)))
    recalled = r * (Un @ h + cn) if reset == "after" else Un @ (r * h) + cn
    n = torch.tanh(Wn @ x + bn + recalled)
    close(cell(x[None], {"h": h[None]})["h"][0], (1 - z) * n + z * h)


def test_lstm_is_its_equations() -> None:
    cell = LSTMCell(3, 4)
    x, h, c = torch.randn(3), torch.randn(4), torch.randn(4)
    i, f, g, o = (W @ x + b + U @ h + d for W, U, b, d in parts_of(cell, 4))
    memory = f.sigmoid() * c + i.sigmoid() * g.tanh()
    state = cell(x[None], {"h": h[None], "c": c[None]})
    close(state["c"][0], memory)
    close(state["h"][0], o.sigmoid() * memory.tanh())


def test_two_resets_are_two_functions() -> None:
    """They agree where there is nothing to reset."""
    after, before = GRUCell(3, 4), GRUCell(3, 4, reset="before")
    with torch.no_grad():
        for weight in after.parameters():
            weight.mul_(3)
        after.recurrent.bias.zero_()
    before.load_state_dict(after.state_dict())
    x, h = torch.randn(64, 3), torch.randn(64, 4)
    assert (after(x, {"h": h})["h"] - before(x, {"h": h})["h"]).abs().max() > 0.1
    close(after(x)["h"], before(x)["h"])


def test_bahdanaus_gru_has_its_update_gate_negated() -> None:
    """h' = (1 - z) * h + z * n, as the docstring says."""
    cell = GRUCell(3, 4, reset="before")
    x, h = torch.randn(5, 3), torch.randn(5, 4)
    with capture(cell, "*") as seen:
        cell(x, {"h": h})
    z, n = seen["z"][0], seen["n"][0]
    with torch.no_grad():
        for weight in cell.parameters():
            weight.chunk(3)[1].neg_()
    close(cell(x, {"h": h})["h"], (1 - z) * h + z * n)


def set_gate(cell: Cell, gates: int, which: int, bias: float) -> None:
    """Force a gate open (1000) or shut (-1000), whatever comes in: in float64 exactly 1 and 0."""
    with torch.no_grad():
        cell.input.weight.chunk(gates)[which].zero_()
        cell.recurrent.weight.chunk(gates)[which].zero_()
        cell.input.bias.chunk(gates)[which].fill_(bias)
        cell.recurrent.bias.chunk(gates)[which].zero_()


@pytest.mark.parametrize("reset", ["after", "before"])
def test_gru_limits(reset: str) -> None:
    """z = 1 copies h; z = 0 and r = 0 forget it."""
    x, h, other = torch.randn(5, 3), torch.randn(5, 4), torch.randn(5, 4)
    cell = GRUCell(3, 4, reset=reset)
    set_gate(cell, 3, 1, 1000)
    assert torch.equal(cell(x, {"h": h})["h"], h)
    set_gate(cell, 3, 1, -1000)
    assert not torch.allclose(cell(x, {"h": h})["h"], cell(x, {"h": other})["h"])
    set_gate(cell, 3, 0, -1000)
    assert torch.equal(cell(x, {"h": h})["h"], cell(x, {"h": other})["h"])
    _, _, (W, _, b, c) = parts_of(cell, 3)
    close(cell(x, {"h": h})["h"], torch.tanh(x @ W.T + b + (0 if reset == "after" else c)))


@pytest.mark.parametrize("path", PATHS)
def test_lstm_carousel(path: str) -> None:
    """f = 1 and i = 0 keep c for ever, with gradient exactly 1."""
    net = Recurrent(LSTMCell, 3, 4)
    set_gate(net.ahead[0], 4, 0, -1000)
    set_gate(net.ahead[0], 4, 1, 1000)
    c = torch.randn(2, 1, 4, requires_grad=True)
    with on(path, net):
        final = net(torch.randn(2, 100, 3), state={"h": torch.randn(2, 1, 4), "c": c}).state["c"]
    assert torch.equal(final, c)
    (gradient,) = torch.autograd.grad(final.sum(), c)
    assert torch.equal(gradient, torch.ones_like(c))


def test_forget_bias_is_the_sum_of_two() -> None:
    cell, plain = LSTMCell(3, 4, forget=3.0), LSTMCell(3, 4)
    both = (cell.input.bias + cell.recurrent.bias).detach().chunk(4)
    assert torch.equal(both[1], torch.full((4,), 3.0))
    assert all(part.abs().max() <= 1.0 for part in (both[0], both[2], both[3]))  # twice 1 / sqrt(4)
    assert (plain.input.bias + plain.recurrent.bias).abs().max() <= 1.0
    plain.load_state_dict(cell.state_dict())
    plain.set_forget(-1.0)
    close((plain.input.bias + plain.recurrent.bias).chunk(4)[1], torch.full((4,), -1.0))
    x, c = torch.zeros(1, 3), torch.ones(1, 4)
    assert (cell(x, {"h": torch.zeros(1, 4), "c": c})["c"] > plain(x, {"h": torch.zeros(1, 4), "c": c})["c"]).all()


def test_gradient_through_time_is_a_product_of_jacobians() -> None:
    """d h_k / d h_j = prod diag(1 - h_i^2) W, the latest step first."""
    cell, x = RNNCell(3, 4), torch.randn(6, 1, 3)

    def run(h: Tensor) -> Tensor:
        for step in x:
            h = cell(step, {"h": h})["h"]
        return h

    h = torch.randn(1, 4)
    jacobian = torch.autograd.functional.jacobian(run, h)[0, :, 0]
    expected, state = torch.eye(4), {"h": h}
    for step in x:
        state = cell(step, state)
        expected = torch.diag(1 - state["h"][0] ** 2) @ cell.recurrent.weight @ expected
    close(jacobian, expected)
    largest = torch.linalg.matrix_norm(cell.recurrent.weight, 2)
    assert torch.linalg.matrix_norm(jacobian, 2) <= largest ** len(x)


@pytest.mark.parametrize("growth", [0.8, 1.0, 1.2])
def test_linear_network_scales_its_gradient(growth: float) -> None:
    """W = growth * orthogonal and no squashing: k steps back the gradient has the norm growth^k, so 1 stays 1."""
    net = Recurrent(partial(RNNCell, act=nn.Identity()), 3, 4)
    with torch.no_grad():
        nn.init.orthogonal_(net.ahead[0].recurrent.weight).mul_(growth)
    with capture(net, "*.h", grad=True) as seen:
        outputs = net(torch.randn(1, 50, 3)).outputs
    (states,) = seen.values()
    direction = F.normalize(torch.randn(4), dim=0)
    gradients = torch.autograd.grad(outputs[0, -1] @ direction, states)
    norms = torch.stack([gradient.norm() for gradient in gradients])
    close(norms, growth ** torch.arange(49.0, -1, -1))


# Against themselves


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
                net(x[i : i + 1, row], state=before) if row.any() else Recurred(x.new_zeros(1, 0, net.width), before)
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


# Step by step


def prefix(name: str, depth: int) -> tuple[Recurrent, Tensor, Recurred]:
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
        remember(cache, cell, cell(step, recall(cache, cell)))
    cache.reorder(rows)
    kept = recall(cache, cell)
    assert state is not None
    assert kept is not None
    for part in NAMES[name]:
        close(kept[part], state[part][rows])
    assert recall(None, cell) is None
    remember(None, cell, state)


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
    with pytest.raises(ValueError, match="both ends"):
        build(name, bidirectional=True)(torch.randn(1, 2, 3), cache=Cache())


# Dropout


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


# Which way it goes, and who may listen


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
        y = recompute(lambda x: net(x).outputs, x)
    (again,) = torch.autograd.grad(y.sum(), x)
    (plain,) = torch.autograd.grad(net(x).outputs.sum(), x)
    close(again, plain)
    assert len(seen["ahead.0.h"]) == 4


# Devices, types, names, errors


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
        with pytest.raises(ValueError, match=r"takes \(batch, at least 1, 3\)"):
            net(wrong)
    for keys in (torch.ones(2, 5), torch.ones(2, 4, dtype=torch.bool), torch.ones(5, dtype=torch.bool)):
        with pytest.raises(ValueError, match=r"bool \(2, 5\)"):
            net(x, keys=keys)
    for state in ({"h": h}, {"h": h, "c": h[:1]}, {"h": h, "c": h, "d": h}, {"h": h[:, :1], "c": h[:, :1]}):
        with pytest.raises(ValueError, match="state to start from"):
            net(x, state=state)
    close(net(x, state={"c": h, "h": h + 1}).outputs, net(x, state={"h": h + 1, "c": h}).outputs)  # names, not order
    with pytest.raises(ValueError, match="at least one layer"):
        build("gru", 0)
    with pytest.raises(ValueError, match="known are after, before"):
        GRUCell(3, 4, reset="never")
    with pytest.raises(ValueError, match="known are rnn, gru, gru_before, lstm"):
        cell_kind("elman")
    assert cell_kind("lstm") is LSTMCell
