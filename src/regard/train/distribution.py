"""One process or many: PyTorch's own collectives, and a world of one that needs none.

torchrun --nproc-per-node 2 -m regard train run.toml
"""

import os
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from regard.errors import ElsewhereError, InputError
from regard.nn.block import AttentionBlock
from regard.nn.switch import spread_experts, stacks, switch_layers

Kind = Literal["ddp", "fsdp", "experts"]
CPU = torch.device("cpu")
BUCKET = 1 << 23  # numbers that are reduced together


@dataclass(frozen=True)
class World:
    """All processes of a run, and which of them this is."""

    rank: int = 0
    size: int = 1
    device: torch.device = CPU

    @property
    def first(self) -> bool:
        return self.rank == 0

    def sum(self, x: Tensor) -> Tensor:
        """In place, over all processes."""
        if self.size > 1:
            dist.all_reduce(x)
        return x

    def wait(self) -> None:
        """Until all are here."""
        with self.together():
            pass

    @contextmanager
    def together(self) -> Iterator[None]:
        """All processes do this and go on, or none does: of those that failed, the first says why."""
        failure: BaseException | None = None
        try:
            yield
        except BaseException as error:
            failure = error
        speaker = self.least(self.size if failure is None else self.rank)
        if failure is not None and speaker == self.rank:
            raise failure
        if speaker < self.size:
            raise ElsewhereError(f"process {speaker} failed") from failure

    def least(self, number: int) -> int:
        """Of all processes' numbers."""
        found = torch.tensor([number], device=self.device)
        if self.size > 1:
            dist.all_reduce(found, dist.ReduceOp.MIN)
        return int(found)

    def tell(self, text: str) -> str:
        """The first process's text, to all."""
        if self.size == 1:
            return text
        raw = text.encode("utf-8")
        length = torch.tensor([len(raw)], device=self.device)
        dist.broadcast(length, 0)
        bytes_ = torch.zeros(int(length), dtype=torch.uint8, device=self.device)
        if self.first:
            bytes_.copy_(torch.frombuffer(bytearray(raw), dtype=torch.uint8) if raw else bytes_)
        dist.broadcast(bytes_, 0)
        return bytes(bytes_.cpu().tolist()).decode("utf-8")


ALONE = World()


@contextmanager
def join_world(device: str = "cpu") -> Iterator[World]:
    """The world that torchrun describes; without it, a world of one. When one process fails, so do the others, for they
    miss it: only the one that was first to fail raises its own error."""
    if processes() == 1:
        yield World(device=torch.device(device))
        return
    local = int(os.environ.get("LOCAL_RANK", "0"))
    where = torch.device(device, local) if device == "cuda" else torch.device(device)
    if where.type == "cuda":
        torch.cuda.set_device(where)
    from torch.distributed.rendezvous import rendezvous

    store, rank, size = next(rendezvous("env://"))
    dist.init_process_group("nccl" if where.type == "cuda" else "gloo", store=store, rank=rank, world_size=size)
    try:
        yield World(rank, size, where)
    except ElsewhereError:
        raise
    except Exception as error:
        finish_speaking()
        if not first_to_fail(store):
            raise ElsewhereError("another process failed first") from error
        if lost(error):
            error = InputError(
                "another process of this run ended unexpectedly",
                got="no response: it was killed, or its machine is unreachable",
                fix="check that there is enough memory, then resume the run from its last checkpoint",
            )
        error.add_note(f"in process {rank} of {size}")  # the command line tells it, whichever process that is
        raise error
    finally:
        dist.destroy_process_group()


def processes() -> int:
    """How many torchrun says there are."""
    told = os.environ.get("WORLD_SIZE", "1")
    missing = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if not told.isdecimal() or int(told) < 1 or (int(told) > 1 and missing):
        raise InputError(
            "WORLD_SIZE is set for several processes, but the environment is incomplete",
            got=f"WORLD_SIZE={told}" + (f" without {', '.join(missing)}" if missing else ""),
            fix="start it with torchrun, or unset WORLD_SIZE",
        )
    return int(told)


def finish_speaking() -> None:
    """When one process ends, torchrun ends the others at once: what this one has to say it says before."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def first_to_fail(store: Any) -> bool:
    try:
        return store.add("regard failed", 1) == 1
    except RuntimeError:  # what all share ended with the process that kept it
        return False


def lost(error: Exception) -> bool:
    """Whether it says that a peer is gone; gloo has no kind of error of its own."""
    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error))


def shard(part: nn.Module, world: World) -> None:
    """FSDP2: each process keeps its share of every weight; blocks are gathered one at a time."""
    if world.size == 1:
        raise InputError(
            "FSDP requires several processes", fix="start the run with torchrun, or use train.distribution = ddp"
        )
    from torch.distributed.device_mesh import init_device_mesh  # here: it would slow every start by a second
    from torch.distributed.fsdp import FSDPModule, fully_shard

    mesh = init_device_mesh(world.device.type, (world.size,))
    for module in [*(x for x in part.modules() if isinstance(x, AttentionBlock)), part]:
        fully_shard(module, mesh=mesh)
        assert isinstance(module, FSDPModule)
        module.set_gradient_divide_factor(1.0)  # the loss is already divided by the count of the whole batch
        module.set_force_sum_reduction_for_comms(True)  # gloo knows no other
    gather_once(part)


def share_experts(part: nn.Module, world: World) -> None:
    """Each process keeps its share of the experts of every switch layer, and all other weights; tokens travel.

    The shares are marked as such, so that a checkpoint holds all experts, for any number of processes to read.
    """
    if world.size == 1:
        raise InputError(
            "expert parallelism requires several processes",
            fix="start the run with torchrun, or use train.distribution = ddp",
        )
    if not switch_layers(part):
        raise InputError("the model has no experts to distribute", fix="use train.distribution = ddp or fsdp")
    try:
        spread_experts(part, world.rank, world.size)
    except ValueError as error:
        raise InputError("the experts cannot be distributed", got=str(error)) from None
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard

    mesh = init_device_mesh(world.device.type, (world.size,))
    for switch in switch_layers(part):
        for stack in stacks(switch):
            stack.weight = nn.Parameter(DTensor.from_local(stack.weight.detach(), mesh, [Shard(0)]))


def gather_once(part: nn.Module) -> None:
    """Every public method gathers the weights; one that another calls finds them gathered, and leaves them so.

    PyTorch by itself would take the end of the inner call for that of the outer, which may still need the weights.
    """
    from torch.distributed.fsdp import register_fsdp_forward_method

    names = public_methods(part)

    @contextmanager
    def inside() -> Iterator[None]:
        """While one runs, the others are those of its class, which gather nothing."""
        gathering = {name: vars(part).pop(name) for name in names if name in vars(part)}
        try:
            yield
        finally:
            vars(part).update(gathering)

    part.forward = inside()(part.forward)  # called by way of the module, which gathers
    for name in names:
        setattr(part, name, inside()(getattr(part, name)))
        register_fsdp_forward_method(part, name)


def public_methods(part: nn.Module) -> list[str]:
    """What a task may call besides forward: encode, decode ..."""
    own = {name for kind in type(part).__mro__[:-1] if kind is not nn.Module for name in vars(kind)}
    inherited = set(dir(nn.Module))
    return sorted(
        name for name in own - inherited if not name.startswith("_") and callable(getattr(type(part), name, None))
    )


def add_gradients(parameters: Iterable[nn.Parameter], world: World) -> None:
    """The sum of all processes' gradients, in every process; one that some lack is zero there. One that all lack stays
    away, as it would in one process: its weight does not move."""
    if world.size == 1:
        return
    parameters = list(parameters)
    having = world.sum(torch.tensor([float(x.grad is not None) for x in parameters], device=world.device)).tolist()
    bucket: list[Tensor] = []
    held = 0
    for parameter, processes in zip(parameters, having, strict=True):
        if not processes:
            continue
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        bucket.append(parameter.grad)
        held += parameter.numel()
        if held >= BUCKET:
            add(bucket, world)
            bucket, held = [], 0
    if bucket:
        add(bucket, world)


def add(bucket: list[Tensor], world: World) -> None:
    flat = world.sum(torch.cat([gradient.flatten() for gradient in bucket]))
    for gradient, total in zip(bucket, flat.split([gradient.numel() for gradient in bucket]), strict=True):
        gradient.copy_(total.view_as(gradient))
