"""A text as it is written: server-sent events, one for each piece, and at the end the whole.

The writing is cut into short turns, so that others are served in between; between two tokens it can stop.
"""

import json
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any

from regard.errors import InputError
from regard.look.answers import answer_data
from regard.modalities.page_input import InputContext
from regard.modalities.page_inputs import look_inputs
from regard.modalities.verb import Verb
from regard.modalities.verb_table import VERBS
from regard.modalities.verbs import verb_function
from regard.model import Model

from .model_list import ModelShelf
from .refusals import RefusedError, refusal
from .responses import decoding_of
from .schema import DecodingFields, StreamRequest
from .work import JobQueue, LeftError, Receive, still_wanted, unless_left

TURN = 0.05  # seconds of writing, then others are served
HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Writing:
    """One text that is being written, turn by turn, always in the threads that compute."""

    def __init__(self, shelf: ModelShelf, asked: StreamRequest) -> None:
        self.shelf, self.asked = shelf, asked
        self.pieces: Iterator[str] | None = None
        self.source: Any = None
        self.text = ""

    def begin(self) -> None:
        """What is wrong with a request is known before anything is sent."""
        with self.shelf.using(self.asked.model) as loaded:
            self.source, *more = look_inputs(self.asked.input, InputContext(loaded.model))
            if more:
                raise InputError("streaming generates the target, so it cannot be given", got="a target")
            decoding = decoding_of(self.asked.settings or DecodingFields())
            self.pieces = verb_function(self.writer(loaded.model).stream)(loaded.model, self.source, decoding)

    def writer(self, model: Model) -> Verb:
        """The verb that this model writes by."""
        for verb in (VERBS[name] for name in model.verbs()):
            if verb.stream:
                return verb
        raise InputError("this model cannot generate text", got=self.asked.model)

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
        with self.shelf.using(self.asked.model) as loaded:
            written = verb_function(self.writer(loaded.model).written)
            return answer_data(written(loaded.model, self.source, self.text))


class Streamed:
    """The answer to POST /stream, as an ASGI application."""

    def __init__(self, work: JobQueue, writing: Writing, until: float, end: Callable[[], None]) -> None:
        self.work, self.writing, self.until, self.end = work, writing, until, end

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Until all is written, the time is over, or the client leaves."""
        try:
            await unless_left(self.tell(send), receive)
        finally:
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
