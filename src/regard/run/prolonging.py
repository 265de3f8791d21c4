"""A run that goes on with other settings: those that change nothing of what it has learned so far."""

from pathlib import Path

from regard.errors import InputError, first_of
from regard.train.checkpoint import NAME
from regard.train.runfile import Parts

from .differences import changed_settings
from .settings import RunSettings

FREE = ("steps", "epochs", "patience", "log", "evaluate", "save", "keep", "threads", "workers", "device")
CHANGEABLE = tuple(f"train.{name}" for name in FREE)
SHOWN = 8  # differences


def check_changes(folder: Path, before: RunSettings, after: RunSettings) -> None:
    """Refuse what would make another run of it."""
    changed = changed_settings(before, after)
    if wrong := [name for name in changed if name not in CHANGEABLE]:
        told = [f"{name}: {changed[name][0]}, not {changed[name][1]}" for name in wrong]
        raise InputError(
            "these settings cannot change once a run has begun",
            where=str(folder),
            got="; ".join(first_of(told, SHOWN)),
            expected=f"only changes of {', '.join(CHANGEABLE)}",
            fix="start a new run in another folder, perhaps from this run's model: [start] model = ...",
        )
    if before.train.steps != after.train.steps and after.train.epochs is not None:
        raise InputError(
            f"train.epochs = {after.train.epochs} replaces train.steps, which has no effect",
            where=str(folder),
            fix="change train.epochs, or add train.epochs=none",
        )


def check_length(folder: Path, before: RunSettings, after: RunSettings) -> None:
    """A run cannot become shorter than it is. Both have their final numbers of steps."""
    found = [NAME.fullmatch(path.name) for path in (folder / "checkpoints").glob("step-*")]
    done = max((int(match[1]) for match in found if match), default=0)
    if after.train.steps < min(done, before.train.steps):
        raise InputError(
            "the run is already longer",
            where=str(folder),
            got=f"train.steps = {after.train.steps}",
            expected=f"at least {done}: there is a checkpoint of step {done}",
        )


def change_notes(before: RunSettings, after: RunSettings) -> list[str]:
    """What is not as it would be if the run had begun so. Both have their final numbers of steps."""
    old, new = before.train.steps, after.train.steps
    steps, given = range(min(old, new)), after.schedule
    schedules = [given.usual, *given.own.values()] if isinstance(given, Parts) else [given]
    kinds = [one.kind for one in schedules if any(one.factor(i, old) != one.factor(i, new) for i in steps)]
    told = [
        f"the schedule {kind!r} depends on train.steps, which was {old} and is {new}: the result differs from that "
        f"of a run that began with {new} steps"
        for kind in dict.fromkeys(kinds)
    ]
    if (was := before.train.device) != (now := after.train.device):
        told.append(f"train.device was {was} and is {now}: results may not be bit-identical")
    return told


def other_run(folder: Path, there: RunSettings, here: RunSettings) -> tuple[str, str]:
    """What is different in a run that a folder contains already, and what to change to go on with it; empty if it is
    the same run."""
    changed = changed_settings(there, here)
    told = "; ".join(first_of([f"{name}: {old} there, {new} here" for name, (old, new) in changed.items()], SHOWN))
    shorter = here.train.steps < there.train.steps
    able = all(name in CHANGEABLE for name in changed) and not shorter
    return told, " ".join(f"{name}={new}" for name, (_, new) in changed.items()) if able else ""
