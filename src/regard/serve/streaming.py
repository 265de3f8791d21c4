"""A text as it is written: server-sent events, one for each piece, and at the end the whole.

The writing is cut into short turns, so that others are served in between; between two tokens it can stop.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any

from regard.errors import InputError
from regard.look.document import answer_data
from regard.tasks.telling import Wrote
from regard.tasks.translating import LONGEST

from .giving import Given, given
from .refusals import RefusedError, refusal
from .replying import decoding_of
from .schema import Settings, StreamRequest
from .shelf import Shelf
from .work import LeftError, Receive, Work, left, still_wanted

TURN = 0.05  # seconds of writing, then others are served
HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Writing:
    """One text that is being written, turn by turn, always in the threads that compute."""

    def __init__(self, shelf: Shelf, asked: StreamRequest) -> None:
        self.shelf, self.asked = shelf, asked
        self.pieces: Iterator[str] | None = None
        self.text = ""

    def begin(self) -> None:
        """What is wrong with a request is known before anything is sent."""
        with self.shelf.using(self.asked.model) as loaded:
            shown = given(loaded.model, self.asked.input)
            if len(shown) > 1:
                raise InputError("what is written cannot be given", got="a target")
            (source,) = shown
            if not isinstance(source, str) or not (loaded.model.translates() or loaded.model.continues()):
                raise InputError("this model writes no texts", got=self.asked.model)
            self.pieces = loaded.model.stream(source, decoding=decoding_of(self.asked.settings or Settings()))

    def turn(self) -> tuple[str, bool]:
        """What was written in this turn, and whether that was the last."""
        assert self.pieces is not None
        new, end = "", time.monotonic() + TURN
        with self.shelf.using(self.asked.model):
            for piece in self.pieces:
                still_wanted()
                new += piece
                if time.monotonic() > end:
                    break
            else:
                self.text += new
                return new, True
        self.text += new
        return new, False

    def answer(self) -> dict[str, Any]:
        """With the tokens of a translation that can be read at once; of what goes on with a text, the text alone."""
        tokens: Any = ()
        with self.shelf.using(self.asked.model) as loaded:
            shown: Given = given(loaded.model, self.asked.input)
            if loaded.model.translates() and isinstance(shown[0], str) and shown[0].strip() and self.text:
                ids = loaded.model.translating().encode([shown[0]])[0]
                found = loaded.model.look(shown[0], self.text).answer if len(ids) <= LONGEST else None
                tokens = found.tokens if isinstance(found, Wrote) else ()
        return answer_data(Wrote(self.text, tokens))


class Streamed:
    """The answer to POST /stream, as an ASGI application."""

    def __init__(self, work: Work, writing: Writing, until: float, end: Callable[[], None]) -> None:
        self.work, self.writing, self.until, self.end = work, writing, until, end

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Until all is written, the time is over, or the client leaves."""
        gone = asyncio.ensure_future(left(receive))
        told = asyncio.ensure_future(self.tell(send))
        try:
            await asyncio.wait({gone, told}, return_when=asyncio.FIRST_COMPLETED)
            if told.done():
                told.result()
        finally:
            gone.cancel()
            told.cancel()
            self.end()

    async def tell(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
        try:
            done = False
            while not done:
                text, done = await self.work.do(self.writing.turn, until=self.until, admitted=True)
                if text:
                    await send(event({"text": text}))
            answer = await self.work.do(self.writing.answer, until=self.until, admitted=True)
            await send(event({"done": True, "answer": answer}))
        except RefusedError as refused:
            await send(event({"error": refused.told}))
        except InputError as error:
            await send(event({"error": refusal(error).told}))
        except LeftError:
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def event(data: dict[str, Any]) -> MutableMapping[str, Any]:
    return {"type": "http.response.body", "body": f"data: {json.dumps(data)}\n\n".encode(), "more_body": True}
