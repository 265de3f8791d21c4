"""Callbacks: what a run does, told to functions as it happens, and how they end it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from regard.errors import InputError
from regard.nn.config import closest_name
from regard.train.progress import Reporter, Status

EventName = Literal["step", "evaluated", "saved", "finished"]
EVENTS: tuple[EventName, ...] = ("step", "evaluated", "saved", "finished")


class StopTraining(Exception):  # noqa: N818 (a request, no error)
    """Raise this in a callback to end a run early: a checkpoint is saved, and the run can be resumed."""


@dataclass(frozen=True)
class TrainingEvent:
    """What has happened: ``name`` is step, evaluated, saved or finished. What an event does not tell is None."""

    name: EventName
    step: int
    steps: int  # number of steps of the whole run
    loss: float | None = None  # training loss; of step
    metrics: Mapping[str, float] = field(default_factory=dict)  # on held-out data; of evaluated
    best: bool | None = None  # whether these are the best metrics so far; of evaluated
    samples: str = ""  # what the model makes of some held-out rows; of evaluated
    path: Path | None = None  # the checkpoint, or the run folder; of saved and finished


Callback = Callable[[TrainingEvent], object]
Callbacks = Mapping[EventName, Callback | Sequence[Callback]]


def checked_callbacks(callbacks: Callbacks) -> dict[EventName, tuple[Callback, ...]]:
    """Each event with its functions; an event that does not exist would never be told."""
    if unknown := [name for name in callbacks if name not in EVENTS]:
        name = unknown[0]
        raise InputError(
            f"unknown event of a callback: {name!r}{closest_name(name, EVENTS)}", expected=", ".join(EVENTS)
        )
    found: dict[EventName, tuple[Callback, ...]] = {}
    for name, given in callbacks.items():
        found[name] = (given,) if callable(given) else tuple(given)
        if odd := [one for one in found[name] if not callable(one)]:
            raise InputError(f"a callback of {name!r} is not a function", got=repr(odd[0])[:100])
    return found


class CallbackReporter:
    """Tells another reporter, and the callbacks. An exception of a callback ends the run, StopTraining politely."""

    def __init__(self, inner: Reporter, callbacks: Callbacks) -> None:
        self.inner, self.callbacks = inner, checked_callbacks(callbacks)
        self.step, self.steps, self.stopped = 0, 0, False

    def asked_to_stop(self) -> bool:
        return self.stopped

    def update(self, status: Status) -> None:
        self.inner.update(status)
        self.steps = status.steps
        if status.step > self.step:  # the same step is told again when it was saved
            self.step = status.step
            self.call(TrainingEvent("step", status.step, status.steps, status.loss))

    def note(self, text: str) -> None:
        self.inner.note(text)

    def tell(self, event: str, facts: Mapping[str, Any], text: str) -> None:
        self.inner.tell(event, facts, text)
        if event == "evaluated":
            told = {"metrics": facts["held_out"], "best": facts["best"], "samples": facts["sample"]}
            self.call(TrainingEvent("evaluated", facts["step"], self.steps, **told))
        if event == "saved":
            self.call(TrainingEvent("saved", facts["step"], self.steps, path=Path(facts["path"])))

    def finished(self, step: int, folder: Path) -> None:
        self.call(TrainingEvent("finished", step, self.steps, path=folder))

    def close(self) -> None:
        self.inner.close()

    def call(self, event: TrainingEvent) -> None:
        for callback in self.callbacks.get(event.name, ()):
            try:
                callback(event)
            except StopTraining:
                self.stopped = True
