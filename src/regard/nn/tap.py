"""Looking and intervening: named places in a model where a tensor can be heard, kept or replaced."""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

Hear = Callable[[str, Tensor], Tensor | None]


@dataclass(frozen=True)
class Listener:
    name: str
    hear: Hear
    records: bool  # it only keeps what passes: not called again when a forward pass is repeated for its gradient


class Tap(nn.Module):
    """The identity, until someone listens.

    A tap has no weights, so it never appears in a checkpoint; its name is its place in the module tree. ``live`` tells
    the owner whether the tensor is wanted at all, so that attention may use a fused kernel that never forms it.
    Nothing is kept here: listeners belong to the thread that opened them.
    """

    @property
    def live(self) -> bool:
        return not compiling() and self in hearing()

    def forward(self, x: Tensor) -> Tensor:
        if compiling():
            return x
        for listener in hearing().get(self, ()):
            replacement = listener.hear(listener.name, x)
            x = x if replacement is None else replacement
        return x


Hearing = Mapping[Tap, tuple[Listener, ...]]
_thread = threading.local()


def hearing() -> Hearing:
    """Who listens where, in this thread."""
    found: Hearing = getattr(_thread, "hearing", {})
    return found


@contextmanager
def heard_by(new: Hearing) -> Iterator[None]:
    """Within, exactly these listeners hear this thread."""
    before = hearing()
    _thread.hearing = new
    try:
        yield
    finally:
        _thread.hearing = before


@contextmanager
def listen(model: nn.Module, pattern: str, hear: Hear, *, records: bool = False) -> Iterator[list[str]]:
    """Call ``hear(name, tensor)`` at every tap whose name matches; a returned tensor replaces the original."""
    taps = {name: module for name, module in model.named_modules() if isinstance(module, Tap)}
    names = [name for name in taps if named(plain(name), pattern)]
    if not names:
        raise KeyError(f"no tap matches {pattern!r}; this model has {', '.join(map(plain, taps)) or 'none'}")
    new = dict(hearing())
    for name in names:
        new[taps[name]] = (*new.get(taps[name], ()), Listener(plain(name), hear, records))
    with heard_by(new), eager():
        yield [plain(name) for name in names]


@contextmanager
def capture(model: nn.Module, pattern: str = "*.weights", *, grad: bool = False) -> Iterator[dict[str, list[Tensor]]]:
    """Keep what passes the matching taps, every call in order: ``with capture(model) as seen: model(x)``."""
    seen: dict[str, list[Tensor]] = {}

    def keep(name: str, x: Tensor) -> None:
        seen.setdefault(name, []).append(x if grad else x.detach())

    with listen(model, pattern, keep, records=True):
        yield seen


def repeated(now: Hearing) -> Hearing:
    """The same listeners for a forward pass that is run again for its gradient: the same taps stay live, so the same
    path is taken and replacements are made again, but nothing is recorded twice."""
    return {tap: tuple(listener for listener in listeners if not listener.records) for tap, listeners in now.items()}


def named(name: str, pattern: str) -> bool:
    """Whether a pattern names this place; "*.weights" names the weights of a model that is one attention, too."""
    return fnmatchcase(name, pattern) or fnmatchcase(f".{name}", pattern)


def plain(name: str) -> str:
    """A module's name without the wrapper that torch.compile puts around it."""
    return name.replace("_orig_mod.", "")


@dataclass
class Stance:
    """The compiler's stance is one for all threads: the first who listens sets it, the last who leaves resets it."""

    listeners: int = 0
    forced: AbstractContextManager[None] | None = None


_stance, _lock = Stance(), threading.Lock()


def compiling() -> bool:
    """Whether a graph is being made. It has no taps, so this is refused, not ignored, while someone listens."""
    if not torch.compiler.is_compiling():
        return False
    if _stance.listeners:
        raise RuntimeError("a model cannot be compiled while someone listens: compile it, call it once, then listen")
    return True


@contextmanager
def eager() -> Iterator[None]:
    """A compiled graph has no taps, so while anyone listens, compiled models run as their eager twins."""
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
