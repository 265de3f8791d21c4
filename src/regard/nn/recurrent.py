"""Recurrent networks: one cell for every step, so that the same weights serve a sequence of any length.

Finding Structure in Time (Elman, 1990); Long Short-Term Memory (Hochreiter and Schmidhuber, 1997);
GRU (Cho et al., 2014), https://arxiv.org/abs/1406.1078; both directions (Schuster and Paliwal, 1997)
    h_t = f(x_t, h_(t-1))

Shapes: b batch, n positions, d width of the input, e width of the hidden state, l layers, s directions, w = s * e.
In the equations sigma is the logistic function and * works feature by feature. Checkpoints hold two biases, b and c,
though they only add up, but for a GRU's n.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from .cache import Cache
from .dropout import Dropout
from .feedforward import Activation
from .tap import Tap

State = dict[str, Tensor]  # by name, batch first: "h" is what a cell says, "c" what an LSTM keeps to itself
Fused = Callable[..., tuple[Tensor, ...]]  # PyTorch's function for whole sequences


class RNNCell(nn.Module):
    """h' = act(W x + b + U h + c)"""

    names: ClassVar[tuple[str, ...]] = ("h",)

    def __init__(self, dim: int, hidden: int, act: Activation = F.tanh) -> None:
        super().__init__()
        self.input, self.recurrent, self.act = nn.Linear(dim, hidden), nn.Linear(hidden, hidden), act
        self.h = Tap()
        settle(self, hidden)

    def fused(self) -> Fused | None:
        if self.act in (F.tanh, torch.tanh):
            return torch.rnn_tanh
        return torch.rnn_relu if self.act in (F.relu, torch.relu) else None

    def forward(self, x: Tensor, state: State | None = None) -> State:
        """(b, d), the previous state (None: zeros) -> the new state"""
        h = (state or blank_state(self, x))["h"]
        return {"h": self.h(self.act(self.input(x) + self.recurrent(h)))}


class GRUCell(nn.Module):
    """r, z = sigma(W x + b + U h + c); a candidate n; h' = (1 - z) * n + z * h. The rows of W and U are r, z, n.

    reset "after":  n = tanh(W x + b + r * (U h + c)), as PyTorch and cuDNN have it.
    reset "before": n = tanh(W x + b + U (r * h) + c), as the paper has it: another function.
    Bahdanau et al. (2015) swap z and 1 - z, which is the same function with z's weights and biases negated.
    """

    names: ClassVar[tuple[str, ...]] = ("h",)

    def __init__(self, dim: int, hidden: int, *, reset: Literal["after", "before"] = "after") -> None:
        super().__init__()
        if reset not in ("after", "before"):
            raise ValueError(f"unknown GRU reset {reset!r}; valid values are after, before")
        self.input, self.recurrent, self.reset = nn.Linear(dim, 3 * hidden), nn.Linear(hidden, 3 * hidden), reset
        self.r, self.z, self.n, self.h = Tap(), Tap(), Tap(), Tap()
        settle(self, hidden)

    def fused(self) -> Fused | None:
        return torch.gru if self.reset == "after" else None

    def forward(self, x: Tensor, state: State | None = None) -> State:
        """(b, d), the previous state (None: zeros) -> the new state"""
        h = (state or blank_state(self, x))["h"]
        e, after, new = h.shape[-1], self.reset == "after", self.input(x)
        u, c = self.recurrent.weight, self.recurrent.bias
        past = self.recurrent(h) if after else F.linear(h, u[: 2 * e], c[: 2 * e])
        r, z = (new[..., : 2 * e] + past[..., : 2 * e]).sigmoid().chunk(2, -1)
        r, z = self.r(r), self.z(z)
        recalled = r * past[..., 2 * e :] if after else F.linear(r * h, u[2 * e :], c[2 * e :])
        n = self.n((new[..., 2 * e :] + recalled).tanh())
        return {"h": self.h((1 - z) * n + z * h)}


class LSTMCell(nn.Module):
    """i, f, o = sigma(W x + b + U h + c), g = tanh(the same); c' = f * c + i * g; h' = o * tanh(c').

    The rows of W and U are i, f, g, o. ``forget`` is the forget gate's first bias (Gers et al., 2000): 1 or more lets
    the gradient pass from the start; without it the bias is random, like PyTorch's.
    """

    names: ClassVar[tuple[str, ...]] = ("h", "c")

    def __init__(self, dim: int, hidden: int, *, forget: float | None = None) -> None:
        super().__init__()
        self.input, self.recurrent = nn.Linear(dim, 4 * hidden), nn.Linear(hidden, 4 * hidden)
        self.i, self.f, self.g, self.o, self.c, self.h = Tap(), Tap(), Tap(), Tap(), Tap(), Tap()
        settle(self, hidden)
        if forget is not None:
            self.set_forget(forget)

    @torch.no_grad()
    def set_forget(self, bias: float) -> None:
        """Set the forget-gate bias: the two biases add up, so one of them is set."""
        self.input.bias.chunk(4)[1].fill_(bias)
        self.recurrent.bias.chunk(4)[1].zero_()

    def fused(self) -> Fused | None:
        return torch.lstm

    def forward(self, x: Tensor, state: State | None = None) -> State:
        """(b, d), the previous state (None: zeros) -> the new state"""
        state = state or blank_state(self, x)
        i, f, g, o = (self.input(x) + self.recurrent(state["h"])).chunk(4, -1)
        i, f, g, o = self.i(i.sigmoid()), self.f(f.sigmoid()), self.g(g.tanh()), self.o(o.sigmoid())
        c = self.c(f * state["c"] + i * g)
        return {"h": self.h(o * c.tanh()), "c": c}


Cell = RNNCell | GRUCell | LSTMCell
Kind = Callable[[int, int], Cell]  # (dim, hidden) -> a cell
CELLS: dict[str, Kind] = {
    "rnn": RNNCell,
    "gru": GRUCell,
    "gru_before": partial(GRUCell, reset="before"),
    "lstm": LSTMCell,
}


def cell_kind(name: str) -> Kind:
    if name not in CELLS:
        raise ValueError(f"unknown recurrent cell {name!r}; valid names are {', '.join(CELLS)}")
    return CELLS[name]


def settle(cell: nn.Module, hidden: int) -> None:
    """PyTorch's initialisation of weights and biases: uniform, at most 1 / sqrt(hidden)."""
    for weight in cell.parameters():
        nn.init.uniform_(weight, -(hidden**-0.5), hidden**-0.5)


def blank_state(cell: Cell, x: Tensor) -> State:
    """The zero state, before the first step."""
    return {name: x.new_zeros(*x.shape[:-1], cell.recurrent.in_features) for name in cell.names}


def detach(state: State) -> State:
    """Detach a state from the graph, for truncated backpropagation through time."""
    return {name: part.detach() for name, part in state.items()}


def recall_state(cache: Cache | None, owner: nn.Module) -> State | None:
    """The state that ``keep_state`` kept for this owner; None before its first step."""
    return None if cache is None else dict(cache.slot(owner).tensors) or None


def keep_state(cache: Cache | None, owner: nn.Module, state: State) -> None:
    if cache is not None:
        cache.slot(owner).tensors.update(state)


@dataclass(frozen=True, eq=False)
class RecurrentOutput:
    outputs: Tensor  # (b, n, w): the last layer's h at every step, zeros at padding
    state: State  # each (b, l, w): every layer's after its last real token, [ahead; back] as in the outputs


class Recurrent(nn.Module):
    """Stacked recurrent layers over sequences, unidirectional or bidirectional.

    Padding, on either side, does not exist for it: the state does not move there, so that the way back starts at a
    sequence's own last token. Dropout stands between layers, never between steps. The whole stack is one call of
    PyTorch's fused kernel, unless its cells have none or someone listens inside them.
    """

    def __init__(
        self, kind: Kind, dim: int, hidden: int, depth: int = 1, *, bidirectional: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if depth < 1:
            raise ValueError(f"depth of a recurrent network must be at least 1, got {depth}")
        self.sides = 2 if bidirectional else 1
        self.dim, self.width = dim, self.sides * hidden
        widths = [dim, *[self.width] * (depth - 1)]
        self.ahead = nn.ModuleList(kind(width, hidden) for width in widths)
        self.back = nn.ModuleList(kind(width, hidden) for width in widths if bidirectional)
        self.dropout = Dropout(dropout)
        self.said = Tap()  # (b, n, w)

    def forward(
        self, x: Tensor, *, keys: Tensor | None = None, state: State | None = None, cache: Cache | None = None
    ) -> RecurrentOutput:
        """(b, n, d); keys bool (b, n), False at padding; the initial state, None for zeros.

        Once a cache holds a state, decoding goes on from there and ``state`` is no longer read.
        """
        if cache is not None and self.sides == 2:
            raise ValueError("a bidirectional network needs the full sequence, so it cannot use a cache")
        if x.dtype == torch.float32 and not x.is_meta and torch.is_autocast_enabled(x.device.type):
            x = x.to(torch.get_autocast_dtype(x.device.type))  # not every fused kernel does this by itself
        start = self.start(x, keys, recall_state(cache, self) or state)
        keys = keys if len(x) else None
        if keys is not None:
            x = x.masked_fill(~keys[..., None], 0.0)  # whatever stands there, NaN too
        kernel = self.kernel(x)
        if kernel is None:
            result = self.walk(x, keys, start)
        elif torch.compiler.is_compiling():  # traced, it would be a long unrolled loop, or an error
            result = torch.compiler.disable(self.fused)(kernel, x, keys, start)
        else:
            result = self.fused(kernel, x, keys, start)
        final = {name: part.unflatten(0, (-1, self.sides)) for name, part in result.state.items()}  # (l, s, b, e)
        final = {name: part.permute(2, 0, 1, 3).flatten(2) for name, part in final.items()}
        keep_state(cache, self, final)
        return RecurrentOutput(self.said(result.outputs), final)

    def start(self, x: Tensor, keys: Tensor | None, state: State | None) -> State:
        """What came in is looked at here; -> the state to start from, each (l * s, b, e)"""
        if x.ndim != 3 or x.shape[1] == 0 or x.shape[2] != self.dim:
            raise ValueError(
                f"the input of a recurrent network must have the shape (batch, at least 1, {self.dim}), got "
                f"{tuple(x.shape)}"
            )
        if keys is not None and (keys.shape != x.shape[:2] or keys.dtype != torch.bool):
            got = f"{keys.dtype} {tuple(keys.shape)}"
            raise ValueError(
                f"keys (the padding mask, True at real tokens) must be bool {tuple(x.shape[:2])}, got {got}"
            )
        wanted = dict.fromkeys(self.cells()[0].names, (len(x), len(self.ahead), self.width))
        state = state or {name: x.new_zeros(shape) for name, shape in wanted.items()}
        shapes = {name: tuple(part.shape) for name, part in state.items()}
        if shapes != wanted:
            raise ValueError(f"the initial state must have the shapes {wanted}, got {shapes}")
        parts = {name: state[name].to(x.dtype).unflatten(2, (self.sides, -1)) for name in wanted}  # (b, l, s, e)
        return {name: part.permute(1, 2, 0, 3).flatten(0, 1).contiguous() for name, part in parts.items()}

    def cells(self) -> list[Cell]:
        """Layer by layer; in each ahead, then back if there is one."""
        layers = zip(self.ahead, self.back, strict=True) if self.sides == 2 else zip(self.ahead, strict=True)
        return cast("list[Cell]", [cell for layer in layers for cell in layer])

    def kernel(self, x: Tensor) -> Fused | None:
        """The fused kernel, if all cells are those of PyTorch and no listener needs the steps."""
        cells = self.cells()
        if x.is_meta or any(tap.live for cell in cells for tap in cell.children() if isinstance(tap, Tap)):
            return None
        first = cells[0].fused()
        if first is torch.lstm and x.shape[1] == 1:
            return None  # it lays out its weights anew in every call, which takes longer than one step
        return first if all(cell.fused() is first for cell in cells) else None

    def fused(self, kernel: Fused, x: Tensor, keys: Tensor | None, state: State) -> RecurrentOutput:
        """All layers, directions and steps in one call, over the real tokens alone."""
        weights: list[Tensor] = []
        for cell in self.cells():
            weights += [cell.input.weight, cell.recurrent.weight, cell.input.bias, cell.recurrent.bias]
        how = (weights, True, len(self.ahead), self.dropout.p, self.training, self.sides == 2)
        before = list(state.values())
        if keys is None:
            outputs, *after = kernel(x, before if len(before) > 1 else before[0], *how, True)
        else:
            data, sizes, rows, home = pack(x, keys)  # rows by length, and the way home
            turned = [part[:, rows] for part in before]
            data, *after = kernel(data, sizes, turned if len(before) > 1 else turned[0], *how)
            outputs = unpack(PackedSequence(data, sizes, rows, home), keys)
            real = keys.any(1)[:, None]  # a row of padding alone stays where it was
            after = [torch.where(real, new[:, home], old) for new, old in zip(after, before, strict=True)]
        return RecurrentOutput(outputs, dict(zip(state, after, strict=True)))

    def walk(self, x: Tensor, keys: Tensor | None, state: State) -> RecurrentOutput:
        """The same by the cells' own equations, layer by layer and step by step."""
        cells, finals = self.cells(), []
        for i in range(0, len(cells), self.sides):
            x, here = self.dropout(x) if i else x, range(i, i + self.sides)
            starts = [{name: part[j] for name, part in state.items()} for j in here]
            runs = [along(cells[j], x, keys, starts[j - i], backwards=j > i) for j in here]
            x = torch.cat([run.outputs for run in runs], -1)
            finals += [run.state for run in runs]
        return RecurrentOutput(x, {name: torch.stack([final[name] for final in finals]) for name in state})


def along(cell: Cell, x: Tensor, keys: Tensor | None, state: State, *, backwards: bool) -> RecurrentOutput:
    """One cell over (b, n, d); a row's state is held where it has padding."""
    inputs, said = x.unbind(1), []  # one gradient for all of x; a slice for each step would have one as large as x
    steps = range(len(inputs))
    for t in reversed(steps) if backwards else steps:
        new = cell(inputs[t], state)
        state = new if keys is None else {name: torch.where(keys[:, t, None], new[name], state[name]) for name in new}
        said.append(state["h"])
    outputs = torch.stack(said[::-1] if backwards else said, 1)
    return RecurrentOutput(outputs if keys is None else outputs.masked_fill(~keys[..., None], 0.0), state)


def pack(x: Tensor, keys: Tensor) -> PackedSequence:
    """The real tokens alone, as the fused kernels take them. They refuse an empty row, so it lends one of its zeros."""
    front = keys.byte().argsort(stable=True, dim=1, descending=True)[..., None]  # real tokens first, in their order
    lengths = keys.sum(1).clamp(min=1).cpu()
    return pack_padded_sequence(x.take_along_dim(front, 1), lengths, batch_first=True, enforce_sorted=False)


def unpack(packed: PackedSequence, keys: Tensor) -> Tensor:
    """(b, n, w): each token back where it stood, zeros at padding."""
    x, _ = pad_packed_sequence(packed, batch_first=True, total_length=keys.shape[1])
    place = (keys.cumsum(1) - 1).clamp(min=0)[..., None]
    return x.take_along_dim(place, 1).masked_fill(~keys[..., None], 0.0)
