"""Recurrent cells and layers, against PyTorch's own and against their equations."""

from collections.abc import Iterator
from functools import partial
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.nn.recurrent import (
    CELLS,
    Cell,
    GRUCell,
    LSTMCell,
    Recurrent,
    RNNCell,
    State,
)
from regard.nn.tap import capture
from tests.nn.recurrence import NAMES, PATHS, THEIRS, build, close, forbidden, on, padded, random_state, score

THEIR_CELLS = {"rnn": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


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
