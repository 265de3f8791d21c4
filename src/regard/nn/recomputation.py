"""Activations that are computed again in the backward pass instead of being kept."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual
from torch.autograd.graph import saved_tensors_hooks
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint, get_device_states, set_device_states

from .tap import listeners_here, listeners_of_rerun, use_listeners

T = TypeVar("T")


def recompute_forward(f: Callable[..., T], *inputs: Tensor | None) -> T:
    """Activation recomputation (gradient checkpointing) of ``f(*inputs)``: only the inputs are kept; random states and
    decisions are replayed.

    Whoever listened during the forward pass is taken along, so that the second run takes the same path, also after
    the capture has closed.
    """
    if torch.compiler.is_compiling():  # a compiled graph has no taps, and no contexts can be handed to it
        return checkpoint(f, *inputs, use_reentrant=False)
    now = listeners_here()
    notes = Notes() if getattr(_notes, "open", None) is None else None  # or those who run all of this again take them

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext() if notes is None else notes.written(), SecondRun(
            use_listeners(listeners_of_rerun(now)), notes
        )

    return checkpoint(f, *inputs, use_reentrant=False, context_fn=contexts)


class SecondRun(AbstractContextManager[None]):
    """Who listened the first time hears again, and what was decided is read. May be entered again: a second backward
    pass, a third run."""

    def __init__(self, listening: use_listeners, notes: "Notes | None") -> None:
        self.listening, self.notes = listening, notes
        self.entered: list[ExitStack] = []

    def __enter__(self) -> None:
        stack = ExitStack()
        stack.enter_context(self.listening)
        if self.notes is not None:
            stack.enter_context(self.notes.again())
        self.entered.append(stack)

    def __exit__(self, *error: object) -> None:
        self.entered.pop().close()


class Notes:
    """What was decided in a forward pass and must be decided the same way when that is run again from inputs that may
    differ by a rounding: which bucket a key fell into."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.read: int | None = None  # how many were read; None while they are written

    @contextmanager
    def written(self) -> Iterator[None]:
        with self.open(None):
            yield

    @contextmanager
    def again(self) -> Iterator[None]:
        with self.open(0):
            yield

    @contextmanager
    def open(self, read: int | None) -> Iterator[None]:
        outer, self.read = getattr(_notes, "open", None), read
        _notes.open = self
        try:
            yield
        finally:
            _notes.open = outer


_notes = threading.local()


def decide_once(decide: Callable[[], Tensor]) -> Tensor:
    """Make a decision and note it for the second run; in a second run, return the noted decision."""
    notes: Notes | None = None if torch.compiler.is_compiling() else getattr(_notes, "open", None)
    if notes is None:
        return decide()
    if notes.read is None:
        notes.tensors.append(decide())
        return notes.tensors[-1]
    notes.read += 1
    return notes.tensors[notes.read - 1]


@dataclass(frozen=True)
class RowPart:
    """Some rows (second-last axis) of a result: the input rows that they need, and how to compute them."""

    rows: slice
    needs: tuple[slice, ...]
    make: Callable[..., Tensor]

    def cut(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        return [some(x, rows) for x, rows in zip(inputs, self.needs, strict=True)]


def some(x: Tensor, rows: slice) -> Tensor:
    """(..., n, d) -> (..., rows, d), in the same memory"""
    return x.narrow(-2, rows.start, rows.stop - rows.start)


def compute_in_parts(parts: Sequence[RowPart], *inputs: Tensor) -> Tensor:
    """Compute a result part by part, and each part again for its gradient. Only the inputs are kept.

    A part leaves nothing behind. An output of its own or a node of a graph would come to stand in the memory that its
    large tensors gave back, and the allocator could not use that again for those of the next part. So there is one
    place for the results of all parts, one for their gradients, and one node.
    """
    if is_traced(inputs):
        return apart(parts, inputs)
    if not torch.is_grad_enabled():
        return together(parts, inputs)
    moment, borrowed, bare = Moment(inputs[0]), Borrowed(), [x.detach() for x in inputs]
    with torch.no_grad(), borrowed:
        y = together(parts, bare)
    found = list(borrowed.tensors.values())
    if not any(x.requires_grad for x in (*inputs, *found)):
        return y
    if separate(found):
        return RecomputedParts.apply(y, parts, moment, *inputs, *found)  # type: ignore[no-untyped-call]
    with moment.again():
        return apart(parts, inputs)


def is_traced(inputs: Sequence[Tensor]) -> bool:
    """Whether every step must be traced: by a compiler, or by forward-mode differentiation."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return True
    return any(unpack_dual(x).tangent is not None for x in inputs)


def together(parts: Sequence[RowPart], inputs: Sequence[Tensor]) -> Tensor:
    """All parts in one place. The last is made first: a causal part fits into the memory that a larger one left."""
    y = None
    for part in reversed(parts):
        rows = part.make(*part.cut(inputs))
        y = rows.new_empty(*rows.shape[:-2], part.rows.stop, rows.shape[-1]) if y is None else y
        some(y, part.rows).copy_(rows)
        del rows  # before the next part
    assert y is not None, "no parts"
    return y


def apart(parts: Sequence[RowPart], inputs: Sequence[Tensor]) -> Tensor:
    """The same, in the same order, but each part has a graph of its own."""
    run = recompute_forward if torch.is_grad_enabled() else call
    return torch.cat([run(part.make, *part.cut(inputs)) for part in reversed(parts)][::-1], -2)


def call(f: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    return f(*inputs)


class Borrowed(TorchFunctionMode):
    """Within, and without gradients: finds the tensors that want one, weights or a learned bias, whoever holds them."""

    def __init__(self) -> None:
        super().__init__()
        self.tensors: dict[int, Tensor] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for x in (*args, *(kwargs or {}).values()):
            for tensor in x if isinstance(x, list | tuple) else (x,):
                if isinstance(tensor, Tensor) and tensor.requires_grad and not viewed(tensor):
                    self.tensors[id(tensor)] = tensor
        return func(*args, **(kwargs or {}))


def viewed(x: Tensor) -> bool:
    """Whether this is a view created without gradients, which reports requires_grad only because its base does."""
    return x.grad_fn is None and x._base is not None and x._base.requires_grad


def separate(borrowed: Sequence[Tensor]) -> bool:
    """Whether a part can be differentiated separately for these tensors: none depends on another, and none has a hook,
    which would run for every part."""
    unrelated = len(borrowed) == 1 or all(x.is_leaf for x in borrowed)
    return unrelated and not any(x._backward_hooks or x.retains_grad for x in borrowed)


class Moment:
    """The state of a forward pass besides its inputs: random states, precision, and listeners."""

    def __init__(self, x: Tensor) -> None:
        self.device, self.hearing = x.device.type, listeners_here()
        self.random, (self.devices, self.states) = torch.get_rng_state(), get_device_states(x)
        self.precision: AbstractContextManager[Any] = nullcontext()
        if torch.amp.is_autocast_available(self.device):
            mixed, dtype = torch.is_autocast_enabled(self.device), torch.get_autocast_dtype(self.device)
            self.precision = torch.autocast(self.device, dtype, mixed)

    @contextmanager
    def again(self) -> Iterator[None]:
        with torch.random.fork_rng(self.devices, device_type=self.device):
            torch.set_rng_state(self.random)
            set_device_states(self.devices, self.states, device_type=self.device)
            with self.precision, use_listeners(listeners_of_rerun(self.hearing)):
                yield


class RecomputedParts(torch.autograd.Function):
    """The one node of all parts."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, parts: Sequence[RowPart], moment: Moment, *tensors: Tensor) -> Tensor:
        ctx.parts, ctx.moment = parts, moment
        ctx.save_for_backward(*tensors)
        ctx.mark_dirty(y)
        return y

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        count, tensors = len(ctx.parts[0].needs), ctx.saved_tensors  # which may be asked for only once
        inputs, borrowed = tensors[:count], tensors[count:]
        if torch.is_grad_enabled():  # create_graph=True
            if borrowed:  # they may also have made the inputs, and nothing here could tell the two ways apart
                raise RuntimeError(
                    "a computation in parts with weights or a learned bias does not support second derivatives; "
                    "for attention, set regard.nn.attention.DENSE to queries x keys, so that it runs in one part"
                )
            with ctx.moment.again():
                views = [x.view_as(x) for x in inputs]
                y = apart(ctx.parts, views)
            return None, None, None, *slopes(y, views, slope, twice=True)
        leaves = [x.detach().requires_grad_(x.requires_grad) for x in inputs]  # what came before is not of the parts
        sums = [slope.new_zeros(x.shape, dtype=torch.promote_types(x.dtype, torch.float32)) for x in tensors]
        with ctx.moment.again():
            for part in reversed(ctx.parts):
                add_slopes(part, leaves, borrowed, slope, (*part.cut(sums[:count]), *sums[count:]))
        return None, None, None, *(total.to(x.dtype) for total, x in zip(sums, tensors, strict=True))


def add_slopes(
    part: RowPart, inputs: Sequence[Tensor], borrowed: Sequence[Tensor], slope: Tensor, sums: Sequence[Tensor]
) -> None:
    """A function of its own, so that all it makes is gone before the next part."""
    with torch.enable_grad(), saved_tensors_hooks(same, same):  # what is gone so soon need not be packed by others
        cuts = part.cut(inputs)
        rows = part.make(*cuts)
    for total, x in zip(sums, slopes(rows, (*cuts, *borrowed), some(slope, part.rows)), strict=True):
        if x is not None:
            total += x


def same(x: Tensor) -> Tensor:
    return x


def slopes(y: Tensor, inputs: Sequence[Tensor], slope: Tensor, *, twice: bool = False) -> list[Tensor | None]:
    """By each input; None where it changes nothing."""
    if not y.requires_grad:
        return [None for _ in inputs]
    wanted = [x for x in inputs if x.requires_grad]
    found = iter(torch.autograd.grad(y, wanted, slope, create_graph=twice, allow_unused=True))
    return [next(found) if x.requires_grad else None for x in inputs]
