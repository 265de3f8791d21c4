"""The loop that trains every task. It knows batches, losses and optimizers, and nothing of what is learned.

One step is one batch of rows, a function of (seed, step) alone. Its rows are dealt to the processes and cut into
pieces; each term of a loss is divided by its count over the whole batch, so any split gives the same gradient. All
random numbers of a step are drawn from (seed, step, process), so only weights and sums have to be remembered.
"""

import math
import random
import signal
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from regard.data.loader import Loader, Piece
from regard.data.rows import Data
from regard.errors import InputError
from regard.tasks.task import Loss, Task

from . import blame, optimizers
from .averages import Moving
from .checkpoint import Checkpoint, Checkpoints, damage, read
from .distribution import World, add_gradients, shard
from .journal import Journal
from .progress import Pace, Reporter, Status, memory
from .schedules import Schedule
from .settings import Train
from .shards import gathered, is_shard, plain, spread

AGAIN = 0.5  # seconds: sooner it is torchrun, which passes on the Ctrl-C that a terminal has sent to all


class NotFiniteError(InputError):
    """A loss, a gradient or a weight that is no number."""


@dataclass
class State:
    """All that a run remembers besides its tensors. It is data: it goes into the checkpoint as JSON."""

    step: int = 0  # updates done
    window: dict[str, float] | None = None  # sums and counts since the last line of metrics
    best: float | None = None
    best_step: int = 0
    stale: int = 0  # evaluations since the best
    kept: list[int] = field(default_factory=list)  # the last checkpoints that were due; one that Ctrl-C made was not
    finished: str = ""  # why it ended


class Engine:
    def __init__(
        self,
        task: Task,
        data: Data,
        held_out: Data | None,
        *,
        settings: Train,
        optimizer: Mapping[str, optimizers.Settings],
        schedule: Schedule,
        seed: int,
        folder: Path,
        world: World,
        reporter: Reporter,
    ) -> None:
        self.task, self.data, self.held_out = task, data, held_out
        self.settings, self.schedule, self.seed = settings, schedule, seed
        self.world, self.reporter = world, reporter
        self.folder, self.journal = folder, Journal(folder) if world.first else None
        self.checkpoints = Checkpoints(folder / "checkpoints", world)
        self.state = State()
        self.shadows: dict[str, Moving] = {}
        self.saved_at: float | None = None
        for part in task.parts.values():
            part.to(world.device)
            if settings.distribution == "fsdp" and world.size > 1:
                shard(part, world)
            if settings.compiled:
                part.compile()
        self.peaks = {name: optimizer[name].rate for name in task.parts}
        self.optimizers = {name: optimizers.optimizer_of(optimizer[name], part) for name, part in task.parts.items()}
        if settings.moving is not None:
            self.shadows = {name: Moving(part, settings.moving) for name, part in task.parts.items()}

    def run(self) -> State:
        """Train to the end, to an interruption, or to an error; whatever happens, the last checkpoint stays whole."""
        state, settings = self.state, self.settings
        if state.finished:
            return state
        if self.task.indivisible and (self.world.size > 1 or settings.split > 1):
            terms = ", ".join(self.task.indivisible)
            self.reporter.note(f"{terms}: of this a split of the batch gives another value, the mean of the parts")
        steps = range(state.step, settings.steps)
        pace = Pace(settings.steps)
        with ExitStack() as stack:
            interrupted = stack.enter_context(signals())
            loader = Loader(
                self.data,
                steps,
                workers=settings.workers,
                split=settings.split,
                rank=self.world.rank,
                world=self.world.size,
                seed=self.seed,
            )
            for step, pieces in loader:
                update = self.update(step, pieces, bool(interrupted))
                state.step = step + 1
                self.collect(update)
                pace.tick(next(iter(update.totals.values()), 0.0))
                last = state.step == settings.steps
                if last or state.step % settings.log == 0:
                    self.log(pace)
                self.reporter.update(self.status(update, pace))
                best = False
                if self.held_out is not None and (last or state.step % settings.evaluate == 0):
                    best = self.assess()
                    pace.rest()
                state.finished = self.ended()
                due = bool(state.finished) or best or state.step % settings.save == 0
                if due or update.stop:
                    self.save(due)
                    pace.rest()
                if state.finished or update.stop:
                    self.reporter.update(self.status(update, pace))  # it is saved now
                    break
        return state

    def ended(self) -> str:
        """Why there is nothing left to do; empty while there is."""
        state, settings = self.state, self.settings
        if settings.patience is not None and state.stale >= settings.patience:
            return f"{state.stale} evaluations brought nothing better than step {state.best_step}"
        return f"all {settings.steps} steps are done" if state.step >= settings.steps else ""

    # one step

    def update(self, step: int, pieces: Sequence[Piece], stop: bool = False) -> "Update":
        """One batch: every loss of the task, and the steps of its optimizers."""
        sow(self.seed, step, self.world.rank)
        for part in self.task.parts.values():
            part.train()
        batches = [moved(piece.batch, self.world.device) for piece in pieces]
        totals, stop = self.totals(batches, pieces, stop)
        factor = self.schedule.factor(step, self.settings.steps)
        update = Update(step, totals, stop, rate=factor)
        rounds = [self.task.losses(batch, step) for batch in batches]
        while (loss := self.gradient(rounds, pieces, totals, update)) is not None:
            if loss.update:
                self.descend(loss.part, factor, update, batches)
        for part in self.task.parts.values():
            part.zero_grad(set_to_none=True)
        for shadow in self.shadows.values():
            shadow.update()
        return update

    def totals(self, batches: Sequence[Any], pieces: Sequence[Piece], stop: bool) -> tuple[dict[str, float], bool]:
        """The counts of the whole batch, over pieces and processes; and whether any process was told to stop."""
        counts: dict[str, float] = {}
        for batch, piece in zip(batches, pieces, strict=True):
            for name, count in self.task.counts(batch).items():
                counts[name] = counts.get(name, 0.0) + piece.weight * float(count)
        names = sorted(counts)
        told = torch.tensor([float(stop), *(counts[name] for name in names)], dtype=torch.float64)
        found = self.world.sum(told.to(self.world.device)).tolist()
        return dict(zip(names, found[1:], strict=True)), found[0] > 0

    def gradient(
        self, rounds: Sequence[Iterator[Loss]], pieces: Sequence[Piece], totals: Mapping[str, float], update: "Update"
    ) -> Loss | None:
        """The task's next loss, its gradient added up over the pieces of this process; None when there is no more."""
        sums: dict[str, Tensor] = {}
        loss = None
        for losses, piece in zip(rounds, pieces, strict=True):
            with self.precision():
                loss = next(losses, None)
            if loss is None:
                continue
            value = torch.zeros((), device=self.world.device)
            for name, term in loss.terms.items():
                whole = totals.get(term.count, 0.0)
                if whole:
                    value = value + term.sum * (term.weight * piece.weight / whole)
                key = name if len(self.task.parts) == 1 else f"{loss.part}.{name}"
                update.terms[key] = (term.count, term.weight)
                sums[key] = (
                    sums.get(key, torch.zeros((), dtype=torch.float64))
                    + piece.weight * term.sum.detach().double().cpu()
                )
            if value.requires_grad:
                with self.only(loss.part):
                    value.backward()
            loss = replace(loss, terms={})  # its graph is done with
        if loss is not None:
            names = sorted(sums)
            found = self.world.sum(torch.stack([sums[name] for name in names]).to(self.world.device)).tolist()
            for name, total in zip(names, found, strict=True):
                update.sums[name] = update.sums.get(name, 0.0) + total
                count, _ = update.terms[name]
                update.counts[name] = update.counts.get(name, 0.0) + totals.get(count, 0.0)
        return loss

    @contextmanager
    def only(self, part: str) -> Iterator[None]:
        """A loss is for one part: what its gradient leaves in the others is forgotten."""
        others = [x for name, other in self.task.parts.items() if name != part for x in other.parameters()]
        kept = [x.grad for x in others]
        for x in others:
            x.grad = None
        yield
        for x, gradient in zip(others, kept, strict=True):
            x.grad = gradient

    def descend(self, name: str, factor: float, update: "Update", batches: Sequence[Any]) -> None:
        """Add the processes' gradients, clip them, and take the step of one part's optimizer."""
        part = self.task.parts[name]
        trained = [x for x in part.parameters() if x.requires_grad]
        if not any(map(is_shard, trained)):
            add_gradients(trained, self.world)
        gradients = [x.grad for x in trained if x.grad is not None]
        norm = get_total_norm(gradients)
        norm = gathered(norm)
        update.norms[name] = float(norm)
        if not (math.isfinite(update.norms[name]) and all(map(math.isfinite, update.sums.values()))):
            raise self.not_finite(name, update, batches)
        self.clip(trained, norm)
        optimizer = self.optimizers[name]
        optimizers.set_rate(optimizer, self.peaks[name] * factor)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def clip(self, trained: list[nn.Parameter], norm: Tensor) -> None:
        if self.settings.clip is not None:
            clip_grads_with_norm_(trained, self.settings.clip, norm)

    def not_finite(self, name: str, update: "Update", batches: Sequence[Any]) -> NotFiniteError:
        """Name the layer and the batch. The weights are still those of before this step."""
        part = self.task.parts[name]
        wrong = [f"{key} = {value}" for key, value in update.sums.items() if not math.isfinite(value)]
        gradients, weights = blame.bad_gradients(part), blame.bad_weights(part)

        def again() -> None:
            sow(self.seed, update.step, self.world.rank)
            with torch.no_grad(), self.precision():
                for batch in batches:
                    deque(self.task.losses(batch, update.step), maxlen=0)

        layer = "" if self.settings.distribution == "fsdp" else blame.first_bad_layer(self.task.parts, again)
        if weights:
            first = f"the weight {weights[0]}"
        elif layer:
            first = f"the output of {layer}"
        else:
            first = f"the gradient of {gradients[0]}" if gradients else "in another process"
        rows = [int(row) for row in self.data.rows(update.step)]
        return NotFiniteError(
            f"step {update.step}: a number is not finite, first in {first}",
            where=f"batch of step {update.step}: {self.data.where(rows)}",
            got=", ".join(wrong) or f"gradient norm {update.norms[name]}",
            expected="finite losses and gradients",
            fix="no checkpoint was touched: lower optimizer.rate or set train.clip in the run's run.toml, then resume",
        )

    def precision(self) -> Any:
        if self.settings.precision == "float32":
            return nullcontext()
        return torch.autocast(self.world.device.type, torch.bfloat16)

    # what is remembered and told

    def collect(self, update: "Update") -> None:
        """Add one step's sums to the line of metrics that is being gathered."""
        window = self.state.window = self.state.window or {}
        for name, value in update.sums.items():
            window[f"sum {name}"] = window.get(f"sum {name}", 0.0) + value
            window[f"count {name}"] = window.get(f"count {name}", 0.0) + update.counts[name]
        for name, norm in update.norms.items():
            key = "norm" if len(self.task.parts) == 1 else f"{name}.norm"
            window[f"sum {key}"] = window.get(f"sum {key}", 0.0) + norm
            window[f"count {key}"] = window.get(f"count {key}", 0.0) + 1

    def log(self, pace: "Pace") -> None:
        window = self.state.window or {}
        self.state.window = None
        if self.journal is None:
            return
        means = {
            name[4:]: window[name] / window[f"count {name[4:]}"]
            for name in window
            if name.startswith("sum ") and window[f"count {name[4:]}"]
        }
        rate = self.schedule.factor(self.state.step - 1, self.settings.steps)
        rates = {"rate" if len(self.peaks) == 1 else f"{name}.rate": peak * rate for name, peak in self.peaks.items()}
        epoch = self.state.step / max(len(self.data), 1)
        self.journal.record({"step": self.state.step, "epoch": round(epoch, 4), **means, **rates})
        self.journal.time({"step": self.state.step, **pace.measured(), "memory": memory()})

    def assess(self) -> bool:
        """Measure on held-out data, and show some examples. -> whether it is the best so far"""
        assert self.held_out is not None
        metrics, shown = self.evaluate(self.held_out)
        value = self.sign * metrics[self.task.goal.removeprefix("-")]
        better = math.isfinite(value) and (self.state.best is None or value < self.state.best)
        if better:
            self.state.best, self.state.best_step, self.state.stale = value, self.state.step, 0
        else:
            self.state.stale += 1
        if self.journal is not None:
            self.journal.record({"step": self.state.step, "held_out": metrics})
            if shown:
                self.keep_sample(shown)
        told = "  ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        self.reporter.note(f"step {self.state.step}  held out: {told}")
        if shown:
            self.reporter.note(shown)
        return better

    @property
    def sign(self) -> float:
        """-1 where the largest value is the best: ``state.best`` is always the smallest."""
        return -1.0 if self.task.goal.startswith("-") else 1.0

    def best(self) -> float | None:
        return None if self.state.best is None else self.sign * self.state.best

    def keep_sample(self, shown: str) -> None:
        path, raw = self.folder / "samples" / f"step-{self.state.step:06d}.txt", (shown + "\n").encode("utf-8")
        try:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(raw)
        except OSError as error:
            raise InputError(
                "the samples could not be written",
                where=str(path),
                got=error.strerror or str(error),
                expected=f"a place that can be written to, with {len(raw)} bytes free",
                fix="free some space or make the folder writable, then resume the run",
            ) from error

    @torch.no_grad()
    def evaluate(self, data: Data) -> tuple[dict[str, float], str]:
        """All of some data, its batches dealt to the processes. -> metrics, and a few examples"""
        sow(self.seed, self.state.step, self.world.rank)
        sums: dict[str, Tensor] = {}
        shown = ""
        with ExitStack() as stack:
            for shadow in self.shadows.values():
                stack.enter_context(shadow.used())
            for part in self.task.parts.values():
                part.eval()
            rounds = math.ceil(len(data) / self.world.size)
            for i in range(rounds):
                index = i * self.world.size + self.world.rank
                real = index < len(data)
                index = index if real else 0  # every process does the same work; what was not its own is not counted
                batch = moved(data.collate([int(row) for row in data.rows(index)], index), self.world.device)
                with self.precision():
                    for name, value in self.task.evaluate(batch).items():
                        sums[name] = (
                            sums.get(name, torch.zeros_like(value, dtype=torch.float64)) + value.double() * real
                        )
                    shown = shown or self.task.show(batch)
        totals = {name: self.world.sum(sums[name]).cpu() for name in sorted(sums)}
        return self.task.metrics(totals), shown

    def status(self, update: "Update", pace: "Pace") -> Status:
        loss = sum(
            weight * update.sums[name] / max(update.counts[name], 1.0) for name, (_, weight) in update.terms.items()
        )
        unit = next(iter(update.totals), "rows")
        age = None if self.saved_at is None else time.monotonic() - self.saved_at
        return Status(
            self.state.step,
            self.settings.steps,
            loss,
            self.best(),
            pace.speed,
            unit,
            memory(),
            pace.left(self.state.step),
            age,
            {},
        )

    # checkpoints

    def save(self, due: bool = True) -> None:
        """A checkpoint of everything; the best one and the last few that were due stay."""
        self.check_weights()
        if due:
            most = max(self.settings.keep, self.settings.average)
            self.state.kept = [*self.state.kept, self.state.step][-most:]
        tensors: dict[str, dict[str, Tensor]] = {"task": self.task.state()}
        for name, part in self.task.parts.items():
            tensors[name] = dict(part.state_dict())
            tensors[f"{name}.optimizer"] = optimizers.state_of(self.optimizers[name], part)
            if name in self.shadows:
                tensors[f"{name}.moving"] = self.shadows[name].weights
        data = {
            **vars(self.state),
            "seed": self.seed,
            "processes": self.world.size,
            "optimizers": {name: type(optimizer).__name__ for name, optimizer in self.optimizers.items()},
            "journal": {} if self.journal is None else self.journal.position(),
        }
        data.pop("step")
        self.checkpoints.save(
            Checkpoint(self.state.step, data, {name: table for name, table in tensors.items() if table})
        )
        self.saved_at = time.monotonic()
        self.checkpoints.keep({*self.state.kept, self.state.best_step, self.state.step})
        self.reporter.note(f"step {self.state.step}  saved")

    def check_weights(self) -> None:
        """A step may have led out of all bounds: then the checkpoint before it is the one to keep."""
        wrong = [name for part in self.task.parts.values() for name in blame.bad_weights(part)]
        if self.world.sum(torch.tensor([float(len(wrong))], device=self.world.device)).item():
            raise NotFiniteError(
                f"step {self.state.step - 1}: the weights are not finite after it, so no checkpoint is made of them",
                got=f"the weight {wrong[0]}" if wrong else "a weight in another process",
                expected="finite weights",
                fix="lower optimizer.rate in the run's run.toml, then resume",
            )

    def resume(self) -> int:
        """Go on from the newest whole checkpoint. -> its step, 0 when there is none"""
        self.checkpoints.sweep()
        path = self.checkpoints.newest(self.reporter.note) if self.world.first else None
        if self.world.first and path is None and (there := self.checkpoints.all()):
            raise InputError(
                "every checkpoint of this run is damaged, and nothing was touched",
                where=str(self.checkpoints.folder),
                got="\n".join(f"{path.name}: {damage(path)}" for _, path in there),
                fix="put the files back if you can; to begin at step 0, remove that folder and resume",
            )
        told = self.world.tell("" if path is None else str(path))
        position = self.restore(Path(told)) if told else {}
        if self.journal is not None:
            self.journal.cut(position)
        return self.state.step

    def restore(self, path: Path) -> dict[str, int]:
        """Everything as it was then. -> how long the files of metrics were"""
        weights = {name: dict(part.named_parameters()) for name, part in self.task.parts.items()}

        def empty(table: str, key: str, shape: torch.Size, dtype: torch.dtype) -> Tensor:
            like: Any = weights.get(table.partition(".")[0], {}).get(key.rpartition("/")[2])
            if is_shard(like) and like.shape == shape:
                return torch.empty_like(like, dtype=dtype)
            return plain(key, shape, dtype)

        found = read(path, empty)
        data = dict(found.data)
        if data.pop("seed") != self.seed:
            raise InputError("this checkpoint was made with another seed", where=str(path))
        for name, kind in data.pop("optimizers", {}).items():
            if kind != type(self.optimizers[name]).__name__:
                raise InputError(
                    "this checkpoint was made by another optimizer", where=str(path), got=kind, fix="set it back"
                )
        data.pop("processes")
        position: dict[str, int] = data.pop("journal")
        self.state = State(step=found.step, **data)
        self.state.finished = self.ended()  # the settings may have changed: more steps, more patience
        self.saved_at = time.monotonic()
        self.task.restore(found.tensors.get("task", {}))
        for name, part in self.task.parts.items():
            fill(part, found.tensors[name])
            optimizers.restore_state(self.optimizers[name], part, found.tensors.get(f"{name}.optimizer", {}))
            if name in self.shadows:
                moving = found.tensors.get(f"{name}.moving", found.tensors[name])  # from here on, if it is new
                for key, x in self.shadows[name].weights.items():
                    x.copy_(spread(moving[key].to(x.device), x))
        return position


@dataclass
class Update:
    """What one step did: sums over the whole batch, by term; norms of gradients, by part."""

    step: int
    totals: dict[str, float]
    stop: bool
    rate: float

    def __post_init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.counts: dict[str, float] = {}  # that the sums are divided by: twice a batch's where a term came twice
        self.terms: dict[str, tuple[str, float]] = {}
        self.norms: dict[str, float] = {}


def sow(seed: int, step: int, rank: int) -> None:
    """All random numbers of a step are a function of these three."""
    numbers = np.random.SeedSequence([seed, step, rank]).generate_state(3, np.uint64)
    torch.manual_seed(int(numbers[0]) >> 1)
    random.seed(int(numbers[1]))
    np.random.seed(int(numbers[2]) & 0xFFFFFFFF)


def moved(batch: Any, device: torch.device) -> Any:
    """A dataclass of tensors on a device."""
    if isinstance(batch, Tensor):
        return batch.to(device)
    if is_dataclass(batch) and not isinstance(batch, type):
        return replace(batch, **{x.name: moved(getattr(batch, x.name), device) for x in fields(batch)})
    return batch


@torch.no_grad()
def fill(part: nn.Module, table: Mapping[str, Tensor]) -> None:
    """Every weight from a checkpoint, strictly."""
    state = part.state_dict()
    if wrong := sorted(state.keys() ^ table.keys()):
        raise InputError("this checkpoint is of another model", got=", ".join(wrong[:5]))
    for name, x in state.items():
        if x.shape != table[name].shape:
            raise InputError("this checkpoint is of another model", got=f"{name} of shape {tuple(table[name].shape)}")
        x.copy_(spread(table[name].to(x.device), x))


@contextmanager
def signals() -> Iterator[list[float]]:
    """Ctrl-C or a polite kill ends the step at hand first; a second one ends at once."""
    heard: list[float] = []

    def hear(number: int, _: object) -> None:
        heard.append(time.monotonic())
        if heard[-1] - heard[0] > AGAIN:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
