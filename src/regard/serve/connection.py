"""One connection: who says nothing, too slowly, or does not listen, is left after some seconds.

uvicorn waits without end for the head of a request, for the rest of a body that was refused, and for a client that does
not read what it asked for. Each of these holds a connection for nothing, and there are only so many: a new one too much
takes the place of the one that has said nothing for the longest time.
"""

import asyncio
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol

from .limits import Limits


class Connection(H11Protocol):
    limits = Limits()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.heard = self.loop.time()
        self.asking = self.later()
        self.reading = self.later()
        self.reading.cancel()
        if len(self.connections) > self.limits.connections:
            all_here = cast(set[Connection], self.connections)
            oldest = min((one for one in all_here if not one.answering()), key=lambda one: one.heard)
            all_here.discard(oldest)
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.asking.cancel()
        self.reading.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """From its first byte on, all that is sent while nothing is answered counts as the head of a request."""
        super().data_received(data)
        if self.answering():
            self.asking.cancel()
        elif self.asking.cancelled():
            self.asking = self.later()

    def on_response_complete(self) -> None:
        self.heard = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        self.reading = self.later()
        super().pause_writing()

    def resume_writing(self) -> None:
        self.reading.cancel()
        super().resume_writing()

    def later(self) -> asyncio.TimerHandle:
        """Not closed but cut off: to close waits until all is read."""
        return self.loop.call_later(self.limits.head_seconds, self.transport.abort)

    def answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete


def connection_class(within: Limits) -> type[Connection]:
    """What uvicorn makes connections of: a class, and nothing that could hold limits besides."""

    class Limited(Connection):
        limits = within

    return Limited
