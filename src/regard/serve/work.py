"""A bounded queue in front of the processor.

Requests wait here, at most so many, and a thread computes one after the other. Those that can share a batch do. Whoever
leaves, or has waited too long, is forgotten: what still waits is dropped, and what already runs is stopped at the next
layer of the net (``stoppable``) or the next word.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from torch import nn

from .limits import Limits
from .refusals import RefusedError

T = TypeVar("T")

SPARE = 4  # threads that may stand in for those that cannot be stopped
STUCK = 1.0  # seconds after which a thread counts as one of these
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class LeftError(BaseException):
    """Nobody waits for this any more. No ``Exception``: nothing on the way may take it for its own failure."""


@dataclass(frozen=True)
class Batch(Generic[T]):
    """What can be computed together with others of the same key: the items of all at once, one result for each."""

    key: Hashable
    item: Any
    all: Callable[[Sequence[Any]], Sequence[T]]


@dataclass(eq=False)
class QueuedJob(Generic[T]):
    run: Callable[[], T]
    loop: asyncio.AbstractEventLoop
    found: "asyncio.Future[T]"
    until: float
    batch: Batch[T] | None = None
    born: float = field(default_factory=time.monotonic)

    @property
    def wanted(self) -> bool:
        return time.monotonic() < self.until

    def leave(self) -> None:
        """Nobody waits any more."""
        self.until = min(self.until, time.monotonic())

    def tell(self, result: T | None, error: BaseException | None) -> None:
        """From the thread that computed it, to the one that waits; a loop that has ended wants to know nothing."""

        def settle() -> None:
            if self.found.done():
                return
            if error is not None:
                self.found.set_exception(error)
            else:
                self.found.set_result(cast(T, result))

        try:
            self.loop.call_soon_threadsafe(settle)
        except RuntimeError:
            self.leave()


_thread = threading.local()


def still_wanted() -> None:
    """Ends what this thread computes, if nobody waits for it."""
    jobs: Sequence[QueuedJob[Any]] = getattr(_thread, "jobs", ())
    if jobs and not any(job.wanted for job in jobs):
        raise LeftError


def stoppable(net: nn.Module) -> None:
    """From now on the net asks at each of its parts whether it is still wanted."""
    for module in net.modules():
        if next(module.children(), None) is not None:
            module.register_forward_pre_hook(lambda module, given: still_wanted())


class JobQueue:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.waiting: deque[QueuedJob[Any]] = deque()
        self.changed = threading.Condition()
        self.closed = False
        self.threads: dict[threading.Thread, Sequence[QueuedJob[Any]]] = {}  # and what each of them computes

    def start(self) -> None:
        """At the first request, so that an application that serves none costs nothing; and later in the place of a
        thread that computes what nobody wants any more, at a place where it cannot be stopped."""
        with self.changed:
            while len(self.free()) < self.limits.workers and len(self.threads) < self.limits.workers + SPARE:
                thread = threading.Thread(target=self.serve, name="regard-work", daemon=True)
                self.threads[thread] = ()
                thread.start()

    def free(self) -> list[threading.Thread]:
        """Threads whose work is wanted, or that have none."""
        late = time.monotonic() - STUCK
        return [thread for thread, jobs in self.threads.items() if not jobs or any(job.until > late for job in jobs)]

    def close(self) -> None:
        with self.changed:
            self.closed = True
            for job in self.waiting:
                job.leave()
            self.waiting.clear()
            self.changed.notify_all()

    # In the event loop ---------------------------------------------------------------------------

    async def do(
        self,
        run: Callable[[], T],
        receive: Receive | None = None,
        *,
        batch: Batch[T] | None = None,
        until: float | None = None,
        admitted: bool = False,
    ) -> T:
        """What ``run`` gives. ``receive`` tells when the client leaves; what is ``admitted`` has its place already."""
        loop = asyncio.get_running_loop()
        until = time.monotonic() + self.limits.seconds if until is None else until
        job: QueuedJob[T] = QueuedJob(run, loop, loop.create_future(), until, batch)
        self.admit(job, admitted)
        gone = None if receive is None else asyncio.ensure_future(wait_until_left(receive))
        try:
            watched: set[asyncio.Future[Any]] = {job.found} if gone is None else {job.found, gone}
            rest = max(until - time.monotonic(), 0.0)
            await asyncio.wait(watched, timeout=rest, return_when=asyncio.FIRST_COMPLETED)
            if job.found.done():
                return job.found.result()
            if gone is not None and gone.done():
                raise RefusedError(408, "the client disconnected")
            raise too_long(self.limits.seconds)
        finally:
            job.leave()
            job.found.cancel()
            if gone is not None:
                gone.cancel()

    def admit(self, job: QueuedJob[Any], admitted: bool) -> None:
        self.start()
        with self.changed:
            if self.closed:
                raise RefusedError(503, "the server is shutting down")
            if len(self.waiting) >= self.limits.queue and not admitted:
                self.waiting = deque(job for job in self.waiting if job.wanted)
            if len(self.waiting) >= self.limits.queue and not admitted:
                raise crowded(len(self.waiting))
            self.waiting.append(job)
            self.changed.notify()

    # In the threads that compute -----------------------------------------------------------------

    def serve(self) -> None:
        here = threading.current_thread()
        while (jobs := self.next()) is not None:
            self.threads[here] = _thread.jobs = jobs
            perform(jobs)
            with self.changed:
                self.threads[here] = _thread.jobs = ()  # while it waits for the next one, nothing of the last is kept
                del jobs
                if len(self.free()) > self.limits.workers:  # it was late, and has been replaced
                    break
        with self.changed:
            del self.threads[here]

    def next(self) -> list[QueuedJob[Any]] | None:
        """The oldest job, and all that may be computed with it; None at the end."""
        with self.changed:
            while not self.waiting and not self.closed:
                self.changed.wait()
            if self.closed:
                return None
            job = self.waiting.popleft()
        if job.batch is None:
            return [job]
        time.sleep(max(job.born + self.limits.pause - time.monotonic(), 0.0))
        with self.changed:
            alike = [one for one in self.waiting if one.batch is not None and one.batch.key == job.batch.key]
            alike = alike[: self.limits.together - 1]
            for one in alike:
                self.waiting.remove(one)
        return [job, *alike]


def perform(jobs: Sequence[QueuedJob[Any]]) -> None:
    jobs = [job for job in jobs if job.wanted]
    if len(jobs) > 1 and jobs[0].batch is not None:
        try:
            results = jobs[0].batch.all([job.batch.item for job in jobs if job.batch is not None])
        except LeftError:
            return
        except Exception:
            pass  # one of them is at fault: each by itself will tell which
        else:
            for job, result in zip(jobs, results, strict=True):
                job.tell(result, None)
            return
    for job in jobs:
        if not job.wanted:
            continue
        _thread.jobs = (job,)
        try:
            result = job.run()
        except LeftError:
            job.tell(None, too_long(0))
        except Exception as error:
            job.tell(None, error)
        else:
            job.tell(result, None)


def crowded(count: int) -> RefusedError:
    what, fix = "too many waiting requests", "retry after a second"
    return RefusedError(429, what, got=str(count), fix=fix, headers={"Retry-After": "1"})


def too_long(seconds: float) -> RefusedError:
    return RefusedError(
        408,
        "the computation timed out",
        expected=f"at most {seconds:g} s" if seconds else "",
        fix="request less, for example with a shorter input",
    )


async def unless_left(telling: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Do something for a client, until it is done or the client has left."""
    gone, told = asyncio.ensure_future(wait_until_left(receive)), asyncio.ensure_future(telling)
    try:
        await asyncio.wait({gone, told}, return_when=asyncio.FIRST_COMPLETED)
        if told.done():
            told.result()
    finally:
        gone.cancel()
        told.cancel()


async def wait_until_left(receive: Receive) -> None:
    """Until the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
