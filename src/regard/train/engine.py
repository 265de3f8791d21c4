"""The loop that trains every task. It knows batches, losses and optimizers, and nothing of what is learned.

One step is one batch of rows, a function of (seed, step) alone. Its rows are dealt to the processes and cut into
pieces; each term of a loss is divided by its count over the whole batch, so any split gives the same gradient. All
random numbers of a step are drawn from (seed, step, process), so only weights and sums have to be remembered.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_

from regard.data.loader import Loader, MicroBatch
from regard.data.replay import Replay
from regard.data.rows import Data
from regard.errors import ElsewhereError, InputError
from regard.tasks.task import Loss, Task

from . import nonfinite, optimizers
from .assess import assessment
from .averages import MovingAverage
from .checkpoint import Checkpoint, Checkpoints, find_damage, read_checkpoint
from .distribution import World, add_gradients, shard, share_experts
from .metrics_log import Journal
from .nonfinite import NotFiniteError
from .progress import Pace, Reporter, Status, process_memory
from .schedules import Schedule
from .settings import Train
from .shards import by_place, fill_weights, is_shard, plain_tensor, spread, total_norm
from .stop import signals
from .update import Update, gather, means, move_batch, seed_step

GATHERED = 1  # of the random numbers of a step: those with which a task fills its own data
DRAWN = 60.0  # seconds between two drawings of the curves


@dataclass
class State:
    """All that a run remembers besides its tensors. It is data: it goes into the checkpoint as JSON."""

    step: int = 0  # updates done
    window: dict[str, float] | None = None  # sums and counts since the last line of metrics
    best: float | None = None
    best_loss: float | None = None  # held out, at the best: it decides between two that are as good
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
        schedule: Mapping[str, Schedule],
        seed: int,
        folder: Path,
        world: World,
        reporter: Reporter,
    ) -> None:
        self.asked_to_stop: Callable[[], bool] = lambda: False  # by whoever listens, besides signals
        self.task, self.data, self.held_out = task, data, held_out
        self.settings, self.schedules, self.seed = settings, schedule, seed
        self.world, self.reporter = world, reporter
        self.folder, self.journal = folder, Journal(folder) if world.first else None
        self.checkpoints = Checkpoints(folder / "checkpoints", world)
        self.replay = data if isinstance(data, Replay) else None  # what the task itself fills
        if self.replay is not None:
            self.replay.attach(folder / "replay")
            if world.size > 1:
                raise InputError("a task with a replay buffer supports only one process", got=f"{world.size} processes")
        self.state = State()
        self.shadows: dict[str, MovingAverage] = {}
        self.saved_at: float | None = None
        self.drawn_at = time.monotonic()
        for part in task.parts.values():
            part.to(world.device)
            if settings.distribution == "fsdp" and world.size > 1:
                shard(part, world)
            if settings.distribution == "experts" and world.size > 1:
                share_experts(part, world)
            if settings.compiled:
                part.compile()
        self.peaks = {name: optimizer[name].rate for name in task.parts}
        self.optimizers = {
            name: optimizers.build_optimizer(optimizer[name], part, settings.rates) for name, part in task.parts.items()
        }
        if settings.moving is not None:
            self.shadows = {name: MovingAverage(part, settings.moving) for name, part in task.parts.items()}

    def run(self) -> State:
        """Train to the end, to an interruption, or to an error; whatever happens, the last checkpoint stays whole."""
        state, settings = self.state, self.settings
        if state.finished:
            return state
        if self.task.indivisible and (self.world.size > 1 or settings.split > 1):
            terms = ", ".join(self.task.indivisible)
            self.reporter.note(
                f"{terms}: this loss term changes when a batch is split; the mean over the pieces is used"
            )
        steps = range(state.step, settings.steps)
        pace, alone = Pace(settings.steps), self.world.size == 1  # several processes stop together, a step later
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
            for step, pieces in self.filled(loader):
                update = self.update(step, pieces, bool(interrupted) or self.asked_to_stop())
                state.step = step + 1
                self.collect(update)
                pace.tick(next(iter(update.totals.values()), 0.0))
                last = state.step == settings.steps
                if last or state.step % settings.log == 0:
                    self.log(pace)
                self.reporter.update(self.status(update, pace))
                update.stop = update.stop or (alone and self.asked_to_stop())
                best = False
                if self.held_out is not None and (last or state.step % settings.evaluate == 0):
                    best = self.assess()
                    pace.rest()
                state.finished = self.ended()
                due = bool(state.finished) or best or state.step % settings.save == 0
                if due or update.stop:
                    self.save(due)
                    pace.rest()
                    self.reporter.update(self.status(update, pace))  # it is saved now
                if state.finished or update.stop:
                    break
                if alone and self.asked_to_stop():  # when it was told of an evaluation or a checkpoint
                    if not due:
                        self.save(False)
                    break
        return state

    def filled(self, loader: Loader) -> Iterator[tuple[int, tuple[MicroBatch, ...]]]:
        """The batches of all steps. Where the task fills its own data, it does so before each of them is drawn."""
        if self.replay is None:
            yield from loader
            return
        for step in loader.steps:
            seed_step(self.seed, step, self.world.rank, GATHERED)
            for part in self.task.parts.values():
                part.eval()
            with torch.no_grad():
                self.replay.append(self.task.gather(step, self.replay.count))
            yield step, loader.maker.pieces(step)

    def ended(self) -> str:
        """Why there is nothing left to do; empty while there is."""
        state, settings = self.state, self.settings
        if settings.patience is not None and state.stale >= settings.patience:
            return f"early stopping: no improvement over step {state.best_step} in {state.stale} evaluations"
        return f"all {settings.steps} steps are done" if state.step >= settings.steps else ""

    # one step

    def update(self, step: int, pieces: Sequence[MicroBatch], stop: bool = False) -> Update:
        """One batch: every loss of the task, and the steps of its optimizers."""
        seed_step(self.seed, step, self.world.rank)
        for part in self.task.parts.values():
            part.train()
        batches = [move_batch(piece.batch, self.world.device) for piece in pieces]
        totals, stop = self.totals(batches, pieces, stop)
        update = Update(step, totals, stop)
        rounds = [self.task.losses(batch, step) for batch in batches]
        while (loss := self.gradient(rounds, pieces, totals, update)) is not None:
            if loss.update:
                self.descend(loss.part, update, batches)
        for part in self.task.parts.values():
            part.zero_grad(set_to_none=True)
        for shadow in self.shadows.values():
            shadow.update()
        return update

    def totals(self, batches: Sequence[Any], pieces: Sequence[MicroBatch], stop: bool) -> tuple[dict[str, float], bool]:
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
        self,
        rounds: Sequence[Iterator[Loss]],
        pieces: Sequence[MicroBatch],
        totals: Mapping[str, float],
        update: Update,
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
                if term.count not in totals:
                    known = ", ".join(totals) or "nothing"
                    raise ValueError(
                        f"the loss term {name!r} is divided by {term.count!r}, but counts() returns {known}"
                    )
                whole = totals[term.count]
                if whole:
                    value = value + term.sum * (term.weight * piece.weight / whole)
                key = self.named(loss.part, name)
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

    def descend(self, name: str, update: Update, batches: Sequence[Any]) -> None:
        """Add the processes' gradients, clip them, and take the step of one part's optimizer."""
        part = self.task.parts[name]
        trained = [x for x in part.parameters() if x.requires_grad]
        if not all(map(is_shard, trained)):
            add_gradients([x for x in trained if not is_shard(x)], self.world)
        norm = total_norm([x.grad for x in trained if x.grad is not None])
        update.norms[self.named(name, "norm")] = length = float(norm)
        if not (math.isfinite(length) and all(map(math.isfinite, update.sums.values()))):
            raise self.not_finite(name, update, batches)
        self.clip(trained, norm)
        optimizer = self.optimizers[name]
        optimizers.set_rate(optimizer, self.rate(name, update.step))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def rate(self, part: str, step: int) -> float:
        return self.peaks[part] * self.schedules[part].factor(step, self.settings.steps)

    def clip(self, trained: list[nn.Parameter], norm: Tensor) -> None:
        if self.settings.clip is not None:
            for some in by_place(trained):
                clip_grads_with_norm_(some, self.settings.clip, norm)

    def not_finite(self, name: str, update: Update, batches: Sequence[Any]) -> NotFiniteError:
        """Name the layer and the batch. The weights are still those of before this step."""
        wrong = [f"{key} = {value}" for key, value in update.sums.items() if not math.isfinite(value)]

        def again() -> None:
            seed_step(self.seed, update.step, self.world.rank)
            with torch.no_grad(), self.precision():
                for batch in batches:
                    deque(self.task.losses(batch, update.step), maxlen=0)

        wrong_here = float(len(nonfinite.bad_weights(self.task.parts[name])))
        broken = self.world.sum(torch.tensor([wrong_here], device=self.world.device)).item()
        first = nonfinite.first_in(self.task.parts, name, None if broken else again)  # what all ask again, or none does
        speaker = self.world.least(self.world.rank if first else self.world.size)
        if speaker not in (self.world.rank, self.world.size):
            raise ElsewhereError(f"process {speaker} reports the location")
        rows = [int(row) for row in self.data.rows(update.step)]
        return NotFiniteError(
            f"step {update.step}: non-finite value, first in {first or 'a sum over all processes'}",
            where=f"batch of step {update.step}: {self.data.where(rows)}",
            got=", ".join(wrong) or f"gradient norm {update.norms[self.named(name, 'norm')]}",
            expected="finite losses and gradients",
            fix="lower optimizer.rate or set train.clip in the run's run.toml, then resume (checkpoints are intact)",
        )

    def precision(self) -> Any:
        if self.settings.precision == "float32":
            return nullcontext()
        return torch.autocast(self.world.device.type, torch.bfloat16)

    def named(self, part: str, name: str) -> str:
        """What is told of a part, where there are several."""
        return name if len(self.task.parts) == 1 else f"{part}.{name}"

    # what is remembered and told

    def collect(self, update: Update) -> None:
        self.state.window = gather(self.state.window or {}, update)

    def log(self, pace: Pace) -> None:
        window = self.state.window or {}
        self.state.window = None
        if self.journal is None:
            return
        rates = {self.named(part, "rate"): self.rate(part, self.state.step - 1) for part in self.peaks}
        epoch = self.state.step / max(len(self.data), 1)
        self.journal.record({"step": self.state.step, "epoch": round(epoch, 4), **means(window), **rates})
        self.journal.time({"step": self.state.step, **pace.measured(), "memory": process_memory()})

    def assess(self) -> bool:
        """Measure on held-out data, and show some examples. -> whether it is the best so far"""
        assert self.held_out is not None
        metrics, shown = self.evaluate(self.held_out)
        best = self.judge(metrics)
        if self.journal is not None:
            self.journal.record({"step": self.state.step, "held_out": metrics})
            if shown:
                self.journal.keep_sample(self.state.step, shown)
        told = "  ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        facts = {"step": self.state.step, "held_out": metrics, "best": best, "sample": shown}
        self.reporter.tell("evaluated", facts, f"step {self.state.step}  held out: {told}\n{shown}".rstrip())
        return best

    def judge(self, metrics: Mapping[str, float]) -> bool:
        """Of two that are as good by the goal, the one with the lower loss is the best. -> whether it is so far"""
        state, value = self.state, self.sign * metrics[self.task.goal.removeprefix("-")]
        loss = metrics.get("loss", math.inf)
        found = (value, loss if math.isfinite(loss) else math.inf)
        before = (
            math.inf if state.best is None else state.best,
            math.inf if state.best_loss is None else state.best_loss,
        )
        best = math.isfinite(value) and found < before
        state.stale = 0 if best else state.stale + 1
        if best:
            state.best, state.best_loss = value, loss if math.isfinite(loss) else None
            state.best_step = state.step
        return best

    @property
    def sign(self) -> float:
        """-1 where the largest value is the best: ``state.best`` is always the smallest."""
        return -1.0 if self.task.goal.startswith("-") else 1.0

    def best(self) -> float | None:
        return None if self.state.best is None else self.sign * self.state.best

    def evaluate(self, data: Data) -> tuple[dict[str, float], str]:
        """All of some data, its batches dealt to the processes. -> metrics, and a few examples"""
        seed_step(self.seed, self.state.step, self.world.rank)
        with ExitStack() as stack:
            for shadow in self.shadows.values():
                stack.enter_context(shadow.used())
            return assessment(self.task, data, self.world, self.precision)

    def status(self, update: Update, pace: Pace) -> Status:
        """A task's term of that name is the loss, as in the journal and on held-out data; or else all terms are."""
        terms = update.means()
        several = len(terms) > 1
        loss = terms.pop("loss", update.loss())
        unit = next(iter(update.totals), "rows")
        age = None if self.saved_at is None else time.monotonic() - self.saved_at
        return Status(
            self.state.step,
            self.settings.steps,
            loss,
            self.best(),
            pace.speed,
            unit,
            process_memory(),
            pace.left(self.state.step),
            age,
            terms if several else {},
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
            **({} if self.replay is None else {"replay": self.replay.sync()}),
        }
        data.pop("step")
        self.checkpoints.save(
            Checkpoint(self.state.step, data, {name: table for name, table in tensors.items() if table})
        )
        self.saved_at = time.monotonic()
        self.checkpoints.keep({*self.state.kept, self.state.best_step, self.state.step})
        where = str(self.checkpoints.place(self.state.step))
        self.reporter.tell("saved", {"step": self.state.step, "path": where}, f"step {self.state.step}  saved")

        if time.monotonic() - self.drawn_at > DRAWN:
            self.draw()

    def draw(self) -> None:
        """The curves so far. They take a second: now and then, and at the end."""
        if self.journal is not None:
            from .curves import draw  # here, not above: matplotlib would slow every start

            draw(self.journal.lines(), self.folder)
        self.drawn_at = time.monotonic()

    def check_weights(self) -> None:
        """A step may have led out of all bounds: then the checkpoint before it is the one to keep."""
        wrong = [name for part in self.task.parts.values() for name in nonfinite.bad_weights(part)]
        if self.world.sum(torch.tensor([float(len(wrong))], device=self.world.device)).item():
            raise NotFiniteError(
                f"step {self.state.step - 1}: the weights are not finite after this step, so no checkpoint was written",
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
                "all checkpoints of the run are damaged; nothing was changed",
                where=str(self.checkpoints.folder),
                got="\n".join(f"{path.name}: {find_damage(path)}" for _, path in there),
                fix="restore the files if possible; to start again at step 0, remove this folder and resume",
            )
        told = self.world.tell("" if path is None else str(path))
        position = self.restore(Path(told)) if told else {}
        if self.replay is not None:
            self.replay.cut(self.replay.count if told else 0)
        if self.journal is not None and (lost := self.journal.cut(position)):
            self.reporter.note(lost)
        return self.state.step

    def restore(self, path: Path) -> dict[str, int]:
        """Everything as it was then; no file is changed. -> how long the files of metrics were"""
        weights = {name: dict(part.named_parameters()) for name, part in self.task.parts.items()}

        def empty(table: str, key: str, shape: torch.Size, dtype: torch.dtype) -> Tensor:
            like: Any = weights.get(table.partition(".")[0], {}).get(key.rpartition("/")[2])
            if is_shard(like) and like.shape == shape:
                return torch.empty_like(like, dtype=dtype)
            return plain_tensor(key, shape, dtype)

        found = read_checkpoint(path, empty)
        data = dict(found.data)
        if data.pop("seed") != self.seed:
            raise InputError("the checkpoint was made with a different seed", where=str(path))
        for name, kind in data.pop("optimizers", {}).items():
            if kind != type(self.optimizers[name]).__name__:
                raise InputError(
                    "the checkpoint was made with a different optimizer",
                    where=str(path),
                    got=kind,
                    fix="use that optimizer",
                )
        data.pop("processes")
        if self.replay is not None:
            self.replay.rewind(data.pop("replay"))
        position: dict[str, int] = data.pop("journal")
        self.state = State(step=found.step, **data)
        self.state.finished = self.ended()  # the settings may have changed: more steps, more patience
        self.saved_at = time.monotonic()
        self.task.restore(found.tensors.get("task", {}))
        for name, part in self.task.parts.items():
            fill_weights(part, found.tensors[name])
            optimizers.restore_state(self.optimizers[name], part, found.tensors.get(f"{name}.optimizer", {}))
            if name in self.shadows:
                moving = found.tensors.get(f"{name}.moving", found.tensors[name])  # from here on, if it is new
                for key, x in self.shadows[name].weights.items():
                    x.copy_(spread(moving[key].to(x.device), x))
        return position
