"""Looking and intervening: named places in a model where a tensor can be heard, kept or replaced."""

import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import FrameType

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import CheckpointFunction

TapCallback = Callable[[str, Tensor], Tensor | None]


@dataclass(frozen=True)
class Listener:
    name: str
    hear: TapCallback
    records: bool  # it only keeps what passes: not called again when a forward pass is repeated for its gradient


class Tap(nn.Module):
    """A tap (hook point): the identity, unless a listener is active.

    A tap has no weights, so it never appears in a checkpoint; its name is its place in the module tree. ``live`` tells
    the owner whether the tensor is wanted at all, so that attention may use a fused kernel that never forms it.
    Nothing is kept here: listeners belong to the thread that opened them.
    """

    @property
    def live(self) -> bool:
        return not compiling() and self in listeners_here()

    def forward(self, x: Tensor) -> Tensor:
        if compiling():
            return x
        for listener in listeners_here().get(self, ()):
            if listener.records and in_backward():
                continue  # a second run, for the gradient: it was recorded in the first
            replacement = listener.hear(listener.name, x)
            if replacement is not None:
                x = fitting(replacement, x, listener.name)
                bookmark()
        return x


def fitting(replacement: Tensor, x: Tensor, name: str) -> Tensor:
    """Check that a replacement has the shape of the original, as broadcasting would hide an error."""
    if replacement.shape != x.shape:
        raise ValueError(
            f"the replacement of {name} must have the same shape: got {tuple(replacement.shape)}, "
            f"expected {tuple(x.shape)}"
        )
    return replacement


Hearing = Mapping[Tap, tuple[Listener, ...]]
_thread = threading.local()


def listeners_here() -> Hearing:
    """Who listens where, in this thread."""
    found: Hearing = entered()[-1][1]
    return found


def entered() -> tuple[tuple[object, Hearing], ...]:
    """All that this thread is within, each with what it made to be heard."""
    return getattr(_thread, "stack", NOBODY)


NOBODY: tuple[tuple[object, Hearing], ...] = ((None, {}),)


@dataclass(frozen=True, eq=False)
class use_listeners:  # noqa: N801 (it is read as a verb: with use_listeners(them))
    """Within, exactly these listeners hear this thread. May be entered again: a second backward pass, a third run."""

    listeners: Hearing

    def __enter__(self) -> None:
        _thread.stack = (*entered(), (self, self.listeners))

    def __exit__(self, *error: object) -> None:
        """Its own, not the latest: two generators may leave in another order than they came."""
        last = max(i for i, (owner, _) in enumerate(entered()) if owner is self)
        _thread.stack = (*entered()[:last], *entered()[last + 1 :])


def forget(gone: Collection[Listener]) -> None:
    """Who has left hears nothing any more, also of what was entered after and is not left yet."""
    if len(entered()) > 1:
        _thread.stack = tuple((owner, left(gone, there)) for owner, there in entered())


def left(gone: Collection[Listener], there: Hearing) -> Hearing:
    return {tap: rest for tap, listeners in there.items() if (rest := without(gone, listeners)) or not listeners}


def without(gone: Collection[Listener], there: tuple[Listener, ...]) -> tuple[Listener, ...]:
    return tuple(listener for listener in there if not any(listener is other for other in gone))


@contextmanager
def listen(model: nn.Module, pattern: str, hear: TapCallback, *, records: bool = False) -> Iterator[list[str]]:
    """Call ``hear(name, tensor)`` at every tap whose name matches; a returned tensor of the same shape replaces the
    original.

    Layers whose activations are computed again in the backward pass call their listeners again, but not those with
    ``records``. ``recomputation.recompute_forward`` takes the listeners along. ``torch.utils.checkpoint`` does not: a
    replacement inside it must last until the backward pass is done. If it does not, that pass fails with PyTorch's
    CheckpointError; its reentrant form could not notice, and is refused.
    """
    taps = {name: module for name, module in model.named_modules() if isinstance(module, Tap)}
    names = [name for name in taps if named(plain_name(name), pattern)]
    if not names:
        raise KeyError(
            f"no tap matches {pattern!r}; the taps of this model are {', '.join(map(plain_name, taps)) or 'none'}"
        )
    own = {name: Listener(plain_name(name), hear, records) for name in names}
    new = dict(listeners_here())
    for name, listener in own.items():
        new[taps[name]] = (*new.get(taps[name], ()), listener)
    try:
        with use_listeners(new), eager():
            yield [plain_name(name) for name in names]
    finally:
        forget(own.values())


@contextmanager
def capture(model: nn.Module, pattern: str = "*.weights", *, grad: bool = False) -> Iterator[dict[str, list[Tensor]]]:
    """Record what passes the matching taps, every call in order: ``with capture(model) as seen: model(x)``.

    Nothing is kept in a backward pass, where layers may be computed again; so each call is kept once. Under
    ``torch.utils.checkpoint``, looking at ``weights`` takes another path than not looking, so it must go on until the
    backward pass is done, or PyTorch raises its CheckpointError. With ``recomputation.recompute_forward`` it may end
    before.
    """
    seen: dict[str, list[Tensor]] = {}

    def keep(name: str, x: Tensor) -> None:
        seen.setdefault(name, []).append(x if grad else x.detach())

    with listen(model, pattern, keep, records=True):
        yield seen


def listeners_of_rerun(now: Hearing) -> Hearing:
    """The same listeners for a forward pass that is run again for its gradient: the same taps stay live, so the same
    path is taken and replacements are made again, but nothing is recorded twice."""
    return {tap: tuple(listener for listener in listeners if not listener.records) for tap, listeners in now.items()}


def in_backward() -> bool:
    """Whether a backward pass is under way in this thread: a forward pass within it repeats an earlier one."""
    return torch._C._current_graph_task_id() >= 0


def bookmark() -> None:
    """Record a replacement for ``torch.utils.checkpoint``, so that wrong gradients are detected.

    It compares the tensors that both of its runs save. One more of them, which nothing uses, tells a run with the
    replacement from a run without. Its reentrant form compares nothing.
    """
    if torch.is_grad_enabled():
        torch.ones(0, requires_grad=True).exp()
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code in REENTRANT:
            raise RuntimeError(
                "a tensor was replaced inside of reentrant torch.utils.checkpoint, whose second forward pass may "
                "not replace it; use regard.nn.recomputation.recompute_forward, or use_reentrant=False"
            )
        frame = frame.f_back


REENTRANT = {CheckpointFunction.forward.__code__, CheckpointFunction.backward.__code__}


def named(name: str, pattern: str) -> bool:
    """Whether a pattern names this place; "*.weights" names the weights of a model that is one attention, too."""
    return fnmatchcase(name, pattern) or fnmatchcase(f".{name}", pattern)


def plain_name(name: str) -> str:
    """A module's name without the wrapper that torch.compile puts around it."""
    return name.replace("_orig_mod.", "")


@dataclass
class Stance:
    """The compiler's stance is one for all threads: the first who listens sets it, the last who leaves resets it."""

    listeners: int = 0
    forced: AbstractContextManager[None] | None = None


_stance, _lock = Stance(), threading.Lock()


def compiling() -> bool:
    """Whether a graph is being compiled. It has no taps, so compilation raises an error while a listener is active."""
    if not torch.compiler.is_compiling():
        return False
    if _stance.listeners:
        raise RuntimeError(
            "a model cannot be compiled while a listener is active: compile it, call it once, then listen"
        )
    return True


@contextmanager
def eager() -> Iterator[None]:
    """While a listener is active, compiled models run in eager mode, as a compiled graph has no taps."""
    with _lock:
        _stance.listeners += 1
        if _stance.forced is None and "torch._dynamo" in sys.modules:
            _stance.forced = torch.compiler.set_stance("force_eager")
    try:
        yield
    finally:
        with _lock:
            _stance.listeners -= 1
            if not _stance.listeners and _stance.forced is not None:
                _stance.forced.__exit__(None, None, None)
                _stance.forced = None
