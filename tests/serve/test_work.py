"""The queue: its bound, its time, who leaves, who is computed together, and a thread that cannot be stopped."""

import asyncio
import threading
import time

import pytest
import torch
from torch import nn

from regard.serve import work as module
from regard.serve.limits import Limits
from regard.serve.refusals import RefusedError
from regard.serve.work import Batch, JobQueue, LeftError, still_wanted, stoppable


def run(main):
    return asyncio.run(main)


def test_what_is_computed_comes_back_and_so_does_its_error() -> None:
    async def main() -> None:
        work = JobQueue(Limits())
        assert await work.do(lambda: 3) == 3
        with pytest.raises(KeyError):
            await work.do(lambda: {}["x"])
        work.close()
        with pytest.raises(RefusedError) as refused:
            await work.do(lambda: 3)
        assert refused.value.status == 503

    run(main())


def test_the_queue_is_bounded() -> None:
    async def main() -> None:
        work, go = JobQueue(Limits(queue=2)), threading.Event()
        first = asyncio.ensure_future(work.do(go.wait))
        while not any(work.threads.values()):
            await asyncio.sleep(0.01)
        waiting = [asyncio.ensure_future(work.do(lambda: 1)) for _ in range(2)]
        await asyncio.sleep(0.01)
        with pytest.raises(RefusedError) as refused:
            await work.do(lambda: 1)
        assert refused.value.status == 429
        assert refused.value.headers["Retry-After"] == "1"
        admitted = asyncio.ensure_future(work.do(lambda: 2, admitted=True))  # has begun already
        go.set()
        assert await asyncio.gather(first, *waiting, admitted) == [True, 1, 1, 2]
        work.close()

    run(main())


def test_who_waits_too_long_is_told_so_and_what_waits_is_dropped() -> None:
    async def main() -> None:
        work, go, done = JobQueue(Limits(seconds=0.1)), threading.Event(), []
        slow = asyncio.ensure_future(work.do(lambda: go.wait(5)))
        await asyncio.sleep(0.02)
        never = asyncio.ensure_future(work.do(lambda: done.append(1)))
        for one in (slow, never):
            with pytest.raises(RefusedError) as refused:
                await one
            assert refused.value.status == 408
        go.set()
        await asyncio.sleep(0.1)
        assert done == []
        work.close()

    run(main())


def test_who_leaves_ends_the_work_between_two_layers() -> None:
    class Slow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Identity())
            self.count = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(1000):
                self.count += 1
                time.sleep(0.01)
                self.inner(x)
            return x

    async def main() -> None:
        work, net, gone = JobQueue(Limits()), Slow(), asyncio.Event()
        stoppable(net)

        async def receive():
            await gone.wait()
            return {"type": "http.disconnect"}

        task = asyncio.ensure_future(work.do(lambda: net(torch.zeros(1)), receive))
        await asyncio.sleep(0.1)
        gone.set()
        with pytest.raises(RefusedError):
            await task
        assert await work.do(lambda: "next") == "next"  # by the same thread
        assert 0 < net.count < 100
        assert len(work.threads) == 1
        work.close()

    run(main())
    still_wanted()  # outside of a job nobody minds


def test_alike_requests_are_one_batch_and_one_that_fails_fails_alone() -> None:
    async def main() -> None:
        work, sizes = JobQueue(Limits(pause=0.1, together=3)), []

        def all_(items):
            sizes.append(len(items))
            return [10 * one(item) for item in items]

        def one(item):
            if item < 0:
                raise ValueError
            return item

        def ask(item, key="a"):
            return work.do(lambda: 10 * one(item), batch=Batch(key, item, all_))

        assert await asyncio.gather(*(ask(i) for i in range(5)), ask(7, "b")) == [0, 10, 20, 30, 40, 70]
        assert sizes[:2] == [3, 2]
        found = await asyncio.gather(ask(1), ask(-1), ask(2), return_exceptions=True)
        assert [found[0], type(found[1]), found[2]] == [10, ValueError, 20]
        work.close()

    run(main())


def test_a_thread_that_cannot_be_stopped_is_replaced(monkeypatch) -> None:
    monkeypatch.setattr(module, "STUCK", 0.05)

    async def main() -> None:
        work, go = JobQueue(Limits(seconds=0.2)), threading.Event()
        with pytest.raises(RefusedError):
            await work.do(lambda: go.wait(20))
        await asyncio.sleep(0.1)
        assert await work.do(lambda: "served") == "served"
        assert len(work.threads) == 2
        go.set()
        end = time.monotonic() + 5
        while len(work.threads) > 1 and time.monotonic() < end:
            await asyncio.sleep(0.02)
        assert len(work.threads) == 1
        assert await work.do(lambda: "served") == "served"
        work.close()

    run(main())


def test_leaving_is_no_exception_that_others_would_catch() -> None:
    assert not issubclass(LeftError, Exception)


def leaving():
    """A client, and how it leaves."""
    gone = asyncio.Event()

    async def receive():
        await gone.wait()
        return {"type": "http.disconnect"}

    return gone, receive


def test_what_waits_for_one_who_left_never_runs() -> None:
    async def main() -> None:
        work, go, ran = JobQueue(Limits()), threading.Event(), []
        first = asyncio.ensure_future(work.do(go.wait))
        gone, receive = leaving()
        left = asyncio.ensure_future(work.do(lambda: ran.append("left"), receive))
        stays = asyncio.ensure_future(work.do(lambda: ran.append("stays")))
        await asyncio.sleep(0.02)
        gone.set()
        with pytest.raises(RefusedError) as refused:
            await left
        assert refused.value.status == 408
        go.set()
        await asyncio.gather(first, stays)
        assert ran == ["stays"]
        work.close()

    run(main())


def test_a_batch_goes_on_for_those_who_stay() -> None:
    async def main() -> None:
        work = JobQueue(Limits(pause=0.05))
        gone, receive = leaving()

        def all_(items):
            return [10 * item for item in items]

        left = asyncio.ensure_future(work.do(lambda: 0, receive, batch=Batch("a", 1, all_)))
        stays = asyncio.ensure_future(work.do(lambda: 20, batch=Batch("a", 2, all_)))
        await asyncio.sleep(0.01)
        gone.set()
        with pytest.raises(RefusedError):
            await left
        assert await stays == 20
        work.close()

    run(main())
