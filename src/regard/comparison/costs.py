"""What each attention costs at each length: time and memory of a training step and of forward alone, decoding, error.

At one length all take turns, round after round, so that a busy moment of the machine does not fall on one of them
alone. What would take too long, or too much memory, is foretold from shorter lengths and left out, with that reason.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from regard.decode.incremental import IncrementalDecoder
from regard.tasks.task import Task
from regard.train.formatting import format_age, format_bytes

from . import machine
from .measure import cost_exponent, peak_bytes
from .nets import Contender, Nets, outputs, refusal, relative
from .progress import Budget
from .report import EXACT, ComparisonRow, Point, spread

LEAST = 3  # rounds, or it is not measured at all
ONCE = 4  # as many rounds take what is measured once
ROOM = 0.7  # the share of the free memory that may be used
SHARES = (4, 2)  # the first looks at each attention are at these parts of the shortest length
FASTER = 0.3  # added to the power by which a cost grew
TOKENS = 4  # that are written in a round
CAN_FAIL = (ValueError, NotImplementedError, RuntimeError, MemoryError)  # what an attention may say


def loss_of(task: Task, batch: Any, step: int = 0) -> Tensor:
    """A task's one loss, as the engine would make it of a whole batch."""
    counts = task.counts(batch)
    (loss,) = task.losses(batch, step)
    return torch.stack([term.sum * (term.weight / counts[term.count]) for term in loss.terms.values()]).sum()


@dataclass(frozen=True)
class Seen:
    """What one turn took at a length."""

    length: int
    seconds: float  # that count
    bytes: float


def foretold(seen: Sequence[Seen], length: int) -> Seen:
    """At a longer length: as it grew before and a little faster, for what is small grows slowly; but neither less than
    linearly nor more than with the square."""
    last = seen[-1]
    powers = [2.0, 2.0]
    if len(seen) > 1 and seen[-2].length < last.length:
        sizes = [x.length for x in seen[-2:]]
        costs = [x.seconds for x in seen[-2:]], [x.bytes for x in seen[-2:]]
        powers = [min(max(cost_exponent(sizes, own) + FASTER, 1.0), 2.0) for own in costs]
    times = length / last.length
    return Seen(length, last.seconds * times ** powers[0], last.bytes * times ** powers[1])


def affordable(costs: Mapping[str, float], budget: float) -> list[str]:
    """As many as fit into a budget together: the most expensive are left out, and the exact one last."""
    kept = sorted(costs, key=lambda name: (name != EXACT, costs[name]))
    while kept and sum(costs[name] for name in kept) > budget:
        kept.pop()
    return kept


@dataclass
class Workload:
    """One attention at one length."""

    row: ComparisonRow
    net: nn.Module
    task: Task
    batch: Any
    length: int
    point: Point
    steps: list[float] = field(default_factory=list)  # seconds, round by round
    forwards: list[float] = field(default_factory=list)
    speeds: list[float] = field(default_factory=list)  # tokens a second
    seconds: float = 0.0  # of a turn, that count: the median of each of its parts
    writer: IncrementalDecoder | None = None
    tokens: int = 0  # that are written in a turn
    failed: str = ""

    def step(self) -> None:
        self.net.train()
        loss_of(self.task, self.batch).backward()
        self.net.zero_grad(set_to_none=True)

    @torch.inference_mode()
    def forward(self) -> object:
        self.net.eval()
        return self.task.evaluate(self.batch)

    @torch.inference_mode()
    def write(self) -> None:
        assert self.writer is not None
        for _ in range(self.tokens):
            self.writer.next(self.writer.first.argmax(-1))

    def turn(self, watch: machine.Watch) -> None:
        step, forward = watch(self.step), watch(self.forward)
        self.steps.append(step.seconds)
        self.forwards.append(forward.seconds)
        self.seconds = median(self.steps) + median(self.forwards)
        if self.writer is not None:
            self.speeds.append(self.tokens / watch(self.write).seconds)
            self.seconds += self.tokens / median(self.speeds)

    def done(self) -> Point:
        some = {"step": self.steps, "forward": self.forwards, "written": self.speeds}
        found = {name: spread(own) for name, own in some.items() if own}
        given = {name: value for name, value in vars(self.point).items() if name not in some}
        return Point(**given | found | {"reason": self.failed or self.point.reason})


class Costs:
    def __init__(self, nets: Nets, rows: Mapping[str, ComparisonRow], watch: machine.Watch, budget: Budget) -> None:
        self.nets, self.rows, self.watch, self.budget = nets, rows, watch, budget
        self.seen: dict[str, list[Seen]] = {name: [] for name in rows}

    def look(self, contenders: Sequence[Contender], shortest: int) -> None:
        """A first look at each: whether it can be built, and about what it takes."""
        for contender in contenders:
            self.budget.tell(f"first measurement of {contender.name}")
            row = self.rows[contender.name]
            try:
                row.parameters = sum(x.numel() for x in self.nets.build(contender.choice, shortest).parameters())
            except CAN_FAIL as error:
                row.reason = refusal(error)
                continue
            for share in SHARES:
                with suppress(*CAN_FAIL):  # so short an input it may refuse: at the real lengths it has a say again
                    self.glance(contender, self.nets.subject.real(max(shortest // share, 1)))

    def glance(self, contender: Contender, length: int) -> None:
        work = self.work(contender, length, None, rounds=0)
        peak = peak_bytes(work.step)
        work.turn(self.watch)
        self.seen[contender.name].append(Seen(length, work.seconds, peak))

    def work(self, contender: Contender, length: int, exact: nn.Module | None, rounds: int) -> Workload:
        subject = self.nets.subject
        if exact is None:
            net = self.nets.build(contender.choice, length)
        else:
            net = self.nets.like(contender.choice, length, exact)
        work = Workload(
            self.rows[contender.name], net, subject.task(net), subject.one(length), length, Point(length=length)
        )
        work.tokens = max(1, min(TOKENS, length // (4 * (rounds + 1))))
        return work

    def expected(self, name: str, length: int) -> Seen:
        return foretold(self.seen[name], length) if self.seen[name] else Seen(length, 0.0, 0.0)

    def measure(self, contenders: Sequence[Contender], length: int, seconds: float, rounds: int) -> None:
        """All of them at one length, within so many seconds; a point for each, whatever happens."""
        costs = {}
        free = machine.room()
        for contender in contenders:
            ahead = self.expected(contender.name, length)
            if free is not None and ahead.bytes > ROOM * free:
                reason = f"would need {format_bytes(ahead.bytes)} of memory, {format_bytes(free)} available"
                self.rows[contender.name].points.append(Point(length=length, reason=reason))
            else:
                costs[contender.name] = ahead.seconds * (LEAST + ONCE) * self.watch.slowness
        kept = affordable(costs, seconds)
        for name in costs:
            if name not in kept:
                reason = f"would take {format_age(costs[name])}"
                self.rows[name].points.append(Point(length=length, reason=reason))
        exact: nn.Module = self.nets.build(contenders[0].choice, length)
        works: list[Workload] = []
        try:
            for contender in contenders:
                if contender.name in kept:
                    self.prepare(contender, length, exact, rounds, works)
            self.rounds(works, seconds, rounds)
        finally:
            for work in works:
                point = work.done()
                work.row.points.append(point)
                if point.step and point.step_bytes is not None:
                    self.seen[work.row.name].append(Seen(length, work.seconds, point.step_bytes))

    def prepare(self, contender: Contender, length: int, exact: nn.Module, rounds: int, works: list[Workload]) -> None:
        """What is measured once: memory, and how far the output is from that of exact attention."""
        self.budget.tell(f"{length:,} {self.nets.subject.unit}: memory of {contender.name}")
        row, subject, found = self.rows[contender.name], self.nets.subject, dict[str, Any]()
        try:
            work = self.work(contender, length, exact, rounds)
        except CAN_FAIL as error:
            row.points.append(Point(length=length, reason=refusal(error)))
            return
        works.append(work)
        try:
            found["step_bytes"] = peak_bytes(work.step)
            found["forward_bytes"] = peak_bytes(work.forward)
            reference = self.nets.reference(contender.choice, length, work.net, exact)
            if reference is not None:
                theirs = outputs(subject, reference, work.batch)
                found["error"] = relative(outputs(subject, work.net, work.batch), theirs)
        except CAN_FAIL as error:
            work.failed = refusal(error)
        else:
            try:
                with torch.inference_mode():
                    work.writer = subject.writer(work.net, work.batch, work.tokens * (rounds + 1))
                    if work.writer is not None:
                        work.write()
            except CAN_FAIL as error:
                work.writer, found["reason"] = None, f"decoding: {refusal(error)}"
        work.point = Point(length=length, **found)

    def rounds(self, works: Sequence[Workload], seconds: float, rounds: int) -> None:
        ended = self.budget.now() + seconds
        for turn in range(rounds):
            for work in works if turn % 2 == 0 else reversed(works):
                unit = self.nets.subject.unit
                self.budget.tell(f"{work.length:,} {unit}: round {turn + 1} of {rounds}, {work.row.name}")
                if not work.failed:
                    try:
                        work.turn(self.watch)
                    except CAN_FAIL as error:
                        work.failed = refusal(error)
            left = ended - self.budget.now()
            if turn + 1 >= LEAST and left < self.watch.slowness * sum(work.seconds for work in works):
                break
