"""`regard.compare`: one model with many attentions, in one table and one picture."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.modalities.compared import TrainedSubject, without_dropout
from regard.modalities.verbs import verb_function
from regard.nn.mechanisms import MECHANISMS, Choice
from regard.zoo import FAMILIES, find_preset

from .costs import LEAST, ONCE, Costs
from .machine import Watch
from .measure import on_threads
from .nets import Contender, Nets, attends, contenders
from .progress import Budget, Progress, silent
from .report import EXACT, Comparison, ComparisonRow
from .training import Lessons, batch_rows

LENGTHS = (256, 512, 1024)
SHORTEST, LONGEST = 16, 1 << 20
LESSON = 0.5  # the share of the time that is for learning


def compare(
    model: str,
    attention: Sequence[Choice] | None = None,
    *,
    lengths: Sequence[int] = LENGTHS,
    data: str | Path | None = None,
    steps: int = 100,
    minutes: float = 5.0,
    rounds: int = 7,
    threads: int = 1,
    seed: int = 0,
    progress: Progress = silent,
    watch: Watch | None = None,
) -> Comparison:
    """Compare attention mechanisms in a preset model: cost, training loss, and error against exact attention.

    ``attention`` lists mechanisms, all of them by default; ``data`` is a text file. A mechanism that cannot be built,
    or measured within ``minutes``, gets a row with the reason. Ctrl-C returns what was measured so far.
    """
    began = time.monotonic()
    refuse(lengths, steps, minutes, rounds, threads, seed)
    family, config = find_preset(model, {})
    subject = subject_of(family, config, None if data is None else Path(data), seed)
    asked = contenders(list(MECHANISMS) if attention is None else list(attention))
    sizes = sorted({subject.real(length) for length in lengths})
    nets, budget = Nets(model, subject, seed), Budget(60 * minutes, progress)
    if not attends(nets.build(EXACT, sizes[0])):
        raise InputError("the model has no exchangeable attention", got=model)
    rows = {one.name: ComparisonRow(one.name, one.idea) for one in asked}
    found = Comparison(
        model,
        subject.unit,
        sizes,
        list(rows.values()),
        data=subject.data,
        threads=threads,
        seed=seed,
        lesson_length=sizes[0],
        lesson_rows=batch_rows(sizes[0]),
        notes=notes(subject, config, lengths),
    )
    watch = Watch(threads) if watch is None else watch
    with on_threads(threads):
        lessons = Lessons(nets, sizes[0], watch, budget) if steps else None  # a text that is too short fails here
        try:
            in_turn(Costs(nets, rows, watch, budget), asked, sizes, rounds, LESSON if steps else 0.0)
            if lessons is not None:
                lessons.teach([one for one in asked if not rows[one.name].reason], rows, steps)
        except KeyboardInterrupt:
            found.stopped = True
    found.steps = 0 if lessons is None else lessons.done
    ends = [row.lesson.seconds[row.lesson.steps.index(found.steps)] for row in found.rows if row.lesson.losses]
    found.seconds = min(ends, default=None) if found.steps else None
    found.took, found.busy = time.monotonic() - began, watch.busy()
    if steps:
        found.notes.insert(0, lesson_note(found, steps, data is not None))
    return found


def subject_of(family: str, config: Any, text: Path | None, seed: int) -> TrainedSubject:
    """``text`` is None where a file was not given."""
    row = FAMILIES[family]
    if not row.compared or not row.has("attention"):
        able = [name for name, other in FAMILIES.items() if other.compared]
        raise InputError(
            f"{family} models have no exchangeable attention or are not supported by the comparison",
            expected=f"one of {', '.join(able)}",
            fix="run `regard models` to list all models",
        )
    found: TrainedSubject = verb_function(row.compared)(config, text, seed)
    return found


def in_turn(costs: Costs, asked: Sequence[Contender], sizes: Sequence[int], rounds: int, lesson: float) -> None:
    """Each length in turn, the shortest first: it tells what the next will take."""
    budget = costs.budget
    costs.look(asked, sizes[0])
    budget.start()  # however busy the machine, what was looked at is measured too
    able = [one for one in asked if not costs.rows[one.name].reason]
    for i, length in enumerate(sizes):
        seconds = max((1 - lesson) * budget.seconds - budget.spent, 0.0) / len(sizes[i:])
        turns = [costs.expected(one.name, later).seconds for one in able for later in sizes[i:]]
        ahead = (rounds + ONCE) * costs.watch.slowness * sum(turns)
        budget.plan(ahead / (1 - lesson))
        costs.measure(able, length, seconds, rounds)


def refuse(lengths: Sequence[int], steps: int, minutes: float, rounds: int, threads: int, seed: int) -> None:
    if not lengths or min(lengths) < SHORTEST:
        raise InputError(
            "a sequence length is too short", got=", ".join(map(str, lengths)), expected=f"at least {SHORTEST}"
        )
    if max(lengths) > LONGEST:
        raise InputError("a sequence length is too long", got=str(max(lengths)), expected=f"at most {LONGEST:,}")
    least = {"seed": (seed, 0), "steps": (steps, 0), "rounds": (rounds, LEAST), "threads": (threads, 1)}
    for name, (value, low) in least.items():
        if value < low:
            raise InputError(f"{name} is too small", got=str(value), expected=f"at least {low}")
    if not 0 < minutes < 1e6:
        raise InputError("minutes is out of range", got=str(minutes), expected="above 0")


def notes(subject: TrainedSubject, config: Any, lengths: Sequence[int]) -> list[str]:
    """What is not as the model's name says."""
    told = subject.notes(config, lengths)
    return [*told, "Dropout is disabled."] if without_dropout(config) else told


def lesson_note(found: Comparison, steps: int, given: bool) -> str:
    """What was learned from, and whether it was as long as was asked for."""
    source = found.data if given else f"{found.data} (no --data)"
    told = f"A training step is {found.lesson_rows} rows of {found.lesson_length:,} {found.unit} of {source}."
    cut = found.steps not in (0, steps) and not found.stopped
    return f"{told} Training was limited to {found.steps} steps by --minutes." if cut else told
