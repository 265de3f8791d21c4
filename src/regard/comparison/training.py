"""What each attention learns, in equal steps and in equal time.

All see the same batches in the same order and take turns step by step: after Ctrl-C, too, they have learned equally
long. The engine of train/ owns one run with its folder, so it cannot do that; tasks, optimizer and seeds are its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from regard.tasks.task import Task
from regard.train.formatting import format_age, format_bytes
from regard.train.optimizers import AdamW, build_optimizer, set_rate
from regard.train.update import seed_step

from .costs import CAN_FAIL, ROOM, affordable, loss_of
from .machine import Watch, room
from .nets import Contender, Nets, outputs, refusal, relative
from .progress import Budget
from .report import EXACT, ComparisonRow, Lesson

BATCH = 1024  # tokens or patches of a step
FEW = 10  # steps: fewer teach nothing
TIMES = 10  # that the loss is measured
ADAM = AdamW(rate=1e-3)
WARM = 0.1  # of the steps, while the rate grows
HELD_OUT = 2  # batches that it is measured on
MEASURING = TIMES * HELD_OUT / 3  # in steps, as long as it takes


def batch_rows(length: int) -> int:
    return max(BATCH // length, 1)


@dataclass
class Pupil:
    row: ComparisonRow
    contender: Contender
    net: nn.Module
    task: Task
    optimizer: torch.optim.Optimizer
    seconds: float = 0.0  # that it has learned for
    once: float = 0.0  # seconds of a step


class Lessons:
    def __init__(self, nets: Nets, length: int, watch: Watch, budget: Budget) -> None:
        self.nets, self.length, self.watch, self.budget = nets, length, watch, budget
        self.done = 0  # steps after which the loss of all was measured
        self.held_out = [self.batch(i, held_out=True) for i in range(HELD_OUT)]

    def batch(self, step: int, held_out: bool = False) -> Any:
        numbers = np.random.default_rng([self.nets.seed, held_out, step])
        return self.nets.subject.some(batch_rows(self.length), self.length, numbers, held_out)

    def teach(self, contenders: Sequence[Contender], rows: Mapping[str, ComparisonRow], steps: int) -> None:
        pupils = self.enrolled(contenders, rows)
        few = min(FEW, steps)
        costs = {pupil.row.name: few * pupil.once * self.watch.slowness for pupil in pupils}
        kept = affordable(costs, self.budget.left)
        for pupil in pupils:
            if pupil.row.name not in kept:
                reason = f"{few} steps would take {format_age(costs[pupil.row.name])}"
                pupil.row.lesson = Lesson(reason=reason)
        pupils = [pupil for pupil in pupils if pupil.row.name in kept]
        once = self.watch.slowness * sum(pupil.once for pupil in pupils)
        steps = min(steps, max(few, int(self.budget.left / max(once, 1e-9) - MEASURING)))
        self.budget.plan((steps + MEASURING) * once)
        try:
            if pupils:
                self.run(pupils, steps)
        finally:
            self.errors(pupils)

    def enrolled(self, contenders: Sequence[Contender], rows: Mapping[str, ComparisonRow]) -> list[Pupil]:
        """Those that can learn, each with weights of its own, and how long a step takes."""
        exact, found, batch = self.nets.build(EXACT, self.length), list[Pupil](), self.batch(0)
        size = 16 * sum(x.numel() for x in exact.parameters())  # weights, gradients, two moments
        free = room()
        for contender in contenders:
            row = rows[contender.name]
            self.budget.tell(f"training setup of {contender.name}")
            if free is not None and size * (len(found) + 1) > ROOM * free:
                row.lesson = Lesson(reason=f"out of memory: training needs {format_bytes(size)} for each mechanism")
                continue
            try:
                net = self.nets.like(contender.choice, self.length, exact)
                for weight in net.parameters():
                    weight.data = weight.data.clone()
                pupil = Pupil(row, contender, net, self.nets.subject.task(net), build_optimizer(ADAM, net))
                for _ in range(2):  # the first one also prepares
                    pupil.once = self.watch(partial(self.gradient, pupil, batch, 0)).seconds
                net.zero_grad(set_to_none=True)
                found.append(pupil)
            except CAN_FAIL as error:
                row.lesson = Lesson(reason=refusal(error))
        return found

    def run(self, pupils: Sequence[Pupil], steps: int) -> None:
        measured = {round(i * steps / TIMES) for i in range(TIMES + 1)}
        self.measure(pupils, 0)
        for step in range(steps):
            batch = self.batch(step)
            for pupil in pupils:
                self.budget.tell(f"step {step + 1} of {steps}, {pupil.row.name}")
                set_rate(pupil.optimizer, ADAM.rate * min(1.0, (step + 1) / (WARM * steps)))
                pupil.seconds += self.watch(partial(self.learn, pupil, batch, step)).seconds
            late = step + 1 >= FEW and not self.budget.left
            if late or step + 1 in measured:
                self.measure(pupils, step + 1)
            if late:
                break

    def gradient(self, pupil: Pupil, batch: Any, step: int) -> None:
        seed_step(self.nets.seed, step, 0)
        pupil.net.train()
        loss_of(pupil.task, batch, step).backward()

    def learn(self, pupil: Pupil, batch: Any, step: int) -> None:
        self.gradient(pupil, batch, step)
        clip_grad_norm_(pupil.net.parameters(), 1.0)
        pupil.optimizer.step()
        pupil.optimizer.zero_grad(set_to_none=True)

    @torch.inference_mode()
    def measure(self, pupils: Sequence[Pupil], step: int) -> None:
        for pupil in pupils:
            pupil.net.eval()
            sums = [pupil.task.evaluate(batch) for batch in self.held_out]
            total = {name: torch.stack([own[name] for own in sums]).sum(0) for name in sums[0]}
            lesson = pupil.row.lesson
            lesson.steps.append(step)
            lesson.seconds.append(pupil.seconds)
            lesson.losses.append(pupil.task.metrics(total)["loss"])
        self.done = step

    def errors(self, pupils: Sequence[Pupil]) -> None:
        """How far each is from exact attention with the weights that this has learned."""
        exact = next((pupil.net for pupil in pupils if pupil.contender.choice == EXACT), None)
        if exact is None:
            return
        for pupil in pupils:
            twin = self.nets.like(pupil.contender.choice, self.length, exact)
            reference = self.nets.reference(pupil.contender.choice, self.length, twin, exact)
            if reference is not None:
                own, theirs = (outputs(self.nets.subject, net, self.held_out[0]) for net in (twin, reference))
                error = relative(own, theirs)
                pupil.row.lesson = replace(pupil.row.lesson, error=error)
